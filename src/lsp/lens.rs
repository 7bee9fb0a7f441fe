//! The one line above each kernel that is no helper of another. Always there, always one line: only its words change.

use std::time::SystemTime;

use super::file_state::{FileState, Phase};
use super::findings::is_of_environment;
use super::gate::NOT_TRUSTED;
use super::kernels::KernelAnchor;
use super::recall::age;
use crate::judge::timing::{NoTimingCode, text};
use crate::judge::{CaseRecord, Code, Finding, Report, Verdict};
use crate::spec::Dtype;

/// Longest reason shown, in characters.
const REASON_CHARACTERS: usize = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LensAction {
    Check,
    Cancel,
}

/// Title and action of the lens of `kernel`.
pub(crate) fn lens(file: &FileState, kernel: &KernelAnchor) -> (String, LensAction) {
    match file.run.as_ref().map(|run| run.phase) {
        // A launch that the code does not show may have been seen all the same.
        _ if kernel.lonely && !was_launched(file, &kernel.name) => {
            ("– not judged here: no launch of it was found in this file".to_owned(), LensAction::Check)
        }
        // Until cases are planned nothing shows that it is run after all.
        None | Some(Phase::Waiting | Phase::Running { planned: None, .. }) if !file.is_trusted => {
            (format!("– {NOT_TRUSTED}"), LensAction::Check)
        }
        Some(Phase::Waiting) => ("⟳ waiting to check".to_owned(), LensAction::Cancel),
        Some(Phase::Running { planned: None, .. }) => ("⟳ checking".to_owned(), LensAction::Cancel),
        Some(Phase::Running { done, planned: Some(planned) }) => {
            (format!("⟳ checking {done}/{planned}"), LensAction::Cancel)
        }
        None => (at_rest(file, kernel), LensAction::Check),
    }
}

fn was_launched(file: &FileState, kernel: &str) -> bool {
    let outcome = file.outcome.as_ref();
    outcome.is_some_and(|outcome| outcome.report.judgements().iter().any(|part| part.has_launched(kernel)))
}

fn at_rest(file: &FileState, kernel: &KernelAnchor) -> String {
    let Some(outcome) = &file.outcome else {
        let cancelled = if file.cancelled { " · last check was cancelled" } else { "" };
        return format!("▶ check{cancelled}");
    };
    let of_environment =
        first_obstacle(&outcome.report).is_some_and(|finding| is_of_environment(finding.code));
    let stale = if file.is_stale() && !of_environment { " (stale)" } else { "" };
    let told = verdict(&outcome.report, &kernel.name);
    let told = match age_of(file) {
        Some(age) => with_age(&told, &age),
        None => told,
    };
    let again = if outcome.is_confirmed && stale.is_empty() { " · same code, not run again" } else { "" };
    format!("{told}{stale}{again}")
}

/// How old the verdict that is shown is, if it is one of the store.
pub(super) fn age_of(file: &FileState) -> Option<String> {
    let at_s = file.outcome.as_ref()?.earlier_at_s?;
    Some(age(at_s, SystemTime::now()))
}

/// The age stands right behind the mark: editors cut long lines, and an old verdict must not look like a new one. That
/// something passed is told as what was, without the mark of what passes: an environment can change where nobody looks.
pub(super) fn with_age(told: &str, age: &str) -> String {
    if let Some(passed) = told.strip_prefix("✓ ") {
        return format!("▶ check · passed, {age} · {passed}");
    }
    let marks = ["✗ ", "– ", "= ", "▶ "];
    let mark = marks.into_iter().find(|mark| told.starts_with(mark)).unwrap_or_default();
    format!("{mark}{age} · {}", &told[mark.len()..])
}

/// A title before [`with_age`].
pub(super) fn without_age(title: &str, age: &str) -> String {
    match title.strip_prefix(&format!("▶ check · passed, {age} · ")) {
        Some(passed) => format!("✓ {passed}"),
        None => title.replacen(&format!("{age} · "), "", 1),
    }
}

/// What a report says of one kernel.
pub(crate) fn verdict(report: &Report, kernel: &str) -> String {
    if let Some(why) = report.why_not_judged(kernel) {
        return format!("– not judged: {}", shortened(why));
    }
    let judged = report.of_kernel(kernel);
    match judged.iter().max_by_key(|part| part.verdict) {
        Some(worst) if worst.verdict == Verdict::Wrong => wrong(worst, kernel),
        Some(worst) if worst.verdict == Verdict::CouldNotRun => could_not_run(worst),
        Some(_) => passed(&judged, kernel),
        None => "– not judged: no function that is judged launches it".to_owned(),
    }
}

/// The first wrong case, one that blames this kernel before one that blames nobody or another.
fn wrong(report: &Report, kernel: &str) -> String {
    let of_cases =
        report.cases.iter().flat_map(|case| case.findings.iter().map(move |finding| (finding, Some(case))));
    let of_no_case = report.findings.iter().map(|finding| (finding, None));
    let blame = |finding: &Finding| match finding.kernel.as_deref() {
        Some(name) if name == kernel => 0,
        None => 1,
        Some(_) => 2,
    };
    let worst = of_no_case
        .chain(of_cases)
        .filter(|(finding, _)| finding.code.verdict() == Verdict::Wrong)
        .min_by_key(|(finding, _)| blame(finding));
    let Some((finding, case)) = worst else { return "✗ wrong".to_owned() };
    let elsewhere = match finding.kernel.as_deref() {
        Some(name) if name != kernel => format!(" in {name}"),
        _ => String::new(),
    };
    let case = case.map(|record| format!(" · {}", record.case.label())).unwrap_or_default();
    format!("✗ wrong: {}{elsewhere}{case}", finding.code.name())
}

fn could_not_run(report: &Report) -> String {
    match first_obstacle(report) {
        Some(finding) if finding.code == Code::UnchangedSinceHead => {
            let what = finding.message.split(',').next().unwrap_or_default();
            format!("– {what}")
        }
        Some(finding) => format!("– could not run: {}", reason(finding)),
        None => "– could not run".to_owned(),
    }
}

/// The first finding that kept the judge from judging.
pub(crate) fn first_obstacle(report: &Report) -> Option<&Finding> {
    let of_cases = report.all_cases().flat_map(|record| &record.findings);
    report.all_findings().chain(of_cases).find(|finding| finding.code.verdict() == Verdict::CouldNotRun)
}

/// Why, in a few words.
pub(crate) fn reason(finding: &Finding) -> String {
    match finding.code {
        Code::NoTorch => "torch is missing".to_owned(),
        Code::NoPython => "no Python was found".to_owned(),
        _ => shortened(&finding.message),
    }
}

/// The first sentence, if it is short.
fn shortened(message: &str) -> String {
    let sentence = message.lines().next().unwrap_or_default();
    let sentence = sentence.split(". ").next().unwrap_or(sentence).trim_end_matches('.');
    match sentence.char_indices().nth(REASON_CHARACTERS) {
        Some((end, _)) => format!("{}…", &sentence[..end]),
        None => sentence.to_owned(),
    }
}

/// Only cases that launched the kernel speak for it.
fn passed(judged: &[&Report], kernel: &str) -> String {
    let launched = |record: &&CaseRecord| record.launches.iter().any(|launch| launch.kernel == kernel);
    let cases: Vec<&CaseRecord> = judged.iter().flat_map(|part| &part.cases).filter(launched).collect();
    if cases.is_empty() {
        return "– not launched in any case".to_owned();
    }
    // What is the same as before is not therefore right, and gets no mark that says so.
    let against_head = judged.iter().all(|part| part.is_against_head());
    let mut parts: Vec<String> = Vec::new();
    for oracle in judged.iter().filter_map(|part| part.oracle.as_ref()) {
        let label = if against_head { oracle.short() } else { &oracle.label };
        if !parts.iter().any(|known| known == label) {
            parts.push(label.to_owned());
        }
    }
    // Before the counts: editors cut long lines.
    parts.extend(judged.iter().flat_map(|part| part.published()).next().map(text::title));
    parts.push(plural(cases.len(), "case"));
    let dtypes =
        Dtype::ALL.into_iter().filter(|dtype| cases.iter().any(|record| record.case.dtype == *dtype));
    parts.push(dtypes.map(Dtype::short).collect::<Vec<_>>().join(" "));
    let warnings = cases.iter().filter(|record| !record.findings.is_empty()).count();
    if warnings > 0 || judged.iter().any(|part| !part.findings.is_empty()) {
        parts.push("with warnings".to_owned());
    }
    let not_run: usize = judged.iter().map(|part| part.not_run.len()).sum();
    if not_run > 0 {
        parts.push(format!("{not_run} not run"));
    }
    parts.extend(no_gpu(judged));
    let mark = if against_head { "" } else { "✓ " };
    format!("{mark}{}", parts.join(" · "))
}

/// That there is no GPU, when that is why nothing was timed.
fn no_gpu(judged: &[&Report]) -> Option<String> {
    let mut missing = judged.iter().flat_map(|part| &part.not_timed);
    missing.find(|missing| missing.code == NoTimingCode::NoGpu).map(text::not_timed)
}

pub(crate) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
