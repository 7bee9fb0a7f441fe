//! What `check --format` says to CI systems, with a kernel that is wrong.

use std::process::Output;

use crate::bad_inputs::KERNEL;
use crate::harness::{Sandbox, python_or_skip};

const RIGHT: &str = "def kernel_fn(x):\n    return softmax(x)\n";
const WRONG: &str = "def kernel_fn(x):\n    return softmax(x) * 2\n";

fn checked(sandbox: &Sandbox, format: &str, files: &[&str]) -> (Output, String) {
    let output = sandbox
        .warpsmith()
        .args(["check", "--no-setup", "--stage", "smoke", "--dtype", "f32", "--seed", "7"])
        .args(["--format", format])
        .args(files)
        .current_dir(sandbox.write("marker", "").parent().expect("a folder"))
        .env_remove("GITHUB_WORKSPACE")
        .output()
        .expect("the binary runs");
    let stdout = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    (output, stdout)
}

#[test]
fn github_shows_a_wrong_kernel_as_an_error_at_its_file() {
    let Some(python) = python_or_skip("github_shows_a_wrong_kernel") else { return };
    let sandbox = Sandbox::new(python);
    sandbox.write("wrong.py", &format!("{KERNEL}{WRONG}"));
    sandbox.write("right.py", &format!("{KERNEL}{RIGHT}"));
    let (output, stdout) = checked(&sandbox, "github", &["wrong.py", "right.py", "gone.py"]);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    let errors: Vec<&str> = stdout.lines().filter(|line| line.starts_with("::error ")).collect();
    let [error] = errors.as_slice() else { panic!("{stdout}") };
    assert!(error.starts_with("::error file=wrong.py,line="), "{error}");
    assert!(error.contains("title=wrong%3A mismatch") && error.contains("%0Acase: smoke"), "{error}");
    let warning = stdout.lines().find(|line| line.starts_with("::warning ")).expect("the file that is gone");
    assert!(
        warning.starts_with("::warning file=gone.py,title=could not run%3A unreadable-file::"),
        "{warning}"
    );
    for line in ["checked wrong.py: ✗ wrong", "checked right.py: ✓ passed", "not run: sweep"] {
        assert!(stdout.lines().any(|told| told.starts_with(line)), "{line}: {stdout}");
    }
}

#[test]
fn junit_is_one_document_for_all_files() {
    let Some(python) = python_or_skip("junit_is_one_document") else { return };
    let sandbox = Sandbox::new(python);
    sandbox.write("wrong.py", &format!("{KERNEL}{WRONG}"));
    sandbox.write("right.py", &format!("{KERNEL}{RIGHT}"));
    let (output, stdout) = checked(&sandbox, "junit", &["wrong.py", "right.py", "gone.py"]);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    let file = sandbox.write("report.xml", &stdout);
    let reader = "import sys, xml.etree.ElementTree as tree\n\
        for suite in tree.parse(sys.argv[1]).getroot():\n    \
        bad = [(case.get('classname'), child.tag, child.get('type')) for case in suite.iter('testcase')\n        \
        for child in case if child.tag in ('failure', 'error')]\n    \
        ran = [case.get('name').split(' ')[0] for case in suite.iter('testcase') if float(case.get('time')) > 0]\n    \
        print(suite.get('name'), bad, ran, int(suite.get('skipped')) > 0, float(suite.get('time')) > 0)\n";
    let read = std::process::Command::new(&sandbox.python).args(["-c", reader]).arg(file).output();
    let read = String::from_utf8(read.expect("Python runs").stdout).expect("UTF-8");
    let expected = "wrong.py [('kernel_fn', 'failure', 'mismatch')] ['smoke'] True True\n\
        right.py [] ['smoke'] True True\n\
        gone.py [('gone.py', 'error', 'unreadable-file')] [] False False\n";
    assert_eq!(read, expected, "{stdout}");
}
