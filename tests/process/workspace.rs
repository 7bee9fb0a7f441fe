//! The folder that somebody works in: never walked, never written, and free to change while a check runs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use notify::event::AccessKind;
use notify::{Event, EventKind, RecursiveMode, Watcher};
use serde_json::{Value, json};

use crate::bad_inputs::KERNEL;
use crate::harness::{Sandbox, python_or_skip, skip};
use crate::server::{Server, uri};

const RIGHT: &str = "def kernel_fn(x):\n    return softmax(x.contiguous())\n";
const WRONG: &str = "def kernel_fn(x):\n    return softmax(x.contiguous()) * 2\n";
/// Goes on once the file `open` beside it is there, and writes `here` when it waits for it.
const AT_GATE: &str = r#"
import pathlib
import time


def kernel_fn(x):
    here, opened = (pathlib.Path(os.environ["WARPSMITH_TEST_GATE"]) / name for name in ("here", "open"))
    here.touch()
    while not opened.exists():
        time.sleep(0.01)
    return softmax(x.contiguous()) * 2
"#;

fn diagnostics_of(server: &mut Server) -> (Value, Vec<String>) {
    let shown = server.wait_for(|message| message["method"] == "textDocument/publishDiagnostics");
    let list = shown["params"]["diagnostics"].as_array().cloned().unwrap_or_default();
    let codes = list.iter().filter_map(|one| one["code"].as_str().map(str::to_owned)).collect();
    (shown["params"]["uri"].clone(), codes)
}

/// Folders that a process opened to list them, while it is watched.
struct Listings {
    opened: Receiver<PathBuf>,
    sentinel: PathBuf,
    _watcher: notify::RecommendedWatcher,
}

impl Listings {
    fn below(root: &Path) -> notify::Result<Self> {
        let (send, opened) = channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(AccessKind::Open(_))) {
                event.paths.into_iter().for_each(|path| drop(send.send(path)));
            }
        })?;
        watcher.watch(root, RecursiveMode::Recursive)?;
        Ok(Self { opened, sentinel: root.join("sentinel"), _watcher: watcher })
    }

    /// Everything that was opened until now: the system tells of opens in their order.
    fn take(&self) -> Vec<PathBuf> {
        fs::read(&self.sentinel).expect("the sentinel is read");
        let mut all = Vec::new();
        loop {
            let path = self.opened.recv_timeout(Duration::from_secs(30)).expect("the sentinel is told");
            if path == self.sentinel {
                return all;
            }
            all.push(path);
        }
    }
}

/// complaint 18: a language server that is started in the root of a big repository indexes all of it. Nothing but the
/// kernel and its own folder is looked at, whatever else there is; and complaint 17: no file is watched.
#[test]
fn a_workspace_of_60_000_files_is_never_walked() {
    let Some(python) = python_or_skip("a_workspace_of_60_000_files") else { return };
    let sandbox = Sandbox::new(python);
    let root = sandbox.path().join("monorepo");
    for outer in 0..20 {
        for inner in 0..20 {
            let folder = root.join(format!("package{outer}/part{inner}"));
            fs::create_dir_all(&folder).expect("a folder");
            (0..150).for_each(|number| fs::write(folder.join(format!("m{number}.py")), "").expect("a file"));
        }
    }
    fs::create_dir(root.join(".git")).expect("a folder");
    fs::write(root.join("sentinel"), "").expect("a file");
    let text = format!("{KERNEL}{WRONG}");
    let file = root.join("package7/part7/kernel.py");
    fs::write(&file, &text).expect("a file");
    let listings = match Listings::below(&root) {
        Ok(listings) => listings,
        Err(error) => return skip("a_workspace_of_60_000_files", &format!("no inotify: {error}")),
    };
    listings.take();
    let elsewhere = |opened: Vec<PathBuf>| -> Vec<PathBuf> {
        let own: Vec<&Path> = file.ancestors().take_while(|path| path.starts_with(&root)).collect();
        opened.into_iter().filter(|path| !own.contains(&path.as_path())).collect()
    };
    let is_known = |path: &PathBuf| path.starts_with(root.join(".git")) || path.parent() == Some(&root);

    let began = Instant::now();
    let checked = sandbox.check(&file, &["--dtype", "f32", "--stage", "smoke"]);
    assert_eq!(checked.verdict(), "wrong", "{}", checked.describe());
    let mut opened = elsewhere(listings.take());

    let mut server = Server::start_in(
        &sandbox,
        &root,
        json!({
            "workspace": { "didChangeWatchedFiles": { "dynamicRegistration": true, "relativePatternSupport": true } },
        }),
    );
    server.open_and_save(&file, &text);
    assert_eq!(diagnostics_of(&mut server).1, ["mismatch"]);
    let asked: Vec<String> = server.asked.clone();
    assert!(!asked.contains(&"client/registerCapability".to_owned()), "{asked:?}");
    opened.extend(elsewhere(listings.take()));
    opened.retain(|path| !is_known(path));
    assert!(opened.is_empty(), "{} opened: {:?}", opened.len(), &opened[..opened.len().min(9)]);
    eprintln!("both in {:?}", began.elapsed());
}

/// Mode, inode (of a file), time of the last change, and contents (of a file that can be read).
type Seen = (u32, u64, SystemTime, Option<Vec<u8>>);

/// All that can be seen of a tree from outside.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let (mut seen, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        let found = fs::metadata(&folder).expect("a folder");
        seen.insert(folder.clone(), (found.mode(), 0, found.modified().expect("a time"), None));
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let found = fs::metadata(&path).expect("a file");
                let text = fs::read(&path).ok();
                seen.insert(path, (found.mode(), found.ino(), found.modified().expect("a time"), text));
            }
        }
    }
    seen
}

/// complaint 24: the checker writes into the workspace (a lock file, a cache, `__pycache__`, `.triton`). Everything is
/// as before after a check, a failed one, a repro to another place, and a session of an editor; also in a package
/// whose modules are imported, under git, and in folders that nobody may write.
#[test]
fn nothing_in_the_workspace_is_written() {
    let Some(python) = python_or_skip("nothing_in_the_workspace_is_written") else { return };
    let sandbox = Sandbox::new(python);
    let root = sandbox.path().join("project");
    fs::create_dir_all(root.join("ops")).expect("a folder");
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        fs::write(&path, text).expect("written");
        path
    };
    write("ops/__init__.py", "");
    write("ops/scale.py", "SCALE = 2\n");
    write("pyproject.toml", "[project]\nname = \"ops\"\n");
    write("warpsmith.toml", "");
    let importing = format!("from .scale import SCALE\n{KERNEL}{}", WRONG.replace("* 2", "* SCALE"));
    let kernel = write("ops/kernel.py", &importing);
    let broken = write("ops/broken.py", &format!("import nothing_of_that_name\n{KERNEL}{RIGHT}"));
    let right = write("ops/right.py", &format!("{KERNEL}{RIGHT}"));
    let git = |arguments: &[&str]| {
        let ran = Command::new("git").arg("-C").arg(&root).args(arguments).output().expect("git runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "--quiet", "-m", "one"]);
    let read_only = |path: &Path, is_read_only: bool| {
        let mode = if is_read_only { 0o555 } else { 0o755 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    };
    [&root, &root.join("ops")].into_iter().for_each(|folder| read_only(folder, true));
    let before = snapshot(&root);

    let files = [kernel.clone(), broken, right];
    let mut command = sandbox.warpsmith();
    let checked = command
        .current_dir(&root)
        .args(["check", "--no-setup", "--dtype", "f32", "--stage", "smoke,determinism"])
        .args(&files)
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("✓ passed"), "{said}");
    let target = sandbox.path().join("repro.py");
    let repro =
        sandbox.warpsmith().current_dir(&root).arg("repro").arg(&kernel).arg("-o").arg(&target).output();
    assert!(repro.is_ok_and(|ran| ran.status.success()) && target.is_file());
    let mut server = Server::start_in(&sandbox, &root, json!({}));
    server.open_and_save(&kernel, &importing);
    assert_eq!(diagnostics_of(&mut server).1, ["mismatch"]);
    drop(server);

    let after = snapshot(&root);
    [&root, &root.join("ops")].into_iter().for_each(|folder| read_only(folder, false));
    let changed: Vec<_> =
        after.iter().filter(|(path, seen)| before.get(*path) != Some(seen)).map(|(path, _)| path).collect();
    assert!(changed.is_empty() && after.len() == before.len(), "{changed:?}");
}

/// Renamed, deleted, replaced or closed while its check runs: the check is of the text that was saved, and what it
/// finds stands in that document or nowhere. The next save works.
#[test]
fn a_file_goes_away_while_its_check_runs() {
    let Some(python) = python_or_skip("a_file_goes_away_while_its_check_runs") else { return };
    let mut sandbox = Sandbox::new(python);
    let gate = sandbox.path().join("gate");
    fs::create_dir(&gate).expect("a folder");
    sandbox.variables.push(("WARPSMITH_TEST_GATE", gate.clone()));
    let text = format!("import os\n{KERNEL}{AT_GATE}");
    let right = format!("{KERNEL}{RIGHT}");
    let folder = sandbox.path().join("project");
    let mut server = Server::start(&sandbox);
    type Way<'a> = (&'a str, &'a dyn Fn(&Path));
    let ways: [Way<'_>; 4] = [
        ("renamed", &|file| fs::rename(file, file.with_extension("txt")).expect("renamed")),
        ("deleted", &|file| fs::remove_file(file).expect("deleted")),
        ("deleted with its folder", &|file| {
            fs::remove_dir_all(file.parent().expect("its folder")).expect("deleted")
        }),
        ("replaced", &|file| fs::write(file, "raise SystemExit\n").expect("written")),
    ];
    for (way, go_away) in ways {
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join(format!("{}.py", way.replace(' ', "_")));
        fs::write(&file, &text).expect("written");
        server.open_and_save(&file, &text);
        await_file(&gate.join("here"));
        go_away(&file);
        fs::write(gate.join("open"), "").expect("written");
        assert_eq!(diagnostics_of(&mut server), (json!(uri(&file)), vec!["mismatch".to_owned()]), "{way}");
        // The editor still has it open, and saves it anew.
        server.save(&file, 2, &right);
        while !diagnostics_of(&mut server).1.is_empty() {}
        ["here", "open"].iter().for_each(|name| fs::remove_file(gate.join(name)).expect("removed"));
    }
    let file = sandbox.write("closed.py", &text);
    server.open_and_save(&file, &text);
    await_file(&gate.join("here"));
    server.send(&json!({"jsonrpc": "2.0", "method": "textDocument/didClose", "params":
        {"textDocument": {"uri": uri(&file)}}}));
    // Nothing is told of it any more; the next message is of another file.
    let wrong = format!("{KERNEL}{WRONG}");
    let other = sandbox.write("other.py", &wrong);
    server.open_and_save(&other, &wrong);
    assert_eq!(diagnostics_of(&mut server), (json!(uri(&other)), vec!["mismatch".to_owned()]));
    drop(server);
    sandbox.assert_alone_within(Duration::from_secs(3));
}

fn await_file(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} never comes", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The nice value of a process, and its parent.
fn niceness(pid: u32) -> Option<(i32, String)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some((fields.split_whitespace().nth(16)?.parse().ok()?, name.to_owned()))
}

/// complaint 16: a check in the background makes the editor sluggish. All processes of a check that an editor's save
/// started have a lower priority than the server and the editor; those that somebody waits for in a terminal have not.
#[test]
fn checks_of_an_editor_step_aside() {
    let Some(python) = python_or_skip("checks_of_an_editor_step_aside") else { return };
    let mut sandbox = Sandbox::new(python);
    let gate = sandbox.path().join("gate");
    fs::create_dir(&gate).expect("a folder");
    sandbox.variables.push(("WARPSMITH_TEST_GATE", gate.clone()));
    let text = format!("import os\n{KERNEL}{AT_GATE}");
    let file = sandbox.write("k.py", &text);
    let own = niceness(std::process::id()).expect("of this process").0;
    let of_children = |parent: u32| -> Vec<i32> {
        let below = sandbox.survivors().into_iter().filter(|pid| *pid != parent);
        below.filter_map(niceness).map(|(nice, _)| nice).collect()
    };
    let mut server = Server::start(&sandbox);
    server.open_and_save(&file, &text);
    await_file(&gate.join("here"));
    assert_eq!(niceness(server.child.id()).expect("it runs").0, own);
    let nice = of_children(server.child.id());
    assert!(nice.len() >= 4 && nice.iter().all(|nice| *nice == (own + 5).min(19)), "{own}: {nice:?}");
    drop(server);
    sandbox.assert_alone_within(Duration::from_secs(3));

    fs::remove_file(gate.join("here")).expect("removed");
    let mut check = sandbox.warpsmith();
    let check =
        check.args(["check", "--json", "--no-setup", "--dtype", "f32", "--stage", "smoke"]).arg(&file);
    let mut child = check.stdout(std::process::Stdio::null()).spawn().expect("the binary starts");
    await_file(&gate.join("here"));
    let nice = of_children(child.id());
    fs::write(gate.join("open"), "").expect("written");
    assert!(nice.len() >= 4 && nice.iter().all(|nice| *nice == own), "{own}: {nice:?}");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}

/// complaint 21: logs and caches that fill the disk. A candidate that writes 100 MB to each stream, again and again,
/// leaves a few megabytes behind, and little on stderr, which editors keep.
#[test]
fn a_flood_fills_no_disk() {
    let Some(python) = python_or_skip("a_flood_fills_no_disk") else { return };
    let sandbox = Sandbox::new(python);
    let flood = "def kernel_fn(x):\n    for stream in (1, 2):\n        for _ in range(100):\n            os.write(stream, b'x' * 999_999 + b'\\n')\n";
    let text = format!("import os\n{KERNEL}{flood}    return softmax(x.contiguous()) * 2\n");
    let file = sandbox.write("k.py", &text);
    let mut server = Server::start(&sandbox);
    server.open(&file, &text);
    for version in 2..4 {
        server.save(&file, version, &format!("{text}\nTRY = {version}\n"));
        while !diagnostics_of(&mut server).1.contains(&"mismatch".to_owned()) {}
    }
    drop(server);
    let sizes = ["cache", "state"].map(|name| {
        let files = snapshot(&sandbox.path().join(name));
        files.values().filter_map(|(_, _, _, text)| text.as_ref()).map(Vec::len).sum::<usize>()
    });
    assert!(sizes.iter().all(|size| *size < 12 << 20), "{sizes:?} bytes");
}

/// complaint 22: opening a repository runs its programs. One that names a Python of its own in every place where one is
/// looked for, and whose kernel file would leave a trace: nothing runs while it is only looked at. (What a save may run
/// in a folder that nobody trusts: the tests of trust, and the VS Code suite "a workspace that is not trusted".)
#[test]
fn opening_a_repository_runs_nothing() {
    let sandbox = Sandbox::new(PathBuf::new());
    let root = sandbox.path().join("repository");
    let trace = sandbox.path().join("trace");
    let program = format!("#!/bin/sh\necho ran >>{}\nexit 1\n", trace.display());
    for name in [".venv/bin/python", ".venv/bin/python3", "bin/python3", "python", "warpsmith", "git", "uv"] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, &program).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }
    fs::write(root.join("warpsmith.toml"), "[python]\npath = \"./python\"\n").expect("written");
    let text = format!("open({trace:?}, 'w').close()\n{KERNEL}{RIGHT}");
    let file = root.join("kernel.py");
    fs::write(&file, &text).expect("written");
    let mut server = Server::start_in(&sandbox, &root, json!({}));
    server.open(&file, &text);
    let document = json!({"uri": uri(&file)});
    let at = json!({"line": 8, "character": 6});
    let asked = [
        ("codeLens", json!({"textDocument": document})),
        ("hover", json!({"textDocument": document, "position": at})),
        ("inlayHint", json!({"textDocument": document, "range": {"start": at, "end": at}})),
        (
            "codeAction",
            json!({"textDocument": document, "range": {"start": at, "end": at}, "context": {"diagnostics": []}}),
        ),
    ];
    for (id, (method, params)) in (10..).zip(asked) {
        let method = format!("textDocument/{method}");
        server.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        server.wait_for(|message| message["id"] == id);
    }
    let alone = sandbox.survivors();
    assert_eq!(alone, [server.child.id()], "only the server runs");
    assert!(!trace.exists(), "something of the repository ran");
}

/// Where nothing of ours can be written (a full or read-only disk, a home that is not there), a check says what cannot
/// be written and a server answers all the same; without the history alone, everything is judged.
#[test]
fn caches_and_state_that_cannot_be_written() {
    let Some(python) = python_or_skip("caches_and_state_that_cannot_be_written") else { return };
    let text = format!("{KERNEL}{WRONG}");
    // A file stands where a folder should be: that also stops root.
    let blocked = |variable: &'static str| {
        let mut sandbox = Sandbox::new(python.clone());
        let blocker = sandbox.write("blocker", "");
        sandbox.variables.push((variable, blocker));
        sandbox
    };
    let sandbox = blocked("XDG_STATE_HOME");
    let file = sandbox.write("k.py", &text);
    let checked = sandbox.check(&file, &["--dtype", "f32", "--stage", "smoke"]);
    assert_eq!(checked.verdict(), "wrong", "{}", checked.describe());
    let mut server = Server::start(&sandbox);
    server.open_and_save(&file, &text);
    assert_eq!(diagnostics_of(&mut server).1, ["mismatch"]);

    let sandbox = blocked("XDG_CACHE_HOME");
    let file = sandbox.write("k.py", &text);
    let checked = sandbox.check(&file, &["--dtype", "f32", "--stage", "smoke"]);
    assert_eq!((checked.verdict(), checked.exit), ("could-not-run", Some(2)), "{}", checked.describe());
    let blocker = sandbox.path().join("blocker").display().to_string();
    assert!(
        checked.findings()[0]["message"].as_str().is_some_and(|told| told.contains(&blocker)),
        "{}",
        checked.describe()
    );
    let mut server = Server::start(&sandbox);
    server.open_and_save(&file, &text);
    let lens = json!({"jsonrpc": "2.0", "id": 9, "method": "textDocument/codeLens", "params":
        {"textDocument": {"uri": uri(&file)}}});
    loop {
        server.send(&lens);
        let answer = server.wait_for(|message| message["id"] == 9);
        let title = answer["result"][0]["command"]["title"].as_str().expect("a lens").to_owned();
        if title.starts_with("– could not run") {
            break;
        }
        assert!(title.starts_with("⟳"), "{title}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
