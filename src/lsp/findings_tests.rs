use std::collections::BTreeMap;

use super::*;
use crate::judge::{CaseRecord, Coverage, Stage};
use crate::source;
use crate::spec::Dtype;

const FILE: &str = "/k/two.py";
const TEXT: &str = "\
import triton


@triton.jit
def first(x):
    tl.store(x, 1)


@triton.jit
def second(x):
    tl.store(x, 2)


def run(x):
    first[(1,)](x)
    second[(1,)](x)
";

fn judged(model: &SourceModel) -> Judged<'_> {
    Judged { path: Path::new(FILE), document: Document::new(TEXT, 1), kernels: Kernels::new(model), model }
}

fn finding(code: Code, kernel: Option<&str>, line: Option<u32>) -> Finding {
    Finding {
        code,
        kernel: kernel.map(str::to_owned),
        place: line.map(|line| Place { file: FILE.to_owned(), line }),
        called_from: Vec::new(),
        message: "m".to_owned(),
        element: None,
    }
}

fn report(findings: Vec<Finding>) -> Report {
    let nothing = Report::ended_at_once(finding(Code::JudgeFailed, None, None));
    Report { findings, verdict: Verdict::Wrong, ..nothing }
}

/// The kernel of each finding and the text that it underlines.
fn standing(findings: Vec<Finding>) -> Vec<(Option<String>, String)> {
    let model = source::parse(TEXT);
    let judged = judged(&model);
    let groups = gather(&report(findings), &judged);
    groups
        .iter()
        .map(|group| {
            let bytes = group.anchor.resolve(&judged.kernels, &judged.document).expect("it stands somewhere");
            (group.kernel.as_ref().map(|kernel| kernel.0.clone()), TEXT[bytes].to_owned())
        })
        .collect()
}

#[test]
fn a_finding_belongs_to_the_kernel_around_its_line() {
    let expected = (Some("second".to_owned()), "tl.store(x, 2)".to_owned());
    assert_eq!(standing(vec![finding(Code::Race, None, Some(11))]), [expected]);
}

#[test]
fn a_line_outside_of_kernels_belongs_to_none() {
    assert_eq!(standing(vec![finding(Code::Raised, None, Some(15))]), [(None, "first[(1,)](x)".to_owned())]);
}

#[test]
fn a_named_kernel_is_underlined_when_no_line_is_known() {
    let expected = (Some("second".to_owned()), "second".to_owned());
    assert_eq!(standing(vec![finding(Code::Unwritten, Some("second"), None)]), [expected]);
}

#[test]
fn without_any_knowledge_it_is_the_first_launched_kernel() {
    let expected = (Some("first".to_owned()), "first".to_owned());
    assert_eq!(standing(vec![finding(Code::Mismatch, Some("gone"), None)]), [expected]);
}

#[test]
fn lines_that_the_text_does_not_have_are_clamped() {
    let expected = [(None, String::new()), (None, "import triton".to_owned())];
    let found = standing(vec![finding(Code::Raised, None, Some(999)), finding(Code::Raised, None, Some(0))]);
    assert_eq!(found, expected);
}

#[test]
fn two_outputs_are_two_findings() {
    let of_output = |name: &str| Finding {
        element: Some(BadElement {
            output: name.to_owned(),
            index: vec![0],
            expected: Default::default(),
            got: Default::default(),
            allowed: Default::default(),
        }),
        ..finding(Code::Mismatch, None, None)
    };
    assert_eq!(standing(vec![of_output("y"), of_output("z"), of_output("y")]).len(), 2);
}

#[test]
fn a_case_counts_once_and_an_element_is_named_once() {
    let element = BadElement {
        output: "y".to_owned(),
        index: vec![2],
        expected: Default::default(),
        got: Default::default(),
        allowed: Default::default(),
    };
    let mut told = finding(Code::Mismatch, None, None);
    told.element = Some(element);
    told.message = "1 element differs, at [2]: expected 0, got 0".to_owned();
    let case = |n| Case {
        stage: Stage::Smoke,
        definition: "softmax".to_owned(),
        axes: BTreeMap::from([("N".to_owned(), n)]),
        dtype: Dtype::Float32,
        layout: "contiguous".to_owned(),
        profile: "default".to_owned(),
        scalars: BTreeMap::new(),
        options: BTreeMap::new(),
        coverage: Coverage::Full,
    };
    let record = |n| CaseRecord {
        case: case(n),
        verdict: Verdict::Wrong,
        findings: vec![told.clone(), told.clone()],
        errors: Vec::new(),
        launches: Vec::new(),
        seed: 1,
        elapsed_ms: 1.0,
    };
    let model = source::parse(TEXT);
    let report = Report { cases: vec![record(1), record(2)], ..report(Vec::new()) };
    let groups = gather(&report, &judged(&model));
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].message, format!("{}\nN=1 · f32\nand 1 more case", told.message));
    assert_eq!(groups[0].related.len(), 1);
}

#[test]
fn a_torn_out_line_waits_for_its_kernel() {
    let model = source::parse(TEXT);
    let judged = judged(&model);
    let mut group = gather(&report(vec![finding(Code::Race, None, Some(11))]), &judged).remove(0);
    let cut = TEXT.find("@triton.jit\ndef second").expect("there")..TEXT.find("def run").expect("there");
    let kernel = &TEXT[cut.clone()];

    let mut document = judged.document.clone();
    let mut text = TEXT.to_owned();
    text.replace_range(cut, "");
    let splice = document.resync(&text).expect("a change");
    group.shift(&splice);
    let without = Kernels::new(&source::parse(&text));
    group.relocate(&without, &document);
    assert_eq!(without.find(group.kernel.as_ref().expect("a kernel")), None);

    text.insert_str(0, kernel);
    group.shift(&document.resync(&text).expect("a change"));
    let back = Kernels::new(&source::parse(&text));
    group.relocate(&back, &document);
    let bytes = group.anchor.resolve(&back, &document).expect("it stands somewhere");
    assert_eq!(&text[bytes], "tl.store(x, 2)");
}
