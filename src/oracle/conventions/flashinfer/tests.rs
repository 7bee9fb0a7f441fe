use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::oracle::{ForeignFile, Oracle, Reference, find};
use crate::source::parse;

const KERNEL: &str = "import triton\n\n\n@triton.jit\ndef kernel(x): pass\n\n\n";
const RUN: &str = "def run(x, weight):\n    kernel[(1,)](x)\n";

/// A folder that ends a search upwards, with files in it.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.0.path().join(".git")).unwrap();
        files.iter().for_each(|(name, text)| folder.write(name, text));
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What is found for this kernel file; errors with the folder's name taken out.
    fn oracle(&self, kernel: &str, code: &str) -> Result<Oracle, String> {
        let text = format!("{KERNEL}{code}");
        find(&self.path(kernel), &text, &parse(&text), None).map_err(|miss| self.plain(&miss.to_string()))
    }

    fn plain(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn norm() -> Value {
    json!({
        "name": "norm_h8", "op_type": "norm",
        "axes": {"rows": {"type": "var"}, "width": {"type": "const", "value": 8}},
        "inputs": {
            "x": {"shape": ["rows", "width"], "dtype": "float16"},
            "weight": {"shape": ["width"], "dtype": "float16"},
        },
        "outputs": {"y": {"shape": ["rows", "width"], "dtype": "float16"}},
        "reference": "import torch\n\ndef run(x, weight):\n    return x * weight\n",
    })
}

/// The Definition above with one value replaced.
fn norm_with(pointer: &str, value: Value) -> String {
    let mut definition = norm();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    definition.pointer_mut(parent).unwrap()[key] = value;
    definition.to_string()
}

fn workload(axes: Value, inputs: Value) -> String {
    let workload = json!({"uuid": "0123456789", "axes": axes, "inputs": inputs});
    json!({"definition": "norm_h8", "solution": null, "workload": workload, "evaluation": null}).to_string()
}

fn random() -> Value {
    json!({"x": {"type": "random"}, "weight": {"type": "random"}})
}

fn sizes(oracle: &Oracle) -> Vec<&str> {
    oracle.variants[0].definition.extras.sizes.iter().map(|(name, _)| name.as_str()).collect()
}

fn left_out(oracle: &Oracle) -> Vec<String> {
    oracle.left_out.iter().map(|line| format!("{} ({})", line.what, line.why)).collect()
}

#[test]
fn a_definition_beside_the_kernel() {
    for name in ["definition.json", "norm_h8.json", "norm.json"] {
        let folder =
            Folder::new(&[(name, &norm().to_string()), ("package.json", "{}"), ("broken.json", "{")]);
        let oracle = folder.oracle("kernel.py", RUN).unwrap();
        assert_eq!(oracle.label.rung, 0);
        assert_eq!(oracle.label.label, format!("FlashInfer-Bench norm_h8 · reference of {name}"));
        assert_eq!((oracle.entry.as_str(), oracle.destinations.len()), ("run", 0));
        let Reference::Foreign(reference) = &oracle.reference else { panic!("{:?}", oracle.reference) };
        let ForeignFile::Text { path, .. } = &reference.file else { panic!("{:?}", reference.file) };
        assert_eq!(*path, folder.path("norm_h8.reference.py"));
        assert_eq!(oracle.files, [folder.path(name)]);
        assert!(oracle.variants[0].definition.extras.only_sizes, "the reference is not ours");
    }
    assert!(Folder::new(&[]).oracle("kernel.py", RUN).unwrap_err().contains("nothing says"));
    // Of another folder nobody says that it speaks of this kernel.
    let above = Folder::new(&[("definition.json", &norm().to_string())]);
    assert!(above.oracle("kernels/kernel.py", RUN).unwrap_err().contains("nothing says"));
}

#[test]
fn the_layout_of_the_starter_kit() {
    let config = "[solution]\nname = \"s\"\ndefinition = \"norm_h8\"\nauthor = \"a\"\n\n[build]\nlanguage = \"triton\"\n";
    let definition = norm().to_string();
    let entry = |code: &str, entry: &str, place: &str, more: &str| {
        let config = format!("{config}entry_point = \"{entry}\"\n{more}");
        let folder = Folder::new(&[("config.toml", &config), (place, &definition)]);
        let oracle = folder.oracle("solution/triton/kernel.py", code)?;
        let files: Vec<String> =
            oracle.files.iter().map(|path| folder.plain(&path.display().to_string())).collect();
        Ok::<_, String>((oracle.entry.clone(), oracle.destinations.len(), files.join(" ")))
    };
    let writes = "def f(a, b, out):\n    kernel[(1,)](a)\n";
    for place in
        ["definition.json", "norm_h8.json", "solution/triton/norm_h8.json", "definitions/norm/norm_h8.json"]
    {
        let expected = ("f".to_owned(), 1, format!("{place} config.toml"));
        assert_eq!(entry(writes, "kernel.py::f", place, ""), Ok(expected.clone()));
        assert_eq!(entry(writes, "f", place, ""), Ok(expected));
    }
    let returns = entry(RUN, "kernel.py::run", "definition.json", "destination_passing_style = false\n");
    assert_eq!(returns.unwrap().1, 0);
    let plain = Folder::new(&[("definition.json", &definition)]);
    assert!(plain.oracle("solution/triton/kernel.py", RUN).is_ok());
    assert!(plain.oracle("solution/kernel.py", RUN).is_ok());
}

#[test]
fn a_solution_beside_the_kernel_names_the_entry() {
    let solution = |style: Value| {
        json!({
            "name": "s", "definition": "norm_h8", "author": "a",
            "spec": {"language": "triton", "target_hardware": ["LOCAL"], "entry_point": "kernel.py::go",
                     "destination_passing_style": style},
            "sources": [{"path": "kernel.py", "content": "old"}, {"path": "helper.py", "content": ""}],
        })
        .to_string()
    };
    let folder =
        Folder::new(&[("solution.json", &solution(json!(false))), ("norm_h8.json", &norm().to_string())]);
    let go = "def go(x, weight): kernel[(1,)](x)\n";
    assert_eq!(folder.oracle("kernel.py", go).unwrap().entry, "go");
    let helper = folder.oracle("helper.py", go).unwrap_err();
    assert!(helper.contains("check `kernel.py` instead"), "{helper}");
    // It says nothing of other files; the Definition beside them does.
    assert_eq!(folder.oracle("other.py", RUN).unwrap().entry, "run");
    folder.write("solution.json", &solution(json!(true)));
    let writes = folder.oracle("kernel.py", "def go(x, weight, y): kernel[(1,)](x)\n").unwrap();
    assert_eq!(writes.destination_arguments().next().unwrap().parameter, "y");
}

#[test]
fn arguments_go_by_position() {
    let folder = Folder::new(&[("definition.json", &norm().to_string())]);
    let called = |signature: &str| {
        let oracle = folder.oracle("kernel.py", &format!("def run({signature}): kernel[(1,)](1)\n"))?;
        let mapped = |mappings: &[crate::oracle::Mapping]| {
            let words = mappings.iter().map(|mapping| format!("{}={}", mapping.parameter, mapping.input));
            words.collect::<Vec<_>>().join(" ")
        };
        let (inputs, outputs) = (mapped(&oracle.variants[0].parameters), mapped(&oracle.destinations));
        Ok::<_, String>(format!("{inputs} | {outputs}"))
    };
    assert_eq!(called("x, weight").as_deref(), Ok("x=x weight=weight | "));
    assert_eq!(called("a, b: torch.Tensor").as_deref(), Ok("a=x b=weight | "));
    assert_eq!(called("a, b, c").as_deref(), Ok("a=x b=weight | c=y"));
    assert_eq!(called("a, b, block=4, **rest").as_deref(), Ok("a=x b=weight | "));
    assert_eq!(called("a, b, c, *, block=4").as_deref(), Ok("a=x b=weight | c=y"));
    let problems =
        ["", "x", "x, w, y, z", "weight, x", "*args", "x, *, weight", "x, weight, /", "x, y, weight"];
    let told: Vec<String> = problems
        .iter()
        .map(|signature| format!("run({signature}): {}", called(signature).expect_err(signature)))
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn every_error_says_what_to_do() {
    let config = |definition: &str, more: &str| {
        format!("[solution]\ndefinition = \"{definition}\"\n\n[build]\n{more}\n")
    };
    let triton = "language = \"triton\"\nentry_point = \"kernel.py::run\"";
    let axis = |name: &str| norm_with("/inputs/x/shape", json!([name, "width"]));
    let whole = norm_with("/inputs/weight/dtype", json!("int32"));
    let scalar = norm_with("/inputs/weight/shape", Value::Null);
    let cyclic = norm_with("/warpsmith", json!({"derived": {"rows": "rows + 1"}}));
    let other = norm_with("/name", json!("other"));
    let files = |workloads: &str| {
        vec![("definition.json", norm().to_string()), ("norm_h8.jsonl", workloads.to_owned())]
    };
    let one = |name: &'static str, text: String| vec![(name, text)];
    let safetensors = json!({"x": {"type": "safetensors", "path": "a/b.safetensors", "tensor_key": "x"},
                             "weight": {"type": "random"}});
    let cases = [
        ("unparsable", one("definition.json", "{\"name\": ".to_owned()), RUN),
        ("missing axis", one("definition.json", axis("lines")), RUN),
        ("cyclic axis", one("definition.json", cyclic), RUN),
        ("no entry", one("definition.json", norm().to_string()), "def go(x): kernel[(1,)](x)\n"),
        (
            "entry is a kernel",
            one("definition.json", norm().to_string()),
            "@triton.jit\ndef run(x, w): pass\n",
        ),
        (
            "two Definitions",
            vec![("a.json", norm_with("/name", json!("a"))), ("b.json", norm_with("/name", json!("b")))],
            RUN,
        ),
        ("whole numbers", one("definition.json", whole), RUN),
        ("scalar without value", one("definition.json", scalar), RUN),
        ("sampling", one("definition.json", norm_with("/op_type", json!("sampling"))), RUN),
        ("four bits", one("definition.json", norm_with("/inputs/weight/dtype", json!("float4_e2m1"))), RUN),
        (
            "undecidable",
            one("definition.json", norm_with("/constraints", json!(["rows == weight[0].item()"]))),
            RUN,
        ),
        (
            "impossible",
            one("definition.json", norm_with("/constraints", json!(["rows > 8", "rows < 9"]))),
            RUN,
        ),
        (
            "another Definition",
            vec![("config.toml", config("norm_h9", triton)), ("definition.json", other)],
            RUN,
        ),
        ("no Definition", one("config.toml", config("norm_h9", triton)), RUN),
        (
            "cuda",
            one("config.toml", config("norm_h8", "language = \"cuda\"\nentry_point = \"kernel.py::run\"")),
            RUN,
        ),
        (
            "unknown language",
            one("config.toml", config("norm_h8", "language = \"rust\"\nentry_point = \"f\"")),
            RUN,
        ),
        ("broken config", one("config.toml", config("norm_h8", "language = ")), RUN),
        ("broken solution", one("solution.json", "{\"entry_point\": \"kernel.py::run\",".to_owned()), RUN),
        ("only files of tensors", files(&workload(json!({"rows": 3}), safetensors)), RUN),
        ("no Workloads", files("\n"), RUN),
        ("broken Workloads", files("{\n"), RUN),
    ];
    let told: Vec<String> = cases
        .into_iter()
        .map(|(case, files, code)| {
            let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
            let folder = Folder::new(&files);
            format!("{case}: {}", folder.oracle("kernel.py", code).expect_err(case))
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn shapes_that_are_made_up_respect_the_constraints() {
    let sizes_of = |constraints: Value| {
        let folder = Folder::new(&[("definition.json", &norm_with("/constraints", constraints))]);
        let oracle = folder.oracle("kernel.py", RUN).unwrap();
        sizes(&oracle).join(", ")
    };
    assert_eq!(sizes_of(json!([])), "rows=5, rows=1, rows=31, rows=3, rows=129, rows=257, rows=8, rows=2");
    assert_eq!(sizes_of(json!(["rows % width == 0", "rows >= 16"])), "rows=16, rows=64, rows=128, rows=256");
    assert_eq!(sizes_of(json!(["rows == 2 * width + 1"])), "rows=17");
    let fixed = norm_with("/axes/rows", json!({"type": "const", "value": 3}));
    let folder = Folder::new(&[("definition.json", &fixed)]);
    assert_eq!(sizes(&folder.oracle("kernel.py", RUN).unwrap()), ["fixed"]);
}

#[test]
fn workloads_are_run_or_told_of_one_by_one() {
    let mut lines: Vec<String> = [7, 3, 7].map(|rows| workload(json!({"rows": rows}), random())).to_vec();
    lines.push(workload(
        json!({"rows": 5}),
        json!({"x": {"type": "safetensors", "path": "b/c.safetensors", "tensor_key": "x"}, "weight": {"type": "random"}}),
    ));
    lines.push(workload(json!({"rows": 10}), random()));
    lines.push(workload(json!({"lines": 10}), random()));
    lines.push(workload(json!({"rows": 4}), random()).replace("norm_h8", "norm_h9"));
    lines.push("{}".to_owned());
    let constrained = norm_with("/constraints", json!(["rows < 9"]));
    for (definition, workloads) in [
        ("definition.json", "definition.jsonl"),
        ("definition.json", "norm_h8.jsonl"),
        ("definition.json", "workloads/norm/norm_h8.jsonl"),
        ("definition.json", "workloads/norm_h8.jsonl"),
    ] {
        let folder = Folder::new(&[(definition, &constrained), (workloads, &lines.join("\n"))]);
        let oracle = folder.oracle("kernel.py", RUN).unwrap();
        assert_eq!(sizes(&oracle), ["rows=3", "rows=7"], "{workloads}");
        assert_eq!(oracle.files, [folder.path(definition), folder.path(workloads)]);
        if workloads == "norm_h8.jsonl" {
            insta::assert_snapshot!(left_out(&oracle).join("\n"));
        }
    }
}

#[test]
fn of_many_workloads_some_are_run() {
    let lines: Vec<String> = (1..100).map(|rows| workload(json!({"rows": rows}), random())).collect();
    let folder =
        Folder::new(&[("definition.json", &norm().to_string()), ("norm_h8.jsonl", &lines.join("\n"))]);
    let oracle = folder.oracle("kernel.py", RUN).unwrap();
    let sizes = sizes(&oracle);
    assert_eq!((sizes.len(), sizes[0], sizes[23]), (24, "rows=1", "rows=99"));
    assert_eq!(
        left_out(&oracle),
        ["75 of the 99 Workloads in norm_h8.jsonl (24 are run, spread from the smallest to the largest)"]
    );
}

#[test]
fn scalars_belong_to_their_workload() {
    let definition = norm_with("/inputs/weight", json!({"shape": null, "dtype": "float32"}));
    let with = |rows: u64, value: Value| {
        workload(
            json!({"rows": rows}),
            json!({"x": {"type": "random"}, "weight": {"type": "scalar", "value": value}}),
        )
    };
    let lines = [with(3, json!(0.5)), with(5, json!(2.0)), with(7, json!(0.5))].join("\n");
    let folder = Folder::new(&[("definition.json", &definition), ("norm_h8.jsonl", &lines)]);
    let oracle = folder.oracle("kernel.py", RUN).unwrap();
    assert_eq!(sizes(&oracle), ["rows=3", "rows=5 weight=2.0", "rows=7"]);
    let extras = &oracle.variants[0].definition.extras;
    assert_eq!(extras.args["weight"], json!(0.5));
    assert_eq!(extras.size_scalars["rows=5 weight=2.0"]["weight"], json!(2.0));
    assert!(extras.size_scalars["rows=7"].is_empty());
}

#[test]
fn whole_numbers_need_a_range_that_somebody_states() {
    let mut definition = norm();
    definition["inputs"]["weight"]["dtype"] = json!("int32");
    definition["warpsmith"] = json!({"inputs": {"weight": {"int": [0, "width"]}}});
    let folder = Folder::new(&[("definition.json", &definition.to_string())]);
    assert!(folder.oracle("kernel.py", RUN).is_ok());
}

/// Every Definition of FlashInfer-Bench that lies beside the project is judged or told why not.
#[test]
fn upstream_definitions_are_taken_or_refused_with_a_reason() {
    let data = std::env::var_os("WARPSMITH_TEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from)
        .join("flashinfer_trace/definitions");
    let Ok(kinds) = fs::read_dir(data) else { return };
    let (mut taken, mut refused) = (0, 0);
    for file in kinds.flatten().flat_map(|kind| fs::read_dir(kind.path()).unwrap()) {
        let path = file.unwrap().path();
        let definition: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let names: Vec<&str> = definition["inputs"].as_object().unwrap().keys().map(String::as_str).collect();
        let text = format!("{KERNEL}def run({}): kernel[(1,)](1)\n", names.join(", "));
        let kernel = path.with_file_name("kernel.py");
        let comment =
            format!("# warpsmith: definition=./{}\ndef run(", path.file_name().unwrap().to_str().unwrap());
        let text = text.replace("def run(", &comment);
        match find(&kernel, &text, &parse(&text), None) {
            Ok(_) => taken += 1,
            Err(miss) => {
                refused += 1;
                assert!(miss.range.is_some(), "{miss}");
            }
        }
    }
    assert_eq!((taken, refused), (58, 98));
}
