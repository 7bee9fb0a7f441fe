//! Which judged files rest on a file that was saved: their verdicts are not known to stand.

use std::path::{Path, PathBuf};

use super::file_state::FileState;
use crate::judge::Report;

/// A file that was saved.
pub(crate) struct Saved {
    /// As the editor names it.
    pub(crate) path: PathBuf,
    /// Without links and `..`, as verdicts name what they rest on.
    pub(crate) real: PathBuf,
}

/// Whether the verdict on `file` may be another now that `saved` is. What a name in an import stands for is not
/// looked up: a check too many costs seconds, a verdict too old costs trust.
pub(crate) fn may_rest_on(file: &FileState, saved: &Saved) -> bool {
    let (Some(outcome), Some(path)) = (&file.outcome, &file.path) else { return false };
    if *path == saved.path {
        return false;
    }
    let judgements = outcome.report.judgements();
    let names_it = |part: &Report| {
        let files = &part.provenance.described_by;
        files.contains_key(&saved.real) || files.contains_key(&saved.path)
    };
    if judgements.iter().any(names_it) {
        return true;
    }
    let saved = saved.path.as_path();
    let folder = path.parent();
    file.model.imports.iter().any(|module| match module.as_str() {
        // Relative: a neighbour, or one of a folder above.
        "." => folder.is_some_and(|folder| {
            saved.starts_with(folder) || saved.parent().is_some_and(|of| folder.starts_with(of))
        }),
        name => {
            let is_named = |part: &Path| part.file_stem().is_some_and(|stem| stem == name);
            saved.ancestors().any(is_named)
        }
    })
}
