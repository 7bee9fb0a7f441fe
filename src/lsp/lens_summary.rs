//! The one line above a file of many kernels: a row above each of them would be a flood.

use super::file_state::FileState;
use super::gate::NOT_TRUSTED;
use super::kernels::KernelAnchor;
use super::lens::{LensAction, age_of, lens, with_age, without_age};

/// More kernels than this share one lens.
pub(crate) const MOST_ROWS: usize = 8;

/// Title and action of the lens of all `kernels`. It begins with the sign of the worst, as a lens of one does.
pub(crate) fn summary(file: &FileState, kernels: &[&KernelAnchor]) -> (String, LensAction) {
    let age = age_of(file);
    let each: Vec<(&str, String, LensAction)> = kernels
        .iter()
        .map(|kernel| {
            let (title, action) = lens(file, kernel);
            // Told once, of all of them.
            let title = age.as_ref().map_or(title.clone(), |age| without_age(&title, age));
            (kernel.name.as_str(), title, action)
        })
        .collect();
    // A check is one of the whole file.
    if let Some((_, title, action)) = each.iter().find(|(_, _, action)| *action == LensAction::Cancel) {
        return (title.clone(), *action);
    }
    let all = each.len();
    if each.iter().any(|(_, title, _)| title.ends_with(NOT_TRUSTED)) {
        return (format!("– {NOT_TRUSTED} · {all} kernels"), LensAction::Check);
    }
    let with = |sign: char| -> Vec<&str> {
        each.iter().filter(|(_, title, _)| title.starts_with(sign)).map(|(name, _, _)| *name).collect()
    };
    let [wrong, unjudged, same, unchecked, passed] = ['✗', '–', '=', '▶', '✓'].map(with);
    if unchecked.len() + unjudged.len() == all && !unchecked.is_empty() {
        return (format!("▶ check · {all} kernels"), LensAction::Check);
    }
    let mut parts = Vec::new();
    if !wrong.is_empty() {
        parts.push(format!("{} wrong ({})", wrong.len(), in_words(&each)));
    }
    let counted =
        [(unjudged, "not judged"), (same, "as at HEAD"), (unchecked, "not checked"), (passed, "passed")];
    let counted = counted.iter().filter(|(kernels, _)| !kernels.is_empty());
    parts.extend(counted.map(|(kernels, what)| format!("{} {what}", kernels.len())));
    let sign = ['✗', '–', '=', '▶', '✓'].into_iter().find(|sign| !with(*sign).is_empty()).unwrap_or('▶');
    // Each wrong one says it, and one is told.
    let parts: Vec<String> = parts.into_iter().map(|part: String| part.replace(" (stale)", "")).collect();
    let stale = if each.iter().any(|(_, title, _)| title.ends_with(" (stale)")) { " (stale)" } else { "" };
    let title = format!("{sign} {all} kernels: {}{stale}", parts.join(" · "));
    (age.map_or(title.clone(), |age| with_age(&title, &age)), LensAction::Check)
}

/// What is wrong, and in which kernel where one is named.
fn in_words(each: &[(&str, String, LensAction)]) -> String {
    let words = |title: &str| title.trim_start_matches("✗ wrong: ").to_owned();
    let wrong: Vec<_> = each.iter().filter(|(_, title, _)| title.starts_with('✗')).collect();
    match wrong.as_slice() {
        [(name, title, _)] => format!("{name}: {}", words(title)),
        // Beside the kernel that a finding names, others of its function say whose it is.
        several => {
            let named = several.iter().find(|(_, title, _)| title.contains(" in "));
            named.or(several.first()).map(|(_, title, _)| words(title)).unwrap_or_default()
        }
    }
}
