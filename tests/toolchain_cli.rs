//! `warpsmith setup` and `warpsmith doctor` as a user starts them, with a stub uv and a stub Python.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A machine in a temporary folder. While the file `slow` exists, uv hangs in its download.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let answer = |torch: &str| {
            format!(
                r#"{{"warpsmith_probe":1,"executable":"/nowhere","python":"3.12.1","folders":[],
                "externally_managed":false,"has_pip":false,"can_make_venv":true,"torch":{torch},
                "triton":{{"version":"3.9.0","site":"/site"}},"numpy":{{"version":"2.4.6","site":"/site"}},
                "torch_in_user_site":null}}"#
            )
            .replace(['\n', ' '], "")
        };
        let torch = r#"{"version":"2.15.0","site":"/site"}"#;
        machine.script("bin/python3", &format!("echo '{}'", answer("null")));
        machine.script("complete-python", &format!("echo '{}'", answer(torch)));
        let body = format!(
            "for last; do :; done\n\
             case $1 in\n\
             venv) mkdir -p \"$last/bin\" && cp {root}/complete-python \"$last/bin/python\";;\n\
             pip) echo 'Downloading torch (850.2MiB)' >&2\n\
               [ -e {root}/slow ] || exit 0; trap '' TERM; echo $$ > {root}/pid.new\n\
               mv {root}/pid.new {root}/pid; while :; do sleep 0.1; done;;\n\
             esac",
            root = machine.folder.path().display(),
        );
        machine.script("bin/uv", &body);
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn script(&self, path: &str, body: &str) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpsmith"));
        let path =
            std::env::join_paths([&*self.at("bin"), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
        command.args(arguments).env_clear().env("PATH", path).env("HOME", self.at("home"));
        command.env("WARPSMITH_CACHE_DIR", self.at("cache")).env("WARPSMITH_STATE_DIR", self.at("state"));
        command.env("WARPSMITH_SETUP_REQUIREMENTS", "torch triton numpy").current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts a setup and waits until uv downloads.
    fn start_slow_setup(&self) -> (Child, Pid) {
        std::fs::write(self.at("slow"), "").unwrap();
        let child = self.command(&["setup", "--yes"]).spawn().unwrap();
        let pid = within_ten_seconds(|| std::fs::read_to_string(self.at("pid")).ok());
        let pid = pid.expect("uv was started").trim().parse().unwrap();
        std::fs::remove_file(self.at("slow")).unwrap();
        std::fs::remove_file(self.at("pid")).unwrap();
        (child, Pid::from_raw(pid).unwrap())
    }

    /// A text with the folder, sizes and free space taken out.
    fn plain(&self, text: &[u8]) -> String {
        String::from_utf8_lossy(text).replace(&self.folder.path().display().to_string(), "")
    }
}

fn within_ten_seconds<T>(mut try_once: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) {
        if let Some(found) = try_once() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn is_gone(pid: Pid) -> bool {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    within_ten_seconds(|| match std::fs::read_to_string(&stat) {
        Ok(stat) if !stat.contains(") Z ") => None,
        _ => Some(()),
    })
    .is_some()
}

#[test]
fn setup_shows_makes_and_removes() {
    let machine = Machine::new();
    let nothing = machine.run(&["setup", "--status"]);
    assert_eq!(machine.plain(&nothing.stdout), "no environment in /cache/env\n");
    let made = machine.run(&["setup"]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let ready = machine.plain(&made.stdout);
    assert!(ready.starts_with("ready: /cache/env/py3.12-") && ready.ends_with("/bin/python\n"), "{ready}");
    assert_eq!(machine.plain(&made.stderr), "making the environment\ndownloading torch\n");

    let status = machine.plain(&machine.run(&["setup", "--status"]).stdout);
    assert!(status.ends_with("complete, Python 3.12.1 with torch, triton, numpy\n"), "{status}");
    let removed = machine.run(&["setup", "--remove"]);
    let text = machine.plain(&removed.stdout);
    assert!(text.starts_with("freed ") && text.ends_with(" in /cache/env\n"), "{text}");
    assert!(machine.plain(&machine.run(&["setup", "--remove"]).stdout).starts_with("nothing to remove"));
}

#[test]
fn ctrl_c_ends_the_installer_and_the_next_setup_goes_on() {
    let machine = Machine::new();
    let (child, uv) = machine.start_slow_setup();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let error = machine.plain(&output.stderr);
    assert!(
        error.ends_with("setup was interrupted; run `warpsmith setup` to go on where it stopped\n"),
        "{error}"
    );
    assert!(is_gone(uv));
    assert_eq!(machine.run(&["setup"]).status.code(), Some(0));
}

#[test]
fn a_killed_setup_leaves_no_process_and_no_lock() {
    let machine = Machine::new();
    let (mut child, uv) = machine.start_slow_setup();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_gone(uv));
    let status = machine.plain(&machine.run(&["setup", "--status"]).stdout);
    assert!(status.contains(".partial\n") && status.contains("`warpsmith setup` goes on"), "{status}");
    assert_eq!(machine.run(&["setup"]).status.code(), Some(0));
    let status = machine.plain(&machine.run(&["setup", "--status"]).stdout);
    assert!(!status.contains(".partial"), "{status}");
}

#[test]
fn doctor_exits_by_whether_kernels_can_be_checked() {
    let machine = Machine::new();
    let before = machine.run(&["doctor", "--json"]);
    assert_eq!(before.status.code(), Some(2), "{before:?}");
    let text = String::from_utf8(before.stdout).unwrap();
    assert_eq!(text.lines().count(), 1);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], "warpsmith.doctor/1");
    assert_eq!(report["checks"][0]["remedy"], "run `warpsmith setup`");

    assert!(machine.run(&["setup"]).status.success());
    let after = machine.run(&["doctor", "--no-trial"]);
    assert_eq!(after.status.code(), Some(0));
    let text = machine.plain(&after.stdout);
    assert!(text.starts_with("found    python ") && text.contains("(made by warpsmith setup)"), "{text}");
    assert!(text.ends_with("\nkernels can be checked here\n"), "{text}");

    // The stub has all packages by name and runs nothing: only the trial can tell.
    let tried = machine.run(&["doctor"]);
    assert_eq!(tried.status.code(), Some(2), "{tried:?}");
    let text = machine.plain(&tried.stdout);
    assert!(text.contains("\nwarning  trial ") && text.contains("no kernel can be checked: "), "{text}");
    assert!(text.ends_with("\nkernels cannot be checked yet\n"), "{text}");
}

#[test]
fn a_result_that_nobody_reads_is_no_panic() {
    let machine = Machine::new();
    for arguments in [&["doctor", "--no-trial"][..], &["doctor", "--json"], &["setup", "--status"]] {
        for (name, stdout, said) in unread() {
            let output = machine.command(arguments).stdout(stdout).output().unwrap();
            let stderr = machine.plain(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?} into {name}: {stderr}");
            assert_eq!(
                stderr.contains("cannot write to stdout"),
                said,
                "{arguments:?} into {name}: {stderr}"
            );
        }
    }
}

/// A full disk, which is told, and a pipe whose reader has gone (`| head`), which is not.
fn unread() -> [(&'static str, Stdio, bool); 2] {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    [("a full disk", full.into(), true), ("a closed pipe", writer.into(), false)]
}

#[test]
fn doctor_of_a_named_interpreter_that_is_not_there() {
    let machine = Machine::new();
    let output = machine.run(&["doctor", "--python", "nowhere/python"]);
    assert_eq!(output.status.code(), Some(2));
    let text = machine.plain(&output.stdout);
    assert!(text.contains("/nowhere/python (given by --python): no such file"), "{text}");
    assert!(text.contains("→ give the path of a Python interpreter"), "{text}");
}

#[test]
fn what_is_no_source_file_is_told_with_what_to_do() {
    let machine = Machine::new();
    std::fs::create_dir(machine.at("kernels")).unwrap();
    std::fs::write(machine.at("latin.py"), b"x = '\xe9'\n").unwrap();
    for (file, words) in [
        ("kernels", "kernels is a folder; name the kernel files in it"),
        ("latin.py", "latin.py is not UTF-8 and cannot be checked; save it as UTF-8"),
        ("softmax.cu", "softmax.cu is a CUDA file; this version checks Triton kernels in Python files"),
        ("nowhere.py", "cannot read nowhere.py"),
    ] {
        let output = machine.run(&["check", "--no-setup", file]);
        assert_eq!(output.status.code(), Some(2), "{file}: {output:?}");
        assert!(machine.plain(&output.stderr).contains(words), "{file}: {output:?}");
    }
}
