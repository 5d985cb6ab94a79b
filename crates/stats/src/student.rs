//! Student's t distribution, by the incomplete beta function: DLMF 8.17.22 (continued fraction,
//! evaluated by Lentz's method) and Lanczos' approximation of ln gamma.

/// The t for which a share `p` of Student's distribution with `dof` degrees of freedom lies below.
///
/// For a 95 % half-width, `p` is 0.975. NaN unless 0 < `p` < 1 and `dof` > 0.
pub fn student_quantile(p: f64, dof: f64) -> f64 {
    // Not `p <= 0.0 || ...`: NaN must end here as well.
    if !(p > 0.0 && p < 1.0 && dof > 0.0) {
        return f64::NAN;
    }
    if p < 0.5 {
        return -student_quantile(1.0 - p, dof);
    }
    let tail = 2.0 * (1.0 - p);
    let mut high = 1.0;
    while student_p_value(high, dof) > tail && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Bisection to the last bit: this is called once per estimate, not once per observation.
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if student_p_value(middle, dof) > tail { low = middle } else { high = middle }
    }
}

/// How likely a t at least as far from 0 as `t` is by chance: the two-sided p-value.
pub fn student_p_value(t: f64, dof: f64) -> f64 {
    let t2 = t * t;
    if t2.is_infinite() {
        return 0.0;
    }
    incomplete_beta(dof / (dof + t2), t2 / (dof + t2), 0.5 * dof)
}

/// I_x(a, 1/2), regularised; `y` is 1 - x, given apart to keep its digits when x is near 1.
fn incomplete_beta(x: f64, y: f64, a: f64) -> f64 {
    let b = 0.5;
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    // ln gamma(a + 1/2) - ln gamma(a), where the two would cancel by its expansion (DLMF 5.11.13).
    let step = if a < 100.0 {
        ln_gamma(a + b) - ln_gamma(a)
    } else {
        0.5 * a.ln() - 1.0 / (8.0 * a) + 1.0 / (192.0 * a * a * a)
    };
    let front =
        (step + a * if y < 0.5 { (-y).ln_1p() } else { x.ln() } + b * y.ln()).exp() / std::f64::consts::PI.sqrt();
    // The fraction converges fast on its own side of the mean only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(y, b, a) / b
    }
}

fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = d * c;
            fraction *= change;
        }
        if (change - 1.0f64).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// ln of the gamma function for x > 0 (Lanczos 1964; coefficients for g = 7, n = 9 by Godfrey).
#[allow(clippy::excessive_precision)]
fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const C: [f64; 9] = [
        0.999_999_999_999_809_93,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_13,
        -176.615_029_162_140_59,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_571_6e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let sum = C[1..].iter().zip(1..).fold(C[0], |sum, (c, i)| sum + c / (x + f64::from(i)));
    let t = x + G + 0.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.2.
    #[test]
    fn quantiles_are_those_of_the_published_table() {
        let table = [
            (1.0, [3.078, 6.314, 12.706, 31.821, 63.657]),
            (2.0, [1.886, 2.920, 4.303, 6.965, 9.925]),
            (5.0, [1.476, 2.015, 2.571, 3.365, 4.032]),
            (10.0, [1.372, 1.812, 2.228, 2.764, 3.169]),
            (15.0, [1.341, 1.753, 2.131, 2.602, 2.947]),
            (31.0, [1.309, 1.696, 2.040, 2.453, 2.744]),
            (100.0, [1.290, 1.660, 1.984, 2.364, 2.626]),
        ];
        for (dof, row) in table {
            for (p, t) in [0.9, 0.95, 0.975, 0.99, 0.995].into_iter().zip(row) {
                let got = student_quantile(p, dof);
                assert!((got - t).abs() <= 0.000_501, "dof {dof}, p {p}: {got} for {t}");
            }
        }
    }

    #[test]
    fn closed_forms_for_one_and_two_degrees_of_freedom() {
        for p in [0.5, 0.6, 0.975, 0.999_9] {
            let one = (std::f64::consts::PI * (p - 0.5)).tan();
            let a: f64 = 2.0 * p - 1.0;
            let two = a * (2.0 / (1.0 - a * a)).sqrt();
            assert!((student_quantile(p, 1.0) - one).abs() <= 1e-11 * one.max(1.0), "{p}");
            assert!((student_quantile(p, 2.0) - two).abs() <= 1e-11 * two.max(1.0), "{p}");
        }
    }

    #[test]
    fn many_degrees_of_freedom_are_normal() {
        assert!((student_quantile(0.975, 1e9) - 1.959_963_985).abs() < 1e-7);
        assert!((student_p_value(1.959_963_985, 1e9) - 0.05).abs() < 1e-8);
    }

    #[test]
    fn p_value_is_the_inverse_of_the_quantile_and_symmetric() {
        for dof in [1.0, 3.0, 7.5, 30.0] {
            for p in [0.6, 0.9, 0.995] {
                let t = student_quantile(p, dof);
                assert!((student_p_value(t, dof) - 2.0 * (1.0 - p)).abs() < 1e-12);
                assert_eq!(student_p_value(-t, dof), student_p_value(t, dof));
                assert_eq!(student_quantile(1.0 - p, dof), -student_quantile(1.0 - (1.0 - p), dof));
            }
        }
        assert_eq!(student_p_value(0.0, 5.0), 1.0);
        assert_eq!(student_p_value(f64::INFINITY, 5.0), 0.0);
        assert!(student_quantile(1.0, 5.0).is_nan() && student_quantile(f64::NAN, 5.0).is_nan());
    }
}
