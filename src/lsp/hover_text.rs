//! The table that a hover shows for one kernel.

use std::fmt::Write;
use std::time::SystemTime;

use super::file_state::FileState;
use super::kernels::KernelAnchor;
use super::lens::{plural, verdict};
use super::numbers::show;
use super::recall::age;
use crate::judge::calendar::minute;
use crate::judge::{CaseRecord, Finding, Report, Timing, Verdict, timing};
use crate::runner::protocol::Sample;

/// Rows of the table; cases that did not pass come first.
const ROWS: usize = 40;

/// Markdown; `None` before the first check.
pub(crate) fn hover_text(file: &FileState, kernel: &KernelAnchor) -> Option<String> {
    let outcome = file.outcome.as_ref()?;
    let report = &*outcome.report;
    let mut text = format!("**{}** {}\n", kernel.name, verdict(report, &kernel.name));
    if let Some(at_s) = outcome.earlier_at_s {
        let (age, at) = (age(at_s, SystemTime::now()), minute(at_s));
        let _ = writeln!(
            text,
            "\nFrom the store: {age} ({at} UTC). Nothing that it rests on has changed since; `check` runs it again."
        );
    }
    if file.is_stale() {
        text.push_str("\nThe text has changed since this check.\n");
    }
    if let Some(why) = report.why_not_judged(&kernel.name) {
        let _ = writeln!(text, "\nNot judged: {why}");
        return Some(text);
    }
    for part in report.of_kernel(&kernel.name) {
        if let Some(entry) = part.entry.as_ref().filter(|_| !report.parts.is_empty()) {
            let _ = writeln!(text, "\n`{entry}`");
        }
        write_table(&mut text, part, kernel);
        write_findings(&mut text, part, kernel);
        for not_run in &part.not_run {
            let _ = writeln!(text, "\nNot run: {}: {}", not_run.what, not_run.why);
        }
        let timings: Vec<Timing> = part.published().cloned().collect();
        text.push_str(&timing::text::long(&timings, &part.not_timed));
        let _ = writeln!(text, "\n{}", provenance(part));
    }
    Some(text)
}

/// Cases that launched the kernel; all of them when no case got as far as a launch.
fn cases_of<'a>(report: &'a Report, kernel: &KernelAnchor) -> Vec<&'a CaseRecord> {
    let of_kernel = |record: &&CaseRecord| record.launches.iter().any(|launch| launch.kernel == kernel.name);
    let launched: Vec<&CaseRecord> = report.cases.iter().filter(of_kernel).collect();
    let not_passed = report.cases.iter().filter(|record| record.verdict != Verdict::Passed);
    let mut cases = if launched.is_empty() { not_passed.collect() } else { launched };
    cases.sort_by_key(|record| std::cmp::Reverse(record.verdict));
    cases
}

fn write_table(text: &mut String, report: &Report, kernel: &KernelAnchor) {
    let cases = cases_of(report, kernel);
    if cases.is_empty() {
        return;
    }
    text.push_str(
        "\n| stage | case | dtype | verdict | max error | reference's own | scale | allowed | decided by |\n",
    );
    text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for record in cases.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            record.case.stage,
            cell(&record.case.shape_label()),
            record.case.dtype.short(),
            cell(&outcome(record)),
            errors(record).join(" | "),
        );
    }
    if cases.len() > ROWS {
        let _ = writeln!(text, "\nand {} more", plural(cases.len() - ROWS, "case"));
    }
}

/// `passed`, or the code that decided.
fn outcome(record: &CaseRecord) -> String {
    match record.findings.iter().find(|finding| finding.code.verdict() == record.verdict) {
        Some(finding) if record.verdict != Verdict::Passed => {
            format!("{}: {}", record.verdict.words(), finding.code.name())
        }
        _ => record.verdict.words().to_owned(),
    }
}

/// Largest error over the outputs, the reference's own, the size of the values, and for the element nearest to
/// its tolerance what was allowed and which term of the tolerance is the largest. What was not measured
/// is `n/a`.
fn errors(record: &CaseRecord) -> [String; 5] {
    let not_measured = || "n/a".to_owned();
    let largest =
        record.errors.iter().max_by(|a, b| a.max_absolute_error.0.total_cmp(&b.max_absolute_error.0));
    let Some(errors) = largest else {
        return std::array::from_fn(|_| not_measured());
    };
    let sample = errors.worst.as_ref().or(errors.first.as_ref());
    let decided = |sample: &Sample| match sample.terms {
        Some(terms) => terms.deciding(),
        None if errors.exact => "exact",
        None => "n/a",
    };
    [
        show(errors.max_absolute_error),
        show(errors.reference_max_absolute_error),
        show(errors.expected_rms),
        sample.map_or_else(not_measured, |sample| show(sample.allowed)),
        sample.map_or_else(not_measured, |sample| decided(sample).to_owned()),
    ]
}

fn write_findings(text: &mut String, report: &Report, kernel: &KernelAnchor) {
    let concerns = |finding: &&Finding| finding.kernel.as_ref().is_none_or(|name| *name == kernel.name);
    let of_cases = report.cases.iter().flat_map(|record| &record.findings);
    let mut seen: Vec<(String, &Finding)> = Vec::new();
    for finding in report.findings.iter().chain(of_cases).filter(concerns) {
        let code = finding.code.name();
        if !seen.iter().any(|(name, other)| *name == code && other.place == finding.place) {
            seen.push((code, finding));
        }
    }
    if !seen.is_empty() {
        text.push('\n');
    }
    for (code, finding) in seen {
        let line = finding.place.as_ref().map(|place| format!(" (line {})", place.line)).unwrap_or_default();
        let _ = writeln!(text, "- `{code}`{line}: {}", finding.message.replace('\n', " "));
    }
}

fn provenance(report: &Report) -> String {
    let provenance = &report.provenance;
    let mut parts: Vec<String> = report.oracle.iter().map(|oracle| oracle.label.clone()).collect();
    let mut seeds: Vec<u64> = report.cases.iter().map(|record| record.seed).collect();
    seeds.dedup();
    if let [seed] = seeds[..] {
        parts.push(format!("seed {seed}"));
    }
    match &provenance.gpu {
        Some(gpu) => parts.push(gpu.words()),
        None if provenance.method == "triton-interpreter" => {
            parts.push("Triton interpreter on CPU: no time is measured here".to_owned());
        }
        None => {}
    }
    let versions = [
        ("Python", &provenance.python),
        ("torch", &provenance.torch),
        ("triton", &provenance.triton),
        ("numpy", &provenance.numpy),
    ];
    parts.extend(versions.iter().filter_map(|(name, version)| Some(format!("{name} {}", version.as_ref()?))));
    parts.join(" · ")
}

/// Text that cannot break the table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
