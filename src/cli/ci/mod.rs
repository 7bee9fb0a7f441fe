//! What a check says to systems that run it on every push: annotations for GitHub, a JUnit report for the others.

pub(super) mod github;
pub(super) mod junit;
#[cfg(test)]
mod samples;

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::judge::Finding;
use crate::runner::protocol::Place;

/// Other forms of the answer than a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Workflow commands of GitHub Actions: an annotation for each finding.
    Github,
    /// One JUnit XML document for all files.
    Junit,
}

/// A judged file.
#[derive(Clone, Copy)]
pub(super) struct JudgedFile<'a> {
    /// Absolute.
    pub(super) path: &'a Path,
    /// As it was typed.
    pub(super) shown: &'a Path,
    /// Empty when it could not be read.
    pub(super) text: &'a str,
}

impl JudgedFile<'_> {
    /// The judged file as it was typed, any other by its whole path.
    fn name_of(&self, place: &Place) -> PathBuf {
        if Path::new(&place.file) == self.path { self.shown.to_owned() } else { PathBuf::from(&place.file) }
    }

    /// `k.py:12`, or the kernel's name where no line is known.
    fn spot(&self, finding: &Finding) -> Option<String> {
        match (&finding.place, &finding.kernel) {
            (Some(place), _) => Some(format!("{}:{}", self.name_of(place).display(), place.line)),
            (None, Some(kernel)) => Some(format!("{} ({kernel})", self.shown.display())),
            (None, None) => None,
        }
    }
}
