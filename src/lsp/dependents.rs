//! Which judged files rest on a file that was saved: their verdicts are not known to stand.

use std::path::Path;

use super::file_state::FileState;

/// Whether the verdict on `file` may be another now that `saved` is. What a name in an import stands for is not
/// looked up: a check too many costs seconds, a verdict too old costs trust.
pub(crate) fn may_rest_on(file: &FileState, saved: &Path) -> bool {
    let (Some(outcome), Some(path)) = (&file.outcome, &file.path) else { return false };
    if path == saved {
        return false;
    }
    let judgements = outcome.report.judgements();
    if judgements.iter().any(|part| part.provenance.described_by.contains_key(saved)) {
        return true;
    }
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
