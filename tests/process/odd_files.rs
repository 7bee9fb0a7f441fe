//! Files as they lie about: encodings, line ends, names, and things that are no files. Judged as Python reads them,
//! or told why not and what to do.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::bad_inputs::KERNEL;
use crate::harness::{Checked, Sandbox, python_or_skip};
use crate::server::Server;

/// Right only if `é` is one letter, as in the text.
const ONE_LETTER: &str = "def kernel_fn(x):\n    return softmax(x.contiguous()) * len('é')\n";
const RIGHT: &str = "def kernel_fn(x):\n    return softmax(x.contiguous())\n";
/// The mask of the store is gone; its line has the mark.
const MARK: &str = "# BUG";
const SMOKE: [&str; 4] = ["--dtype", "f32", "--stage", "smoke"];

fn without_mask() -> String {
    let text =
        KERNEL.replace(".to(y.dtype.element_ty), mask=inside)", &format!(".to(y.dtype.element_ty))  {MARK}"));
    assert!(text.contains(MARK));
    format!("{text}{RIGHT}")
}

#[track_caller]
fn assert_verdict(checked: &Checked, verdict: &str) {
    assert_eq!(checked.verdict(), verdict, "{}", checked.describe());
}

#[track_caller]
fn assert_found_at_line(checked: &Checked, line: u64) {
    assert_verdict(checked, "wrong");
    let lines: Vec<_> = checked.findings().iter().map(|found| found["place"]["line"].clone()).collect();
    assert!(lines.iter().any(|found| *found == line), "not at {line} but {lines:?}: {}", checked.describe());
}

#[track_caller]
fn assert_unreadable(checked: &Checked, words: &[&str]) {
    assert_eq!((checked.verdict(), checked.exit), ("could-not-run", Some(2)), "{}", checked.describe());
    assert_eq!(checked.codes(), ["unreadable-file"], "{}", checked.describe());
    for words in words {
        assert!(checked.describe().contains(words), "nobody says {words:?}: {}", checked.describe());
    }
}

/// What a file declares of its encoding is believed on the command line, which reads bytes.
#[test]
fn encodings_of_files() {
    let Some(python) = python_or_skip("encodings_of_files") else { return };
    let sandbox = Sandbox::new(python);
    let text = format!("{KERNEL}{ONE_LETTER}");
    let latin = |text: &str| text.chars().map(|c| u8::try_from(c).expect("latin-1")).collect::<Vec<u8>>();
    let write = |name: &str, bytes: &[u8]| {
        let path = sandbox.write(name, "");
        fs::write(&path, bytes).expect("written");
        path
    };
    let judged = [
        write("utf8.py", text.as_bytes()),
        write("bom.py", format!("\u{feff}{text}").as_bytes()),
        write("declared_latin.py", &latin(&format!("# -*- coding: latin-1 -*-\n{text}"))),
        write(
            "emacs.py",
            &latin(&format!("#!/usr/bin/env python3\n# vim: set fileencoding=iso-8859-1 :\n{text}")),
        ),
    ];
    for (file, checked) in judged.iter().zip(sandbox.check_all(&judged, &SMOKE)) {
        assert_eq!(checked.verdict(), "passed", "{}: {}", file.display(), checked.describe());
    }
    // Python reads two letters there, and so do we.
    let two = write("mistaken.py", format!("# coding: latin-1\n{text}").as_bytes());
    assert_verdict(&sandbox.check(&two, &SMOKE), "wrong");

    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, bytes, words) in [
        ("latin.py", latin(&text), ["is not UTF-8", "save it as UTF-8"]),
        ("utf16.py", [b"\xff\xfe".to_vec(), utf16.clone()].concat(), ["is UTF-16", "save it as UTF-8"]),
        ("koi8.py", latin(&format!("# coding: koi8-r\n{text}")), ["`koi8-r`", "save it as UTF-8"]),
    ] {
        assert_unreadable(&sandbox.check(&write(name, &bytes), &SMOKE), &words);
    }
    // Without a mark at its start it is a text with a NUL behind each letter.
    let half = write("utf16_without_mark.py", &b"i\0m\0p\0o\0r\0t\0".repeat(20));
    assert_verdict(&sandbox.check(&half, &SMOKE), "could-not-run");
    let nul = write("nul.py", format!("{text}\0").as_bytes());
    let checked = sandbox.check(&nul, &SMOKE);
    assert_verdict(&checked, "could-not-run");
    assert_eq!(checked.codes(), ["syntax-error"], "{}", checked.describe());
}

/// An editor has decoded the text; what it declares must not decode it a second time.
#[test]
fn the_text_of_an_editor_is_decoded_already() {
    let Some(python) = python_or_skip("the_text_of_an_editor") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("k.py", "");
    let mut server = Server::start(&sandbox);
    server.open(&file, "");
    for (version, declared) in (1..).zip(["# -*- coding: latin-1 -*-\n", "# coding: utf-16\n", "\u{feff}"]) {
        let wrong = format!("{declared}{KERNEL}{}", ONE_LETTER.replace("'é'", "'éé'"));
        server.save(&file, 2 * version, &wrong);
        let codes = server.codes();
        assert_eq!(codes, ["mismatch"], "{declared:?}");
        server.save(&file, 2 * version + 1, &format!("{declared}{KERNEL}{ONE_LETTER}"));
        while !server.codes().is_empty() {}
    }
}

/// Lines are counted as Python counts them, whatever ends them; and only line ends end them.
#[test]
fn line_ends() {
    let Some(python) = python_or_skip("line_ends") else { return };
    let sandbox = Sandbox::new(python);
    let text = without_mask();
    let line_of_mark =
        |text: &str| text.lines().position(|line| line.ends_with(MARK)).expect("marked") as u64 + 1;
    let line = line_of_mark(&text);
    // Form feed, vertical tab and the separators of Unicode end no line of Python.
    let odd = format!("\x0c# \x0b\u{2028}\u{85}\x1c 😀\n{text}");
    let files = [
        ("crlf.py", text.replace('\n', "\r\n"), line),
        ("cr.py", text.replace('\n', "\r"), line),
        (
            "mixed.py",
            text.replacen('\n', "\r\n", 5).replacen("import triton\r\n", "import triton\r", 1),
            line,
        ),
        ("bom.py", format!("\u{feff}{text}"), line),
        ("bom_crlf.py", format!("\u{feff}{}", text.replace('\n', "\r\n")), line),
        ("odd.py", odd, line + 1),
    ];
    let paths: Vec<PathBuf> = files.iter().map(|(name, text, _)| sandbox.write(name, text)).collect();
    for ((name, _, line), checked) in files.iter().zip(sandbox.check_all(&paths, &SMOKE)) {
        eprintln!("{name}");
        assert_found_at_line(&checked, *line);
    }
}

/// Names with blanks, signs of URIs and other alphabets, in the folder and in the file; also in a package.
#[test]
fn names() {
    let Some(python) = python_or_skip("names") else { return };
    let sandbox = Sandbox::new(python);
    let folder = sandbox.path().join("größe 100% #1?/カーネル [a];&");
    fs::create_dir_all(&folder).expect("a folder");
    let names = ["my kernel.py", "k%20#é?.py", "ядро.py", "-k.py", "json.py", "class.py", "k.v2.py", "k"];
    let files: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    for file in &files {
        fs::write(file, without_mask()).expect("written");
    }
    for (file, checked) in files.iter().zip(sandbox.check_all(&files, &SMOKE)) {
        assert_verdict(&checked, "wrong");
        let places: Vec<_> = checked.findings().iter().map(|found| found["place"]["file"].clone()).collect();
        assert!(places.iter().any(|place| *place == *file.to_str().expect("UTF-8")), "{places:?}");
    }
    // The same through an editor, whose URIs write most of it as %41.
    let mut server = Server::start(&sandbox);
    for file in &files[..3] {
        let text = without_mask();
        server.open_and_save(file, &text);
        let shown = server.wait_for(|message| message["method"] == "textDocument/publishDiagnostics");
        assert_eq!(shown["params"]["uri"], crate::server::uri(file));
        assert_eq!(shown["params"]["diagnostics"][0]["code"], "out-of-bounds", "{shown}");
    }
}

/// Linux allows any bytes in names; Python and JSON do not.
#[test]
fn a_name_that_is_no_text() {
    let Some(python) = python_or_skip("a_name_that_is_no_text") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.path().join(OsStr::from_bytes(b"k\xff.py"));
    fs::write(&file, format!("{KERNEL}{RIGHT}")).expect("written");
    let checked = sandbox.check(&file, &SMOKE);
    assert_unreadable(&checked, &["is no UTF-8", "rename"]);
}

/// What is no file is told at once: a pipe would be waited for.
#[test]
fn what_is_no_file() {
    let Some(python) = python_or_skip("what_is_no_file") else { return };
    let sandbox = Sandbox::new(python);
    let in_folder = |name: &str| sandbox.path().join(name);
    fs::create_dir(in_folder("folder.py")).expect("a folder");
    let pipe = Command::new("mkfifo").arg(in_folder("pipe.py")).status();
    assert!(pipe.is_ok_and(|status| status.success()));
    symlink("loop.py", in_folder("loop.py")).expect("a link");
    symlink("nowhere.py", in_folder("dangling.py")).expect("a link");
    for (name, words) in [
        ("folder.py", "is a folder; name the kernel files in it"),
        ("pipe.py", "is a pipe or a device"),
        ("loop.py", "cannot read"),
        ("dangling.py", "No such file"),
        ("/dev/zero", "is a pipe or a device"),
    ] {
        assert_unreadable(&sandbox.check(&in_folder(name), &SMOKE), &[words, name]);
    }
    // Nor is it waited for as a reference, or beside a kernel.
    let text = format!("{KERNEL}# warpsmith: ref=./pipe.py::f x=f32[M,N] M=2 N=5\n{RIGHT}");
    let checked = sandbox.check(&sandbox.write("k.py", &text), &SMOKE);
    assert_verdict(&checked, "could-not-run");
    assert!(checked.describe().contains("is a pipe or a device"), "{}", checked.describe());
}

/// A link is judged under its own name; what lies beside the link counts, as it does for Python.
#[test]
fn a_link_to_a_kernel() {
    let Some(python) = python_or_skip("a_link_to_a_kernel") else { return };
    let sandbox = Sandbox::new(python);
    fs::create_dir(sandbox.path().join("store")).expect("a folder");
    sandbox.write("store/k.py", &without_mask());
    let link = sandbox.path().join("linked.py");
    symlink("store/k.py", &link).expect("a link");
    let checked = sandbox.check(&link, &SMOKE);
    assert_verdict(&checked, "wrong");
    let at_link =
        checked.findings().iter().any(|found| found["place"]["file"] == *link.to_str().expect("UTF-8"));
    assert!(at_link, "{}", checked.describe());
}

#[test]
fn empty_and_huge_files() {
    let Some(python) = python_or_skip("empty_and_huge_files") else { return };
    let sandbox = Sandbox::new(python);
    for (name, text) in
        [("empty.py", ""), ("blank.py", "\n\n"), ("mark.py", "\u{feff}"), ("comment.py", "# nothing")]
    {
        let checked = sandbox.check(&sandbox.write(name, text), &SMOKE);
        assert_verdict(&checked, "could-not-run");
        assert_eq!(checked.codes(), ["no-kernel"], "{}", checked.describe());
    }
    let filler = "# what somebody's generator wrote, sixty letters of it, again\n".repeat(85_000);
    assert!(filler.len() > 5 << 20);
    let huge = format!("{filler}{}", without_mask());
    let line = huge.lines().position(|line| line.ends_with(MARK)).expect("marked") as u64 + 1;
    assert_found_at_line(&sandbox.check(&sandbox.write("huge.py", &huge), &SMOKE), line);
    let sparse = sandbox.write("sparse.py", "");
    fs::File::options()
        .write(true)
        .open(&sparse)
        .and_then(|file| file.set_len(1 << 40))
        .expect("a sparse file");
    assert_unreadable(&sandbox.check(&sparse, &SMOKE), &["bytes; at most"]);
}

/// Two files of one name and one text, each with the helper of its own folder.
#[test]
fn two_files_of_one_name() {
    let Some(python) = python_or_skip("two_files_of_one_name") else { return };
    let sandbox = Sandbox::new(python);
    let text = format!(
        "from helper import SCALE\n{KERNEL}def kernel_fn(x):\n    return softmax(x.contiguous()) * SCALE\n"
    );
    let kernel = |folder: &str, scale: &str| {
        fs::create_dir(sandbox.path().join(folder)).expect("a folder");
        sandbox.write(&format!("{folder}/helper.py"), &format!("SCALE = {scale}\n"));
        sandbox.write(&format!("{folder}/kernel.py"), &text)
    };
    let files = [kernel("right", "1"), kernel("wrong", "2")];
    let verdicts = |files: &[PathBuf]| -> Vec<String> {
        sandbox.check_all(files, &SMOKE).iter().map(|checked| checked.verdict().to_owned()).collect()
    };
    assert_eq!(verdicts(&files), ["passed", "wrong"]);
    let [right, wrong] = files;
    assert_eq!(verdicts(&[wrong.clone(), right.clone()]), ["wrong", "passed"]);
    let mut server = Server::start(&sandbox);
    server.open_and_save(&right, &text);
    server.open_and_save(&wrong, &text);
    let shown = server.wait_for(|message| message["method"] == "textDocument/publishDiagnostics");
    assert_eq!(shown["params"]["uri"], crate::server::uri(&wrong));
    assert_eq!(shown["params"]["diagnostics"][0]["code"], "mismatch", "{shown}");
}
