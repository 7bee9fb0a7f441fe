//! Runs `warpsmith check` and reads what it says.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A kernel of x·σ(x), which the tests put a function and what describes it behind; a literal, for `concat!`.
macro_rules! silu_kernel {
    () => {
        "\
import torch
import triton
import triton.language as tl


@triton.jit
def _silu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at, value * tl.sigmoid(value), mask=inside)


"
    };
}
pub(crate) use silu_kernel;

/// The variable that marks every process that a test started, also those that left its process group.
const MARK: &str = "WARPSMITH_TEST_MARK";

/// The interpreter with torch and Triton; `None` counts the test as skipped.
pub(crate) fn python_or_skip(test: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("WARPSMITH_PYTHON") {
        return Some(PathBuf::from(path));
    }
    skip(test, "WARPSMITH_PYTHON is not set");
    None
}

/// Counts a test as skipped, with the reason.
pub(crate) fn skip(test: &str, why: &str) {
    let note = format!("{test}: {why}\n");
    if let Some(list) = std::env::var_os("WARPSMITH_TEST_SKIPPED")
        && let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(list)
    {
        let _ = file.write_all(note.as_bytes());
    }
    eprint!("skipped: {note}");
}

/// Folders of its own for each test, and a mark on all its processes.
pub(crate) struct Sandbox {
    folder: TempDir,
    pub(crate) python: PathBuf,
    /// Set for the binary and all that it starts.
    pub(crate) variables: Vec<(&'static str, PathBuf)>,
    mark: String,
}

/// What one `warpsmith check --json` said of one file.
pub(crate) struct Checked {
    pub(crate) exit: Option<i32>,
    pub(crate) cases: Vec<Value>,
    pub(crate) summary: Value,
    pub(crate) stderr: String,
}

impl Sandbox {
    pub(crate) fn new(python: PathBuf) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let mark = folder.path().display().to_string();
        Self { folder, python, variables: Vec::new(), mark }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a file in a temporary folder");
        path
    }

    /// The binary with folders of this sandbox, so that no test sees another's worker or state.
    pub(crate) fn warpsmith(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpsmith"));
        command
            .env("XDG_CACHE_HOME", self.folder.path().join("cache"))
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("WARPSMITH_PYTHON", &self.python)
            .env("NO_COLOR", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env(MARK, &self.mark)
            .stdin(Stdio::null());
        command
    }

    /// What the language server wrote into its log.
    pub(crate) fn log(&self) -> String {
        let path = self.folder.path().join("state/warpsmith/log/warpsmith.log");
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.warpsmith().args(arguments).output().expect("the binary runs")
    }

    pub(crate) fn check(&self, file: &Path, options: &[&str]) -> Checked {
        self.check_all(&[file.to_owned()], options).remove(0)
    }

    /// Several files in one process, so that they share its worker: what was said of each, in their order.
    pub(crate) fn check_all(&self, files: &[PathBuf], options: &[&str]) -> Vec<Checked> {
        // The same shapes and values every time: what a test found, it finds again.
        let seed: &[&str] = if options.contains(&"--seed") { &[] } else { &["--seed", "7"] };
        let output = self
            .warpsmith()
            .args(["check", "--json", "--no-setup"])
            .args(seed)
            .args(options)
            .args(files)
            .output()
            .expect("the binary runs");
        let stdout = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut all: Vec<Checked> = Vec::new();
        let mut cases = Vec::new();
        for line in stdout.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            match line["schema"].as_str() {
                Some("warpsmith.case/1") => cases.push(line),
                Some("warpsmith.summary/1") => all.push(Checked {
                    exit: output.status.code(),
                    cases: std::mem::take(&mut cases),
                    summary: line,
                    stderr: stderr.clone(),
                }),
                // What the text alone shows belongs to no case.
                Some("warpsmith.lint/1") => {}
                other => panic!("a line of {other:?}"),
            }
        }
        assert!(cases.is_empty(), "cases without a summary");
        assert_eq!(all.len(), files.len(), "not one summary a file; stderr: {stderr}");
        all
    }

    /// Process ids that carry this sandbox's mark.
    pub(crate) fn survivors(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.mark);
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
        })
        .collect()
    }

    /// Fails if anything of this sandbox still runs after `limit`.
    #[track_caller]
    pub(crate) fn assert_alone_within(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.survivors().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        let survivors = self.survivors();
        assert!(survivors.is_empty(), "processes are left: {survivors:?}");
    }
}

impl Checked {
    pub(crate) fn verdict(&self) -> &str {
        self.summary["verdict"].as_str().unwrap_or("none")
    }

    /// `what (why)` of everything that was to be run and was not.
    pub(crate) fn not_run(&self) -> Vec<String> {
        let lines = self.summary["not_run"].as_array().into_iter().flatten();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let wanted = lines.filter(|line| line["why"] != "not asked for");
        wanted.map(|line| format!("{} ({})", word(&line["what"]), word(&line["why"]))).collect()
    }

    /// Codes of all findings, of the cases and of the whole check.
    pub(crate) fn codes(&self) -> Vec<String> {
        self.findings()
            .into_iter()
            .filter_map(|finding| finding["code"].as_str().map(str::to_owned))
            .collect()
    }

    pub(crate) fn findings(&self) -> Vec<&Value> {
        let of_cases = self.cases.iter().filter_map(|case| case["findings"].as_array());
        let of_check = self.summary["findings"].as_array();
        of_cases.chain(of_check).flatten().collect()
    }

    /// For the message of a failed assertion.
    pub(crate) fn describe(&self) -> String {
        let findings: Vec<String> = self.findings().into_iter().map(Value::to_string).collect();
        format!("{}\n{}\nstderr: {}", self.summary, findings.join("\n"), self.stderr)
    }
}
