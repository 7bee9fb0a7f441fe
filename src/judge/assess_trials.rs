//! From the trials of a determinism case to findings. Pure.

use super::Verdict;
use super::assess::{self, Circumstances, Ended};
use super::trials::{Trial, TrialOutcome};
use super::verdict::{CaseRecord, Code, Finding};
use crate::runner::protocol::{DeathReason, Repeated, RepeatedOutput};

/// What the trials of a case add to the findings of its first call.
pub(super) fn assess_trials(circumstances: Circumstances<'_>, first: &CaseRecord) -> Vec<Finding> {
    let kernel = first.launches.last().map(|launch| launch.kernel.clone());
    let mut findings: Vec<Finding> = Vec::new();
    for outcome in circumstances.trials {
        let at_kernel = |finding: Finding| Finding { kernel: finding.kernel.or(kernel.clone()), ..finding };
        let new = of_trial(circumstances, outcome);
        // The bits that differ are told once, however often they do.
        let is_new = |finding: &Finding| {
            !matches!(finding.code, Code::Nondeterministic | Code::NotRepeatable)
                || findings.iter().all(|known| known.code != finding.code)
        };
        let new: Vec<Finding> = new.into_iter().filter(is_new).map(at_kernel).collect();
        findings.extend(new);
    }
    findings
}

fn of_trial(circumstances: Circumstances<'_>, outcome: &TrialOutcome) -> Vec<Finding> {
    let TrialOutcome { trial, ended, repeated } = outcome;
    if let (Trial::Reordered, Ended::Died(died)) = (trial, ended)
        && died.reason == DeathReason::Timeout
    {
        return vec![Finding::plain(
            Code::OrderDependent,
            "with its programs in reverse order a launch does not end: a program waits for one with a lower number, \
             and no GPU promises that those run first",
        )];
    }
    if let (Trial::Idle, Ended::Ran { .. }) = (trial, ended) {
        return vec![Finding::plain(
            Code::NoEffect,
            "the outputs are right also when its kernels store nothing, so something else computed them and no kernel \
             was judged",
        )];
    }
    let differing = repeated.as_ref().and_then(first_differing);
    if let (Trial::Held, Some(output)) = (trial, differing) {
        return vec![Finding::plain(
            Code::OutputReused,
            format!(
                "a later call with other inputs changed {} of {} elements of the `{}` that an earlier call had returned: \
                 return a new tensor from every call",
                output.differing, output.elements, output.name
            ),
        )];
    }
    let wrong = findings_of(circumstances, trial, ended);
    if !wrong.is_empty() {
        let is_wrong = wrong.iter().any(|finding| finding.code.verdict() == Verdict::Wrong);
        if *trial == Trial::OneElement && is_wrong && is_the_same(repeated.as_ref()) {
            return vec![Finding::plain(
                Code::Memoised,
                "called with one element of each input changed, it handed back the very result of before: a cache looks at \
                 some of the values only, or part of the input is not used",
            )];
        }
        if *trial == Trial::OtherValues && is_wrong && is_the_same(repeated.as_ref()) {
            return vec![Finding::plain(
                Code::Memoised,
                "called with other values in the same tensors, it handed back the very result of the earlier values: \
                 a cache does not look at the values",
            )];
        }
        return wrong;
    }
    match differing {
        Some(output) if !trial.may_differ() => vec![repeatability(circumstances, trial, output)],
        _ => Vec::new(),
    }
}

/// What is wrong with the call itself, with how it differed in front.
fn findings_of(circumstances: Circumstances<'_>, trial: &Trial, ended: &Ended) -> Vec<Finding> {
    let alone = Circumstances { trials: &[], ..circumstances };
    let record = assess::assess(alone, ended.clone());
    let deciding = record.findings.into_iter().filter(|finding| finding.code.verdict() != Verdict::Passed);
    deciding
        .map(|finding| Finding { message: format!("{}: {}", trial.words(), finding.message), ..finding })
        .collect()
}

fn repeatability(circumstances: Circumstances<'_>, trial: &Trial, output: &RepeatedOutput) -> Finding {
    let at = output.first.as_ref().map(|index| format!(", first at {index:?}")).unwrap_or_default();
    let what = format!(
        "{}, {} of {} elements of `{}` have other bits{at}; all are within the tolerance",
        trial.words(),
        output.differing,
        output.elements,
        output.name
    );
    if circumstances.must_be_deterministic {
        let message = format!("{what}, but the Definition asks for the same bits every time");
        Finding::plain(Code::NotRepeatable, message)
    } else {
        Finding::plain(Code::Nondeterministic, what)
    }
}

fn first_differing(repeated: &Repeated) -> Option<&RepeatedOutput> {
    repeated.outputs.iter().find(|output| output.differing > 0)
}

/// Whether nothing at all came out differently.
fn is_the_same(repeated: Option<&Repeated>) -> bool {
    repeated.is_some_and(|repeated| {
        first_differing(repeated).is_none() && repeated.outputs.iter().any(|output| output.elements > 0)
    })
}
