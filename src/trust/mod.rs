//! Which folders the user trusts: code from elsewhere is run by no editor. `trust.json` in the state folder remembers it,
//! for all servers of a user.
//!
//! **Invariant:** whatever is not read here for certain is not trusted: a file that is broken, of a newer version or
//! cannot be read trusts nothing.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use file::{Revoked, TrustError, TrustFile};

/// What is trusted by one answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Without links and `..`.
    #[serde(rename = "path")]
    pub folder: PathBuf,
    /// The folders in it as well. Not so for files of no project: who tries something in `/tmp` does not mean all that
    /// will ever lie below it.
    pub below: bool,
}

impl Place {
    /// A folder with everything below it. Links are followed.
    pub fn below(folder: &Path) -> Self {
        Self { folder: resolve(folder), below: true }
    }

    /// What must be trusted before the code of `file` is run, in the order in which it is asked for: where it really
    /// lies and, of a link, where the link lies, whose interpreter and descriptions would be taken. For each it is the
    /// innermost of the folders that are open in the editor, or else the files of its own folder; but the outermost
    /// folder of a project around it, from which code may come, if that is farther out.
    pub fn needed(file: &Path, workspace: &[PathBuf]) -> Vec<Self> {
        paths(file).iter().map(|path| Self::around(path, workspace)).collect()
    }

    /// `file` is without links.
    fn around(file: &Path, workspace: &[PathBuf]) -> Self {
        let folders = workspace.iter().filter(|folder| file.starts_with(folder));
        let own = match folders.max_by_key(|folder| folder.components().count()) {
            Some(folder) => Self { folder: folder.clone(), below: true },
            None => Self { folder: file.parent().unwrap_or(file).to_owned(), below: false },
        };
        match project_folders(file).last() {
            Some(outermost) if !(own.below && outermost.starts_with(&own.folder)) => {
                Self { folder: outermost, below: true }
            }
            _ => own,
        }
    }

    /// `file` is without links.
    fn covers(&self, file: &Path) -> bool {
        if self.below { file.starts_with(&self.folder) } else { file.parent() == Some(&self.folder) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = shown(&self.folder);
        if self.below { write!(f, "{folder} and all below it") } else { write!(f, "the files in {folder}") }
    }
}

/// All that is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted(BTreeSet<Place>);

impl Trusted {
    /// Whether the code of `file` may be run.
    pub fn covers(&self, file: &Path) -> bool {
        paths(file).iter().all(|path| {
            self.0.iter().any(|place| place.covers(path))
                && project_folders(path).all(|folder| self.is_below(&folder))
        })
    }

    /// Whether everything in a folder and below it may be run.
    pub fn covers_folder(&self, folder: &Path) -> bool {
        self.is_below(&resolve(folder))
    }

    /// `folder` is without links.
    fn is_below(&self, folder: &Path) -> bool {
        self.0.iter().any(|place| place.below && folder.starts_with(&place.folder))
    }

    /// Whether all that this place says is said already.
    pub fn holds(&self, place: &Place) -> bool {
        self.0.contains(place) || self.is_below(&place.folder)
    }

    pub fn insert(&mut self, place: Place) {
        self.0.insert(place);
    }

    /// In order of their paths.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.iter()
    }
}

/// What a check looks for in the folders above a file and takes code from, or an interpreter, or what is right.
const OF_PROJECTS: [&str; 10] = [
    ".git",
    ".venv",
    "config.toml",
    "definitions",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "solution.json",
    "uv.toml",
    "warpsmith.toml",
];

/// The folders above a file that something of [`OF_PROJECTS`] lies in, innermost first.
fn project_folders(file: &Path) -> impl Iterator<Item = PathBuf> {
    let is_one = |folder: &&Path| OF_PROJECTS.iter().any(|name| folder.join(name).symlink_metadata().is_ok());
    file.ancestors().skip(1).filter(is_one).map(Path::to_owned)
}

/// Where a file really lies and, if it is a link, where that lies.
fn paths(file: &Path) -> Vec<PathBuf> {
    let real = resolve(file);
    let as_named = match (file.parent(), file.file_name()) {
        (Some(folder), Some(name)) => resolve(folder).join(name),
        _ => real.clone(),
    };
    if as_named == real { vec![real] } else { vec![real, as_named] }
}

/// A path in a question: no character of its name may move or hide what stands beside it.
pub fn shown(path: &Path) -> String {
    let misleads = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    path.display().to_string().replace(misleads, "\u{fffd}")
}

/// Absolute, without links and `..`, as far as it exists: a file that was never saved lies in its folder.
pub fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let Ok(real) = std::fs::canonicalize(above) {
            return match path.strip_prefix(above) {
                Ok(rest) => joined(real, rest),
                Err(_) => real,
            };
        }
    }
    path
}

/// `rest` does not exist, so no part of it is a link.
fn joined(mut real: PathBuf, rest: &Path) -> PathBuf {
    for part in rest.components() {
        match part {
            Component::ParentDir => {
                real.pop();
            }
            Component::Normal(name) => real.push(name),
            _ => {}
        }
    }
    real
}
