//! `warpsmith.toml` says what a kernel computes and which Python runs it.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Checked, Sandbox, python_or_skip, silu_kernel};
use crate::server::{Server, uri};

const SILU: &str = concat!(
    silu_kernel!(),
    "\
def silu(x):
    y = torch.empty_like(x)
    _silu[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"
);
const PROJECT: &str = "\
[[kernel]]
file = \"silu.py\"
entry = \"silu\"
ref = \"torch.nn.functional.silu\"
x = \"f16|f32[M,N]\"
M = [1, 13]
N = \"255\"
";

fn only_code(checked: &Checked) -> (String, String) {
    let findings = checked.findings();
    let text =
        |key: &str| findings.first().and_then(|finding| finding[key].as_str()).unwrap_or_default().to_owned();
    (text("code"), text("message"))
}

#[test]
fn the_words_of_the_comment_in_a_file_of_the_project() {
    let Some(python) = python_or_skip("the_words_of_the_comment_in_a_file_of_the_project") else { return };
    let sandbox = Sandbox::new(python);
    let project = sandbox.write("warpsmith.toml", PROJECT);
    let kernel = sandbox.write("silu.py", SILU);
    let right = sandbox.check(&kernel, &["--stage", "smoke,sweep"]);
    assert_eq!((right.verdict(), right.cases.len()), ("passed", 4), "{}", right.describe());
    assert_eq!(right.summary["oracle"]["rung"], 5);
    assert_eq!(right.summary["oracle"]["label"], "warpsmith.toml · torch.nn.functional.silu");
    let described_by = &right.summary["provenance"]["described_by"];
    let hash = blake3::hash(PROJECT.as_bytes()).to_hex().to_string();
    assert_eq!(described_by[project.display().to_string()], Value::String(hash));
    let wrong = SILU.replace("tl.sigmoid(value)", "tl.sigmoid(1.02 * value)");
    let wrong = sandbox.check(&sandbox.write("silu.py", &wrong), &[]);
    assert_eq!((wrong.verdict(), wrong.codes()[0].as_str()), ("wrong", "mismatch"), "{}", wrong.describe());
    sandbox.write("warpsmith.toml", &PROJECT.replace("f16|f32", "f61"));
    let (code, message) = only_code(&sandbox.check(&kernel, &[]));
    assert_eq!(code, "bad-description");
    assert!(message.contains("warpsmith.toml:5:1: `x=f61[M,N]`"), "{message}");
}

/// Nobody else names an interpreter, so the project's file decides, also when it is wrong.
#[test]
fn the_project_names_its_python() {
    let Some(python) = python_or_skip("the_project_names_its_python") else { return };
    let sandbox = Sandbox::new(python.clone());
    let kernel = sandbox.write("silu.py", SILU);
    let check = |python: &str| -> Value {
        sandbox.write("warpsmith.toml", &format!("[python]\npath = \"{python}\"\n\n{PROJECT}"));
        let mut command = sandbox.warpsmith();
        command.env_remove("WARPSMITH_PYTHON").env_remove("VIRTUAL_ENV").env("PATH", "/usr/bin:/bin");
        command.args(["check", "--json", "--no-setup", "--stage", "smoke", "--dtype", "f32"]).arg(&kernel);
        let output = command.output().expect("the binary runs");
        let stdout = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        serde_json::from_str(stdout.lines().last().unwrap_or_default()).expect("a summary")
    };
    assert_eq!(check(&python.display().to_string())["verdict"], "passed");
    let missing = check("nowhere/bin/python");
    assert_eq!(missing["findings"][0]["code"], "no-python", "{missing}");
    assert!(missing.to_string().contains("warpsmith.toml"), "{missing}");
    sandbox.write(
        "silu.py",
        &SILU
            .replace("def silu(x):", "# warpsmith: ref=torch.nn.functional.silu x=f32[N] N=70\ndef silu(x):"),
    );
    let broken = check("python\"");
    assert_eq!(broken["findings"][0]["code"], "unusable-python", "{broken}");
    assert!(fs::read_to_string(&kernel).is_ok());
}

/// The text of the kernel stays; what stands beside it changes, and each save says so.
#[test]
fn an_editor_session_reads_it_anew() {
    let Some(python) = python_or_skip("an_editor_session_reads_it_anew") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("silu.py", SILU);
    sandbox.write("warpsmith.toml", PROJECT);
    let mut server = Server::start(&sandbox);
    server.open(&file, SILU);
    let title = |server: &mut Server, id: u64| {
        server.send(&json!({"jsonrpc": "2.0", "id": id, "method": "textDocument/codeLens",
            "params": {"textDocument": {"uri": uri(&file)}}}));
        let answer = server.wait_for(|message| message["id"] == id && message["method"].is_null());
        answer["result"][0]["command"]["title"].as_str().unwrap_or_default().to_owned()
    };
    let mut ids = 100..;
    let mut lens_until = |server: &mut Server, wanted: &str| {
        for id in ids.by_ref() {
            let found = title(server, id);
            if found.contains(wanted) {
                return;
            }
            assert!(id < 1000, "no {wanted:?}: {found:?}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    };
    server.save(&file, 2, SILU);
    lens_until(&mut server, "✓ warpsmith.toml · torch.nn.functional.silu");
    sandbox.write("warpsmith.toml", &PROJECT.replace("f16|f32", "f61"));
    server.save(&file, 3, SILU);
    let published = server.wait_for(|message| {
        message["method"] == "textDocument/publishDiagnostics"
            && message["params"]["diagnostics"][0]["code"] == "bad-description"
    });
    let diagnostic = &published["params"]["diagnostics"][0];
    assert_eq!((&diagnostic["range"]["start"]["line"], &diagnostic["severity"]), (&json!(0), &json!(3)));
    assert!(diagnostic["message"].to_string().contains("warpsmith.toml:5:1"), "{diagnostic}");
    sandbox.write("warpsmith.toml", &PROJECT.replace("functional.silu", "functional.relu"));
    server.save(&file, 4, SILU);
    lens_until(&mut server, "✗ wrong");
}
