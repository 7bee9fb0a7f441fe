//! `--format github`: workflow commands that GitHub Actions shows at the lines of a pull request.
//!
//! Source of syntax and escapes: docs.github.com, "Workflow commands for GitHub Actions", and the escapes of
//! `actions/toolkit`, which that page names. A kernel's own words stand in messages, so every line that is printed
//! here is escaped: none of them may be taken for a command of ours.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::JudgedFile;
use crate::cli::table::{self, Group, Style};
use crate::judge::{Report, Verdict};
use crate::source;

/// The lines of one file: an annotation for each finding, grouped as the table groups them, then what was not run and
/// the verdict. `workspace` is the checkout, which GitHub counts paths from.
pub(in crate::cli) fn lines(file: JudgedFile<'_>, report: &Report, workspace: Option<&Path>) -> Vec<String> {
    // Of a file with several functions the findings of the file stand beside theirs.
    let of_file = (!report.parts.is_empty()).then_some(report);
    let judged = of_file.into_iter().chain(report.judgements());
    let groups = judged.clone().flat_map(table::grouped);
    let mut lines: Vec<String> = groups.map(|group| annotation(file, &group, workspace)).collect();
    for part in judged {
        let entry = part.entry.as_deref().filter(|_| of_file.is_some());
        let entry = entry.map(|entry| format!("{entry}: ")).unwrap_or_default();
        lines.extend(
            part.not_run.iter().map(|left| plain(&format!("not run: {entry}{} ({})", left.what, left.why))),
        );
    }
    let left = report.not_judged.iter();
    lines.extend(left.map(|left| plain(&format!("not judged: {} ({})", left.kernel, left.why))));
    let verdict = table::last_line(report, Style { color: false });
    lines.push(plain(&format!("checked {}: {verdict}", file.shown.display())));
    lines
}

fn annotation(file: JudgedFile<'_>, group: &Group<'_>, workspace: Option<&Path>) -> String {
    let finding = group.finding;
    let (command, word) = match finding.code.verdict() {
        Verdict::Wrong => ("error", Verdict::Wrong.words()),
        Verdict::CouldNotRun => ("warning", Verdict::CouldNotRun.words()),
        Verdict::Passed => ("notice", "warning"),
    };
    let (named, line) = match &finding.place {
        Some(place) => (file.name_of(place), Some(place.line as usize)),
        None => (file.shown.to_owned(), finding.kernel.as_deref().and_then(|name| line_of(name, file.text))),
    };
    let mut title = format!("{word}: {}", finding.code.name());
    if let Some(kernel) = &finding.kernel {
        let _ = write!(title, " in {kernel}");
    }
    let mut message = finding.message.clone();
    for outer in &finding.called_from {
        let _ = write!(message, "\ncalled from {}:{}", file.name_of(outer).display(), outer.line);
    }
    if let Some(record) = group.first {
        let _ = write!(message, "\ncase: {} {}", record.case.stage, record.case.label());
        if group.more > 0 {
            let _ = write!(message, ", and {} more", group.more);
        }
        let _ = write!(message, "\nseed: {}", record.seed);
    }
    let mut properties = vec![format!("file={}", property(&below(workspace, &named).to_string_lossy()))];
    properties.extend(line.map(|line| format!("line={line}")));
    properties.push(format!("title={}", property(&title)));
    format!("::{command} {}::{}", properties.join(","), data(&message))
}

/// The line of a kernel's name, from 1.
fn line_of(kernel: &str, text: &str) -> Option<usize> {
    let model = source::parse(text);
    let found = model.kernels.iter().find(|known| known.name == kernel)?;
    Some(text.get(..found.name_range.start)?.matches('\n').count() + 1)
}

/// A check may be started in a folder of the checkout; paths count from its root.
fn below(workspace: Option<&Path>, named: &Path) -> PathBuf {
    let inside = || {
        let path = std::path::absolute(named).ok()?;
        path.strip_prefix(workspace?).ok().map(Path::to_owned)
    };
    inside().unwrap_or_else(|| named.to_owned())
}

fn data(text: &str) -> String {
    without_controls(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Bytes of a terminal's language have no place in an annotation.
fn without_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')).collect()
}

/// A line of a log. GitHub's older commands, `##[name]`, count anywhere in a line.
fn plain(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace("##[", "## [")
}

#[cfg(test)]
mod tests {
    use super::super::samples::{TEXT, file, several, softmax};
    use super::*;

    #[test]
    fn a_finding_is_told_once_with_its_line() {
        insta::assert_snapshot!(lines(file(), &softmax(), Some(Path::new("/repo"))).join("\n"));
    }

    #[test]
    fn each_function_has_its_findings() {
        insta::assert_snapshot!(lines(file(), &several(), None).join("\n"));
    }

    #[test]
    fn whatever_a_kernel_says_is_one_line_and_no_command() {
        let mut report = softmax();
        let evil = "first%\r\n::error::me\n##[error]me\x1b[31m, really: \u{0}";
        for finding in report.cases.iter_mut().flat_map(|record| &mut record.findings) {
            finding.message = evil.to_owned();
            finding.kernel = Some(evil.to_owned());
        }
        report.not_run[0].why = evil.to_owned();
        let shown = JudgedFile { path: Path::new("/repo/a:b,c\n%.py"), ..file() };
        let shown = JudgedFile { shown: Path::new("a:b,c\n%.py"), ..shown };
        for line in lines(shown, &report, None) {
            assert!(!line.contains(['\n', '\r', '\x1b', '\0']), "{line}");
            let is_ours = ["::error ", "::warning ", "::notice "].iter().any(|ours| line.starts_with(ours));
            assert!(is_ours || !line.trim_start().starts_with("::"), "{line}");
            // What begins with a command of the new kind is not searched for one of the old.
            assert!(is_ours || !line.contains("##["), "{line}");
            if is_ours {
                let head = line[2..].split("::").next().expect("a head");
                let words: Vec<&str> = head.split_once(' ').expect("properties").1.split(',').collect();
                assert!(
                    words.iter().all(|word| word.split('=').count() == 2 && !word.contains(':')),
                    "{head}"
                );
            }
        }
    }

    #[test]
    fn a_kernel_without_a_line_is_shown_where_it_is_defined() {
        assert_eq!(line_of("softmax_kernel", TEXT), Some(5));
        assert_eq!(line_of("other", TEXT), None);
        assert_eq!(line_of("softmax_kernel", ""), None);
    }

    #[test]
    fn paths_count_from_the_checkout() {
        let workspace = Some(Path::new("/repo"));
        assert_eq!(below(workspace, Path::new("/repo/ops/k.py")), Path::new("ops/k.py"));
        assert_eq!(below(workspace, Path::new("/elsewhere/k.py")), Path::new("/elsewhere/k.py"));
        assert_eq!(below(None, Path::new("ops/k.py")), Path::new("ops/k.py"));
    }
}
