//! The rooms keep to what `ARCHITECTURE.md` says of them. Its table is the rule: it is read here, and the
//! sources are held against it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What one room may import: `None` is everything, else paths below the crate (`runner::protocol`).
type Rule = Option<Vec<String>>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Room to rule, from the rows whose first column names a folder of `src/`.
fn rules() -> BTreeMap<String, Rule> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    let (_, section) = page.split_once("## Rooms").expect("the section");
    let mut rules = BTreeMap::new();
    for line in section.lines().take_while(|line| !line.starts_with("## ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, names, _, may_import, _] = cells[..] else { continue };
        for name in names.split(',').filter_map(|name| name.trim().trim_matches('`').strip_suffix('/')) {
            if root().join("src").join(name).is_dir() {
                rules.insert(name.to_owned(), rule(may_import));
            }
        }
    }
    rules
}

fn rule(cell: &str) -> Rule {
    match cell {
        "everything" => None,
        "nothing" => Some(Vec::new()),
        _ => Some(cell.split(',').map(|path| path.trim().trim_matches('`').to_owned()).collect()),
    }
}

/// Every Rust file below `src/`, with its room (the empty name for files of no room).
fn sources() -> Vec<(String, PathBuf, String)> {
    let src = root().join("src");
    let mut files = Vec::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path.strip_prefix(&src).expect("below src");
                let room = below.parent().and_then(|parent| parent.iter().next());
                let room = room.map(|room| room.to_string_lossy().into_owned()).unwrap_or_default();
                let text = fs::read_to_string(&path).expect("UTF-8");
                files.push((room, below.to_owned(), text));
            }
        }
    }
    files
}

/// `runner::protocol::Place` for each `crate::runner::protocol::Place` in a text, with its line.
fn paths_in(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("crate::") {
            rest = after;
            if before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            let end = after.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            found.push((number, after[..end.unwrap_or(after.len())].trim_end_matches(':').to_owned()));
        }
    }
    found
}

fn allows(rule: &Rule, room: &str, path: &str) -> bool {
    let Some(allowed) = rule else { return true };
    let is_below =
        |above: &str| path.strip_prefix(above).is_some_and(|r| r.is_empty() || r.starts_with("::"));
    is_below(room) || allowed.iter().any(|allowed| is_below(allowed))
}

#[test]
fn rooms_import_what_the_table_says() {
    let rules = rules();
    let mut broken = Vec::new();
    for (room, file, text) in sources() {
        let Some(rule) = rules.get(&room) else {
            assert!(room.is_empty(), "the room {room}/ is not in the table of ARCHITECTURE.md");
            continue;
        };
        for (line, path) in paths_in(&text) {
            // `use crate::{…}` would hide rooms from this test.
            if path.is_empty() || !allows(rule, &room, &path) {
                broken.push(format!("{}:{line}: crate::{path}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "imports that ARCHITECTURE.md does not allow:\n{}", broken.join("\n"));
}

/// A rule that nothing uses any more is no longer true of the program.
#[test]
fn the_table_allows_no_more_than_is_used() {
    let sources = sources();
    let mut unused = Vec::new();
    for (room, rule) in rules() {
        for allowed in rule.into_iter().flatten() {
            let own_rule = Some(vec![allowed.clone()]);
            let mut paths = sources
                .iter()
                .filter(|(of, _, _)| *of == room)
                .flat_map(|(_, _, text)| paths_in(text))
                .map(|(_, path)| path)
                .filter(|path| !allows(&Some(Vec::new()), &room, path));
            if !paths.any(|path| allows(&own_rule, &room, &path)) {
                unused.push(format!("{room}/ imports nothing of {allowed}"));
            }
        }
    }
    assert!(unused.is_empty(), "{}", unused.join("\n"));
}

/// `word` stands only in files of these rooms.
#[track_caller]
fn only_in(rooms: &[&str], word: &str) {
    let (mut inside, mut outside) = (0, Vec::new());
    for (room, file, _) in sources().into_iter().filter(|(_, _, text)| text.contains(word)) {
        if rooms.contains(&room.as_str()) { inside += 1 } else { outside.push(file) }
    }
    assert!(inside > 0, "{word} stands nowhere: this test checks nothing");
    assert!(outside.is_empty(), "{word} in {outside:?}");
}

#[test]
fn only_lsp_knows_the_types_of_the_protocol() {
    only_in(&["lsp"], "tower_lsp");
}

#[test]
fn only_runner_and_toolchain_start_processes() {
    only_in(&["runner"], "tokio::process");
    only_in(&["toolchain"], "std::process::{Child");
    only_in(&["runner", "toolchain"], "Command::new(");
}

#[test]
fn only_the_doctor_starts_libcuda() {
    only_in(&["device"], "cudarc");
    only_in(&["device"], "nvml_wrapper");
    let askers: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|(_, _, text)| text.contains("Libcuda"))
        .map(|(_, file, _)| file)
        .filter(|file| !file.starts_with("device"))
        .collect();
    assert_eq!(askers, [Path::new("cli/doctor.rs")]);
}

#[test]
fn only_the_main_loop_makes_and_owns_the_state_of_the_server() {
    let owners: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|(_, _, text)| text.contains("GlobalState::new("))
        .map(|(_, file, _)| file)
        .collect();
    assert_eq!(owners, [Path::new("lsp/main_loop.rs")]);
}

/// Whoever has a checker could run what nobody trusts.
#[test]
fn only_the_gate_of_the_server_has_a_checker() {
    let holders: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|(room, file, text)| {
            let is_test = file.to_string_lossy().ends_with("_tests.rs");
            room == "lsp" && text.contains("Checker") && !file.ends_with("lsp/server.rs") && !is_test
        })
        .map(|(_, file, _)| file)
        .collect();
    assert_eq!(holders, [Path::new("lsp/gate.rs")]);
}

#[test]
fn paths_are_found_and_measured() {
    let text = "use crate::spec::Dtype;\npub(crate) fn f(x: crate::runner::protocol::Place) {}\nuse crate::{a, b};\n";
    let paths: Vec<String> = paths_in(text).into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, ["spec::Dtype", "runner::protocol::Place", ""]);
    let protocol_only = Some(vec!["runner::protocol".to_owned()]);
    assert!(allows(&protocol_only, "oracle", "runner::protocol::Place"));
    assert!(allows(&protocol_only, "oracle", "oracle::miss"));
    assert!(!allows(&protocol_only, "oracle", "runner::Supervisor"));
    assert!(!allows(&protocol_only, "oracle", "runner::protocols"));
}
