//! Numbers as a run's words have them.

/// Three significant digits.
pub(super) fn digits(x: f64) -> String {
    let x = if x.is_finite() { x } else { 0.0 };
    if x != 0.0 && x.abs() < 1e-3 {
        return scientific(x);
    }
    let places = (2 - x.abs().max(1e-3).log10().floor() as i32).clamp(0, 4) as usize;
    let text = format!("{x:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    if share != 0.0 && share.abs() < 1e-4 { scientific(share) } else { format!("{} %", digits(share * 100.0)) }
}

/// Two significant digits, with an exponent.
pub(super) fn scientific(x: f64) -> String {
    let text = format!("{x:.1e}");
    text.replace(".0e", "e")
}

/// A comma behind each three digits.
pub(super) fn count(n: u64) -> String {
    let text = n.to_string();
    let mut out = String::new();
    for (i, digit) in text.chars().enumerate() {
        if i > 0 && (text.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A time in nanoseconds, in the unit that fits.
pub(super) fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{} ns", digits(ns)),
        _ if ns < 1e6 => format!("{} µs", digits(ns / 1e3)),
        _ if ns < 1e9 => format!("{} ms", digits(ns / 1e6)),
        _ => format!("{} s", digits(ns / 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let texts = [
            digits(49.96),
            digits(0.0042),
            digits(2.02e-5),
            digits(1234.6),
            percent(0.5),
            percent(3e-6),
            count(1_234_567),
            duration(4120.5),
        ];
        assert_eq!(texts, ["50", "0.0042", "2e-5", "1235", "50 %", "3e-6", "1,234,567", "4.12 µs"]);
    }
}
