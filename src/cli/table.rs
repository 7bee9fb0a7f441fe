//! What `warpsmith check` shows to people: a row for each case as it ends, then findings and a table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::judge::{CaseRecord, Code, Coverage, Finding, Report, Verdict, timing};
use crate::spec::Dtype;

/// Whether words may be coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) color: bool,
}

impl Style {
    fn paint(self, text: &str, verdict: Verdict) -> String {
        let code = match verdict {
            Verdict::Passed => "32",
            Verdict::Wrong => "31",
            Verdict::CouldNotRun => "33",
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `against_head`: the same as before is no proof.
pub(super) fn mark(verdict: Verdict, against_head: bool) -> &'static str {
    match verdict {
        Verdict::Passed if against_head => "=",
        Verdict::Passed => "✓",
        Verdict::Wrong => "✗",
        Verdict::CouldNotRun => "–",
    }
}

/// The heading above the rows.
pub(super) fn header() -> String {
    format!(
        "{:<11} {:<28} {:<5} {:<15} {:>11} {:>11} {:>11}",
        "stage", "case", "dtype", "verdict", "max error", "torch's own", "ms to check"
    )
}

/// One row for one case. `against_head`: it was compared with the version at HEAD and with nothing else.
pub(super) fn row(record: &CaseRecord, against_head: bool, style: Style) -> String {
    let case = &record.case;
    let largest = |pick: fn(&crate::runner::protocol::OutputErrors) -> f64| {
        record.errors.iter().map(pick).fold(None, |largest: Option<f64>, value| {
            Some(largest.map_or(value, |known| if value > known || value.is_nan() { value } else { known }))
        })
    };
    let error = largest(|errors| errors.max_absolute_error.0);
    let own = largest(|errors| errors.reference_max_absolute_error.0).filter(|own| !own.is_nan());
    let verdict = format!("{} {}", mark(record.verdict, against_head), record.verdict.words());
    let mut line = format!(
        "{:<11} {:<28} {:<5} {}{} {:>11} {:>11} {:>11.0}",
        case.stage.name(),
        case.shape_label(),
        case.dtype.short(),
        style.paint(&verdict, record.verdict),
        " ".repeat(15_usize.saturating_sub(verdict.chars().count())),
        number(error),
        number(own),
        record.elapsed_ms,
    );
    if let Some(note) = coverage_note(record) {
        let _ = write!(line, "  {note}");
    }
    if let Some(finding) = record.findings.first() {
        let _ = write!(line, "  {}", finding.code.name());
    }
    if against_head && record.is_equal() {
        line.push_str("  equal");
    }
    line
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(
        || "–".to_owned(),
        |value| if value == 0.0 { "0".to_owned() } else { format!("{value:.2e}") },
    )
}

fn coverage_note(record: &CaseRecord) -> Option<String> {
    let run: u64 = record.launches.iter().map(|launch| launch.programs_run).sum();
    let all: u64 = record.launches.iter().map(|launch| launch.programs).sum();
    match record.case.coverage {
        Coverage::Full => None,
        Coverage::Sampled => Some(format!("{run} of {all} programs")),
        Coverage::Offsets => Some(format!("offsets only, {run} of {all} programs")),
    }
}

/// Everything after the rows: findings, the table by stage and dtype, what was not run, the last line. Of a file with
/// several described functions a line for each.
pub(super) fn summary(file: &Path, report: &Report, style: Style) -> String {
    let mut text = String::new();
    if !report.parts.is_empty() {
        text.push('\n');
    }
    for part in &report.parts {
        let entry = part.entry.as_deref().unwrap_or("a comment");
        let _ = writeln!(text, "{entry}: {}", last_line(part, style));
    }
    for group in grouped(report) {
        let _ = writeln!(text, "\n{}", finding_block(file, &group, style));
    }
    if !report.cases.is_empty() {
        let _ = writeln!(text, "\n{}", stage_table(report));
    }
    for missing in &report.not_run {
        let _ = writeln!(text, "not run: {} ({})", missing.what, missing.why);
    }
    for left in &report.not_judged {
        let _ = writeln!(text, "not judged: {} ({})", left.kernel, left.why);
    }
    text.push_str(&last_line(report, style));
    for line in times(report) {
        let _ = write!(text, "\n{line}");
    }
    text
}

/// A line for each time, then for each that is missing; the same is told once.
fn times(report: &Report) -> Vec<String> {
    let published = report.all_published().map(timing::text::line);
    let mut lines: Vec<String> = Vec::new();
    for line in published.chain(report.all_not_timed().map(timing::text::not_timed)) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

pub(super) struct Group<'a> {
    pub(super) finding: &'a Finding,
    /// The first case that showed it, the last one, and how many there are besides the first.
    pub(super) first: Option<&'a CaseRecord>,
    last: Option<&'a CaseRecord>,
    pub(super) more: usize,
}

/// The same finding in many cases is told once.
pub(super) fn grouped(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> =
        report.findings.iter().map(|finding| Group { finding, first: None, last: None, more: 0 }).collect();
    for record in &report.cases {
        for finding in &record.findings {
            let same = groups.iter_mut().find(|group| {
                group.first.is_some()
                    && group.finding.code == finding.code
                    && group.finding.place == finding.place
                    && group.finding.kernel == finding.kernel
            });
            match same {
                // One case may show it twice, in two programs or with two messages.
                Some(group) if group.last.is_some_and(|last| std::ptr::eq(last, record)) => {}
                Some(group) => (group.last, group.more) = (Some(record), group.more + 1),
                None => {
                    groups.push(Group { finding, first: Some(record), last: Some(record), more: 0 });
                }
            }
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.finding.code.verdict()));
    groups
}

fn finding_block(file: &Path, group: &Group<'_>, style: Style) -> String {
    let finding = group.finding;
    let verdict = finding.code.verdict();
    let word = match (verdict, finding.code) {
        (Verdict::Passed, _) => "warning".to_owned(),
        (_, Code::Cancelled) => "cancelled".to_owned(),
        _ => verdict.words().to_owned(),
    };
    let place = match (&finding.place, &finding.kernel) {
        (Some(place), _) => format!("{}:{}", shown(&place.file, file), place.line),
        (None, Some(kernel)) => format!("{} ({kernel})", file.display()),
        (None, None) => file.display().to_string(),
    };
    let head = format!("{} {word}: {}", mark(verdict, false), finding.code.name());
    let mut block =
        format!("{}  {place}\n  {}", style.paint(&head, verdict), finding.message.replace('\n', "\n  "));
    for outer in &finding.called_from {
        let _ = write!(block, "\n  called from {}:{}", shown(&outer.file, file), outer.line);
    }
    if let Some(record) = group.first {
        let _ = write!(block, "\n  case: {} {}", record.case.stage, record.case.label());
        if group.more > 0 {
            let _ = write!(block, ", and {} more", group.more);
        }
    }
    block
}

/// The judged file as it was typed, any other by its whole path.
fn shown(place: &str, file: &Path) -> String {
    let is_judged = std::path::absolute(file).is_ok_and(|judged| judged == Path::new(place));
    if is_judged { file.display().to_string() } else { place.to_owned() }
}

/// Passed of run cases, by stage and dtype.
fn stage_table(report: &Report) -> String {
    let mut dtypes: Vec<Dtype> = Vec::new();
    let mut cells: BTreeMap<_, BTreeMap<Dtype, (usize, usize)>> = BTreeMap::new();
    for record in &report.cases {
        if !dtypes.contains(&record.case.dtype) {
            dtypes.push(record.case.dtype);
        }
        let cell = cells.entry(record.case.stage).or_default().entry(record.case.dtype).or_default();
        cell.1 += 1;
        if record.verdict == Verdict::Passed {
            cell.0 += 1;
        }
    }
    let mut text = format!("{:<11}", "passed of");
    for dtype in &dtypes {
        let _ = write!(text, " {:>8}", dtype.short());
    }
    for (stage, row) in &cells {
        let _ = write!(text, "\n{:<11}", stage.name());
        for dtype in &dtypes {
            let cell =
                row.get(dtype).map_or_else(|| "–".to_owned(), |(passed, run)| format!("{passed}/{run}"));
            let _ = write!(text, " {cell:>8}");
        }
    }
    text
}

pub(super) fn last_line(report: &Report, style: Style) -> String {
    let against_head = report.judgements().iter().filter(|part| part.is_against_head()).count();
    // Some of it is the same as before and nothing more: no mark speaks for the whole.
    let is_mixed = report.compares_with_head() && !report.is_against_head();
    let head = match report.verdict {
        Verdict::Passed if is_mixed => report.verdict.words().to_owned(),
        verdict => format!("{} {}", mark(verdict, report.is_against_head()), verdict.words()),
    };
    let mut parts = vec![style.paint(&head, report.verdict)];
    if let Some(oracle) = &report.oracle {
        parts.push(oracle.label.clone());
    }
    if !report.parts.is_empty() {
        parts.push(format!("{} functions", report.parts.len()));
        if is_mixed {
            parts.push(format!("{against_head} only = HEAD"));
        }
    }
    let run = report.all_cases().count();
    if run > 0 {
        let passed = report.all_cases().filter(|record| record.verdict == Verdict::Passed).count();
        parts.push(format!("{passed} of {run} cases passed"));
        if report.is_against_head() {
            let equal = report.all_cases().filter(|record| record.is_equal()).count();
            parts.push(format!("{equal} equal in every element"));
        }
        parts.push(match &report.provenance.gpu {
            Some(gpu) => gpu.words(),
            None => "Triton interpreter on the CPU, no time measured".to_owned(),
        });
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::timing::samples::timing;
    use crate::judge::timing::{NoTiming, NoTimingCode};

    #[test]
    fn times_stand_below_the_verdict_and_each_is_told_once() {
        let mut report = Report::ended_at_once(Finding::plain(Code::WeakTolerance, "zeros would pass"));
        report.timings = vec![timing()];
        let missing = NoTiming::new(None, NoTimingCode::GpuBusy, "another check holds the GPU");
        report.not_timed = vec![missing.clone(), missing];
        let text = summary(Path::new("/k.py"), &report, Style { color: false });
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        assert!(lines[2].starts_with("✓ passed"), "{text}");
        assert!(lines[1].starts_with("softmax: 1.83× torch (412 ± 3 µs"), "{text}");
        assert_eq!(lines[0], "not timed: another check holds the GPU");

        report.verdict = Verdict::Wrong;
        assert!(!summary(Path::new("/k.py"), &report, Style { color: false }).contains("torch"));
    }
}
