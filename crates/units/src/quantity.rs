//! What a person writes in a scenario: a number with a unit.
//!
//! Every quantity reads from a string with a unit (`"33 MiB"`) or from a bare number in the unit
//! that its type names, and is written back as a string. Decimal prefixes are powers of 1000 and
//! binary ones (`KiB`) powers of 1024; for [`Size`] `KB` means 1000 bytes, as in SI.

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
        write!(f, ", for example \"{}\"", self.example)
    }
}

impl std::error::Error for QuantityError {}

/// A kind of quantity: its name and units. Implemented by the types of this module only.
pub trait Quantity: Copy {
    /// With an article, for messages: "a size".
    const WHAT: &'static str;
    /// Units by name with their factor; the first is what a bare number means.
    const UNITS: &'static [(&'static str, f64)];
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
    let factor = if unit.is_empty() {
        1.0
    } else {
        // Exact spelling first, so that "Mb" and "MB" can both exist; then any case.
        let exact = Q::UNITS.iter().find(|(name, _)| *name == unit);
        exact.or_else(|| Q::UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))).ok_or_else(bad)?.1
    };
    let value = number * factor;
    if value.is_finite() && value >= 0.0 { Ok(Q::new(value)) } else { Err(bad()) }
}

fn write<Q: Quantity>(quantity: Q, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = quantity.value();
    // The largest unit that gives a short exact decimal; ties go to the earlier unit.
    let mut best = (format!("{value}"), Q::UNITS[0].0);
    for (name, factor) in Q::UNITS {
        let text = format!("{}", value / factor);
        if text.parse::<f64>().map(|v| v * factor) == Ok(value) && text.len() < best.0.len() {
            best = (text, name);
        }
    }
    write!(f, "{} {}", best.0, best.1)
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $what:literal, $example:literal, [$(($unit:literal, $factor:expr)),* $(,)?]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl Quantity for $name {
            const WHAT: &'static str = $what;
            const UNITS: &'static [(&'static str, f64)] = &[$(($unit, $factor)),*];
            const EXAMPLE: &'static str = $example;
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
     ("KB", 1e3), ("MB", 1e6), ("GB", 1e9)]
);
quantity!(
    /// A span of time; a bare number is nanoseconds.
    Span, "a time", "85 ns",
    [("ns", 1.0), ("ps", 1e-3), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)]
);
quantity!(
    /// A clock frequency; a bare number is GHz.
    Frequency, "a frequency", "2.6 GHz",
    [("GHz", 1.0), ("MHz", 1e-3), ("kHz", 1e-6), ("Hz", 1e-9)]
);
quantity!(
    /// A bit rate; a bare number is Gbps.
    Rate, "a bit rate", "100 Gbps",
    [("Gbps", 1.0), ("Mbps", 1e-3), ("kbps", 1e-6), ("bps", 1e-9), ("Tbps", 1e3)]
);
quantity!(
    /// A packet rate; a bare number is Mpps.
    PacketRate, "a packet rate", "14.88 Mpps",
    [("Mpps", 1.0), ("kpps", 1e-3), ("pps", 1e-6), ("Gpps", 1e3)]
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
    json_schema!({
        "description": format!("{} as a number with a unit ({}); a bare number is in {}", Q::WHAT, units.join(", "), units[0]),
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
    fn a_wrong_unit_is_told_what_is_allowed() {
        let error = "33 parsecs".parse::<Size>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"33 parsecs\" is not a size: write a number of 0 or more and one of the units B, KiB, MiB, GiB, TiB, KB, MB, GB, \
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
