//! `--format junit`: one XML document for all files, as Jenkins, GitLab, Azure and others read it.
//!
//! There is no standard; this keeps to what the schema of Jenkins' xUnit plugin (`junit-10.xsd`) allows. One
//! `testsuite` a file, one `testcase` a function, stage, dtype and case. Wrong is a `failure`, could not run an
//! `error`, what was not run is `skipped`. Times are how long checking took, never a kernel's time.

use std::fmt::Write;

use super::JudgedFile;
use crate::judge::{CaseRecord, Finding, OnGpu, Report, Verdict};

/// The files that were judged so far.
#[derive(Default)]
pub(in crate::cli) struct Junit {
    suites: Vec<Suite>,
}

struct Suite {
    name: String,
    seconds: f64,
    properties: Vec<(&'static str, String)>,
    cases: Vec<TestCase>,
}

struct TestCase {
    class: String,
    name: String,
    seconds: f64,
    outcome: Outcome,
    /// Warnings of what passed.
    notes: String,
}

enum Outcome {
    Passed,
    /// `failure` or `error`, its kind, its first words and all of them.
    Bad {
        element: &'static str,
        kind: String,
        message: String,
        text: String,
    },
    Skipped(String),
}

impl Junit {
    /// Takes the report of one more file in.
    pub(in crate::cli) fn add(&mut self, file: JudgedFile<'_>, report: &Report) {
        let mut cases = Vec::new();
        let of_file = (!report.parts.is_empty()).then_some(report);
        for part in of_file.into_iter().chain(report.judgements()) {
            let class = class_of(part, file);
            if !part.findings.is_empty() {
                cases.push(of_findings(file, &class, "check", 0.0, &part.findings));
            }
            cases.extend(part.cases.iter().map(|record| of_case(file, &class, record)));
            cases.extend(part.not_run.iter().map(|left| skipped(&class, &left.what, &left.why)));
        }
        cases.extend(report.not_judged.iter().map(|left| skipped(&left.kernel, "not judged", &left.why)));
        let of_cases = || report.all_cases().map(|record| record.elapsed_ms).sum();
        self.suites.push(Suite {
            name: file.shown.display().to_string(),
            seconds: report.timeline.end.unwrap_or_else(of_cases) / 1e3,
            properties: properties(report),
            cases,
        });
    }

    /// The whole document, with a newline.
    pub(in crate::cli) fn document(&self) -> String {
        let all: Vec<&TestCase> = self.suites.iter().flat_map(|suite| &suite.cases).collect();
        let seconds: f64 = self.suites.iter().map(|suite| suite.seconds).sum();
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let _ = writeln!(xml, "<testsuites name=\"warpsmith\" {}>", counts(&all, seconds));
        for suite in &self.suites {
            suite.write(&mut xml);
        }
        xml.push_str("</testsuites>\n");
        xml
    }
}

impl Suite {
    fn write(&self, xml: &mut String) {
        let all: Vec<&TestCase> = self.cases.iter().collect();
        let name = attribute(&self.name);
        let _ = writeln!(xml, "  <testsuite name=\"{name}\" {}>", counts(&all, self.seconds));
        xml.push_str("    <properties>\n");
        for (key, value) in &self.properties {
            let _ = writeln!(xml, "      <property name=\"{key}\" value=\"{}\"/>", attribute(value));
        }
        xml.push_str("    </properties>\n");
        for case in &self.cases {
            case.write(xml);
        }
        xml.push_str("  </testsuite>\n");
    }
}

impl TestCase {
    fn write(&self, xml: &mut String) {
        let (class, name) = (attribute(&self.class), attribute(&self.name));
        let seconds = seconds_of(self.seconds);
        let _ = write!(xml, "    <testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds}\"");
        let mut inside = String::new();
        match &self.outcome {
            Outcome::Passed => {}
            Outcome::Bad { element, kind, message, text } => {
                let (kind, message, text) = (attribute(kind), attribute(message), escaped(text));
                let _ = writeln!(
                    inside,
                    "      <{element} type=\"{kind}\" message=\"{message}\">{text}</{element}>"
                );
            }
            Outcome::Skipped(why) => {
                let _ = writeln!(inside, "      <skipped message=\"{}\"/>", attribute(why));
            }
        }
        if !self.notes.is_empty() {
            let _ = writeln!(inside, "      <system-out>{}</system-out>", escaped(&self.notes));
        }
        if inside.is_empty() {
            xml.push_str("/>\n");
        } else {
            let _ = write!(xml, ">\n{inside}    </testcase>\n");
        }
    }
}

/// The function, or where none is known the file.
fn class_of(part: &Report, file: JudgedFile<'_>) -> String {
    part.entry.clone().unwrap_or_else(|| file.shown.display().to_string())
}

fn of_case(file: JudgedFile<'_>, class: &str, record: &CaseRecord) -> TestCase {
    let name = format!("{} · {}", record.case.stage, record.case.label());
    let mut case = of_findings(file, class, &name, record.elapsed_ms / 1e3, &record.findings);
    match &mut case.outcome {
        Outcome::Bad { text, .. } => {
            let _ = write!(text, "\nseed: {}", record.seed);
        }
        // A verdict never rests on whether there are words for it.
        outcome @ (Outcome::Passed | Outcome::Skipped(_)) if record.verdict != Verdict::Passed => {
            *outcome = bad(record.verdict, record.verdict.words().to_owned(), String::new(), String::new());
        }
        _ => {}
    }
    case
}

fn of_findings(
    file: JudgedFile<'_>,
    class: &str,
    name: &str,
    seconds: f64,
    findings: &[Finding],
) -> TestCase {
    let worst = findings.iter().max_by_key(|finding| finding.code.verdict());
    let verdict = worst.map_or(Verdict::Passed, |finding| finding.code.verdict());
    // The first of the worst: the later ones of the same weight follow from it more often than not.
    let first = findings.iter().find(|finding| finding.code.verdict() == verdict);
    let text = findings.iter().map(|finding| words(file, finding)).collect::<Vec<_>>().join("\n\n");
    let (outcome, notes) = match first {
        Some(finding) if verdict != Verdict::Passed => {
            (bad(verdict, finding.code.name(), finding.message.clone(), text), String::new())
        }
        _ => (Outcome::Passed, text),
    };
    TestCase { class: class.to_owned(), name: name.to_owned(), seconds, outcome, notes }
}

fn bad(verdict: Verdict, kind: String, message: String, text: String) -> Outcome {
    let element = if verdict == Verdict::Wrong { "failure" } else { "error" };
    Outcome::Bad { element, kind, message, text }
}

fn skipped(class: &str, what: &str, why: &str) -> TestCase {
    let outcome = Outcome::Skipped(why.to_owned());
    let notes = String::new();
    TestCase { class: class.to_owned(), name: what.to_owned(), seconds: 0.0, outcome, notes }
}

fn words(file: JudgedFile<'_>, finding: &Finding) -> String {
    let mut text = finding.code.name();
    if let Some(spot) = file.spot(finding) {
        let _ = write!(text, " at {spot}");
    }
    let _ = write!(text, "\n{}", finding.message);
    for outer in &finding.called_from {
        let _ = write!(text, "\ncalled from {}:{}", file.name_of(outer).display(), outer.line);
    }
    text
}

/// What the verdicts rest on.
fn properties(report: &Report) -> Vec<(&'static str, String)> {
    let rests = &report.judgements().first().unwrap_or(report).provenance;
    let mut labels: Vec<&str> = Vec::new();
    for oracle in report.judgements().iter().filter_map(|part| part.oracle.as_ref()) {
        if !labels.contains(&oracle.label.as_str()) {
            labels.push(&oracle.label);
        }
    }
    let gpu = rests.gpu.as_ref().map(OnGpu::words);
    let known = [
        ("verdict", Some(report.verdict.words().to_owned())),
        ("oracle", (!labels.is_empty()).then(|| labels.join("; "))),
        ("warpsmith", Some(rests.warpsmith.clone()).filter(|version| !version.is_empty())),
        ("method", Some(rests.method.clone()).filter(|method| !method.is_empty())),
        ("gpu", gpu),
        ("python", rests.python.clone()),
        ("torch", rests.torch.clone()),
        ("triton", rests.triton.clone()),
    ];
    known.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn counts(cases: &[&TestCase], seconds: f64) -> String {
    let bad = |wanted: &str| {
        let is_it =
            |case: &&&TestCase| matches!(&case.outcome, Outcome::Bad { element, .. } if *element == wanted);
        cases.iter().filter(is_it).count()
    };
    let skipped = cases.iter().filter(|case| matches!(case.outcome, Outcome::Skipped(_))).count();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{skipped}\" time=\"{}\"",
        cases.len(),
        bad("failure"),
        bad("error"),
        seconds_of(seconds)
    )
}

/// Readers take a decimal number and nothing else.
fn seconds_of(seconds: f64) -> String {
    // An empty sum is −0.
    let is_time = seconds.is_finite() && seconds > 0.0;
    format!("{:.3}", if is_time { seconds } else { 0.0 })
}

/// Characters that XML 1.0 has no way to write are left out (its production 2, `Char`), and those that show nothing.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            // `]]>` may not stand in a text.
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            // A reader would make a newline of it.
            '\r' => xml.push_str("&#13;"),
            '\n' | '\t' => xml.push(c),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => xml.push(c),
        }
    }
    xml
}

/// In the value of an attribute a reader would make spaces of tabs and newlines.
fn attribute(text: &str) -> String {
    escaped(text).replace('\n', "&#10;").replace('\t', "&#9;")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::Stdio;

    use super::super::samples::{file, several, softmax, unreadable};
    use super::*;
    use crate::toolchain::Surroundings;

    fn document(reports: &[Report]) -> String {
        let mut junit = Junit::default();
        reports.iter().for_each(|report| junit.add(file(), report));
        junit.document()
    }

    /// What a parser that is not ours reads: every element with its attributes and text, one a line.
    fn read_by_python(xml: &str) -> String {
        const READER: &str = "import sys, xml.etree.ElementTree as tree\n\
            for node in tree.fromstring(sys.stdin.buffer.read()).iter():\n    \
            print(repr((node.tag, sorted(node.attrib.items()), (node.text or '').strip())))\n";
        let mut child = Surroundings::of_this_process()
            .command("python3")
            .args(["-c", READER])
            .env("PYTHONIOENCODING", "utf-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is needed to build and test");
        child.stdin.take().expect("a pipe").write_all(xml.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{xml}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    #[test]
    fn cases_failures_and_what_was_not_run() {
        insta::assert_snapshot!(document(&[softmax(), several(), unreadable()]));
    }

    #[test]
    fn another_parser_reads_any_text() {
        let every: String =
            (0..=0x10_FFFF).filter_map(char::from_u32).filter(|c| (*c as u32) < 0x300).collect();
        let evil =
            format!("<&\"'>]]>\u{fffe}\u{ffff}\u{1f600} \u{e000} {every}\nline\ttab\r\n</failure><!--");
        let mut report = softmax();
        for finding in report.cases.iter_mut().flat_map(|record| &mut record.findings) {
            finding.message.clone_from(&evil);
        }
        report.entry = Some(evil.clone());
        report.not_run[0].why.clone_from(&evil);
        let read = read_by_python(&document(&[report]));
        assert!(read.contains("\\nline\\ttab\\r\\n</failure><!--"), "{read}");
        assert!(read.contains("😀"), "{read}");
        assert!(!read.contains("\\x1b") && !read.contains("\\x00"), "{read}");
        let skipped = read.lines().find(|line| line.starts_with("('skipped'")).expect("one");
        assert!(skipped.contains("]]>") && skipped.contains("\\nline\\ttab\\r"), "{skipped}");
    }

    #[test]
    fn counts_are_those_of_the_cases() {
        let read = read_by_python(&document(&[softmax(), several(), unreadable()]));
        let count = |tag: &str| read.lines().filter(|line| line.starts_with(&format!("('{tag}'"))).count();
        let (all, failures) = (count("testcase"), count("failure"));
        let (errors, skipped) = (count("error"), count("skipped"));
        let head = read.lines().next().expect("the root");
        for (key, number) in
            [("tests", all), ("failures", failures), ("errors", errors), ("skipped", skipped)]
        {
            assert!(number > 0 && head.contains(&format!("('{key}', '{number}')")), "{key} {number}: {head}");
        }
        assert_eq!(count("testsuite"), 3);
    }

    #[test]
    fn a_wrong_case_without_words_is_a_failure_all_the_same() {
        let mut report = softmax();
        report.cases.iter_mut().for_each(|record| record.findings.clear());
        let (before, now) = (document(&[softmax()]), document(&[report]));
        assert_eq!(now.matches("<failure").count(), before.matches("<failure").count());
        assert!(now.contains("<failure type=\"wrong\""), "{now}");
    }

    #[test]
    fn times_are_numbers_of_seconds() {
        assert_eq!(seconds_of(0.012_34), "0.012");
        for odd in [f64::NAN, f64::INFINITY, -1.0, -0.0] {
            assert_eq!(seconds_of(odd), "0.000");
        }
    }
}
