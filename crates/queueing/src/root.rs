//! A root of a decreasing function.

/// A root between two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Root {
    /// Where the function is zero.
    pub x: f64,
    /// How often the function was evaluated.
    pub evaluations: u32,
}

/// The root of a decreasing `f` in (`low`, `high`], found by shrinking the bracket.
///
/// Regula falsi in the Illinois variant (Dowell and Jarratt, BIT 1971), with a bisection wherever an
/// end is infinite and whenever two steps have not halved the bracket: each step leaves the root
/// inside, so nothing can oscillate. `f(low)` may be infinite and is not evaluated. Ends when the
/// bracket is `tolerance` (relative) wide or cannot be halved.
pub(crate) fn decreasing(f: impl Fn(f64) -> f64, low: f64, high: f64, tolerance: f64) -> Root {
    let (mut a, mut b) = (low, high);
    let (mut fa, mut fb) = (f64::INFINITY, f(high));
    let mut evaluations = 1;
    if fb >= 0.0 {
        return Root { x: b, evaluations };
    }
    // Which end moved last, and how wide the bracket was two steps ago.
    let mut last = 0;
    let mut widths = [f64::INFINITY; 2];
    while evaluations < MOST_EVALUATIONS {
        let width = b - a;
        if width <= tolerance * b.abs() {
            break;
        }
        let middle = a + 0.5 * width;
        if middle <= a || middle >= b {
            break;
        }
        let falsi = b - fb * width / (fb - fa);
        // A step into the last thousandth at an end gains nothing: keep off it by the tolerance.
        let inner = (0.25 * tolerance * b.abs()).min(0.25 * width);
        let slow = width > 0.5 * widths[0];
        let x = if fa.is_finite() && falsi.is_finite() && !slow { falsi.clamp(a + inner, b - inner) } else { middle };
        widths = if slow { [f64::INFINITY; 2] } else { [widths[1], width] };
        let fx = f(x);
        evaluations += 1;
        if fx == 0.0 {
            return Root { x, evaluations };
        }
        if fx > 0.0 {
            (a, fa) = (x, fx);
            if last == 1 {
                fb *= 0.5;
            }
            last = 1;
        } else {
            (b, fb) = (x, fx);
            if last == -1 {
                fa *= 0.5;
            }
            last = -1;
        }
    }
    Root { x: 0.5 * (a + b), evaluations }
}

/// Bisection alone ends after 64 halvings or so; this only guards against a function that is not a
/// number.
const MOST_EVALUATIONS: u32 = 400;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_root_is_found_wherever_it_lies(root in 1.0001f64..1e6, power in 0.1f64..6.0) {
            // Infinite at 1, falling to minus infinity.
            let f = |x: f64| (x - 1.0).powf(-power) - (root - 1.0).powf(-power);
            let found = decreasing(f, 1.0, 2e6, 1e-13);
            prop_assert!((found.x / root - 1.0).abs() < 1e-9, "{found:?}");
            prop_assert!(found.evaluations < 160, "{found:?}");
        }
    }

    #[test]
    fn a_root_at_the_upper_end_is_the_upper_end() {
        assert_eq!(decreasing(|x| 5.0 - x, 0.0, 5.0, 1e-12).x, 5.0);
    }
}
