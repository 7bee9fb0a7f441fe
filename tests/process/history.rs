//! `warpsmith history` over what real checks leave.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use crate::bad_inputs::KERNEL;
use crate::harness::{Sandbox, python_or_skip};

const RIGHT: &str = "def kernel_fn(x):\n    return softmax(x)\n";
const SMOKE: [&str; 4] = ["--stage", "smoke", "--dtype", "f32"];

fn history(sandbox: &Sandbox, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = sandbox.warpsmith().arg("history").args(arguments).output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn records(sandbox: &Sandbox, file: &Path) -> Vec<Value> {
    let (_, stdout, stderr) = history(sandbox, &["--json", file.to_str().expect("UTF-8")]);
    assert_eq!(stderr, "");
    stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn every_verdict_is_kept_and_told_with_what_changed() {
    let Some(python) = python_or_skip("every_verdict_is_kept") else { return };
    let sandbox = Sandbox::new(python);
    let (status, stdout, stderr) = history(&sandbox, &[]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout, "no verdict is kept yet; `warpsmith check FILE` makes one\n");
    let right = format!("{KERNEL}{RIGHT}");
    let file = sandbox.write("k.py", &right);
    assert_eq!(sandbox.check(&file, &SMOKE).verdict(), "passed");
    sandbox.write("k.py", &right.replace("return softmax(x)", "return softmax(x) * 2"));
    assert_eq!(sandbox.check(&file, &SMOKE).verdict(), "wrong");
    sandbox.write("k.py", &format!("# the same code\n{right}"));
    assert_eq!(sandbox.check(&file, &SMOKE).verdict(), "passed");

    let records = records(&sandbox, &file);
    let told: Vec<(&Value, &Value, &Value)> =
        records.iter().map(|record| (&record["verdict"], &record["cases"], &record["changed"])).collect();
    let cases = |passed: u32| serde_json::json!({"passed": passed, "wrong": 1 - passed, "could_not_run": 0});
    assert_eq!(
        told,
        [
            (&"passed".into(), &cases(1), &serde_json::json!(["was wrong", "gone: mismatch"])),
            (&"wrong".into(), &cases(0), &serde_json::json!(["was passed", "new: mismatch"])),
            (&"passed".into(), &cases(1), &serde_json::json!(["first"])),
        ]
    );
    let [newest, wrong, oldest] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(newest["code_hash"], oldest["code_hash"]);
    assert_ne!(newest["source_hash"], oldest["source_hash"]);
    assert_eq!((&wrong["codes"][0], &wrong["seed"]), (&"mismatch".into(), &"7".into()));
    assert_eq!(wrong["asked"], "--dtype f32 --stage smoke");
    assert_eq!((&wrong["entry"], &wrong["method"]), (&"kernel_fn".into(), &"triton-interpreter".into()));
    assert!(wrong["versions"]["torch"].is_string() && wrong["oracle"].is_string(), "{wrong}");

    let (_, table, _) = history(&sandbox, &["-n", "2"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("when (UTC)") && lines[0].ends_with("changed"), "{table}");
    let (first, second) = (lines[1], lines[2]);
    assert!(
        first.contains("✓ passed") && first.contains("was wrong; gone: mismatch; only --dtype f32"),
        "{table}"
    );
    assert!(second.contains("✗ wrong") && second.contains("kernel_fn  0/1"), "{table}");

    assert_eq!(history(&sandbox, &["--keep", "1"]).1, "dropped 2 verdicts and 0 times, kept 1\n");
    assert_eq!(history(&sandbox, &["--prune", "30"]).1, "dropped 0 verdicts and 0 times, kept 1\n");
    assert_eq!(history(&sandbox, &["--prune", "0"]).1, "dropped 1 verdict and 0 times, kept 0\n");
    let (status, stdout, _) = history(&sandbox, &[file.to_str().expect("UTF-8")]);
    assert_eq!(status, Some(0));
    assert!(stdout.ends_with("k.py` makes one\n"), "{stdout}");
    assert_eq!(history(&sandbox, &["--prune", "1", "--keep", "1"]).0, Some(64));
}

/// What did not come to a case is a verdict too; a history that cannot be written changes none.
#[test]
fn a_check_is_none_the_worse_for_its_history() {
    let Some(python) = python_or_skip("a_check_is_none_the_worse") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("k.py", "def f(x):\n    return x\n");
    assert_eq!(sandbox.check(&file, &[]).verdict(), "could-not-run");
    let records = records(&sandbox, &file);
    assert_eq!(records.len(), 1);
    assert_eq!((&records[0]["verdict"], &records[0]["entry"]), (&"could-not-run".into(), &Value::Null));

    let store = sandbox.write("marker", "").with_file_name("state").join("warpsmith/history.sqlite");
    let newer = Connection::open(&store).expect("it is a database");
    newer.pragma_update(None, "user_version", 99).expect("written");
    drop(newer);
    assert_eq!(sandbox.check(&file, &[]).verdict(), "could-not-run");
    let (status, stdout, stderr) = history(&sandbox, &[]);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("a newer warpsmith wrote it"), "{stderr}");

    fs::write(&store, "no database ".repeat(1000)).expect("written");
    let (status, stdout, stderr) = history(&sandbox, &[]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("was broken; it was moved to"), "{stderr}");
    assert_eq!(stdout, "no verdict is kept yet; `warpsmith check FILE` makes one\n");
    assert_eq!(sandbox.check(&file, &[]).verdict(), "could-not-run");
    assert_eq!(history(&sandbox, &["--json"]).1.lines().count(), 1);
}
