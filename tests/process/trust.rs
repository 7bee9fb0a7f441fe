//! Trust with the real program: code of a folder that nobody trusts leaves no trace.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bad_inputs::KERNEL;
use crate::harness::{Sandbox, python_or_skip};
use crate::server::Server;

/// A project in which everything that could be run leaves a mark: the module, an interpreter of its own, git.
struct Project<'a> {
    sandbox: &'a Sandbox,
    text: String,
}

impl<'a> Project<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        let folder = sandbox.path().join("project");
        fs::create_dir_all(folder.join(".venv/bin")).expect("a folder");
        let mark = |name: &str| sandbox.path().join(name).display().to_string();
        script(&folder.join(".venv/bin/python"), &format!("touch {}\nexit 1", mark("ran-interpreter")));
        script(&folder.join("hook"), &format!("touch {}\ncat", mark("ran-git")));
        let hook = folder.join("hook").display().to_string();
        for arguments in [
            &["init", "--quiet"][..],
            &["config", "core.fsmonitor", &hook],
            &["config", "filter.mark.smudge", &hook],
            &["config", "filter.mark.clean", &hook],
        ] {
            let status =
                Command::new("git").env_remove("GIT_DIR").arg("-C").arg(&folder).args(arguments).status();
            assert!(status.is_ok_and(|status| status.success()));
        }
        fs::write(folder.join(".gitattributes"), "*.py filter=mark\n").expect("written");
        fs::write(folder.join("warpsmith.toml"), "[python]\npath = \".venv/bin/python\"\n").expect("written");
        let text = format!(
            "import pathlib\npathlib.Path({:?}).touch()\n{KERNEL}def kernel_fn(x):\n    return softmax(x)\n",
            mark("ran-module")
        );
        fs::write(folder.join("kernel.py"), &text).expect("written");
        Self { sandbox, text }
    }

    fn folder(&self) -> std::path::PathBuf {
        self.sandbox.path().join("project")
    }

    /// What has run.
    fn marks(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sandbox.path()).expect("a folder").flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.starts_with("ran-"));
        names.sort();
        names
    }

    fn open_and_save(&self, server: &mut Server) {
        server.open_and_save(&self.folder().join("kernel.py"), &self.text);
    }
}

fn script(path: &Path, body: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, format!("#!/bin/sh\n{body}\n")).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permitted");
}

/// The question, unanswered; its id.
fn question(server: &mut Server) -> Value {
    let message = server.wait_unanswered(|message| message["method"] == "window/showMessageRequest");
    message["id"].clone()
}

fn lens(server: &mut Server, project: &Project<'_>) -> String {
    let uri = crate::server::uri(&project.folder().join("kernel.py"));
    server.send(&json!({"jsonrpc": "2.0", "id": "lens", "method": "textDocument/codeLens",
        "params": {"textDocument": {"uri": uri}}}));
    let answer = server.wait_for(|message| message["id"] == "lens");
    answer["result"][0]["command"]["title"].as_str().unwrap_or_default().to_owned()
}

/// Nobody names an interpreter, so that the one of the folder would be asked.
#[test]
fn code_that_nobody_trusts_leaves_no_trace() {
    let sandbox = Sandbox::new("".into());
    let project = Project::new(&sandbox);
    let mut server = Server::start_untrusted(&sandbox, &project.folder());
    project.open_and_save(&mut server);
    let id = question(&mut server);
    assert_eq!(lens(&mut server, &project), "– not trusted: nothing is run");
    assert_eq!(project.marks(), Vec::<String>::new());
    assert_eq!(sandbox.survivors().len(), 1, "no process but the server");

    server.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"title": "Not now"}}));
    assert_eq!(lens(&mut server, &project), "– not trusted: nothing is run");
    drop(server);
    sandbox.assert_alone_within(Duration::from_secs(3));
    assert_eq!(project.marks(), Vec::<String>::new());

    let file = project.folder().join("kernel.py").display().to_string();
    assert_eq!(said(&sandbox, &["check", "--no-setup", &file]).0, Some(2));
    assert_eq!(project.marks(), ["ran-interpreter"], "somebody who asks for it has it run");
}

#[test]
fn an_answer_runs_the_check_and_is_remembered_until_it_is_taken_back() {
    let Some(python) = python_or_skip("an_answer_runs_the_check") else { return };
    let sandbox = Sandbox::new(python);
    let project = Project::new(&sandbox);
    let mark = sandbox.path().join("ran-module");
    let verdict = |server: &mut Server| {
        while !lens(server, &project).starts_with(['✓', '✗']) {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let mut server = Server::start_untrusted(&sandbox, &project.folder());
    project.open_and_save(&mut server);
    let id = question(&mut server);
    server.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"title": "Trust"}}));
    verdict(&mut server);
    assert!(mark.exists());
    drop(server);

    fs::remove_file(&mark).expect("it was there");
    let mut server = Server::start_untrusted(&sandbox, &project.folder());
    project.open_and_save(&mut server);
    verdict(&mut server);
    assert!(mark.exists(), "nobody is asked again");
    drop(server);

    fs::remove_file(&mark).expect("it was there");
    let folder = project.folder().display().to_string();
    assert!(said(&sandbox, &["trust", "--revoke", &folder]).1.starts_with("no longer trusted: "));
    let mut server = Server::start_untrusted(&sandbox, &project.folder());
    project.open_and_save(&mut server);
    question(&mut server);
    assert!(!mark.exists());
}

/// Status and what was printed.
fn said(sandbox: &Sandbox, arguments: &[&str]) -> (Option<i32>, String) {
    let output = sandbox.run(arguments);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("UTF-8"))
}

#[test]
fn the_command_line_grants_lists_and_revokes() {
    let sandbox = Sandbox::new("python3".into());
    fs::create_dir_all(sandbox.path().join("a/b")).expect("a folder");
    let real = fs::canonicalize(sandbox.path()).expect("it exists").join("a");
    let (a, b) = (real.display().to_string(), real.join("b").display().to_string());
    let gone = real.join("gone").display().to_string();
    let line = |status: i32, text: String| (Some(status), format!("{text}\n"));
    let trust = |arguments: &[&str]| said(&sandbox, &[&["trust"], arguments].concat());
    assert_eq!(trust(&["--list"]), line(0, "no folder is trusted".to_owned()));
    assert_eq!(trust(&[&a]), line(0, format!("trusted: {a} and all below it")));
    assert_eq!(trust(&[&b]), line(0, format!("trusted: {b} and all below it")));
    assert_eq!(trust(&["--list"]), line(0, format!("{a} and all below it\n{b} and all below it")));
    let still = format!(
        "no longer trusted: {b} and all below it\nwarpsmith: {b} is still trusted, by {a} and all below it; revoke that"
    );
    assert_eq!(trust(&["--revoke", &b]), line(2, still));
    assert_eq!(trust(&["--revoke", &a]), line(0, format!("no longer trusted: {a} and all below it")));
    assert_eq!(trust(&["--revoke", &a]), line(0, format!("{a} was not trusted")));
    assert_eq!(trust(&[&gone]), line(2, format!("warpsmith: {gone} is no folder")));
    assert_eq!(trust(&["--list", "--revoke"]).0, Some(64));

    let file = sandbox.path().join("state/warpsmith/trust.json");
    fs::write(&file, "{").expect("written");
    for arguments in [&["--list"][..], &[&a], &["--revoke", &a]] {
        let (status, text) = trust(arguments);
        assert!(status == Some(2) && text.contains(&file.display().to_string()), "{status:?} {text}");
    }
}

/// To name a file on a command line is a wish to run it.
#[test]
fn the_command_line_asks_nobody() {
    let Some(python) = python_or_skip("the_command_line_asks_nobody") else { return };
    let sandbox = Sandbox::new(python);
    let project = Project::new(&sandbox);
    let checked = sandbox.check(&project.folder().join("kernel.py"), &["--stage", "smoke", "--dtype", "f32"]);
    assert_eq!(checked.verdict(), "passed", "{}", checked.describe());
    assert_eq!(project.marks(), ["ran-module"], "and git runs nothing of the folder in any case");
}
