//! Times of a core and its caches that are counted in cycles: `"14 cycles"` moves with `machine.core.frequency`.

use units::{Frequency, Span};

use super::overlay::get_mut;

/// Settings that may be in cycles.
const SETTINGS: [[&str; 3]; 6] = [
    ["machine", "core", "burst_stall"],
    ["machine", "core", "fill_interval"],
    ["machine", "core", "l1_fill_interval"],
    ["machine", "core", "packet_stall"],
    ["machine", "l1", "latency"],
    ["machine", "l2", "latency"],
];

/// Clocks, in GHz, at which a core can be: others are refused where they stand.
const CLOCKS: std::ops::RangeInclusive<f64> = 0.001..=20.0;

/// The core's clock, where it is one.
pub(super) fn clock(settings: &mut toml::Table) -> Option<Frequency> {
    let clock = get_mut(settings, &["machine", "core", "frequency"])?.clone().try_into::<Frequency>().ok()?;
    CLOCKS.contains(&clock.ghz()).then_some(clock)
}

/// Writes what is in cycles as the time that they take at `clock`.
pub(super) fn in_time(settings: &mut toml::Table, clock: Frequency) {
    for path in SETTINGS {
        if let Some(value) = get_mut(settings, &path)
            && let Some(cycles) = count(value)
        {
            *value = toml::Value::String(time(cycles, clock).to_string());
        }
    }
}

/// Says so where a core has another frequency and its caches, whose latencies `usual` has as times, have not.
pub(super) fn clock_alone(usual: &toml::Table, own: &mut toml::Table) -> Option<String> {
    get_mut(own, &["machine", "core", "frequency"])?;
    let latency = |cache: &str| ["machine", cache, "latency"].map(String::from);
    let of = |settings: &mut toml::Table, path: &[String]| {
        let keys: Vec<&str> = path.iter().map(String::as_str).collect();
        get_mut(settings, &keys).cloned()
    };
    let mut usual = usual.clone();
    let paths = ["l1", "l2"].map(latency);
    if paths.iter().any(|path| of(own, path).is_some()) {
        return None;
    }
    let kept = paths.iter().filter(|path| of(&mut usual, &path[..]).is_some_and(|value| count(&value).is_none()));
    let kept: Vec<String> = kept.map(|path| path.join(".")).collect();
    (!kept.is_empty()).then(|| {
        format!(
            "machine.core.frequency: {} stay{} the time that the machine's file has (write it there in cycles, as in \"14 cycles\", \
             or set it)",
            kept.join(" and "),
            if kept.len() == 1 { "s" } else { "" },
        )
    })
}

/// What `message` about the setting at `path` leaves out: that it may be in cycles, or that it may not.
pub(super) fn explained(path: &str, message: String) -> String {
    if !message.contains(" is not a time: ") {
        message
    } else if SETTINGS.iter().any(|keys| keys.join(".") == path) {
        format!("{message}, or cycles of the core, for example \"14 cycles\"")
    } else if message.contains("cycle") {
        let allowed: Vec<String> = SETTINGS.iter().map(|keys| keys.join(".")).collect();
        format!("{message} (cycles are for {})", allowed.join(", "))
    } else {
        message
    }
}

fn count(value: &toml::Value) -> Option<f64> {
    let text = value.as_str()?.trim();
    let number = text.strip_suffix("cycles").or_else(|| text.strip_suffix("cycle"))?;
    number.trim().parse::<f64>().ok().filter(|cycles| cycles.is_finite() && *cycles >= 0.0)
}

/// To 10 ps, as tables have times of some nanoseconds, and below one to 1 ps.
fn time(cycles: f64, clock: Frequency) -> Span {
    let ns = cycles / clock.ghz();
    let steps = if ns < 1.0 { 1e3 } else { 1e2 };
    Span::from_ns((ns * steps).round() / steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, ghz: f64) -> String {
        let mut settings: toml::Table = toml::from_str(&format!("machine.l1.latency = {text:?}")).unwrap();
        in_time(&mut settings, Frequency::from_ghz(ghz));
        get_mut(&mut settings, &["machine", "l1", "latency"]).unwrap().as_str().unwrap().to_string()
    }

    #[test]
    fn cycles_take_what_the_clock_says() {
        for (cycles, ghz, ns) in [
            (4.0, 2.3, 1.74),
            (14.0, 2.3, 6.09),
            (5.0, 2.3, 2.17),
            (4.0, 2.8, 1.43),
            (12.0, 2.8, 4.29),
            (12.0, 2.6, 4.62),
            (15.0, 2.0, 7.5),
            (0.5, 4.0, 0.125),
            (0.0, 3.0, 0.0),
        ] {
            assert_eq!(time(cycles, Frequency::from_ghz(ghz)), Span::from_ns(ns), "{cycles} at {ghz} GHz");
        }
        assert_eq!(["14 cycles", "14cycles", "1 cycle"].map(|text| at(text, 2.0)), ["7 ns", "7 ns", "0.5 ns"]);
    }

    #[test]
    fn what_is_no_number_of_cycles_stays_as_it_is() {
        for text in ["cycles", "-1 cycles", "1e999 cycles", "x cycles", "nan cycles", "7 ns", "cycles 3", "4 bicycles"]
        {
            assert_eq!(at(text, 2.0), text);
        }
    }

    /// Whoever adds a time to a core or its caches says that it may be in cycles.
    #[test]
    fn every_time_of_a_core_and_its_caches_is_in_the_list() {
        let schema = serde_json::to_value(schemars::schema_for!(crate::Scenario)).unwrap();
        let mut found = Vec::new();
        for (part, spec) in [("core", "CoreSpec"), ("l1", "CacheSpec"), ("l2", "CacheSpec")] {
            for (field, of) in schema["$defs"][spec]["properties"].as_object().unwrap() {
                if of.to_string().contains("#/$defs/Span\"") {
                    found.push(["machine", part, field].join("."));
                }
            }
        }
        found.sort();
        assert_eq!(found, SETTINGS.map(|keys| keys.join(".")));
    }
}
