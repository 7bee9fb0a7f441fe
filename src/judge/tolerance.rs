//! How large an error may be, from a float64 error model instead of a table.
//!
//! For one element `i` in a row of an output, against the reference in float64:
//!
//! ```text
//! allowed = 2 · max over the row of |reference in the case's dtype − reference in float64|
//!         + ε_out · |expected_i|
//!         + (2 · ε_32 · √R + 2 · ε_in · √I) · rms(row of expected)
//! ```
//!
//! - The first term is what PyTorch itself does on the same inputs; a kernel may be twice as far off.
//! - The second is two roundings to the output's dtype (ε = 2 u): one is unavoidable, one is granted to
//!   a kernel that rounds an intermediate.
//! - The third is the random walk of a float32 accumulation over `R` terms (R = the Definition's
//!   reduction length; √R: Higham, "Accuracy and Stability of Numerical Algorithms", §2.8), which
//!   matters for elements much smaller than their row and for other orders of summation than PyTorch's.
//!
//! - The fourth is for results of a first sum that are rounded to the dtype of the inputs and then are
//!   factors of a second one, as the probabilities of an attention or the hidden layer of a perceptron
//!   (I = how many such roundings the Definition grants, 0 for all else). Each is off by at most u = ε/2,
//!   independently, with standard deviation u/√3 at most, so the second sum is off by u √(I/3) of what
//!   its row's terms add up to in the root mean square (Higham and Mary, "A new approach to probabilistic
//!   rounding error analysis", SIAM J. Sci. Comput. 41, 2019); 4 u √I is seven such deviations, more than
//!   the largest of all elements reaches. A run in the next coarser dtype errs eight times as much and
//!   stays outside. PyTorch's own error mostly covers this already, but on rows of a few elements that may
//!   be nothing by luck.
//!
//! Rows of fewer than 16 elements are measured together with their neighbours (`compare.py`): so few
//! values may all be small by chance, and with them what would be allowed.
//!
//! A maximum has no sum (R = 1) and no intermediate: it is allowed one rounding of the output.
//!
//! In the stability stage, on outputs of fewer than 64 elements, and where one product feeds another, one
//! more term is added (`comparison.rs` decides where): how far the float64 reference moves when every input is
//! off by a relative 2⁻²³. A backward stable kernel stays within a few times that, also where the
//! operation is ill-conditioned and PyTorch's own error on one draw is luck.
//!
//! Against a version at HEAD no float64 value is known, only what the other version rounded: of two versions each
//! is granted the second and the third term, and the difference may be their sum.
//!
//! What it must reject is tested on every smoke case: zeros, the mean, the reference of other inputs,
//! and the reference on inputs rounded to a coarser mantissa ("null candidates").

use crate::runner::protocol::ToleranceSpec;
use crate::spec::{Dtype, Precision};

/// ε of float32, in which kernels are expected to accumulate.
const ACCUMULATE_EPSILON: f64 = f32::EPSILON as f64;
const REFERENCE_FACTOR: f64 = 2.0;
const ACCUMULATE_FACTOR: f64 = 2.0;
const INTERMEDIATE_FACTOR: f64 = 2.0;
/// A few draws of random roundings stand for a distribution, and a kernel rounds more than once.
const CONDITION_FACTOR: f64 = 8.0;
/// A TF32 product rounds both factors to 10 explicit bits (u = 2⁻¹¹ each). The standard deviation of
/// the sum's relative error is about 2⁻¹¹; eight of them cover the largest of many elements.
const TF32_FACTOR: f64 = 8.0 * (1.0 / 2048.0);

/// What the error of an operation depends on, besides the dtype of its output.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorSources {
    /// Dtype of the case: intermediate results may be rounded to it.
    pub(super) case: Dtype,
    /// Terms that are added up for one element (1 for elementwise operations).
    pub(super) reduction: u64,
    /// Intermediate results that may be rounded to the case's dtype before they are multiplied and added up.
    pub(super) intermediate: u64,
    pub(super) precision: Precision,
}

/// The tolerance of one output.
pub(super) fn tolerance(output: Dtype, sources: ErrorSources) -> ToleranceSpec {
    let ErrorSources { case, reduction, intermediate, precision } = sources;
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
    let intermediates =
        INTERMEDIATE_FACTOR * case.epsilon().unwrap_or(ACCUMULATE_EPSILON) * (intermediate as f64).sqrt();
    let accumulate =
        ACCUMULATE_FACTOR * ACCUMULATE_EPSILON * (reduction.max(1) as f64).sqrt() + intermediates;
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

/// How far two versions of one kernel may be apart, neither of which is known to be right: each may be off by its
/// roundings, and there is no PyTorch on the same inputs to say more.
pub(super) fn between_versions(tolerance: ToleranceSpec) -> ToleranceSpec {
    ToleranceSpec {
        reference_factor: 0.0,
        absolute_ulp: 2.0 * tolerance.absolute_ulp,
        row_rms_factor: 2.0 * tolerance.row_rms_factor,
        tf32_row_rms_factor: 2.0 * tolerance.tf32_row_rms_factor,
        condition_factor: 0.0,
    }
}

#[cfg(test)]
#[path = "tolerance_properties.rs"]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::philox::Draws;

    fn of(output: Dtype, reduction: u64, precision: Precision) -> ToleranceSpec {
        tolerance(output, ErrorSources { case: output, reduction, intermediate: 0, precision })
    }

    #[test]
    fn tf32_is_wider_than_ieee_only_for_float32() {
        let ieee = of(Dtype::Float32, 1024, Precision::Ieee);
        assert!(ieee.tf32_row_rms_factor > 100.0 * ieee.row_rms_factor);
        let half = of(Dtype::Float16, 1024, Precision::Ieee);
        assert_eq!(half.tf32_row_rms_factor, half.row_rms_factor);
        let tf32 = of(Dtype::Float32, 1024, Precision::Tf32);
        assert_eq!(tf32.row_rms_factor, ieee.tf32_row_rms_factor);
    }

    #[test]
    fn the_accumulation_term_grows_with_the_root_of_the_length() {
        let short = of(Dtype::Float32, 16, Precision::Ieee).row_rms_factor;
        let long = of(Dtype::Float32, 1600, Precision::Ieee).row_rms_factor;
        assert!((long / short - 10.0).abs() < 1e-9);
        let empty = of(Dtype::Float32, 0, Precision::Ieee).row_rms_factor;
        assert!(empty > 0.0);
    }

    #[test]
    fn two_versions_may_each_be_off() {
        let told = with_conditioning(of(Dtype::Bfloat16, 100, Precision::Ieee));
        let between = between_versions(told);
        assert_eq!((between.reference_factor, between.condition_factor), (0.0, 0.0));
        assert_eq!(between.absolute_ulp, 2.0 / 128.0);
        assert_eq!(between.row_rms_factor, 2.0 * told.row_rms_factor);
    }

    #[test]
    fn integers_are_exact() {
        let exact = of(Dtype::Int32, 1000, Precision::Ieee);
        assert_eq!((exact.reference_factor, exact.absolute_ulp, exact.row_rms_factor), (0.0, 0.0, 0.0));
    }

    /// To `bits` explicit bits of mantissa, to nearest.
    fn rounded(value: f64, bits: i32) -> f64 {
        if value == 0.0 {
            return value;
        }
        let step = 2.0_f64.powi(value.abs().log2().floor() as i32 - bits);
        (value / step).round() * step
    }

    /// Rows of sums of products of which one factor was rounded to `bits` explicit bits; how many elements
    /// are off by more than the term for intermediates allows, of 4,000.
    fn sums_beyond_the_limit(length: u64, width: u64, bits: i32, dtype: Dtype) -> usize {
        let sources = |intermediate| ErrorSources {
            case: dtype,
            reduction: 1,
            intermediate,
            precision: Precision::Ieee,
        };
        let factor =
            tolerance(dtype, sources(1)).row_rms_factor - tolerance(dtype, sources(0)).row_rms_factor;
        let mut draws = Draws::new(5, "intermediates");
        let mut draw = || draws.next_u64() as f64 / 2.0_f64.powi(63) - 1.0;
        let mut beyond = 0;
        for _ in 0..4_000 / width {
            let row: Vec<(f64, f64)> = (0..width)
                .map(|_| {
                    (0..length).fold((0.0, 0.0), |(exact, rough), _| {
                        let (left, right) = (draw(), draw());
                        (exact + left * right, rough + rounded(left, bits) * right)
                    })
                })
                .collect();
            let rms = (row.iter().map(|(exact, _)| exact * exact).sum::<f64>() / width as f64).sqrt();
            beyond += row.iter().filter(|(exact, rough)| (exact - rough).abs() > factor * rms).count();
        }
        beyond
    }

    #[test]
    fn an_intermediate_rounded_to_the_inputs_dtype_is_honest() {
        for (dtype, bits) in [(Dtype::Bfloat16, 7), (Dtype::Float16, 10), (Dtype::Float32, 23)] {
            for length in [1, 3, 100] {
                assert_eq!(sums_beyond_the_limit(length, 20, bits, dtype), 0, "{dtype} {length}");
            }
        }
    }

    /// bfloat16 intermediates in a float16 case, and three bits less than bfloat16 has in a bfloat16 one.
    #[test]
    fn an_intermediate_of_a_coarser_dtype_is_not() {
        for (dtype, bits) in [(Dtype::Bfloat16, 4), (Dtype::Float16, 7), (Dtype::Float32, 10)] {
            for length in [1, 3, 100] {
                let beyond = sums_beyond_the_limit(length, 20, bits, dtype);
                assert!(beyond > 200, "{dtype} {length}: {beyond} of 4000");
            }
        }
    }

    #[test]
    fn only_definitions_that_say_so_are_granted_intermediates() {
        let sources = ErrorSources {
            case: Dtype::Bfloat16,
            reduction: 64,
            intermediate: 0,
            precision: Precision::Ieee,
        };
        let without = tolerance(Dtype::Bfloat16, sources).row_rms_factor;
        let with = tolerance(Dtype::Bfloat16, ErrorSources { intermediate: 4, ..sources }).row_rms_factor;
        assert!(without < 1e-4);
        assert!((with - without - 4.0 / 128.0).abs() < 1e-12);
    }
}
