//! The version at HEAD as what to compare with, where nothing says what is right.
//!
//! It says what was. So the same values are no proof, other values are a difference and no more, and where HEAD's
//! version itself goes wrong it decides nothing. On inputs that nobody gave, only HEAD's clean run shows that they suit.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::assess::DELIBERATE;
use super::case::Coverage;
use super::foreign::{ForeignRun, check_form};
use super::inputs::Prepared;
use super::run::CheckRun;
use super::stages::Plan;
use super::{CaseRecord, Code, Finding, NotRun, Stage, Verdict};
use crate::oracle::HeadReference;
use crate::runner::Worker;
use crate::runner::protocol::{CaseId, Change, ForeignTruth, Number, Ran};

/// Codes that say no more than that values or their form are others.
const DIFFERENCES: [Code; 6] =
    [Code::Mismatch, Code::Tf32, Code::NonFinite, Code::WrongShape, Code::WrongDtype, Code::WrongOutputs];
const REMEDY: &str =
    "; say what they are in a comment above the function, such as `# warpsmith: x=f16[M,N] M=1,127 N=1000`";

/// What HEAD's version did on the inputs of a case.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AtHead {
    Clean,
    /// Codes of what the interpreter found.
    Faulty(Vec<Code>),
    /// It did not come to an end.
    Failed(String),
}

/// The worst that HEAD's version did on the inputs of each case that was compared.
#[derive(Default)]
pub(super) struct AtHeadByCase(Mutex<BTreeMap<CaseId, AtHead>>);

impl AtHeadByCase {
    fn note(&self, case: &CaseId, at_head: AtHead) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.entry(case.clone()).or_insert(AtHead::Clean);
        if *known == AtHead::Clean {
            *known = at_head;
        }
    }

    fn take(&self, case: &CaseId) -> AtHead {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove(case).unwrap_or(AtHead::Clean)
    }
}

/// HEAD's version runs every program, so only cases that do are compared; and on ill-conditioned values nobody knows
/// how far two right versions may differ.
pub(super) fn only_comparable(plan: &mut Plan) {
    let why_not = |case: &super::Case| match (case.stage, case.coverage) {
        (Stage::Stability, _) => {
            Some("how ill-conditioned the values are cannot be measured with a version at HEAD")
        }
        (_, Coverage::Full) => None,
        _ => Some("too large to run the version at HEAD whole"),
    };
    for case in std::mem::take(&mut plan.cases) {
        match why_not(&case) {
            None => plan.cases.push(case),
            Some(why) if case.stage == Stage::Stability => {
                let line = NotRun::new(format!("{} {}", case.stage, case.dtype.short()), why);
                if !plan.not_run.contains(&line) {
                    plan.not_run.push(line);
                }
            }
            Some(why) => plan.not_run.push(NotRun::new(format!("{} {}", case.stage, case.label()), why)),
        }
    }
}

/// The finding for which a case is left out, because HEAD's version shows that its inputs do not suit.
pub(super) fn unsuitable(record: &CaseRecord) -> Option<&Finding> {
    record.findings.iter().find(|finding| finding.code == Code::InputsUnsuitable)
}

/// The same in the list of what was not run, without what to do about it.
pub(super) fn why_unsuitable(finding: &Finding) -> &str {
    finding.message.split(REMEDY).next().unwrap_or_default()
}

impl<W: Worker> CheckRun<'_, W> {
    /// The values of HEAD's version in the case's own dtype; nothing is computed in float64.
    pub(super) async fn head_truth(
        &self,
        head: &ForeignRun,
        prepared: &Prepared,
    ) -> Result<ForeignTruth, Finding> {
        let ran = self.run_derived(head, prepared, Change::Same, 0).await?;
        let (case, ran) = ran.ok_or_else(|| head.failed("could not be run"))?;
        if let Err(problem) = check_form(&prepared.request.outputs, &ran, Change::Same) {
            self.release_case(case).await;
            return Err(head.failed(&problem));
        }
        head.at_head.note(&prepared.request.case, faults(&ran));
        Ok(ForeignTruth {
            float64: case.clone(),
            in_dtype: case,
            other_seed: None,
            coarse_inputs: None,
            again: None,
            perturbed: Vec::new(),
        })
    }

    /// What a case comes to when HEAD's version is all that it was compared with.
    pub(super) async fn seen_from_head(
        &self,
        mut record: CaseRecord,
        prepared: Option<&Prepared>,
    ) -> CaseRecord {
        let (Some(head), Some(foreign)) = (self.oracle.reference.head(), self.foreign) else { return record };
        for errors in &mut record.errors {
            // Nobody knows how far off HEAD's own values are.
            errors.reference_max_absolute_error = Number(f64::NAN);
        }
        let compared = prepared.map(|prepared| foreign.at_head.take(&prepared.request.case));
        if record.findings.iter().any(|finding| finding.code == Code::Cancelled) {
            return record;
        }
        let at_head = match (compared, prepared) {
            (Some(AtHead::Clean), Some(prepared)) if record.verdict != Verdict::Passed => {
                match self.head_on(foreign, prepared, is_different(&record)).await {
                    Ok(at_head) => at_head,
                    Err(finding) if finding.code == Code::Cancelled => {
                        record.findings = vec![finding];
                        record.verdict = Verdict::CouldNotRun;
                        return record;
                    }
                    Err(finding) => AtHead::Failed(finding.message),
                }
            }
            (compared, _) => compared.unwrap_or(AtHead::Clean),
        };
        judged(record, &at_head, head)
    }

    /// Runs HEAD's version on inputs on which something is wrong, and twice where it may be that it says something
    /// else each time.
    async fn head_on(&self, head: &ForeignRun, prepared: &Prepared, twice: bool) -> Result<AtHead, Finding> {
        let ran = self.run_derived(head, prepared, Change::Same, 0).await?;
        let (case, ran) = ran.ok_or_else(|| head.failed("could not be run"))?;
        let found = match faults(&ran) {
            AtHead::Clean if twice => self.repeated(head, &case).await,
            found => Ok(found),
        };
        self.release_case(case).await;
        found
    }

    /// Runs HEAD's version once more on a case that it ran on.
    async fn repeated(&self, head: &ForeignRun, case: &CaseId) -> Result<AtHead, Finding> {
        let own_failure = |ended| Finding::plain(Code::JudgeFailed, format!("{ended:?}"));
        self.repeat(case).await.map_err(own_failure)?;
        let arguments = self.reference_arguments(head).await?;
        let ran = self.run_reference(head, case, arguments, false).await?;
        let repeated = self.repeat(case).await.map_err(own_failure)?;
        Ok(match repeated.outputs.iter().find(|output| output.differing > 0) {
            None => faults(&ran),
            Some(output) => AtHead::Failed(
                head.failed(&format!(
                    "gives other values for `{}` when it is called again on the same inputs: it draws random numbers \
                     or keeps something from call to call",
                    output.name
                ))
                .message,
            ),
        })
    }
}

fn faults(ran: &Ran) -> AtHead {
    if let Some(unsupported) = &ran.unsupported {
        return AtHead::Failed(unsupported.message.clone());
    }
    let found = ran.findings.iter().map(|finding| super::assess::worker_code(finding.kind));
    let mut codes: Vec<Code> = found.filter(|code| code.verdict() == Verdict::Wrong).collect();
    if ran.outputs.iter().any(|output| output.aliases_input.is_some()) {
        codes.push(Code::AliasesInput);
    }
    codes.sort_unstable();
    codes.dedup();
    if codes.is_empty() { AtHead::Clean } else { AtHead::Faulty(codes) }
}

/// The record of a case that did not pass, by what HEAD's version did on the same inputs.
fn judged(mut record: CaseRecord, at_head: &AtHead, head: &HeadReference) -> CaseRecord {
    if record.verdict == Verdict::Passed && *at_head == AtHead::Clean {
        return record;
    }
    let commit = &head.commit;
    let reference_failed = record.findings.iter().find(|finding| finding.code == Code::ReferenceFailed);
    let problem = match (at_head, reference_failed) {
        (AtHead::Failed(message), _) => Some(message.clone()),
        (_, Some(finding)) => Some(finding.message.clone()),
        (AtHead::Faulty(codes), None) => {
            let as_well = if record.verdict == Verdict::Passed { "" } else { " as well" };
            Some(format!("at HEAD {commit} it has {} on them{as_well}", names(codes)))
        }
        (AtHead::Clean, None) => declined(&record)
            .map(|raised| format!("it declines them now, though not at HEAD {commit}: {raised}")),
    };
    match problem {
        Some(problem) if head.inferred => {
            let message = format!("the inputs that the code shows do not suit: {problem}{REMEDY}");
            record.findings = vec![Finding::plain(Code::InputsUnsuitable, message)];
        }
        _ if record.verdict == Verdict::Passed => {
            let why = decides_nothing(at_head, commit).unwrap_or_default();
            record.findings.insert(0, Finding::plain(Code::ReferenceFailed, why));
        }
        _ => record.findings = told(&record, at_head, commit),
    }
    record.verdict = record.findings.iter().map(|f| f.code.verdict()).max().unwrap_or(Verdict::Passed);
    record
}

/// Why HEAD's values say nothing on these inputs.
fn decides_nothing(at_head: &AtHead, commit: &str) -> Option<String> {
    match at_head {
        AtHead::Clean => None,
        AtHead::Faulty(codes) => Some(format!(
            "at HEAD {commit} it has {} on these inputs, so what it gives there decides nothing",
            names(codes)
        )),
        AtHead::Failed(message) => Some(format!("{message}; so HEAD decides nothing on these inputs")),
    }
}

fn is_different(record: &CaseRecord) -> bool {
    record.findings.iter().any(|finding| DIFFERENCES.contains(&finding.code))
}

/// The findings on inputs that suit, or that the user gave.
fn told(record: &CaseRecord, at_head: &AtHead, commit: &str) -> Vec<Finding> {
    let is_faulty = matches!(at_head, AtHead::Faulty(_));
    let mut findings = Vec::new();
    for finding in &record.findings {
        let is_difference = DIFFERENCES.contains(&finding.code);
        let told = match at_head {
            AtHead::Clean if is_difference => difference(record, finding, commit),
            AtHead::Faulty(_) | AtHead::Failed(_)
                if is_difference || (is_faulty && finding.code == Code::AliasesInput) =>
            {
                Finding::plain(Code::ReferenceFailed, decides_nothing(at_head, commit).unwrap_or_default())
            }
            AtHead::Faulty(codes) if codes.contains(&finding.code) => Finding {
                message: format!("{} (at HEAD {commit} as well)", finding.message),
                ..finding.clone()
            },
            AtHead::Failed(message) if finding.code.verdict() == Verdict::Wrong => Finding {
                message: format!("{} (HEAD decides nothing here: {message})", finding.message),
                ..finding.clone()
            },
            _ => finding.clone(),
        };
        findings.push(told);
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.code.verdict()));
    findings
}

/// Other values or another form: what is the same in both, and that nobody knows which is right.
fn difference(record: &CaseRecord, finding: &Finding, commit: &str) -> Finding {
    let unknown = "which of the two is right is not known";
    let trial = of_trial(&finding.message).map(|words| format!("{words}: ")).unwrap_or_default();
    let Some(element) = &finding.element else {
        let message = format!("differs from HEAD {commit}: {}; {unknown}", finding.message);
        return Finding { code: Code::DiffersFromHead, message, ..finding.clone() };
    };
    let output = &element.output;
    let errors = record.errors.iter().find(|errors| errors.name == *output).filter(|_| trial.is_empty());
    let count = errors.map(|errors| match finding.code {
        Code::NonFinite => (errors.non_finite_mismatches, errors.elements_compared),
        _ => (errors.violations, errors.elements_compared),
    });
    let what = count.map_or_else(
        || format!("`{output}` differs"),
        |(differing, of)| format!("{differing} of {of} elements of `{output}` differ"),
    );
    let tf32 = if finding.code == Code::Tf32 { "; a product in TF32 explains the difference" } else { "" };
    let message = format!(
        "{trial}{what} from HEAD {commit} by more than rounding; first at {:?}: HEAD gives {}, this gives {} (allowed \
         difference {:.3e}){tf32}; {unknown}",
        element.index, element.expected.0, element.got.0, element.allowed.0,
    );
    Finding { code: Code::DiffersFromHead, message, ..finding.clone() }
}

/// How the call differed, where the finding is not of a plain one.
fn of_trial(message: &str) -> Option<&str> {
    let begins = ["called ", "with its programs ", "in a fresh process ", "autotune configuration "];
    begins
        .iter()
        .any(|words| message.starts_with(words))
        .then(|| message.split_once(": ").map(|(words, _)| words))?
}

/// The exception of a function that declines what it is given, before it launches anything.
fn declined(record: &CaseRecord) -> Option<&str> {
    let raised =
        record.findings.iter().filter(|finding| finding.code == Code::Raised && record.launches.is_empty());
    let mut messages = raised.map(|finding| finding.message.as_str());
    messages.find(|message| DELIBERATE.iter().any(|name| message.starts_with(&format!("raised {name}"))))
}

fn names(codes: &[Code]) -> String {
    codes.iter().map(|code| format!("`{}`", code.name())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
