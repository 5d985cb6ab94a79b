//! What a person writes in a scenario: a number with a unit.
//!
//! Every quantity reads from a string with a unit (`"33 MiB"`), and is written back as one. Units are taken as people write
//! them: `100G`, `100 Gbit/s`, `80Gb/s`, `20M`. A bare number is in the unit that the type names; of rates it is refused, since
//! nobody can see which was meant. Decimal prefixes are powers of 1000 and binary ones (`KiB`) powers of 1024; for [`Size`] `KB` means
//! 1000 bytes, as in SI.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::Ps;

/// Why a text is not the quantity that was expected.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantityError {
    what: &'static str,
    came: String,
    allowed: &'static [(&'static str, f64)],
    example: &'static str,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not {}: write a number of 0 or more and one of the units ", self.came, self.what)?;
        for (i, (unit, _)) in self.allowed.iter().enumerate() {
            write!(f, "{}{unit}", if i == 0 { "" } else { ", " })?;
        }
        write!(f, ", for example \"{}\"", self.example)?;
        if self.what == "a bit rate" && self.came.to_ascii_lowercase().contains("pps") {
            write!(f, " (traffic.packet_rate takes packets a second)")?;
        }
        Ok(())
    }
}

impl std::error::Error for QuantityError {}

/// A kind of quantity: its name and units. Implemented by the types of this module only.
pub trait Quantity: Copy {
    /// With an article, for messages: "a size".
    const WHAT: &'static str;
    /// Units by name with their factor; the first is what a bare number means.
    const UNITS: &'static [(&'static str, f64)];
    /// Other spellings: what stands for the part of a unit behind its prefix.
    const SPELLINGS: &'static [(&'static str, &'static str)];
    /// Whether a bare number is a quantity.
    const BARE: bool;
    /// Shown in messages and in the schema.
    const EXAMPLE: &'static str;
    /// From a value in the first unit.
    fn new(value: f64) -> Self;
    /// In the first unit.
    fn value(self) -> f64;
}

fn parse<Q: Quantity>(text: &str) -> Result<Q, QuantityError> {
    let bad = || QuantityError { what: Q::WHAT, came: format!("{text:?}"), allowed: Q::UNITS, example: Q::EXAMPLE };
    let text_trimmed = text.trim();
    let split = text_trimmed
        .char_indices()
        .find(|&(i, c)| {
            let exponent = matches!(c, 'e' | 'E')
                && text_trimmed[i + 1..].starts_with(|d: char| d.is_ascii_digit() || d == '-' || d == '+');
            !(c.is_ascii_digit() || matches!(c, '.' | '_' | '+' | '-') || exponent)
        })
        .map_or(text_trimmed.len(), |(i, _)| i);
    let (number, unit) = text_trimmed.split_at(split);
    let number: f64 = number.replace('_', "").parse().map_err(|_| bad())?;
    let unit = unit.trim();
    let factor = match unit {
        "" if Q::BARE => 1.0,
        "" => return Err(bad()),
        _ => factor::<Q>(unit).ok_or_else(bad)?,
    };
    let value = number * factor;
    if value.is_finite() && value >= 0.0 { Ok(Q::new(value)) } else { Err(bad()) }
}

/// What a unit is in terms of the first. Exact spelling first, so that `Mb` and `MB` can both exist; then other spellings, then
/// any case.
fn factor<Q: Quantity>(unit: &str) -> Option<f64> {
    let named = |name: &str| Q::UNITS.iter().find(|(known, _)| *known == name).map(|(_, factor)| *factor);
    let spelled = |unit: &str| {
        Q::SPELLINGS.iter().find_map(|(written, stands_for)| {
            let prefix = unit.strip_suffix(written)?;
            // A unit that is left out needs a prefix, and a thousand has two.
            let prefix = if prefix == "K" && named("kbps").or(named("kpps")).is_some() { "k" } else { prefix };
            if written.is_empty() && prefix.is_empty() { None } else { named(&format!("{prefix}{stands_for}")) }
        })
    };
    let exact = named(unit).or_else(|| spelled(unit));
    // Of a bit rate in bytes the case of the b is all that tells.
    let known = Q::UNITS.iter().filter(|(name, _)| !name.ends_with("B/s"));
    let lower = |unit: &str| {
        let (prefix, rest) = unit.split_at_checked(1)?;
        let prefix = if prefix == "k" { "k".into() } else { prefix.to_ascii_uppercase() };
        Q::SPELLINGS.iter().any(|(written, _)| *written == rest && rest.len() > 1).then(|| format!("{prefix}{rest}"))
    };
    let any_case =
        |unit: &str| known.clone().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor);
    exact.or_else(|| any_case(unit)).or_else(|| lower(unit).and_then(|unit| spelled(&unit)))
}

/// A whole number as people write it: `20000`, `20_000`, `20k`, `1.5M`, `2e6`; [`None`] for anything else, and from 2^53 on.
pub fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, factor) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1e3),
        'M' => (&text[..text.len() - 1], 1e6),
        'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let number = number.trim_end();
    if !number.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value = number.replace('_', "").parse::<f64>().ok()? * factor;
    // A product such as 1.1e3 is whole but for its last bit.
    let whole = value.round();
    ((value - whole).abs() <= whole * 1e-12 && whole < 9e15).then_some(whole as u64)
}

fn write<Q: Quantity>(quantity: Q, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = quantity.value();
    // The largest unit that gives a short exact decimal; ties go to the earlier unit.
    let mut best = (format!("{value}"), Q::UNITS[0].0);
    // Of a bit rate in bytes nobody would know it again.
    for (name, factor) in Q::UNITS.iter().filter(|(name, _)| !name.ends_with("B/s")) {
        let text = format!("{}", value / factor);
        if text.parse::<f64>().map(|v| v * factor) == Ok(value) && text.len() < best.0.len() {
            best = (text, name);
        }
    }
    write!(f, "{} {}", best.0, best.1)
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $what:literal, $example:literal, [$(($unit:literal, $factor:expr)),* $(,)?],
     spelled [$(($written:literal, $stands:literal)),* $(,)?], bare $bare:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl Quantity for $name {
            const WHAT: &'static str = $what;
            const UNITS: &'static [(&'static str, f64)] = &[$(($unit, $factor)),*];
            const EXAMPLE: &'static str = $example;
            const SPELLINGS: &'static [(&'static str, &'static str)] = &[$(($written, $stands)),*];
            const BARE: bool = $bare;
            fn new(value: f64) -> Self {
                $name(value)
            }
            fn value(self) -> f64 {
                self.0
            }
        }
        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                parse(text)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(*self, f)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(QuantityVisitor(PhantomData))
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schema::<$name>()
            }
        }
    };
}

quantity!(
    /// A number of bytes.
    Size, "a size", "33 MiB",
    [("B", 1.0), ("KiB", 1024.0), ("MiB", 1048576.0), ("GiB", 1073741824.0), ("TiB", 1099511627776.0),
     ("KB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)],
    spelled [("bytes", "B"), ("byte", "B"), ("i", "iB")], bare true
);
quantity!(
    /// A span of time; a bare number is nanoseconds.
    Span, "a time", "85 ns",
    [("ns", 1.0), ("ps", 1e-3), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)],
    spelled [("\u{3bc}s", "us"), ("sec", "s"), ("seconds", "s"), ("second", "s")], bare true
);
quantity!(
    /// A clock frequency; a bare number is GHz.
    Frequency, "a frequency", "2.6 GHz",
    [("GHz", 1.0), ("MHz", 1e-3), ("kHz", 1e-6), ("Hz", 1e-9)],
    spelled [("", "Hz")], bare true
);
quantity!(
    /// A bit rate. `GB/s` are eight times as many `Gbps`.
    Rate, "a bit rate", "100 Gbps",
    [("Gbps", 1.0), ("Mbps", 1e-3), ("kbps", 1e-6), ("bps", 1e-9), ("Tbps", 1e3),
     ("GB/s", 8.0), ("MB/s", 8e-3), ("TB/s", 8e3)],
    spelled [("bit/s", "bps"), ("bits/s", "bps"), ("b/s", "bps"), ("bits", "bps"), ("bit", "bps"), ("b", "bps"), ("Bps", "B/s"), ("", "bps")],
    bare false
);
quantity!(
    /// A packet rate.
    PacketRate, "a packet rate", "14.88 Mpps",
    [("Mpps", 1.0), ("kpps", 1e-3), ("pps", 1e-6), ("Gpps", 1e3)],
    spelled [("packets/s", "pps"), ("packet/s", "pps"), ("pkts/s", "pps"), ("pkt/s", "pps"), ("p/s", "pps"), ("", "pps")], bare false
);

impl Size {
    /// A size of `bytes` bytes.
    pub fn from_bytes(bytes: u64) -> Size {
        Size(bytes as f64)
    }
    /// Rounded to whole bytes.
    #[inline]
    pub fn bytes(self) -> u64 {
        self.0.round() as u64
    }
}
impl Span {
    /// A span of `ns` nanoseconds.
    pub fn from_ns(ns: f64) -> Span {
        Span(ns)
    }
    /// Rounded to whole picoseconds.
    #[inline]
    pub fn ps(self) -> Ps {
        Ps::from_ns_f64(self.0)
    }
}
impl Frequency {
    /// A frequency of `ghz` GHz.
    pub fn from_ghz(ghz: f64) -> Frequency {
        Frequency(ghz)
    }
    /// The clock period, rounded to whole picoseconds.
    #[inline]
    pub fn period(self) -> Ps {
        Ps::from_ns_f64(1.0 / self.0)
    }
    /// In GHz.
    #[inline]
    pub fn ghz(self) -> f64 {
        self.0
    }
}
impl Rate {
    /// A rate of `gbps` Gbps.
    pub fn from_gbps(gbps: f64) -> Rate {
        Rate(gbps)
    }
    /// In Gbps.
    #[inline]
    pub fn gbps(self) -> f64 {
        self.0
    }
    /// The time `bytes` bytes take at this rate, rounded to whole picoseconds.
    #[inline]
    pub fn time_for(self, bytes: u64) -> Ps {
        Ps::from_ns_f64(bytes as f64 * 8.0 / self.0)
    }
}
impl PacketRate {
    /// A rate of `mpps` million packets a second.
    pub fn from_mpps(mpps: f64) -> PacketRate {
        PacketRate(mpps)
    }
    /// In Mpps.
    pub fn mpps(self) -> f64 {
        self.0
    }
}

fn schema<Q: Quantity>() -> Schema {
    let units: Vec<&str> = Q::UNITS.iter().map(|(name, _)| *name).collect();
    let described = format!("{} as a number with a unit ({})", Q::WHAT, units.join(", "));
    if !Q::BARE {
        return json_schema!({ "description": described, "examples": [Q::EXAMPLE], "type": "string" });
    }
    json_schema!({
        "description": format!("{described}; a bare number is in {}", units[0]),
        "examples": [Q::EXAMPLE],
        "anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}]
    })
}

struct QuantityVisitor<Q>(PhantomData<Q>);

impl<Q: Quantity> QuantityVisitor<Q> {
    fn number<E: de::Error>(self, value: f64) -> Result<Q, E> {
        parse(&value.to_string()).map_err(E::custom)
    }
}

impl<Q: Quantity> Visitor<'_> for QuantityVisitor<Q> {
    type Value = Q;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} such as \"{}\"", Q::WHAT, Q::EXAMPLE)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Q, E> {
        parse(text).map_err(E::custom)
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Q, E> {
        self.number(value)
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Q, E> {
        self.number(value as f64)
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Q, E> {
        self.number(value as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_may_follow_with_or_without_a_space_in_any_case() {
        assert_eq!("33MiB".parse::<Size>().unwrap().bytes(), 33 << 20);
        assert_eq!("33 mib".parse::<Size>().unwrap().bytes(), 33 << 20);
        assert_eq!("1e3 ns".parse::<Span>().unwrap().ps(), Ps(1_000_000));
        assert_eq!("64".parse::<Size>().unwrap().bytes(), 64);
        assert_eq!("2.5 GHz".parse::<Frequency>().unwrap().period(), Ps(400));
        assert_eq!("262_144".parse::<Size>().unwrap().bytes(), 262_144);
    }

    #[test]
    fn rates_are_read_as_people_write_them() {
        for text in [
            "100G",
            "100 G",
            "100 Gbps",
            "100Gbit",
            "100 Gbit/s",
            "100Gb/s",
            "100 Gbits/s",
            "100 gbps",
            "0.1T",
            "12.5 GB/s",
        ] {
            assert!((text.parse::<Rate>().unwrap().gbps() - 100.0).abs() < 1e-9, "{text}");
        }
        for text in ["20M", "20 Mpps", "20 Mp/s", "20000k", "20 Mpackets/s", "20,000 kpps".replace(',', "").as_str()] {
            assert!((text.parse::<PacketRate>().unwrap().mpps() - 20.0).abs() < 1e-9, "{text}");
        }
        assert_eq!("2.3G".parse::<Frequency>().unwrap().ghz(), 2.3);
        assert_eq!("33 Mi".parse::<Size>().unwrap().bytes(), 33 << 20);
        assert_eq!("64 bytes".parse::<Size>().unwrap().bytes(), 64);
        // Which unit is meant cannot be seen.
        assert_eq!("20 gbit/s".parse::<Rate>().unwrap().gbps(), 20.0);
        assert_eq!("20 gb/s".parse::<Rate>().unwrap().gbps(), 20.0);
        for text in ["80", "", "80 Q"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert!("20".parse::<PacketRate>().is_err() && "33M".parse::<Size>().is_err());
        assert!(serde_json::from_str::<Rate>("80").unwrap_err().to_string().contains("for example \"100 Gbps\""));
    }

    #[test]
    fn a_bit_rate_is_written_in_bits() {
        assert_eq!([15.0, 120.0].map(|gbps| Rate::from_gbps(gbps).to_string()), ["15 Gbps", "120 Gbps"]);
    }

    #[test]
    fn counts_are_read_as_people_write_them() {
        let read: Vec<Option<u64>> = [
            "20k", "20 k", "1.5M", "2e6", "20_000", "1G", "1.1k", "0", "1.5", "-1k", "k", "", "20 kpps", "1e30", "inf",
        ]
        .map(count)
        .to_vec();
        let some = [20_000, 20_000, 1_500_000, 2_000_000, 20_000, 1_000_000_000, 1100, 0].map(Some);
        assert_eq!(read, [&some[..], &[None; 7][..]].concat());
    }

    #[test]
    fn a_wrong_unit_is_told_what_is_allowed() {
        let error = "33 parsecs".parse::<Size>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"33 parsecs\" is not a size: write a number of 0 or more and one of the units B, KiB, MiB, GiB, TiB, KB, MB, GB, TB, \
             for example \"33 MiB\""
        );
        for text in ["", "-1 ns", "ns", "1 2 ns", "1e400 s", "nan ns", "inf"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn wire_time_of_a_minimum_frame_at_100_gbps() {
        assert_eq!(Rate::from_gbps(100.0).time_for(84), Ps(6720));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_equal(bytes in 0u64..1 << 50, ns in 0.0f64..1e12) {
            prop_assert_eq!(Size::from_bytes(bytes).to_string().parse::<Size>().unwrap(), Size::from_bytes(bytes));
            prop_assert_eq!(Span::from_ns(ns).to_string().parse::<Span>().unwrap(), Span::from_ns(ns));
            let json = serde_json::to_string(&Span::from_ns(ns)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Span>(&json).unwrap(), Span::from_ns(ns));
        }

        #[test]
        fn any_text_is_a_quantity_or_an_error(text in ".{0,20}") {
            let _ = text.parse::<Size>();
            let _ = text.parse::<Rate>();
        }
    }
}
