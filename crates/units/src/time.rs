//! Simulated time in picoseconds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// An instant or a span of simulated time, in picoseconds. 2^64 ps are 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ps(pub u64);

impl Ps {
    /// The start of every run.
    pub const ZERO: Ps = Ps(0);
    /// Later than anything that happens.
    pub const MAX: Ps = Ps(u64::MAX);

    /// `n` nanoseconds.
    #[inline]
    pub const fn from_ns(n: u64) -> Ps {
        Ps(n * 1_000)
    }

    /// `ns` nanoseconds, rounded to the nearest picosecond; negative and NaN become zero.
    #[inline]
    pub fn from_ns_f64(ns: f64) -> Ps {
        Ps(nearest(ns * 1e3))
    }

    /// `s` seconds, rounded to the nearest picosecond; negative and NaN become zero.
    #[inline]
    pub fn from_secs_f64(s: f64) -> Ps {
        Ps(nearest(s * 1e12))
    }

    /// In nanoseconds.
    #[inline]
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// In seconds.
    #[inline]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The span from `earlier` to `self`, zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Ps) -> Ps {
        Ps(self.0.saturating_sub(earlier.0))
    }
}

/// How documents write a span whose name ends in `_ns`: for `#[serde(with = "units::as_ns")]`.
pub mod as_ns {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Ps;

    /// # Errors
    /// Those of `to`.
    pub fn serialize<S: Serializer>(span: &Ps, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(span.as_ns())
    }

    /// # Errors
    /// Those of `from`.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Ps, D::Error> {
        f64::deserialize(from).map(|ns| Ps((ns * 1000.0).round() as u64))
    }
}

/// A time that does not fit ends the run, in any build: it would be another time.
#[cold]
#[inline(never)]
fn beyond() -> ! {
    panic!("a time below 0 or beyond 213 days of picoseconds")
}

impl Add for Ps {
    type Output = Ps;
    #[inline]
    fn add(self, rhs: Ps) -> Ps {
        self.0.checked_add(rhs.0).map_or_else(|| beyond(), Ps)
    }
}
impl AddAssign for Ps {
    #[inline]
    fn add_assign(&mut self, rhs: Ps) {
        *self = *self + rhs;
    }
}
impl Sub for Ps {
    type Output = Ps;
    #[inline]
    fn sub(self, rhs: Ps) -> Ps {
        self.0.checked_sub(rhs.0).map_or_else(|| beyond(), Ps)
    }
}
impl SubAssign for Ps {
    #[inline]
    fn sub_assign(&mut self, rhs: Ps) {
        *self = *self - rhs;
    }
}
impl Mul<u64> for Ps {
    type Output = Ps;
    #[inline]
    fn mul(self, rhs: u64) -> Ps {
        self.0.checked_mul(rhs).map_or_else(|| beyond(), Ps)
    }
}
impl Div<u64> for Ps {
    type Output = Ps;
    #[inline]
    fn div(self, rhs: u64) -> Ps {
        Ps(self.0 / rhs)
    }
}
impl Rem for Ps {
    type Output = Ps;
    #[inline]
    fn rem(self, rhs: Ps) -> Ps {
        Ps(self.0 % rhs.0)
    }
}
impl Sum for Ps {
    fn sum<I: Iterator<Item = Ps>>(iter: I) -> Ps {
        Ps(iter.map(|t| t.0).sum())
    }
}

/// `x` rounded to the nearest number, halves up; 0 if it is negative or NaN. `f64::round` calls a library where the processor is
/// not known to round.
#[inline]
fn nearest(x: f64) -> u64 {
    let whole = x as u64;
    // Exact: below 2^53 the two are near to each other, and above there are no fractions.
    whole.saturating_add(u64::from(x - whole as f64 >= 0.5))
}

impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ps", self.0),
            1_000..1_000_000 => write!(f, "{:.2} ns", self.as_ns()),
            1_000_000..1_000_000_000 => write!(f, "{:.2} us", self.0 as f64 / 1e6),
            1_000_000_000..1_000_000_000_000 => write!(f, "{:.2} ms", self.0 as f64 / 1e9),
            _ => write!(f, "{:.3} s", self.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_round_to_the_nearest_picosecond() {
        assert_eq!(Ps::from_ns_f64(0.8334), Ps(833));
        assert_eq!(Ps::from_ns_f64(0.8335), Ps(834));
        assert_eq!(Ps::from_ns_f64(-3.0), Ps::ZERO);
        assert_eq!(Ps::from_ns_f64(f64::NAN), Ps::ZERO);
    }

    #[test]
    fn rounding_is_that_of_the_library() {
        let near = [0.0, 0.49999999999999994, 0.5, 1.5, 2.5, 1e15 + 0.5, 4503599627370497.5, 9.1e18, 1.9e19, 1e30];
        let all = near.iter().flat_map(|&x| [x, -x, x + 0.25, x * 0.1]).chain([f64::NAN, f64::INFINITY, -0.3]);
        for x in all {
            assert_eq!(nearest(x), x.round() as u64, "{x}");
        }
    }

    #[test]
    fn since_never_underflows() {
        assert_eq!(Ps(5).since(Ps(7)), Ps::ZERO);
        assert_eq!(Ps(7).since(Ps(5)), Ps(2));
    }
}
