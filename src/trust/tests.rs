use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        resolve(self.folder.path()).join(name)
    }

    fn folder(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path(name)).unwrap();
        self.path(name)
    }

    fn file(&self) -> TrustFile {
        TrustFile::new(self.path("state/trust.json"))
    }
}

#[test]
fn nothing_is_trusted_at_first() {
    let scratch = Scratch::new();
    assert_eq!(scratch.file().read().unwrap(), Trusted::default());
    assert!(!Trusted::default().covers(Path::new("/k.py")));
    assert!(!scratch.path("state").exists(), "asking makes nothing");
}

#[test]
fn a_folder_covers_what_lies_below_it_and_nothing_beside_it() {
    let scratch = Scratch::new();
    let file = scratch.file();
    let project = scratch.folder("project");
    let trusted = file.grant(&Place::below(&project)).unwrap();
    assert_eq!(file.read().unwrap(), trusted);
    for inside in ["project/k.py", "project/a/b/k.py", "project/never/saved.py"] {
        assert!(trusted.covers(&scratch.path(inside)), "{inside}");
    }
    for outside in ["k.py", "project2/k.py", "project/../k.py", "project/gone/../../k.py", "project.py"] {
        assert!(!trusted.covers(&scratch.path(outside)), "{outside}");
    }
    assert!(trusted.covers_folder(&project) && trusted.covers_folder(&project.join("a")));
    assert!(!trusted.covers_folder(&scratch.path("")));
}

#[test]
fn files_of_no_project_are_trusted_without_the_folders_beside_them() {
    let scratch = Scratch::new();
    let [place] = &Place::needed(&scratch.path("k.py"), &[])[..] else { panic!("one") };
    assert_eq!(*place, Place { folder: scratch.path("k.py").parent().unwrap().to_owned(), below: false });
    let trusted = scratch.file().grant(place).unwrap();
    assert!(trusted.covers(&scratch.path("other.py")));
    assert!(!trusted.covers(&scratch.path("cloned/k.py")) && !trusted.covers_folder(&scratch.path("")));
}

#[test]
fn the_innermost_folder_of_the_editor_is_asked_for() {
    let scratch = Scratch::new();
    let (outer, inner) = (scratch.folder("a"), scratch.folder("a/b"));
    let workspace = [outer.clone(), inner.clone()];
    let of = |name: &str| Place::needed(&scratch.path(name), &workspace).remove(0);
    assert_eq!(of("a/b/c/k.py"), Place { folder: inner, below: true });
    assert_eq!(of("a/k.py"), Place { folder: outer, below: true });
    assert_eq!(of("ab/k.py"), Place { folder: scratch.path("ab"), below: false });
}

/// Where a link leads to is what would be run, and what is asked for.
#[test]
fn links_are_followed() {
    let scratch = Scratch::new();
    let (project, other) = (scratch.folder("project"), scratch.folder("other"));
    fs::write(other.join("k.py"), "").unwrap();
    symlink(&project, scratch.path("link")).unwrap();
    symlink(other.join("k.py"), project.join("k.py")).unwrap();
    let trusted = scratch.file().grant(&Place::below(&scratch.path("link"))).unwrap();
    assert!(trusted.covers(&project.join("mine.py")) && trusted.covers(&scratch.path("link/mine.py")));
    assert!(!trusted.covers(&project.join("k.py")), "it lies in another folder");
    let needed = Place::needed(&project.join("k.py"), std::slice::from_ref(&project));
    assert_eq!(needed, [Place { folder: other.clone(), below: false }, Place::below(&project)]);
    // A link in a folder that nobody trusts takes that folder's interpreter and descriptions.
    let evil = scratch.folder("evil");
    symlink(project.join("mine.py"), evil.join("k.py")).unwrap();
    fs::write(project.join("mine.py"), "").unwrap();
    assert!(!trusted.covers(&evil.join("k.py")));
    assert!(trusted.covers(&project.join("mine.py")));
}

/// A check looks upwards for an interpreter, for what is right, for modules: what lies there is run too.
#[test]
fn a_project_around_a_trusted_folder_has_to_be_trusted() {
    for name in OF_PROJECTS {
        let scratch = Scratch::new();
        let (repository, inner) = (scratch.folder("repository"), scratch.folder("repository/sub/deeper"));
        let sub = scratch.path("repository/sub");
        let trusted = scratch.file().grant(&Place::below(&sub)).unwrap();
        let file = inner.join("k.py");
        assert!(trusted.covers(&file));
        assert_eq!(Place::needed(&file, std::slice::from_ref(&sub)), [Place::below(&sub)]);
        scratch.folder(&format!("repository/{name}"));
        assert!(!trusted.covers(&file), "{name}");
        assert_eq!(Place::needed(&file, std::slice::from_ref(&sub)), [Place::below(&repository)], "{name}");
        let trusted = scratch.file().grant(&Place::below(&repository)).unwrap();
        assert!(trusted.covers(&file));
        // In the file's own folder it makes a project of it: more than its files may be run.
        let loose = scratch.folder("loose");
        scratch.folder(&format!("loose/{name}"));
        assert_eq!(Place::needed(&loose.join("k.py"), &[]), [Place::below(&loose)]);
        let files_only = Place { folder: loose.clone(), below: false };
        assert!(!scratch.file().grant(&files_only).unwrap().covers(&loose.join("k.py")), "{name}");
    }
}

#[test]
fn trust_is_taken_back() {
    let scratch = Scratch::new();
    let file = scratch.file();
    let (outer, inner) = (scratch.folder("a"), scratch.folder("a/b"));
    for folder in [&outer, &inner] {
        file.grant(&Place::below(folder)).unwrap();
    }
    let revoked = file.revoke(&inner).unwrap();
    assert_eq!(
        revoked,
        Revoked { removed: vec![Place::below(&inner)], still_below: Some(Place::below(&outer)) }
    );
    fs::remove_dir_all(&outer).unwrap();
    let revoked = file.revoke(&outer).unwrap();
    assert_eq!((revoked.removed.len(), revoked.still_below), (1, None), "also when it is gone");
    assert_eq!(file.read().unwrap(), Trusted::default());
    assert_eq!(file.revoke(&outer).unwrap(), Revoked::default());
    // What lies below goes too: `and all below it` is what it says.
    for folder in [&outer, &inner] {
        file.grant(&Place::below(folder)).unwrap();
    }
    assert_eq!(file.revoke(&outer).unwrap().removed.len(), 2);
    assert_eq!(file.read().unwrap(), Trusted::default());
}

#[test]
fn a_file_that_cannot_be_used_trusts_nothing_is_named_and_kept() {
    let scratch = Scratch::new();
    let file = scratch.file();
    let project = scratch.folder("project");
    file.grant(&Place::below(&project)).unwrap();
    let good = fs::read_to_string(file.path()).unwrap();
    let cut = &good[..good.len() - 4];
    let newer = good.replace("trust/1", "trust/2");
    let relative = good.replace(project.to_str().unwrap(), "project");
    for (text, word) in [
        ("", "broken"),
        ("{}", "broken"),
        ("[\"/\"]", "broken"),
        (cut, "broken"),
        (&relative, "no absolute path"),
        (&newer, "newer"),
    ] {
        fs::write(file.path(), text).unwrap();
        for told in [
            file.read().unwrap_err(),
            file.grant(&Place::below(&project)).unwrap_err(),
            file.revoke(&project).unwrap_err(),
        ] {
            let told = told.to_string();
            assert!(told.contains(file.path().to_str().unwrap()) && told.contains(word), "{told}");
        }
        assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
    }
    fs::remove_file(file.path()).unwrap();
    fs::create_dir(file.path()).unwrap();
    assert!(file.read().is_err());
}

#[test]
fn only_the_user_reads_it_and_nothing_is_left_beside_it() {
    let scratch = Scratch::new();
    let file = scratch.file();
    file.grant(&Place::below(&scratch.folder("project"))).unwrap();
    assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    let mut names: Vec<_> =
        fs::read_dir(scratch.path("state")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["trust.json", "trust.json.lock"]);
}

#[test]
fn what_cannot_be_written_down_is_told() {
    let scratch = Scratch::new();
    let place = Place { folder: PathBuf::from(std::ffi::OsStr::from_bytes(b"/\xff")), below: true };
    assert!(scratch.file().grant(&place).unwrap_err().to_string().contains("UTF-8"));
    fs::write(scratch.path("state"), "in the way").unwrap();
    let told = scratch.file().grant(&Place::below(&scratch.path(""))).unwrap_err().to_string();
    assert!(told.contains("cannot be written"), "{told}");
}

#[test]
fn a_name_cannot_change_the_question() {
    let place = Place { folder: PathBuf::from("/a\n\u{202e}b c"), below: true };
    assert_eq!(place.to_string(), "/a\u{fffd}\u{fffd}b c and all below it");
}

/// None of many writers takes away what another has written.
#[test]
fn many_write_at_once() {
    let scratch = Scratch::new();
    let folders: Vec<PathBuf> = (0..16).map(|number| scratch.folder(&format!("p{number}"))).collect();
    std::thread::scope(|scope| {
        for folder in &folders {
            // Each opens the lock anew, as a process of its own does.
            scope.spawn(|| scratch.file().grant(&Place::below(folder)).unwrap());
        }
    });
    assert_eq!(scratch.file().read().unwrap().places().count(), folders.len());
}
