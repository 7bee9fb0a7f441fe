//! What the candidate left in the output memory against the reference: which comparison a case allows, with
//! which tolerance.

use super::assess::Ended;
use super::foreign::Wanted;
use super::inputs::Prepared;
use super::profiles::EXACT_INTEGERS;
use super::run::{CheckRun, JUDGE_WALL_S, judge_ended, read};
use super::tolerance::{ErrorSources, between_versions, tolerance, with_conditioning};
use super::{Case, CaseRecord, Code, Coverage, NotRun, Stage, Verdict};
use crate::oracle::Variant;
use crate::runner::Worker;
use crate::runner::protocol::{
    Compare, Compared, ForeignTruth, Outcome, OutputSpec, Ran, Request, ToleranceSpec,
};
use crate::spec::{AxisError, Definition, Dtype, Precision};

/// Below this many elements PyTorch's own error may be nothing by luck where a sum cancels, so the condition
/// of the inputs is measured as well.
const SMALL_OUTPUT_ELEMENTS: u64 = 64;

impl<W: Worker> CheckRun<'_, W> {
    pub(super) async fn compare(&self, case: &Case, prepared: &Prepared, ran: Ran) -> Ended {
        let comparable = match case.coverage {
            Coverage::Full => true,
            Coverage::Sampled => ran.outputs.iter().all(|output| output.written_by_single_launch),
            Coverage::Offsets => false,
        };
        let right_form = ran.outputs.len() == prepared.request.outputs.len()
            && ran.outputs.iter().all(|output| output.copied);
        if !comparable || !right_form {
            return Ended::Ran { ran, compared: None };
        }
        if !self.compares {
            return Ended::Ran { ran, compared: Some(Compared::default()) };
        }
        let Some(Variant { definition, .. }) = self.variant(case) else {
            return judge_ended(format!("nobody knows the Definition `{}`", case.definition));
        };
        let tolerances = match tolerances(definition, case, &prepared.request.outputs) {
            Ok(tolerances) if self.oracle.reference.head().is_some() => {
                tolerances.into_iter().map(between_versions).collect()
            }
            Ok(tolerances) => tolerances,
            Err(error) => return judge_ended(error.to_string()),
        };
        let null_candidates = case.stage == Stage::Smoke;
        let with_condition = tolerances.iter().any(|tolerance| tolerance.condition_factor > 0.0);
        let wanted = Wanted { null_candidates, with_condition, judged: &ran.launches };
        let truth = match self.foreign_truth(prepared, wanted).await {
            Ok(truth) => truth,
            Err(finding) => return Ended::NoTruth(finding),
        };
        let derived = truth.as_ref().map(ForeignTruth::cases).unwrap_or_default();
        let request = Request::Compare(Compare {
            case: prepared.request.case.clone(),
            tolerances,
            written_only: case.coverage == Coverage::Sampled,
            null_candidates,
            truth,
            // Of a function that a comment names nobody knows that it is linear, and one may be exact by chance.
            exact_if_agree: case.profile == EXACT_INTEGERS && !definition.extras.only_sizes,
            tf32: definition.extras.precision == Precision::Tf32,
            wall_s: JUDGE_WALL_S,
        });
        let compared = self.worker.request(request).await;
        for case in derived {
            let _ = self.worker.request(Request::Release { case }).await;
        }
        match compared {
            Ok(Outcome::Done(value)) => match read::<Compared>(value) {
                Ok(compared) => Ended::Ran { ran, compared: Some(compared) },
                Err(message) => judge_ended(message),
            },
            Ok(Outcome::Raised(raised)) => {
                judge_ended(format!("the reference raised {}: {}", raised.exception, raised.message))
            }
            Ok(Outcome::Failed { code, message }) => Ended::Failed { code, message },
            Ok(other) => judge_ended(format!("{other:?}")),
            Err(error) => judge_ended(error.to_string()),
        }
    }
}

/// Whether an output may be places of something, such as of a maximum: where values are equal or nearly so, which
/// of them it is is chance.
pub(super) fn may_be_indices(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Int32 | Dtype::Int64)
}

/// The longest sum behind one element. One that a user told has at most as many terms as the axes have points: more
/// would only widen what is allowed.
pub(super) fn longest_sum(definition: &Definition, case: &Case) -> Result<u64, AxisError> {
    let told = definition.reduction_length(&case.axes)?;
    if !definition.extras.only_sizes {
        return Ok(told);
    }
    let axes = definition.all_axes(&case.axes);
    let points = axes.values().fold(1_u64, |product, &length| product.saturating_mul(length.max(1)));
    let along_each = axes.values().fold(0_u64, |sum, &length| sum.saturating_add(length));
    Ok(told.min(points.max(along_each)))
}

/// What each output may be off. The condition of the inputs is measured where PyTorch's own error says little:
/// on the stability stage's values, on small outputs, and where one product feeds another.
fn tolerances(
    definition: &Definition,
    case: &Case,
    outputs: &[OutputSpec],
) -> Result<Vec<ToleranceSpec>, AxisError> {
    let intermediate = definition.extras.tolerance.intermediate;
    let sources = ErrorSources {
        case: case.dtype,
        reduction: longest_sum(definition, case)?,
        intermediate,
        precision: definition.extras.precision,
    };
    let is_chained = intermediate > 0 && case.coverage == Coverage::Full;
    let of_output = |output: &OutputSpec| {
        let plain = tolerance(output.dtype, sources);
        let is_small = output.shape.iter().product::<u64>() < SMALL_OUTPUT_ELEMENTS;
        let is_measured =
            is_small || is_chained || case.stage == Stage::Stability || may_be_indices(output.dtype);
        if is_measured { with_conditioning(plain) } else { plain }
    };
    Ok(outputs.iter().map(of_output).collect())
}

/// Whether values of a sampled run mean nothing although their form is right: an output that several
/// launches, atomics or the host made also depends on programs that did not run.
pub(super) fn depends_on_more(case: &Case, ran: &Ran, outputs: usize) -> bool {
    let right_form = ran.outputs.len() == outputs && ran.outputs.iter().all(|output| output.copied);
    let by_one_launch = ran.outputs.iter().all(|output| output.written_by_single_launch);
    case.coverage == Coverage::Sampled && right_form && !by_one_launch
}

/// Such a case shows bounds and offsets; that its values were not compared is told.
pub(super) fn bounds_only(case: &mut Case) -> NotRun {
    case.coverage = Coverage::Offsets;
    let why =
        "too large to run every program, and the outputs depend on all of them: only bounds were checked";
    NotRun::new(format!("values of {} {}", case.stage, case.label()), why)
}

/// A sampled case whose launches were small enough to run whole is a full case.
pub(super) fn note_full_run(case: &mut Case, ran: &Ran) {
    let whole = ran.launches.iter().all(|launch| launch.programs_run == launch.programs);
    if case.coverage == Coverage::Sampled && whole {
        case.coverage = Coverage::Full;
    }
}

/// Why a case of the stability stage has shown nothing: the reference in the case's own dtype gives infinities
/// or NaN where the float64 one has a value, or cannot be run on such values at all. Faults that need no
/// reference still count.
pub(super) fn without_truth(record: &CaseRecord) -> Option<&'static str> {
    if record.case.stage != Stage::Stability {
        return None;
    }
    let only_reference_failed = record.verdict == Verdict::CouldNotRun
        && record.findings.iter().all(|finding| finding.code == Code::ReferenceFailed);
    let is_undefined =
        record.verdict == Verdict::Passed && record.errors.iter().any(|errors| errors.undefined > 0);
    match (is_undefined, only_reference_failed) {
        (true, _) => Some("the reference is not finite on these values"),
        (_, true) => Some("the reference cannot say what is right on these values"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::oracle;
    use crate::source;
    use crate::spec::Dtype;

    /// However long a sum is said to be, it widens the tolerance no further than the shape can.
    #[test]
    fn a_told_sum_is_no_longer_than_the_axes_have_points() {
        let length = |told: &str| {
            let text = format!(
                "import triton\n\n@triton.jit\ndef k(x): pass\n\n# warpsmith: ref=torch.neg x=f32[M,N] M=3 N=50 \
                 tol=sum({told})\ndef f(x): k[(1,)](x)\n"
            );
            let oracle = oracle::find(Path::new("f.py"), &text, &source::parse(&text), None).unwrap();
            let case = Case {
                stage: Stage::Sweep,
                definition: "f".to_owned(),
                axes: BTreeMap::from([("M".to_owned(), 3), ("N".to_owned(), 50)]),
                dtype: Dtype::Float32,
                layout: "contiguous".to_owned(),
                profile: "default".to_owned(),
                scalars: BTreeMap::new(),
                options: BTreeMap::new(),
                coverage: Coverage::Full,
            };
            longest_sum(&oracle.variants[0].definition, &case).unwrap()
        };
        assert_eq!(["1000000000000000", "N", "2*N", "M*N"].map(length), [150, 50, 100, 150]);
    }
}
