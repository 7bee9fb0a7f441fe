//! The comparison of what a candidate left in memory with what is right: measurements, no verdict.

use serde::{Deserialize, Serialize};

use super::{CaseId, Number};

/// How the outputs of a case that ran are to be compared.
#[derive(Clone, Debug, Serialize)]
pub struct Compare {
    pub case: CaseId,
    /// One for each output.
    pub tolerances: Vec<ToleranceSpec>,
    /// Only elements that do not hold the poison pattern are compared (sampled runs).
    pub written_only: bool,
    /// Also compare null candidates (zeros, the reference's mean, the reference of another seed, the
    /// reference on coarser inputs): a tolerance that accepts one is worthless.
    pub null_candidates: bool,
    /// As [`Prepare::wall_s`](super::Prepare::wall_s). The references run in this time.
    pub wall_s: f64,
    /// Where the reference in the case's dtype equals the float64 one in every element, the operation is
    /// exact on these inputs, and so must be the candidate.
    pub exact_if_agree: bool,
    /// Our references multiply float32 as TF32, where the Definition allows it.
    pub tf32: bool,
    /// Where a reference that is not ours left its values; `None` when the judge computes them.
    pub truth: Option<ForeignTruth>,
}

/// Cases that a reference that is not ours ran on.
#[derive(Clone, Debug, Serialize)]
pub struct ForeignTruth {
    /// [`Change::Widened`](super::Change::Widened).
    pub float64: CaseId,
    /// [`Change::Same`](super::Change::Same).
    pub in_dtype: CaseId,
    /// [`Change::Widened`](super::Change::Widened) once more; only with null candidates.
    pub again: Option<CaseId>,
    /// [`Change::Perturbed`](super::Change::Perturbed), one for each draw; only where a tolerance asks for the condition.
    pub perturbed: Vec<CaseId>,
    /// Only for null candidates.
    pub other_seed: Option<CaseId>,
    pub coarse_inputs: Option<CaseId>,
}

/// Allowed error of one element `i` in a row `r` (the last dimension) of an output, see
/// `judge/tolerance.rs` for where the factors come from:
///
/// `reference_factor · max_r |reference_in_dtype − reference_in_f64| + max(absolute_ulp · |expected_i|, smallest subnormal)
/// + row_rms_factor · rms_r(expected) + condition_factor · rms over draws of max_r |reference of perturbed inputs − reference_in_f64|`
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ToleranceSpec {
    pub reference_factor: f64,
    /// Times the magnitude of the element: rounding of the output itself.
    pub absolute_ulp: f64,
    /// Times the root mean square of the row: rounding of the accumulation.
    pub row_rms_factor: f64,
    /// The same sum with TF32 rounding of products added; tells `tf32` from `mismatch`.
    pub tf32_row_rms_factor: f64,
    /// Times the largest change in the row when every float input is off by a relative 2⁻²³, up or down:
    /// what no float32 computation can know better. 0: not measured.
    pub condition_factor: f64,
}

/// Answer to [`Request::Compare`](super::Request::Compare): measurements, no verdict.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Compared {
    pub outputs: Vec<OutputErrors>,
    /// Inputs whose bytes are no longer those that the judge made.
    pub inputs_changed: Vec<String>,
    /// On a GPU: tensors of the case around which memory was written that belongs to none.
    #[serde(default)]
    pub written_outside: Vec<String>,
}

/// What was measured on one output, against the float64 reference.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct OutputErrors {
    pub name: String,
    pub elements: u64,
    pub elements_compared: u64,
    /// Elements that still hold the poison pattern.
    pub unwritten: u64,
    pub first_unwritten: Option<Vec<u64>>,
    pub last_unwritten: Option<Vec<u64>>,
    /// Elements where one side is NaN or infinite and the other is not the same.
    pub non_finite_mismatches: u64,
    pub first_non_finite: Option<Sample>,
    /// Elements where the reference in the case's dtype is NaN or infinite and the float64 one is not the
    /// same (nor out of the dtype's range): the reference does not define them.
    pub undefined: u64,
    /// Integers that roundings of the inputs change, and that hold none of the values so found: neither right nor wrong.
    #[serde(default)]
    pub undecided: u64,
    /// Nothing but equality was allowed: integers, or [`Compare::exact_if_agree`].
    pub exact: bool,
    /// Elements over the tolerance (non-finite mismatches not counted).
    pub violations: u64,
    /// Elements over the tolerance of a TF32 product.
    pub tf32_violations: u64,
    /// The first violation in row-major order.
    pub first: Option<Sample>,
    /// The element with the largest error over tolerance, also when all are within it.
    pub worst: Option<Sample>,
    pub max_absolute_error: Number,
    pub max_relative_error: Number,
    /// Largest error of the reference run in the case's own dtypes, for comparison.
    pub reference_max_absolute_error: Number,
    pub expected_rms: Number,
    /// Bytes equal to an input's: a candidate that hands back its input.
    pub null_candidates: Vec<NullCandidate>,
}

/// One element: where, what was expected, what stood there, what was allowed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sample {
    pub index: Vec<u64>,
    pub expected: Number,
    pub got: Number,
    pub allowed: Number,
    /// The summands of `allowed`; `None` where only equality will do.
    #[serde(default)]
    pub terms: Option<ToleranceTerms>,
}

/// What the allowed error of one element is the sum of; see [`ToleranceSpec`].
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct ToleranceTerms {
    /// PyTorch's own error in the row.
    pub reference: Number,
    /// Rounding to the output's dtype.
    pub rounding: Number,
    /// Rounding of the sums behind the row.
    pub accumulation: Number,
    /// Sensitivity to the last bit of the inputs.
    pub conditioning: Number,
}

impl ToleranceTerms {
    /// The name of the largest term: what decided how much was allowed.
    pub fn deciding(&self) -> &'static str {
        let terms = [
            ("reference", self.reference),
            ("rounding", self.rounding),
            ("accumulation", self.accumulation),
            ("conditioning", self.conditioning),
        ];
        let largest = terms.into_iter().reduce(|a, b| if b.1.0 > a.1.0 { b } else { a });
        largest.map_or("rounding", |(name, _)| name)
    }
}

/// What the comparison says of an answer that is surely wrong.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NullCandidate {
    /// `zeros`, `mean`, `other-seed`, `coarse-inputs`.
    pub name: String,
    /// Elements over the tolerance; 0 means that the tolerance accepts this impostor.
    pub violations: u64,
}
