//! Division by a number that is known once, as a multiplication.

use serde::{Deserialize, Serialize};

/// A divisor of 32-bit numbers that is known once and divided by often.
///
/// A multiplication by the reciprocal takes the place of the division, exactly (Lemire, Kaser and
/// Kurz, "Faster remainder by direct computation", Software: Practice and Experience 2019).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Divisor {
    divisor: u32,
    /// The logarithm of a power of two, which is quicker to divide by.
    shift: Option<u8>,
    /// 2^64 / divisor, rounded up; 0 for a divisor of 1.
    reciprocal: u64,
}

impl Divisor {
    /// `divisor` must not be 0, which panics.
    pub fn new(divisor: u32) -> Divisor {
        let shift = divisor.is_power_of_two().then_some(divisor.trailing_zeros() as u8);
        Divisor { divisor, shift, reciprocal: (u64::MAX / u64::from(divisor)).wrapping_add(1) }
    }

    /// What is divided by.
    pub fn divisor(self) -> u32 {
        self.divisor
    }

    /// `n` modulo the divisor.
    #[inline(always)]
    pub fn remainder(self, n: u32) -> u32 {
        let fraction = self.reciprocal.wrapping_mul(u64::from(n));
        ((u128::from(fraction) * u128::from(self.divisor)) >> 64) as u32
    }

    /// Quotient and remainder.
    #[inline(always)]
    pub fn divide(self, n: u32) -> (u32, u32) {
        if let Some(shift) = self.shift {
            return (n >> (shift & 31), n & (self.divisor - 1));
        }
        let quotient = ((u128::from(self.reciprocal) * u128::from(n)) >> 64) as u32;
        (quotient, n - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_the_operators_do(n in any::<u32>(), d in 1u32.., small in 1u32..300, shift in 0u32..32) {
            for d in [d, small, 1 << shift, 1 << 31, u32::MAX, 1] {
                let by = Divisor::new(d);
                prop_assert_eq!(by.divide(n), (n / d, n % d));
                prop_assert_eq!(by.remainder(n), n % d);
                prop_assert_eq!(by.divide(u32::MAX), (u32::MAX / d, u32::MAX % d));
            }
        }
    }
}
