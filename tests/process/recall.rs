//! A verdict is answered from the store only while nothing that it rests on has changed: each test changes one thing, and
//! a green tick that is too old would be the worst that we could show.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;
use warpsmith::device::DeviceChoice;
use warpsmith::judge::bench::TimingChoice;
use warpsmith::judge::check::{CheckOptions, CheckRequest, Checker, Earlier};
use warpsmith::judge::{Engine, Report, Stage, Verdict};
use warpsmith::toolchain::Surroundings;

use crate::harness::{Sandbox, python_or_skip, silu_kernel};
use crate::server::{Server, uri};

const SILU: &str = concat!(
    silu_kernel!(),
    "\
# warpsmith: ref=torch.nn.functional.silu x=f32[N] N=5
def silu(x):
    y = torch.empty_like(x)
    _silu[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
    return y
"
);

/// A workspace, a state folder and an environment that a test may change.
struct Bench {
    folder: TempDir,
    runtime: Runtime,
    surroundings: Surroundings,
    /// Whoever judges, with its warm worker. Whoever is asked later is a server that was started anew.
    judge: Option<(Surroundings, Engine)>,
}

impl Bench {
    fn or_skip(test: &str) -> Option<Self> {
        let python = python_or_skip(test)?;
        let folder = TempDir::new().expect("a temporary folder");
        fs::create_dir(folder.path().join("work")).expect("a folder");
        // What a project's root has: its modules can be imported.
        fs::write(folder.path().join("work/pyproject.toml"), "").expect("written");
        let environment = environment(&python, &folder.path().join("env"));
        let surroundings = Surroundings::of_this_process()
            .with("XDG_CACHE_HOME", folder.path().join("cache"))
            .with("XDG_STATE_HOME", folder.path().join("state"))
            .with("WARPSMITH_PYTHON", environment);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Some(Self { folder, runtime: runtime.expect("a runtime"), surroundings, judge: None })
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join("work").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("written");
        path
    }

    fn check(&mut self, request: &CheckRequest) -> Report {
        if self.judge.as_ref().is_none_or(|(surroundings, _)| *surroundings != self.surroundings) {
            self.end();
            self.judge = Some((self.surroundings.clone(), Engine::for_editor_in(self.surroundings.clone())));
        }
        let (events, _) = unbounded_channel();
        let Some((_, engine)) = &self.judge else { unreachable!("it was made") };
        self.runtime.block_on(engine.check(request.clone(), events, CancellationToken::new()))
    }

    fn end(&mut self) {
        if let Some((_, engine)) = self.judge.take() {
            self.runtime.block_on(engine.shut_down(Duration::from_secs(10)));
        }
    }

    fn recall(&self, request: &CheckRequest) -> Option<Earlier> {
        let engine = Engine::for_editor_in(self.surroundings.clone());
        self.runtime.block_on(engine.recall(request.clone()))
    }

    /// Judges, and makes sure that the verdict would be answered from the store.
    #[track_caller]
    fn judged(&mut self, request: &CheckRequest) -> Report {
        let report = self.check(request);
        let found: Vec<String> = report.all_findings().map(|finding| finding.message.clone()).collect();
        assert_eq!(report.verdict, Verdict::Passed, "{found:?}");
        let earlier = self.recall(request).expect("nothing has changed");
        assert_eq!(earlier.report.verdict, Verdict::Passed);
        report
    }

    fn site(&self) -> PathBuf {
        let lib = self.folder.path().join("env/lib");
        let python = fs::read_dir(lib).expect("a folder").flatten().next().expect("one version").path();
        python.join("site-packages")
    }

    fn database(&self) -> Connection {
        Connection::open(self.folder.path().join("state/warpsmith/history.sqlite")).expect("a history")
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.end();
    }
}

/// An environment of its own that has the packages of another.
fn environment(python: &Path, folder: &Path) -> PathBuf {
    let run = |program: &Path, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().expect("Python runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    run(python, &["-m", "venv", "--without-pip", folder.to_str().expect("UTF-8")]);
    let site = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let (own, other) = (run(&folder.join("bin/python"), &["-c", site]), run(python, &["-c", site]));
    fs::write(Path::new(&own).join("others.pth"), other).expect("written");
    folder.join("bin/python")
}

fn request(path: &Path, text: &str) -> CheckRequest {
    let options = CheckOptions { timing: TimingChoice::First, ..CheckOptions::default() };
    CheckRequest { path: path.to_owned(), text: text.into(), python: None, options }
}

#[track_caller]
fn assert_same(one: &Report, other: &Report) {
    assert_eq!(one.provenance.described_as, other.provenance.described_as);
    assert_eq!(one.provenance.foundation, other.provenance.foundation);
    let json = |report: &Report| serde_json::to_value(report).expect("JSON");
    assert!(is_same(&json(one), &json(other)), "{one:#?}\n{other:#?}");
}

/// Numbers may differ in the last bit, in which JSON is read.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (a, b) = (one.as_f64().unwrap_or(f64::NAN), other.as_f64().unwrap_or(f64::NAN));
            one == other || (a - b).abs() <= 1e-12 * a.abs()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| is_same(value, other)))
        }
        _ => one == other,
    }
}

/// Everything that is shown of a verdict comes back: a report that lost something would show less than was found.
#[test]
fn what_comes_back_is_what_was_said() {
    let Some(mut bench) = Bench::or_skip("what_comes_back_is_what_was_said") else { return };
    let file = bench.write("silu.py", SILU);
    let asked = request(&file, SILU);
    assert!(bench.recall(&asked).is_none(), "nothing was judged yet");
    assert!(!bench.folder.path().join("state").exists(), "whoever opens a file leaves no trace");
    let said = bench.judged(&asked);
    let again = bench.recall(&asked).expect("nothing has changed").report;
    assert_same(&again, &said);
    // Wrong verdicts come back as well, with their findings.
    let wrong = SILU.replace("tl.sigmoid(value)", "tl.sigmoid(1.02 * value)");
    let asked = request(&bench.write("silu.py", &wrong), &wrong);
    let said = bench.check(&asked);
    assert_eq!(said.verdict, Verdict::Wrong);
    let again = bench.recall(&asked).expect("nothing has changed").report;
    assert_same(&again, &said);
}

#[test]
fn another_text_or_other_settings_are_another_question() {
    let Some(mut bench) = Bench::or_skip("another_text_or_other_settings") else { return };
    let file = bench.write("silu.py", SILU);
    let asked = request(&file, SILU);
    bench.judged(&asked);
    for text in [SILU.replace("BLOCK=16", "BLOCK=32"), format!("# new\n{SILU}")] {
        assert!(bench.recall(&request(&file, &text)).is_none(), "{text}");
    }
    let other = bench.write("other.py", SILU);
    assert!(bench.recall(&request(&other, SILU)).is_none(), "another file");
    let with = |change: fn(&mut CheckOptions)| {
        let mut asked = asked.clone();
        change(&mut asked.options);
        bench.recall(&asked).is_some()
    };
    assert!(!with(|options| options.device = DeviceChoice::Cpu), "the device");
    assert!(!with(|options| options.timing = TimingChoice::Some), "what is timed");
    assert!(!with(|options| options.stages = vec![Stage::Smoke]), "the stages");
    assert!(!with(|options| options.seed = Some(1)), "the seed");
    assert!(with(|_| {}), "and nothing else changed");
}

/// A variable that Triton reads, another interpreter, a package that was replaced.
#[test]
fn another_environment_is_another_verdict() {
    let Some(mut bench) = Bench::or_skip("another_environment_is_another_verdict") else { return };
    let file = bench.write("silu.py", SILU);
    let asked = request(&file, SILU);
    bench.judged(&asked);
    let before = bench.surroundings.clone();
    for (name, value) in
        [("TRITON_F32_DEFAULT", "ieee"), ("NVIDIA_TF32_OVERRIDE", "0"), ("PYTHONPATH", "/nowhere")]
    {
        bench.surroundings = before.clone().with(name, value);
        assert!(bench.recall(&asked).is_none(), "{name}");
    }
    let second = environment(&python_or_skip("").expect("it was there"), &bench.folder.path().join("second"));
    bench.surroundings = before.clone().with("WARPSMITH_PYTHON", second);
    assert!(bench.recall(&asked).is_none(), "another interpreter");
    bench.surroundings = before;
    assert!(bench.recall(&asked).is_some());
    // As installers do, with any package.
    fs::create_dir(bench.site().join("torch-99.0.dist-info")).expect("a folder");
    assert!(bench.recall(&asked).is_none(), "torch was replaced");
}

/// A virtual environment that appears beside the file comes before the one on `PATH`.
#[test]
fn an_interpreter_that_would_be_chosen_now_counts() {
    let Some(mut bench) = Bench::or_skip("an_interpreter_that_would_be_chosen_now") else { return };
    let bin = bench.folder.path().join("env/bin");
    bench.surroundings = bench
        .surroundings
        .clone()
        .without(&["WARPSMITH_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX"])
        .with("PATH", bin);
    let file = bench.write("silu.py", SILU);
    let asked = request(&file, SILU);
    bench.judged(&asked);
    let python = python_or_skip("").expect("it was there");
    environment(&python, &bench.folder.path().join("work/.venv"));
    assert!(bench.recall(&asked).is_none());
}

#[test]
fn what_says_what_is_right_has_changed() {
    let Some(mut bench) = Bench::or_skip("what_says_what_is_right_has_changed") else { return };
    let text = SILU.replace("# warpsmith: ref=torch.nn.functional.silu x=f32[N] N=5\n", "");
    let project = |length: u32| {
        format!(
            "[[kernel]]\nfile = \"silu.py\"\nentry = \"silu\"\nref = \"torch.nn.functional.silu\"\nx = \"f32[N]\"\n\
             N = [{length}]\n"
        )
    };
    let file = bench.write("silu.py", &text);
    bench.write("warpsmith.toml", &project(5));
    let asked = request(&file, &text);
    bench.judged(&asked);
    bench.write("warpsmith.toml", &project(7));
    assert!(bench.recall(&asked).is_none(), "the project's file says something else");
    bench.write("warpsmith.toml", &project(5));
    assert!(bench.recall(&asked).is_some(), "as it was");
    // What a comment says is believed before a project's file, so a new one beside it changes nothing.
    let file = bench.write("sub/silu.py", SILU);
    let asked = request(&file, SILU);
    bench.judged(&asked);
    let another = project(7).replace("torch.nn.functional.silu", "torch.nn.functional.relu");
    bench.write("sub/warpsmith.toml", &another);
    let label = bench.recall(&asked).and_then(|earlier| earlier.report.oracle).map(|oracle| oracle.label);
    assert_eq!(label, bench.check(&asked).oracle.map(|oracle| oracle.label), "as a check would say now");
}

/// Modules and files of the user's: what they hold is not looked at, so nothing is answered although nothing changed.
#[test]
fn what_rests_on_files_that_nobody_looks_at_is_not_answered() {
    let Some(mut bench) = Bench::or_skip("what_rests_on_files_that_nobody_looks_at") else { return };
    bench.write("helpers.py", "def same(x):\n    return x\n\n\ndef ref(x):\n    import torch\n    return torch.nn.functional.silu(x)\n");
    for (name, text) in [
        ("imports.py", SILU.replace("import torch\n", "import torch\nfrom helpers import same\n")),
        ("late.py", SILU.replace("    y = torch", "    import helpers\n    y = torch")),
        ("reference.py", SILU.replace("ref=torch.nn.functional.silu", "ref=./helpers.py::ref")),
        ("reads.py", SILU.replace("    y = torch", "    open(__file__).close()\n    y = torch")),
        ("variables.py", SILU.replace("import torch\n", "import os\nimport torch\n")),
    ] {
        let asked = request(&bench.write(name, &text), &text);
        let report = bench.check(&asked);
        let found: Vec<String> = report.all_findings().map(|finding| finding.message.clone()).collect();
        assert_eq!(report.verdict, Verdict::Passed, "{name}: {found:?}");
        assert!(bench.recall(&asked).is_none(), "{name}");
    }
    // A module of the user's that hides a package, from now on.
    let asked = request(&bench.write("silu.py", SILU), SILU);
    bench.judged(&asked);
    bench.write("triton/__init__.py", "");
    assert!(bench.recall(&asked).is_none(), "a folder of that name may be what is imported");
}

/// HEAD may have moved, so what was compared with it is never answered.
#[test]
fn a_comparison_with_head_is_not_answered() {
    let Some(mut bench) = Bench::or_skip("a_comparison_with_head_is_not_answered") else { return };
    let text =
        SILU.replace("# warpsmith: ref=torch.nn.functional.silu x=f32[N] N=5", "# warpsmith: x=f32[N] N=5");
    let file = bench.write("silu.py", &text);
    let git = |arguments: &[&str]| {
        let folder = file.parent().expect("a folder");
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        let output = Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).output();
        assert!(output.expect("git runs").status.success(), "{arguments:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "silu.py"]);
    git(&["commit", "--quiet", "-m", "one"]);
    let changed = text.replace("BLOCK=16", "BLOCK=32").replace("numel(), 16)", "numel(), 32)");
    fs::write(&file, &changed).expect("written");
    let asked = request(&file, &changed);
    let report = bench.check(&asked);
    assert!(report.is_against_head() && report.verdict == Verdict::Passed, "{:?}", report.findings);
    assert!(bench.recall(&asked).is_none());
}

/// The last word counts: a check that could not run, or found something in a part, takes the verdict back.
#[test]
fn a_later_check_takes_an_earlier_pass_back() {
    let Some(mut bench) = Bench::or_skip("a_later_check_takes_an_earlier_pass_back") else { return };
    let file = bench.write("silu.py", SILU);
    let asked = request(&file, SILU);
    bench.judged(&asked);
    let mut broken = asked.clone();
    broken.python = Some("/nowhere/python".into());
    let before = bench.surroundings.clone();
    bench.surroundings = before.clone().without(&["WARPSMITH_PYTHON"]);
    assert_eq!(bench.check(&broken).verdict, Verdict::CouldNotRun);
    bench.surroundings = before;
    assert!(bench.recall(&asked).is_none());
}

/// A row that somebody else wrote, or half of one, is no verdict.
#[test]
fn a_row_that_makes_no_sense_is_no_verdict() {
    let Some(mut bench) = Bench::or_skip("a_row_that_makes_no_sense_is_no_verdict") else { return };
    let file = bench.write("silu.py", SILU);
    let asked = request(&file, SILU);
    bench.judged(&asked);
    let set = |column: &str, value: &str| {
        let statement = format!("UPDATE report SET {column} = ?1");
        assert_eq!(bench.database().execute(&statement, [value]).expect("written"), 1);
    };
    let kept: (String, String) = bench
        .database()
        .query_row("SELECT record, rests_on FROM report", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("a row");
    let wrong = SILU.replace("tl.sigmoid(value)", "tl.sigmoid(1.02 * value)");
    let of_another_text = kept.0.replace(
        &blake3::hash(SILU.as_bytes()).to_hex().to_string(),
        &blake3::hash(wrong.as_bytes()).to_hex(),
    );
    assert_ne!(of_another_text, kept.0);
    for record in ["", "{}", &kept.0[..kept.0.len() / 2], &of_another_text] {
        set("record", record);
        assert!(bench.recall(&asked).is_none(), "{record}");
    }
    set("record", &kept.0);
    set("rests_on", "{}");
    assert!(bench.recall(&asked).is_none());
    set("rests_on", &kept.1);
    assert!(bench.recall(&asked).is_some(), "as it was");
}

/// The same through two servers, one after the other: the second shows at once what the first found, with its age.
#[test]
fn a_second_server_shows_what_the_first_one_found() {
    let Some(python) = python_or_skip("a_second_server_shows_what_the_first_one_found") else { return };
    let sandbox = Sandbox::new(python);
    let text = SILU.replace("tl.sigmoid(value)", "tl.sigmoid(1.02 * value)");
    let file = sandbox.write("silu.py", &text);
    let mut first = Server::start(&sandbox);
    first.open_and_save(&file, &text);
    while !first.codes().contains(&"mismatch".to_owned()) {}
    // The row is written before the verdict is shown.
    drop(first);
    sandbox.assert_alone_within(Duration::from_secs(20));
    let mut second = Server::start(&sandbox);
    second.open(&file, &text);
    assert_eq!(second.codes(), ["mismatch"]);
    second.send(&json!({"jsonrpc": "2.0", "id": "lens", "method": "textDocument/codeLens", "params":
        {"textDocument": {"uri": uri(&file)}}}));
    let lenses = second.wait_for(|message| message["id"] == "lens");
    let title = lenses["result"][0]["command"]["title"].as_str().unwrap_or_default().to_owned();
    assert!(title.starts_with("✗ checked ") && title.contains(" min ago · wrong: mismatch"), "{title}");
    assert_eq!(sandbox.survivors().len(), 1, "no process was started");
}
