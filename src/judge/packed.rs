//! A Solution whose sources stand in its `solution.json`: they are written out for the check and nowhere else,
//! and what is found is told with the names that they have in the Solution.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::check::CheckRequest;
use super::run::Source;
use super::sources;
use super::{Code, Finding, Report};
use crate::oracle;
use crate::runner::copy_sources;
use crate::runner::protocol::Place;
use crate::spec::Solution;

/// A Solution that was written out.
pub(super) struct Packed {
    pub(super) solution: Solution,
    /// The `solution.json`.
    pub(super) path: PathBuf,
    /// Its sources.
    folder: PathBuf,
}

/// Whether a file of this name can only be a packed Solution.
pub(super) fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

impl Packed {
    /// Writes the sources below `runs`, and what is to be checked then: the file of the entry point.
    ///
    /// # Errors
    /// No Solution, one in another language, or no place for its files.
    pub(super) fn write_out(
        request: &CheckRequest,
        runs: &Path,
    ) -> Result<(Self, CheckRequest), Box<Finding>> {
        let file = request.path.display().to_string();
        let failed = |code, message: String| Box::new(Finding::plain(code, message));
        let solution = Solution::from_json(&request.text, &file)
            .map_err(|error| failed(Code::BadDescription, error.to_string()))?;
        if let Err(kind) = oracle::language(solution.spec.language, &request.path) {
            return Err(failed(Code::Unsupported, kind.to_string()));
        }
        let Some((entry_file, _)) = solution.entry() else {
            return Err(failed(Code::BadDescription, format!("{file}: it has no entry point")));
        };
        let sources: Vec<(&str, &str)> =
            solution.sources.iter().map(|source| (source.path.as_str(), source.content.as_str())).collect();
        let text = sources.iter().find(|(path, _)| *path == entry_file).map(|(_, text)| *text);
        let folder =
            copy_sources(runs, &sources).map_err(|error| failed(Code::JudgeFailed, error.to_string()))?;
        let inner = CheckRequest {
            path: folder.join(entry_file),
            text: text.unwrap_or_default().into(),
            ..request.clone()
        };
        Ok((Self { solution, path: request.path.clone(), folder }, inner))
    }

    /// The entry's file, imported from where it was written out; nothing of the project stands beside it.
    pub(super) fn source(&self, request: &CheckRequest, resident_bytes: u64) -> Source {
        let path = request.path.display().to_string();
        let has_dot = sources::has_dot(&request.text);
        let text = Arc::clone(&request.text);
        Source {
            path: path.clone(),
            text_path: path,
            text,
            search_paths: Vec::new(),
            resident_bytes,
            has_dot,
        }
    }

    /// The report with names of files as the Solution has them.
    pub(super) fn told(&self, mut report: Report) -> Report {
        let of_cases = report.cases.iter_mut().flat_map(|record| &mut record.findings);
        for finding in report.findings.iter_mut().chain(of_cases) {
            finding.message = self.plain(&finding.message);
            finding.place.iter_mut().chain(&mut finding.called_from).for_each(|place| self.rename(place));
        }
        for launch in report.cases.iter_mut().flat_map(|record| &mut record.launches) {
            launch.file = self.plain(&launch.file);
            launch.tf32_dots.iter_mut().for_each(|place| self.rename(place));
        }
        report
    }

    fn rename(&self, place: &mut Place) {
        place.file = self.plain(&place.file);
    }

    fn plain(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.folder.display()), "")
    }
}
