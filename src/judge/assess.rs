//! From what the worker answered to findings and a verdict. Pure: this is where "passed" is decided.
//!
//! A case passes only if the entry returned, launched a kernel, returned exactly the outputs that the
//! Definition names, left the inputs alone, wrote every element, and every element lies within the
//! tolerance. Everything else is a finding; nothing is skipped silently.

use std::cmp::Reverse;

use super::assess_trials::assess_trials;
use super::delegation::whole_operation;
use super::ends::{died_finding, raised_finding};
use super::trials::TrialOutcome;
use super::verdict::{BadElement, CaseRecord, Code, Finding};
use super::{Case, Coverage, Stage, Verdict};
use crate::runner::protocol::{
    Compared, Died, Launch, OutputErrors, OutputSpec, Place, Raised, Ran, ReturnedValue, Sample,
    WorkerFinding, WorkerFindingKind,
};
use crate::spec::Dtype;

/// How a case ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    /// The entry returned; `compared` is absent when values were not to be compared or could not be.
    Ran {
        ran: Ran,
        compared: Option<Compared>,
    },
    /// Only what an earlier call returned was read once more.
    Read,
    Raised(Raised),
    Died(Died),
    /// The candidate ran, but what says what is right could not.
    NoTruth(Finding),
    /// Our own side failed.
    Failed {
        code: String,
        message: String,
    },
}

/// What is known of a case besides how it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) case: &'a Case,
    pub(super) outputs: &'a [OutputSpec],
    pub(super) seed: u64,
    pub(super) elapsed_ms: f64,
    /// Wall-clock limit of the run, for the message of a timeout.
    pub(super) wall_s: f64,
    /// On a GPU and not in the interpreter.
    pub(super) on_gpu: bool,
    /// The file has products of matrices. A GPU does not tell whether they were rounded to TF32; the interpreter does.
    pub(super) may_use_tf32: bool,
    /// The kind of operation, by the Definition.
    pub(super) op_type: &'a str,
    /// What was tried after the first call, in the stage of determinism.
    pub(super) trials: &'a [TrialOutcome],
    /// Whether the Definition asks for the same bits every time.
    pub(super) must_be_deterministic: bool,
}

impl Circumstances<'_> {
    /// A function of PyTorch's that the entry called and that is the whole operation.
    fn own_calls<'r>(&self, ran: &'r Ran) -> Option<&'r str> {
        let whole = whole_operation(self.op_type);
        ran.library.iter().map(String::as_str).find(|called| whole.contains(called))
    }
}

/// The record of one case.
pub(super) fn assess(circumstances: Circumstances<'_>, ended: Ended) -> CaseRecord {
    let mut record = CaseRecord {
        case: circumstances.case.clone(),
        verdict: Verdict::Passed,
        findings: Vec::new(),
        errors: Vec::new(),
        launches: Vec::new(),
        seed: circumstances.seed,
        elapsed_ms: circumstances.elapsed_ms,
    };
    match ended {
        Ended::Read => {}
        Ended::Ran { ran, compared } => assess_run(circumstances, ran, compared, &mut record),
        Ended::Raised(raised) => {
            record.findings = worker_findings(&raised.findings, circumstances.case.coverage);
            let mut told = raised_finding(&raised);
            if is_refused(circumstances.case, &raised) {
                told.code = Code::Refused;
            }
            record.findings.push(told);
            record.launches = raised.launches;
        }
        Ended::Died(died) => {
            record.findings.push(died_finding(&died, circumstances.wall_s, circumstances.on_gpu))
        }
        Ended::NoTruth(finding) => record.findings.push(finding),
        Ended::Failed { code, message } if code == "reference-failed" => {
            record.findings.push(Finding::plain(Code::ReferenceFailed, message));
        }
        Ended::Failed { code, message } if circumstances.on_gpu && code == "out-of-memory" => {
            record.findings.push(Finding::plain(Code::OutOfMemory, message));
        }
        Ended::Failed { code, message } => record.findings.push(Finding::plain(
            Code::JudgeFailed,
            format!("warpsmith could not judge this case ({code}): {message}"),
        )),
    }
    let of_trials = assess_trials(circumstances, &record);
    record.findings.extend(of_trials);
    record.findings.sort_by_key(|finding| (Reverse(finding.code.verdict()), remoteness(finding.code)));
    record.verdict = record.findings.iter().map(|f| f.code.verdict()).max().unwrap_or(Verdict::Passed);
    record
}

fn assess_run(
    circumstances: Circumstances<'_>,
    ran: Ran,
    compared: Option<Compared>,
    record: &mut CaseRecord,
) {
    let Circumstances { case, outputs, .. } = circumstances;
    let kernel = responsible_kernel(&ran.launches);
    record.findings = worker_findings(&ran.findings, case.coverage);
    if let Some(unsupported) = &ran.unsupported {
        record.findings.push(Finding {
            place: unsupported.place.clone(),
            kernel: kernel.clone(),
            ..Finding::plain(Code::Unsupported, format!("cannot be checked here: {}", unsupported.message))
        });
    }
    // Where an axis is empty there may be nothing to launch for: a product over no terms is zeros.
    let has_elements = outputs.iter().any(|output| output.shape.iter().all(|&length| length > 0))
        && case.axes.values().all(|&length| length > 0);
    // A launch over an empty grid runs nothing.
    if ran.launches.iter().all(|launch| launch.programs == 0) && has_elements {
        record.findings.push(Finding::plain(
            Code::NotLaunched,
            "the entry returned without launching a Triton kernel, so no kernel was judged".to_owned(),
        ));
    } else if has_elements && let Some(called) = circumstances.own_calls(&ran) {
        record.findings.push(Finding::plain(
            Code::Delegated,
            format!(
                "the entry calls `{called}` of PyTorch, which is the operation that is judged: no kernel of this file computes it"
            ),
        ));
    }
    if case.coverage != Coverage::Offsets {
        record.findings.extend(output_shape_findings(outputs, &ran.outputs, kernel.as_deref()));
        match compared {
            Some(compared) => {
                record.findings.extend(value_findings(
                    circumstances,
                    &ran.launches,
                    &compared,
                    kernel.as_deref(),
                ));
                record.errors = compared.outputs;
            }
            // Without a comparison nothing may pass.
            None if record.findings.iter().all(|finding| finding.code.verdict() == Verdict::Passed) => {
                record.findings.push(Finding::plain(
                    Code::NotComparable,
                    "only some programs of the launch were run, and the outputs are not stored by that launch alone, \
                     so there is nothing to compare"
                        .to_owned(),
                ));
            }
            None => {}
        }
    }
    record.launches = ran.launches;
}

/// Why a case is not run for which the memory was not there.
pub(super) const NO_ROOM: &str =
    "the free memory of the GPU does not hold this size and its float64 reference";

/// Why this case says nothing about the kernel although nothing is wrong with it: it belongs under what was
/// not run. Large shapes run some programs only, which cannot be compared when several launches, or PyTorch,
/// made the outputs; and tensors larger than memory cannot be copied, nor their whole length be gone through.
pub(super) fn beyond_a_sample(record: &CaseRecord, is_large: bool) -> Option<&'static str> {
    if record.verdict != Verdict::CouldNotRun {
        return None;
    }
    let worst =
        record.findings.iter().map(|finding| finding.code).filter(|code| code.verdict() != Verdict::Passed);
    let only = |allowed: &[Code]| worst.clone().all(|code| allowed.contains(&code));
    if only(&[Code::Refused]) {
        return Some("the entry says that it does not take an axis of this length");
    }
    match record.case.coverage {
        _ if is_large && only(&[Code::OutOfMemory]) => Some(NO_ROOM),
        Coverage::Sampled if only(&[Code::NotComparable]) => Some(
            "only some of its programs can be run here, and its outputs are not made by one launch alone",
        ),
        Coverage::Offsets if only(&[Code::OutOfMemory]) => {
            Some("the entry copies tensors that are larger than the memory it may use here")
        }
        Coverage::Sampled | Coverage::Offsets if only(&[Code::Timeout]) => {
            Some("too much work for the interpreter: a single program goes through much of the tensors")
        }
        _ => None,
    }
}

/// What a function raises that declines its arguments.
pub(super) const DELIBERATE: [&str; 4] =
    ["ValueError", "NotImplementedError", "AssertionError", "RuntimeError"];

/// The longest row that kernels with one block a row commonly take; they say so for a longer one.
const ONE_BLOCK_LENGTH: u64 = 65_536;

/// Whether the user's code declined a very long axis before it launched anything. That is a limit of the
/// kernel and stated, so it is no error; on any other shape an exception is one.
fn is_refused(case: &Case, raised: &Raised) -> bool {
    let is_extreme = case.axes.values().any(|&length| length > ONE_BLOCK_LENGTH);
    let is_deliberate = raised.code == "raised" && DELIBERATE.contains(&raised.exception.as_str());
    is_extreme && is_deliberate && raised.launches.is_empty() && raised.place.is_some()
}

/// Causes before consequences: a store past the end of a row is also a race with the next row's program,
/// and whatever happened in a kernel, its values are wrong afterwards.
fn remoteness(code: Code) -> u8 {
    match code {
        Code::OutOfBounds => 0,
        Code::IntegerOverflow | Code::DeviceAssert | Code::CompileError => 1,
        Code::UninitialisedRead | Code::Race | Code::DuplicateStore => 2,
        _ => 3,
    }
}

/// The kernel that a wrong value is shown at: the last launch, which most likely stored the outputs.
fn responsible_kernel(launches: &[Launch]) -> Option<String> {
    launches.last().map(|launch| launch.kernel.clone())
}

fn worker_findings(findings: &[WorkerFinding], coverage: Coverage) -> Vec<Finding> {
    findings
        .iter()
        // When only some programs run, what the others would have written is still unwritten.
        .filter(|f| coverage == Coverage::Full || f.kind != WorkerFindingKind::UninitialisedRead)
        .map(|finding| Finding {
            code: worker_code(finding.kind),
            kernel: finding.kernel.clone(),
            place: Some(finding.place.clone()),
            called_from: finding.called_from.clone(),
            message: finding.message.clone(),
            element: None,
        })
        .collect()
}

pub(super) fn worker_code(kind: WorkerFindingKind) -> Code {
    match kind {
        WorkerFindingKind::OutOfBoundsLoad
        | WorkerFindingKind::OutOfBoundsStore
        | WorkerFindingKind::OutOfBoundsAtomic => Code::OutOfBounds,
        WorkerFindingKind::Race => Code::Race,
        WorkerFindingKind::BenignRace => Code::BenignRace,
        WorkerFindingKind::DuplicateStore => Code::DuplicateStore,
        WorkerFindingKind::IntegerOverflow => Code::IntegerOverflow,
        WorkerFindingKind::DeviceAssert => Code::DeviceAssert,
        WorkerFindingKind::UninitialisedRead => Code::UninitialisedRead,
        WorkerFindingKind::CompileError => Code::CompileError,
    }
}

/// Type, dtype and shape of everything that the entry returned.
fn output_shape_findings(
    expected: &[OutputSpec],
    got: &[ReturnedValue],
    kernel: Option<&str>,
) -> Vec<Finding> {
    let finding =
        |code, message| Finding { kernel: kernel.map(str::to_owned), ..Finding::plain(code, message) };
    if expected.len() != got.len() {
        let names: Vec<&str> = expected.iter().map(|output| output.name.as_str()).collect();
        return vec![finding(
            Code::WrongOutputs,
            format!("returned {} values, expected {} ({})", got.len(), expected.len(), names.join(", ")),
        )];
    }
    let mut findings = Vec::new();
    for (expected, got) in expected.iter().zip(got) {
        let name = &expected.name;
        let Some(dtype) = &got.dtype else {
            findings.push(finding(
                Code::WrongOutputs,
                format!("`{name}` is a `{}`, expected exactly `torch.Tensor`", got.type_name),
            ));
            continue;
        };
        if dtype.parse::<Dtype>() != Ok(expected.dtype) {
            findings
                .push(finding(Code::WrongDtype, format!("`{name}` is {dtype}, expected {}", expected.dtype)));
        }
        if got.shape != expected.shape {
            findings.push(finding(
                Code::WrongShape,
                format!("`{name}` has shape {:?}, expected {:?}", got.shape, expected.shape),
            ));
        }
        if got.returned_before {
            findings.push(finding(
                Code::OutputReused,
                format!(
                    "`{name}` is the memory that an earlier call returned, whose result is overwritten now; \
                     the Definition asks for a new tensor"
                ),
            ));
        }
        if let Some(input) = &got.aliases_input {
            findings.push(finding(
                Code::AliasesInput,
                format!(
                    "`{name}` shares memory with the input `{input}`; the Definition asks for a new tensor"
                ),
            ));
        }
    }
    findings
}

fn value_findings(
    circumstances: Circumstances<'_>,
    launches: &[Launch],
    compared: &Compared,
    kernel: Option<&str>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in &compared.inputs_changed {
        findings.push(Finding {
            kernel: kernel.map(str::to_owned),
            ..Finding::plain(
                Code::InputsChanged,
                format!("the input `{name}` was modified; the Definition does not allow it"),
            )
        });
    }
    for name in &compared.written_outside {
        findings.push(Finding {
            kernel: kernel.map(str::to_owned),
            ..Finding::plain(
                Code::OutOfBounds,
                format!("memory right before or behind `{name}` was written, which belongs to no tensor"),
            )
        });
    }
    for errors in &compared.outputs {
        if let Some(finding) = output_finding(circumstances, launches, errors) {
            findings.push(Finding { kernel: kernel.map(str::to_owned), ..finding });
        }
        findings.extend(weak_tolerance(errors));
    }
    findings
}

/// The worst that is to be said of one output's values.
fn output_finding(
    circumstances: Circumstances<'_>,
    launches: &[Launch],
    errors: &OutputErrors,
) -> Option<Finding> {
    let case = circumstances.case;
    let name = &errors.name;
    if errors.unwritten > 0 && case.coverage == Coverage::Full {
        let range = match (&errors.first_unwritten, &errors.last_unwritten) {
            (Some(first), Some(last)) if first != last => format!(", from {first:?} to {last:?}"),
            (Some(first), _) => format!(", at {first:?}"),
            _ => String::new(),
        };
        let message = format!(
            "{} of {} elements of `{name}` were never written{range}",
            errors.unwritten, errors.elements
        );
        return Some(Finding::plain(Code::Unwritten, message));
    }
    // Where PyTorch itself overflows or gives NaN on the way, nobody says what is right.
    if case.stage == Stage::Stability && errors.undefined > 0 {
        return None;
    }
    if errors.non_finite_mismatches > 0 {
        let message = format!(
            "{} of {} elements of `{name}` are NaN or infinite where the reference is not, or the reverse{}",
            errors.non_finite_mismatches,
            errors.elements_compared,
            sample_clause(errors.first_non_finite.as_ref()),
        );
        return Some(Finding {
            element: element(name, errors.first_non_finite.as_ref()),
            ..Finding::plain(Code::NonFinite, message)
        });
    }
    if errors.violations > 0 {
        return Some(mismatch(circumstances, launches, errors));
    }
    if errors.undecided > 0 {
        let message = format!(
            "{} of {} elements of `{name}` depend on the order of equal values, which nobody promises, and hold none of \
             the values that the orders tried give: nobody knows whether they are right; return the values instead of \
             their places",
            errors.undecided, errors.elements,
        );
        return Some(Finding::plain(Code::ReferenceFailed, message));
    }
    // A sampled case that compared nothing has shown nothing.
    (errors.elements > 0 && errors.elements_compared == 0).then(|| {
        Finding::plain(
            Code::NotComparable,
            format!("the programs that were run wrote no element of `{name}`: nothing was compared"),
        )
    })
}

fn mismatch(circumstances: Circumstances<'_>, launches: &[Launch], errors: &OutputErrors) -> Finding {
    let case = circumstances.case;
    let name = &errors.name;
    let dots: Vec<&Place> = launches.iter().flat_map(|launch| &launch.tf32_dots).collect();
    let multiplies = !dots.is_empty() || (circumstances.on_gpu && circumstances.may_use_tf32);
    let only_tf32 = case.dtype == Dtype::Float32 && errors.tf32_violations == 0 && multiplies;
    let element = element(name, errors.first.as_ref());
    if only_tf32 {
        let message = format!(
            "{} of {} elements of `{name}` match a TF32 product but not IEEE float32{}. `tl.dot` rounds float32 \
             factors to TF32 by default: pass `input_precision=\"ieee\"`",
            errors.violations,
            errors.elements_compared,
            sample_clause(errors.first.as_ref()),
        );
        return Finding {
            element,
            place: dots.first().map(|place| (*place).clone()),
            ..Finding::plain(Code::Tf32, message)
        };
    }
    if errors.exact && case.dtype.is_float() {
        let message = format!(
            "{} of {} elements of `{name}` are wrong{}; on these whole numbers every product and sum is exact, so the \
             result must be",
            errors.violations,
            errors.elements_compared,
            sample_clause(errors.first.as_ref()),
        );
        return Finding { element, ..Finding::plain(Code::Mismatch, message) };
    }
    let message = format!(
        "{} of {} elements of `{name}` are wrong{}; the largest error is {:.3e}, PyTorch's own on these inputs {:.3e}",
        errors.violations,
        errors.elements_compared,
        sample_clause(errors.first.as_ref()),
        errors.max_absolute_error.0,
        errors.reference_max_absolute_error.0,
    );
    Finding { element, ..Finding::plain(Code::Mismatch, message) }
}

fn sample_clause(sample: Option<&Sample>) -> String {
    sample.map_or_else(String::new, |sample| {
        format!(
            "; first at {:?}: expected {}, got {} (allowed error {:.3e})",
            sample.index, sample.expected.0, sample.got.0, sample.allowed.0
        )
    })
}

fn element(output: &str, sample: Option<&Sample>) -> Option<BadElement> {
    sample.map(|sample| BadElement {
        output: output.to_owned(),
        index: sample.index.clone(),
        expected: sample.expected,
        got: sample.got,
        allowed: sample.allowed,
    })
}

fn weak_tolerance(errors: &OutputErrors) -> Option<Finding> {
    // Equality accepts what is equal: that coarser inputs give the same truth values or places is no fault of it.
    let says_nothing = |name: &str| errors.exact && name == "coarse-inputs";
    let accepted: Vec<&str> = errors
        .null_candidates
        .iter()
        .filter(|null| null.violations == 0 && errors.elements_compared > 0 && !says_nothing(&null.name))
        .map(|null| null.name.as_str())
        .collect();
    (!accepted.is_empty()).then(|| {
        Finding::plain(
            Code::WeakTolerance,
            format!(
                "the tolerance of `{}` also accepts {}: a pass of this case says little",
                errors.name,
                accepted.join(", ")
            ),
        )
    })
}

#[cfg(test)]
#[path = "assess_tests.rs"]
mod tests;
