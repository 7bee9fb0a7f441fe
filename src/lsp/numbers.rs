//! Measured values as people read them.

use crate::runner::protocol::Number;

/// At most six significant digits: `1.25`, `3.1e-7`, `NaN`, `-inf`.
pub(crate) fn show(number: Number) -> String {
    let value = number.0;
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        trim(&format!("{value:.decimals$}")).to_owned()
    } else {
        format!("{}e{exponent}", trim(digits))
    }
}

/// Without the zeros at the end of a fraction.
fn trim(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown =
            [0.0, 1.0, 1.25, 100.0, 1.0 / 3.0, 123456.7, 1e6, 3.1e-7, 0.00098, -2.5, f64::NAN, f64::INFINITY]
                .map(|value| show(Number(value)));
        let expected =
            ["0", "1", "1.25", "100", "0.333333", "123457", "1e6", "3.1e-7", "0.00098", "-2.5", "NaN", "inf"];
        assert_eq!(shown, expected);
    }
}
