//! The version of a file at git's HEAD, asked from the user's own `git`.
//!
//! Nothing of the repository is run: no hook, no filter, no text conversion, no file-system monitor, and nothing is
//! fetched.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Surroundings;
use super::subprocess::{End, Finished, Limits, run};

/// Wall clock of one question.
const DEADLINE_S: u64 = 10;
/// A kernel's file is never longer.
const LONGEST_TEXT_BYTES: usize = 4 << 20;
/// Variables that would make git look at another repository than the file's, as a hook sets them.
const OF_ANOTHER_REPOSITORY: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"];

/// A file as it was committed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtHead {
    /// Abbreviated: `a1b2c3d`.
    pub commit: String,
    pub text: String,
}

/// Why there is no such version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoHead {
    #[error("there is no `git` on PATH")]
    NoGit,
    #[error("the file is in no git repository")]
    NoRepository,
    #[error("its repository has no commit yet")]
    NoCommit,
    #[error("it is not part of the last commit")]
    Untracked,
    #[error("its version there is not UTF-8, or too long")]
    NotText,
    #[error("git failed: {0}")]
    Failed(String),
}

/// Asks `git` for the version of `file` at HEAD. A link is followed first.
///
/// # Errors
/// There is none, or git cannot tell.
pub fn at_head(file: &Path, surroundings: &Surroundings) -> Result<AtHead, NoHead> {
    let git = surroundings.find_program("git").ok_or(NoHead::NoGit)?;
    // A file that was never saved is in no commit.
    let file = std::fs::canonicalize(file).map_err(|_| NoHead::Untracked)?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return Err(NoHead::Untracked) };
    let ask = Ask { git: &git, folder, surroundings };
    let inside = ask.git(&["rev-parse", "--is-inside-work-tree"])?;
    if says(&inside, "not a git repository") || inside.stdout_text().trim() == "false" {
        return Err(NoHead::NoRepository);
    }
    if !inside.succeeded() {
        return Err(failed(&inside));
    }
    let commit = ask.git(&["rev-parse", "--verify", "--quiet", "--short", "HEAD^{commit}"])?;
    if !commit.succeeded() {
        return Err(if commit.end == End::Exited(1) { NoHead::NoCommit } else { failed(&commit) });
    }
    let commit = commit.stdout_text().trim().to_owned();
    // By commit, so that all answers are of the same one.
    let entry = ask.command(&["ls-tree", "-z", &commit, "--"], Some(name))?;
    if !entry.succeeded() {
        return Err(failed(&entry));
    }
    let entry = entry.stdout_text();
    let mut words = entry.split_whitespace().skip(1);
    let (Some("blob"), Some(object)) = (words.next(), words.next()) else { return Err(NoHead::Untracked) };
    let blob = ask.git(&["cat-file", "blob", object])?;
    if !blob.succeeded() {
        return Err(failed(&blob));
    }
    let is_whole = !blob.truncated;
    let text = String::from_utf8(blob.stdout).ok().filter(|_| is_whole);
    Ok(AtHead { commit, text: text.ok_or(NoHead::NotText)? })
}

struct Ask<'a> {
    git: &'a PathBuf,
    folder: &'a Path,
    surroundings: &'a Surroundings,
}

impl Ask<'_> {
    fn git(&self, arguments: &[&str]) -> Result<Finished, NoHead> {
        self.command(arguments, None)
    }

    fn command(&self, arguments: &[&str], name: Option<&std::ffi::OsStr>) -> Result<Finished, NoHead> {
        let mut command: Command = self.surroundings.command(self.git);
        for variable in OF_ANOTHER_REPOSITORY {
            command.env_remove(variable);
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            // Git before 2.44 does not know the line above, and fetches what a partial clone lacks.
            .env("GIT_ALLOW_PROTOCOL", "")
            .env("GIT_TERMINAL_PROMPT", "0")
            .args(["--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-C"])
            .arg(self.folder)
            .args(arguments)
            .args(name);
        let limits = Limits { output_bytes: LONGEST_TEXT_BYTES, ..Limits::seconds(DEADLINE_S) };
        let finished = run(command, limits).map_err(|error| NoHead::Failed(error.to_string()))?;
        if finished.end == End::TimedOut { Err(failed(&finished)) } else { Ok(finished) }
    }
}

fn says(finished: &Finished, words: &str) -> bool {
    String::from_utf8_lossy(&finished.stderr).contains(words)
}

fn failed(finished: &Finished) -> NoHead {
    NoHead::Failed(finished.failure())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Surroundings {
        Surroundings::of_this_process().without(&OF_ANOTHER_REPOSITORY)
    }

    fn git(folder: &Path, arguments: &[&str]) {
        let mut command = here().command("git");
        command
            .arg("-C")
            .arg(folder)
            .args(["-c", "user.name=n", "-c", "user.email=e@example.org"])
            .args(arguments);
        let finished = run(command, Limits::seconds(20)).expect("git starts");
        assert!(finished.succeeded(), "{arguments:?}: {}", finished.failure());
    }

    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        git(folder.path(), &["init", "--quiet"]);
        std::fs::create_dir(folder.path().join("ops")).expect("a folder");
        folder
    }

    #[test]
    fn the_text_is_that_of_the_last_commit() {
        let folder = repository();
        // Nothing of this name may be taken for a pattern.
        let file = folder.path().join("ops/k[1] *.py");
        std::fs::write(&file, "x = 1\n").expect("written");
        assert_eq!(at_head(&file, &here()), Err(NoHead::NoCommit));
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["commit", "--quiet", "-m", "one"]);
        std::fs::write(&file, "x = 2\n").expect("written");
        let found = at_head(&file, &here()).expect("committed");
        assert_eq!(found.text, "x = 1\n");
        assert!(found.commit.len() >= 4 && found.commit.chars().all(|c| c.is_ascii_hexdigit()), "{found:?}");
        let link = folder.path().join("link.py");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert_eq!(at_head(&link, &here()), Ok(found));
    }

    #[test]
    fn what_is_not_committed_is_told_so() {
        let folder = repository();
        let file = folder.path().join("ops/k.py");
        std::fs::write(&file, "x = 1\n").expect("written");
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["commit", "--quiet", "-m", "one"]);
        let new = folder.path().join("ops/new.py");
        assert_eq!(at_head(&new, &here()), Err(NoHead::Untracked), "not even on the disk");
        std::fs::write(&new, "x = 1\n").expect("written");
        assert_eq!(at_head(&new, &here()), Err(NoHead::Untracked));
        std::fs::write(&file, [0xff, 0xfe]).expect("written");
        git(folder.path(), &["commit", "--quiet", "-a", "-m", "two"]);
        assert_eq!(at_head(&file, &here()), Err(NoHead::NotText));
    }

    #[test]
    fn without_git_or_a_repository_there_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("k.py");
        std::fs::write(&file, "x = 1\n").expect("written");
        let above = std::env::temp_dir();
        let apart = here().with("GIT_CEILING_DIRECTORIES", above.into_os_string());
        assert_eq!(at_head(&file, &apart), Err(NoHead::NoRepository));
        assert_eq!(at_head(&file, &here().with("PATH", folder.path())), Err(NoHead::NoGit));
    }

    /// Such a repository could name a program as its remote.
    #[test]
    fn what_a_partial_clone_lacks_is_not_fetched() {
        let folder = repository();
        let (file, marker) = (folder.path().join("k.py"), folder.path().join("was_run"));
        std::fs::write(&file, "x = 1\n").expect("written");
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["commit", "--quiet", "-m", "one"]);
        let remote = format!("ext::touch {}", marker.display());
        for (key, value) in [
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.url", remote.as_str()),
            ("protocol.ext.allow", "always"),
        ] {
            git(folder.path(), &["config", key, value]);
        }
        // The blob of this text.
        let object = folder.path().join(".git/objects/7d/4290a117a4ddcc11daae7ea675841033830c8f");
        std::fs::remove_file(object).expect("it was there");
        assert!(matches!(at_head(&file, &here()), Err(NoHead::Failed(_))));
        assert!(!marker.exists());
    }

    /// As in a hook of another repository.
    #[test]
    fn variables_of_another_repository_do_not_count() {
        let (folder, other) = (repository(), repository());
        let file = folder.path().join("k.py");
        std::fs::write(&file, "x = 1\n").expect("written");
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["commit", "--quiet", "-m", "one"]);
        let in_hook = here().with("GIT_DIR", other.path().join(".git"));
        assert_eq!(at_head(&file, &in_hook).map(|found| found.text), Ok("x = 1\n".to_owned()));
    }
}
