//! Triton files that nobody here wrote.

use std::fs;
use std::path::{Path, PathBuf};
use warpsmith::{lint, source};

fn python_files(root: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "py") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn print_all() {
    let root = PathBuf::from(std::env::var_os("WARPSMITH_TEST_REAL_FILES").expect("set"));
    let (mut slow, mut total) = (std::time::Duration::ZERO, std::time::Duration::ZERO);
    let mut lines = 0;
    for path in python_files(&root) {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let model = source::parse(&text);
        if model.kernels.is_empty() { continue; }
        lines += text.lines().count();
        let t = std::time::Instant::now();
        let lints = lint::run(&model, &text);
        let t = t.elapsed();
        total += t;
        slow = slow.max(t);
        for lint in lints {
            println!("{}:{}: {}: {}", path.strip_prefix(&root).expect("below").display(), source::line_of(&text, lint.range.start), lint.rule.name, lint.message);
        }
    }
    println!("slowest {slow:?} total {total:?} lines {lines}");
}
