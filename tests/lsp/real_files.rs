//! Files that nobody here wrote: the Triton files of other projects (`tests/env/requirements-real-files.txt`).
//! Each is opened as an editor opens it, and every static finding is one that was judged by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use warpsmith::{lint, source};

use crate::support::Server;

/// Where every finding is listed with a judgement.
const JUDGED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/lint-precision.md");

/// The unpacked packages; a note of the skip where there are none.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("WARPSMITH_TEST_REAL_FILES").map(PathBuf::from);
    if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
        return Some(folder);
    }
    if let Some(list) = std::env::var_os("WARPSMITH_TEST_SKIPPED") {
        use std::io::Write;
        let list = fs::OpenOptions::new().append(true).create(true).open(list);
        let line = "real_files: the Triton files of other projects could not be downloaded";
        writeln!(list.expect("the list of skipped tests"), "{line}").expect("a line is written");
    }
    None
}

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

/// `rule file:line` of every row of the page, with how often it stands there. Wrong ones are listed too.
fn judged() -> BTreeMap<String, usize> {
    let page = fs::read_to_string(JUDGED).expect("the page");
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", rule, file, lines, "right" | "wrong", _, ""] = cells[..] {
            for line in lines.split(", ") {
                *rows.entry(format!("{rule} {file}:{line}")).or_default() += 1;
            }
        }
    }
    rows
}

#[test]
fn every_file_is_opened_and_every_finding_was_judged() {
    let Some(root) = folder() else { return };
    let mut server = Server::start();
    let (mut found, mut kernels, mut opened) = (BTreeMap::new(), 0, 0);
    for path in python_files(&root) {
        let text = fs::read_to_string(&path).expect("UTF-8");
        if !text.contains("triton") {
            continue;
        }
        let name = path.strip_prefix(&root).expect("below").to_string_lossy().into_owned();
        let model = source::parse(&text);
        let lints = lint::run(&model, &text);
        opened += 1;
        kernels += model.kernels.len();
        let uri = server.open(&name, &text);
        let shown =
            model.kernels.iter().filter(|kernel| kernel.is_launched() || model.is_lonely(kernel)).count();
        assert!(server.lenses(&uri).len() >= shown.min(1), "{name}");
        for lint in &lints {
            let line = source::line_of(&text, lint.range.start);
            *found.entry(format!("{} {name}:{line}", lint.rule.name)).or_insert(0) += 1;
        }
        if !lints.is_empty() {
            assert_eq!(server.diagnostics().diagnostics.len(), lints.len(), "{name}");
        }
        server.close(&uri);
        if !lints.is_empty() {
            assert!(server.diagnostics().diagnostics.is_empty(), "{name}");
        }
    }
    assert!(opened > 200 && kernels > 700, "{opened} files, {kernels} kernels");
    let judged = judged();
    let new: Vec<&String> =
        found.iter().filter(|(at, n)| judged.get(*at) != Some(n)).map(|(at, _)| at).collect();
    let gone: Vec<&String> = judged.keys().filter(|at| !found.contains_key(*at)).collect();
    assert!(new.is_empty() && gone.is_empty(), "not judged: {new:#?}\njudged, not found: {gone:#?}");
}
