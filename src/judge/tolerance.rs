//! How large an error may be, from a float64 error model instead of a table.
//!
//! For one element `i` in a row of an output, against the reference in float64:
//!
//! ```text
//! allowed = 2 · max over the row of |reference in the case's dtype − reference in float64|
//!         + ε_out · |expected_i|
//!         + 2 · ε_32 · √R · rms(row of expected)
//! ```
//!
//! - The first term is what PyTorch itself does on the same inputs; a kernel may be twice as far off.
//! - The second is two roundings to the output's dtype (ε = 2 u): one is unavoidable, one is granted to
//!   a kernel that rounds an intermediate.
//! - The third is the random walk of a float32 accumulation over `R` terms (R = the Definition's
//!   reduction length; √R: Higham, "Accuracy and Stability of Numerical Algorithms", §2.8), which
//!   matters for elements much smaller than their row and for other orders of summation than PyTorch's.
//!
//! In the stability stage a fourth term is added: how far the float64 reference moves when every input is
//! off by a relative 2⁻²³. A backward stable kernel stays within a few times that, also where the
//! operation is ill-conditioned and PyTorch's own error on one draw is luck.
//!
//! What it must reject is tested on every smoke case: zeros, the mean, the reference of other inputs,
//! and the reference on inputs rounded to a coarser mantissa ("null candidates").

use crate::runner::protocol::ToleranceSpec;
use crate::spec::{Dtype, Precision};

/// ε of float32, in which kernels are expected to accumulate.
const ACCUMULATE_EPSILON: f64 = f32::EPSILON as f64;
const REFERENCE_FACTOR: f64 = 2.0;
const ACCUMULATE_FACTOR: f64 = 2.0;
/// A few draws of random roundings stand for a distribution, and a kernel rounds more than once.
const CONDITION_FACTOR: f64 = 8.0;
/// A TF32 product rounds both factors to 10 explicit bits (u = 2⁻¹¹ each). The standard deviation of
/// the sum's relative error is about 2⁻¹¹; eight of them cover the largest of many elements.
const TF32_FACTOR: f64 = 8.0 * (1.0 / 2048.0);

/// The tolerance of one output.
///
/// `reduction` is the number of terms that are added up for one element (1 for elementwise operations).
pub(super) fn tolerance(output: Dtype, reduction: u64, precision: Precision) -> ToleranceSpec {
    let Some(epsilon) = output.epsilon() else {
        // Integers and booleans are compared exactly by the worker; the factors play no part.
        return ToleranceSpec {
            reference_factor: 0.0,
            absolute_ulp: 0.0,
            row_rms_factor: 0.0,
            tf32_row_rms_factor: 0.0,
            condition_factor: 0.0,
        };
    };
    let accumulate = ACCUMULATE_FACTOR * ACCUMULATE_EPSILON * (reduction.max(1) as f64).sqrt();
    let tf32 = accumulate + if output == Dtype::Float32 { TF32_FACTOR } else { 0.0 };
    let row_rms_factor = match precision {
        Precision::Ieee => accumulate,
        Precision::Tf32 => tf32,
    };
    ToleranceSpec {
        reference_factor: REFERENCE_FACTOR,
        absolute_ulp: epsilon,
        row_rms_factor,
        tf32_row_rms_factor: tf32,
        condition_factor: 0.0,
    }
}

/// The tolerance on adversarial values, where an error may be large however well a kernel computes: what
/// the operation makes of one float32 rounding of its inputs is allowed [`CONDITION_FACTOR`] times.
pub(super) fn with_conditioning(tolerance: ToleranceSpec) -> ToleranceSpec {
    ToleranceSpec { condition_factor: CONDITION_FACTOR, ..tolerance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf32_is_wider_than_ieee_only_for_float32() {
        let ieee = tolerance(Dtype::Float32, 1024, Precision::Ieee);
        assert!(ieee.tf32_row_rms_factor > 100.0 * ieee.row_rms_factor);
        let half = tolerance(Dtype::Float16, 1024, Precision::Ieee);
        assert_eq!(half.tf32_row_rms_factor, half.row_rms_factor);
        let tf32 = tolerance(Dtype::Float32, 1024, Precision::Tf32);
        assert_eq!(tf32.row_rms_factor, ieee.tf32_row_rms_factor);
    }

    #[test]
    fn the_accumulation_term_grows_with_the_root_of_the_length() {
        let short = tolerance(Dtype::Float32, 16, Precision::Ieee).row_rms_factor;
        let long = tolerance(Dtype::Float32, 1600, Precision::Ieee).row_rms_factor;
        assert!((long / short - 10.0).abs() < 1e-9);
        let empty = tolerance(Dtype::Float32, 0, Precision::Ieee).row_rms_factor;
        assert!(empty > 0.0);
    }

    #[test]
    fn integers_are_exact() {
        let exact = tolerance(Dtype::Int32, 1000, Precision::Ieee);
        assert_eq!((exact.reference_factor, exact.absolute_ulp, exact.row_rms_factor), (0.0, 0.0, 0.0));
    }
}
