//! `warpsmith check --watch` as a user starts it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::bad_inputs::KERNEL;
use crate::harness::{Sandbox, python_or_skip};

const RIGHT: &str = "def kernel_fn(x):\n    return softmax(x)\n";

struct Watching {
    child: Child,
    /// Of both streams, as they come.
    lines: Receiver<String>,
}

impl Watching {
    fn start(sandbox: &Sandbox, file: &Path) -> Self {
        let mut child = sandbox
            .warpsmith()
            .args(["check", "--watch", "--no-setup", "--stage", "smoke", "--dtype", "f32"])
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (send, lines) = channel();
        let (stdout, stderr) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let errors = send.clone();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
        });
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| drop(errors.send(line)));
        });
        Self { child, lines }
    }

    /// What is told until a line has these words.
    fn until(&self, words: &str) -> Vec<String> {
        let mut told: Vec<String> = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !told.last().is_some_and(|line| line.contains(words)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            told.push(line.unwrap_or_else(|_| panic!("no {words:?} in {told:#?}")));
        }
        told
    }

    fn interrupt(mut self) -> Option<i32> {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        self.child.wait().expect("it ends").code()
    }
}

#[test]
fn each_save_is_judged_and_ctrl_c_leaves_nothing() {
    let Some(python) = python_or_skip("each_save_is_judged") else { return };
    let sandbox = Sandbox::new(python);
    let right = format!("{KERNEL}{RIGHT}");
    let file = sandbox.write("k.py", &right);
    let watching = Watching::start(&sandbox, &file);
    watching.until("✓ passed · ");
    watching.until("waiting for changes");
    fs::write(&file, right.replace("return softmax(x)", "return softmax(x) * 2")).expect("written");
    let told = watching.until("✗ wrong · ");
    assert!(told.iter().any(|line| line.ends_with("k.py changed")), "{told:#?}");
    watching.until("waiting for changes");
    let new = sandbox.write("k.py~", &right);
    fs::rename(new, &file).expect("renamed");
    watching.until("✓ passed · ");
    watching.until("waiting for changes");
    assert_eq!(watching.interrupt(), Some(130));
    sandbox.assert_alone_within(Duration::from_secs(3));
}

#[test]
fn ctrl_c_in_the_middle_of_a_check_leaves_nothing() {
    let Some(python) = python_or_skip("ctrl_c_in_the_middle_of_a_watched_check") else { return };
    let sandbox = Sandbox::new(python);
    let endless = "def kernel_fn(x):\n    softmax(x)\n    while True:\n        pass\n";
    let file = sandbox.write("endless.py", &format!("{KERNEL}{endless}"));
    let watching = Watching::start(&sandbox, &file);
    let deadline = Instant::now() + Duration::from_secs(30);
    while sandbox.survivors().len() < 5 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(sandbox.survivors().len() >= 5, "only {:?} run", sandbox.survivors());
    assert_eq!(watching.interrupt(), Some(130));
    sandbox.assert_alone_within(Duration::from_secs(3));
}

/// The file appends to itself whenever it is imported.
#[test]
fn a_file_that_rewrites_itself_is_judged_and_then_left_alone() {
    let Some(python) = python_or_skip("a_file_that_rewrites_itself") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("k.py", "");
    let rewriting = format!("with open({:?}, 'a') as file:\n    file.write('# again\\n')\n", file.display());
    fs::write(&file, format!("{KERNEL}{rewriting}{RIGHT}")).expect("written");
    let watching = Watching::start(&sandbox, &file);
    let told = watching.until("changed in each of 3 checks in a row");
    assert!(told.iter().any(|line| line.starts_with("✓ passed")), "{told:#?}");
    watching.until("waiting for changes");
    let length = fs::metadata(&file).expect("there").len();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(fs::metadata(&file).expect("there").len(), length, "it still runs");
    assert_eq!(watching.interrupt(), Some(130));
    sandbox.assert_alone_within(Duration::from_secs(3));
}
