//! All data of FlashInfer-Bench that lies beside the project.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::spec::{Definition, Trace};

/// The folder of the test data, or `None` with a line that the test command counts.
#[expect(clippy::print_stdout, reason = "the test command counts skipped tests by this line")]
fn test_data() -> Option<PathBuf> {
    let folder = std::env::var_os("WARPSMITH_TEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from)
        .join("flashinfer_trace");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no test data");
    None
}

fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn definitions(root: &Path) -> BTreeMap<String, (serde_json::Value, Definition)> {
    let mut definitions = BTreeMap::new();
    for path in files_below(&root.join("definitions"), "json") {
        let text = fs::read_to_string(&path).expect("readable");
        let file_name = path.to_str().expect("a name in UTF-8");
        let definition = Definition::from_json(&text, file_name).unwrap_or_else(|error| panic!("{error}"));
        let mut value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        // An empty list and none are the same; we write none.
        if value["constraints"].as_array().is_some_and(Vec::is_empty) {
            value.as_object_mut().expect("an object").shift_remove("constraints");
        }
        definitions.insert(definition.name.clone(), (value, definition));
    }
    definitions
}

#[test]
fn every_definition_loads_and_is_written_as_it_was_read() {
    let Some(root) = test_data() else { return };
    let definitions = definitions(&root);
    assert_eq!(definitions.len(), 156);
    for (value, definition) in definitions.values() {
        assert_eq!(serde_json::to_value(definition).expect("serializes"), *value, "{}", definition.name);
    }
    let other_order: Vec<&str> = definitions
        .values()
        .filter(|(_, definition)| {
            definition.warnings.iter().any(|warning| warning.message.contains("in another order"))
        })
        .map(|(_, definition)| definition.name.as_str())
        .collect();
    insta::assert_snapshot!(other_order.join("\n"));
}

#[test]
fn every_workload_loads_suits_its_definition_and_is_written_as_it_was_read() {
    let Some(root) = test_data() else { return };
    let definitions = definitions(&root);
    let mut count = 0;
    for path in files_below(&root.join("workloads"), "jsonl") {
        let text = fs::read_to_string(&path).expect("readable");
        let (traces, errors) = Trace::read_lines(&text, path.to_str().expect("a name in UTF-8"));
        assert_eq!(errors, []);
        count += traces.len();
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        for (trace, line) in traces.iter().zip(lines) {
            let (_, definition) = &definitions[&trace.definition];
            assert_eq!(trace.workload.problems(definition), [], "{}", trace.workload.uuid);
            for (name, _) in definition.inputs.iter().chain(&definition.outputs) {
                let shape = definition
                    .input_shape(name, &trace.workload.axes)
                    .or_else(|_| definition.output_shape(name, &trace.workload.axes));
                assert!(shape.is_ok(), "{name}: {shape:?}");
            }
            let read: serde_json::Value = serde_json::from_str(line).expect("valid JSON");
            let written = trace.to_json_line().expect("serializes");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&written).expect("valid JSON"), read);
        }
    }
    assert_eq!(count, 663);
}
