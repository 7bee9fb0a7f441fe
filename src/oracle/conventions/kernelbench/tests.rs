use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::ENTRY;
use crate::oracle::{ModuleReference, Oracle, OracleMiss, Reference, find};
use crate::source::parse;
use crate::spec::AxisValues;

const KERNEL: &str = "import triton\nimport torch.nn as nn\n\n@triton.jit\ndef kernel(x): pass\n\n";
const NEW: &str = "class ModelNew(nn.Module):\n    def forward(self, x): kernel[(1,)](x)\n";
const PROBLEM: &str = "\
import torch
import torch.nn as nn

batch_size = 16
dim = 1_024
hidden = 4 * dim
unused = 3
ratio = 0.5


class Model(nn.Module):
    def forward(self, x): return x


def get_inputs():
    return [torch.rand(batch_size, hidden)]


def get_init_inputs():
    return [hidden, ratio]
";

/// The oracle of a file with this text and these files beside it.
fn beside(text: &str, files: &[(&str, &str)]) -> Result<Oracle, OracleMiss> {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file in a temporary folder");
    }
    let text = format!("{KERNEL}{text}");
    find(&folder.path().join("kernel.py"), &text, &parse(&text), None)
}

fn linked(comment: &str) -> Result<Oracle, OracleMiss> {
    beside(&format!("# warpsmith: {comment}\n{NEW}"), &[("problem.py", PROBLEM)])
}

fn module(oracle: &Oracle) -> &ModuleReference {
    match &oracle.reference {
        Reference::Module(reference) => reference,
        other => panic!("{other:?}"),
    }
}

fn values(pairs: &[(&str, u64)]) -> AxisValues {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn the_reference_is_found_where_it_is() {
    let same = beside(&format!("{PROBLEM}\n\n{NEW}"), &[("model.py", PROBLEM)]).expect("a reference");
    assert_eq!(same.label.label, "KernelBench · Model · ref from the same file · train mode");
    assert!(module(&same).is_same_file);
    let found = beside(NEW, &[("model.py", PROBLEM)]).expect("a reference");
    assert_eq!(found.label.label, "KernelBench · model.py::Model (beside) · train mode");
    assert_eq!((found.label.rung, found.entry.as_str()), (0, ENTRY));
    let linked = linked("ref=./problem.py::Model eval=true").expect("a reference");
    assert_eq!(linked.label.label, "KernelBench · ./problem.py::Model · eval mode");
    assert!(module(&linked).eval);
}

/// A text that imports its reference and makes inputs of its own has no say in what is tried.
#[test]
fn what_the_judged_file_says_of_inputs_is_not_asked() {
    let cheat = format!("def get_inputs(): return []\ndef get_init_inputs(): return []\n{NEW}");
    for text in [cheat.clone(), format!("from model import Model\n{cheat}")] {
        let found = beside(&text, &[("model.py", PROBLEM)]).expect("a reference");
        assert!(module(&found).path.ends_with("model.py"));
        assert!(!module(&found).is_same_file);
    }
}

#[test]
fn numbers_are_replaced_where_they_stand() {
    let plain = linked("ref=./problem.py::Model").expect("a reference");
    let [size] = module(&plain).sizes.as_slice() else { panic!("one size") };
    assert_eq!(size.constants, values(&[("batch_size", 16), ("dim", 1024)]));
    assert_eq!(size.text, PROBLEM);
    let several = linked("ref=./problem.py::Model batch_size=2 dim=8,24").expect("a reference");
    let sizes = &module(&several).sizes;
    assert_eq!(sizes.len(), 2);
    assert_eq!(sizes[1].constants, values(&[("batch_size", 2), ("dim", 24)]));
    assert_eq!(sizes[1].text, PROBLEM.replace("= 16", "= 2").replace("= 1_024", "= 24"));
}

#[test]
fn the_comment_may_stand_above_the_kernel_and_without_a_reference() {
    let above = "# warpsmith: ref=./problem.py::Model\n@triton.jit\ndef other(x): pass\n\n";
    let found = beside(&format!("{above}{NEW}"), &[("problem.py", PROBLEM)]).expect("a reference");
    assert!(module(&found).path.ends_with("problem.py"));
    let sizes =
        beside(&format!("# warpsmith: dim=8\n{NEW}"), &[("reference.py", PROBLEM)]).expect("a reference");
    assert_eq!(module(&sizes).sizes[0].constants["dim"], 8);
    let own_name = NEW.replace(ENTRY, "Fast");
    let named =
        beside(&format!("# warpsmith: ref=./problem.py::Model\n{own_name}"), &[("problem.py", PROBLEM)]);
    assert_eq!(named.expect("a reference").entry, "Fast");
}

/// A comment above a function is believed before the convention.
#[test]
fn a_comment_of_another_kind_is_believed() {
    let function = "# warpsmith: ref=torch.nn.functional.silu x=f32[N] N=5\ndef run(x): kernel[(1,)](x)\n";
    let found = beside(&format!("{function}\n{NEW}"), &[("model.py", PROBLEM)]).expect("a reference");
    assert_eq!((found.entry.as_str(), found.label.rung), ("run", 4));
}

#[test]
fn every_problem_says_what_to_do() {
    let without = |part: &str| PROBLEM.replace(part, "other");
    let same =
        |comment: &str, problem: &str| beside(&format!("{problem}\n\n# warpsmith: {comment}\n{NEW}"), &[]);
    let misses = [
        ("nothing beside", beside(NEW, &[])),
        ("two beside", beside(NEW, &[("model.py", PROBLEM), ("reference.py", PROBLEM)])),
        ("no get_init_inputs", beside(NEW, &[("model.py", &without("get_init_inputs"))])),
        (
            "no get_inputs",
            beside(&format!("# warpsmith: ref=./p.py::Model\n{NEW}"), &[("p.py", &without("get_inputs"))]),
        ),
        ("no class", linked("ref=./problem.py::Modell")),
        ("no file", linked("ref=./nowhere.py::Model")),
        ("itself", same("ref=ModelNew", PROBLEM)),
        ("torch", linked("ref=torch.relu")),
        ("tensor", linked("ref=./problem.py::Model x=f16[M]")),
        ("unknown number", linked("ref=./problem.py::Model batch=4")),
        ("no whole number", linked("ref=./problem.py::Model hidden=4")),
        ("float value", linked("ref=./problem.py::Model dim=0.5")),
        ("assigned twice", same("ref=Model dim=4", &format!("{PROBLEM}\ndim = 5\n"))),
        ("bad eval", linked("ref=./problem.py::Model eval=1")),
        ("other word", linked("ref=./problem.py::Model grid=4")),
        ("too many", linked("ref=./problem.py::Model dim=1,2,3,4,5 batch_size=1,2,3,4")),
        ("several in one file", same("ref=Model dim=4,5", PROBLEM)),
        (
            "two comments",
            linked(&format!("ref=./problem.py::Model\n{NEW}\n# warpsmith: ref=./problem.py::Model")),
        ),
    ];
    let told: Vec<String> = misses
        .into_iter()
        .map(|(name, found)| match found {
            Ok(_) => panic!("{name}: found"),
            Err(miss) => format!("{name}: {}", without_folder(&miss.to_string())),
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

/// Temporary folders have other names each time.
fn without_folder(message: &str) -> String {
    let words = message.split(' ').map(|word| match Path::new(word).is_absolute() {
        true => {
            Path::new(word).file_name().map_or(word.to_owned(), |name| name.to_string_lossy().into_owned())
        }
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}
