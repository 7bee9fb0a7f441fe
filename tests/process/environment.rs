//! Environments that cannot be used are told, with what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Checked, Sandbox, python_or_skip};

fn starter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/triton/softmax.py")
}

/// An empty virtual environment, with packages that are nothing but a version in their metadata.
fn fake_environment(folder: &Path, packages: &[(&str, &str)]) -> PathBuf {
    let environment = folder.join("environment");
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&environment).status();
    assert!(made.is_ok_and(|status| status.success()), "python3 -m venv");
    let python = environment.join("bin/python");
    let site = Command::new(&python)
        .args(["-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
        .output()
        .expect("the new interpreter runs");
    let site = PathBuf::from(String::from_utf8_lossy(&site.stdout).trim());
    for (name, version) in packages {
        let metadata = site.join(format!("{name}-{version}.dist-info"));
        fs::create_dir_all(&metadata).expect("a folder");
        fs::write(
            metadata.join("METADATA"),
            format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
        )
        .expect("a file");
        fs::create_dir_all(site.join(name)).expect("a folder");
        fs::write(site.join(name).join("__init__.py"), format!("__version__ = {version:?}\n"))
            .expect("a file");
    }
    python
}

fn check_with(test: &str, packages: &[(&str, &str)]) -> Option<Checked> {
    python_or_skip(test)?;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sandbox = Sandbox::new(fake_environment(folder.path(), packages));
    Some(sandbox.check(&starter(), &["--stage", "smoke"]))
}

#[track_caller]
fn could_not_run(checked: &Checked, code: &str, words: &[&str]) {
    assert_eq!((checked.verdict(), checked.exit), ("could-not-run", Some(2)), "{}", checked.describe());
    assert!(checked.codes().iter().any(|known| known == code), "no {code}: {}", checked.describe());
    for word in words {
        assert!(checked.describe().contains(word), "nobody says {word:?}: {}", checked.describe());
    }
}

#[test]
fn without_torch() {
    let Some(checked) = check_with("without_torch", &[]) else { return };
    could_not_run(&checked, "no-torch", &["torch", "pip install"]);
}

#[test]
fn triton_too_old() {
    let packages = [("torch", "2.1.0"), ("triton", "2.1.0"), ("numpy", "1.26.0")];
    let Some(checked) = check_with("triton_too_old", &packages) else { return };
    could_not_run(&checked, "triton-too-old", &["2.1.0", "3."]);
}

#[test]
fn an_interpreter_that_is_not_there() {
    let Some(_) = python_or_skip("an_interpreter_that_is_not_there") else { return };
    let sandbox = Sandbox::new(PathBuf::from("/nowhere/python"));
    let checked = sandbox.check(&starter(), &["--stage", "smoke"]);
    could_not_run(&checked, "no-python", &["/nowhere/python"]);
}

#[test]
fn doctor_says_what_is_missing() {
    let Some(python) = python_or_skip("doctor_says_what_is_missing") else { return };
    let whole = Sandbox::new(python).run(&["doctor", "--json"]);
    assert_eq!(whole.status.code(), Some(0), "{}", String::from_utf8_lossy(&whole.stdout));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bare = Sandbox::new(fake_environment(folder.path(), &[])).run(&["doctor"]);
    let text = String::from_utf8_lossy(&bare.stdout);
    assert_eq!(bare.status.code(), Some(2), "{text}");
    assert!(text.contains("torch") && text.contains("pip install"), "{text}");
}

/// Whoever reads the JSON of many files gets a line for each.
#[test]
fn a_file_that_cannot_be_read_has_a_summary_too() {
    let sandbox = Sandbox::new(PathBuf::from("/nowhere/python"));
    let binary = sandbox.write("binary.py", "");
    fs::write(&binary, b"x = '\xff'\n").expect("a file");
    for (file, words) in [(Path::new("/nowhere/kernel.py"), "cannot read"), (&binary, "UTF-8")] {
        could_not_run(&sandbox.check(file, &[]), "unreadable-file", &[words]);
    }
}
