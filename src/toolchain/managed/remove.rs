//! Lists and removes managed environments.

use std::fs::TryLockError;
use std::path::PathBuf;

use super::tree::{REMOVING, TreeSize, remove_tree, tree_size};
use super::{DOWNLOADS, LOG, PARTIAL, SetupError, Stamp, open_lock};
use crate::toolchain::Places;

/// What a folder of ours is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    Complete,
    /// A setup that was interrupted or runs now.
    Partial,
    /// A removal that was interrupted, or a folder that lost its stamp.
    Remains,
}

/// One folder of ours below [`Places::environments`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub folder: PathBuf,
    pub state: EntryState,
    /// What it has, when it is complete.
    pub requirements: Vec<String>,
    pub python: Option<String>,
}

/// Folders whose names are ours, in the order of their names; anything else there is left alone.
pub fn entries(places: &Places) -> Vec<Entry> {
    let folders = std::fs::read_dir(places.environments()).into_iter().flatten().filter_map(Result::ok);
    let mut entries: Vec<Entry> = folders
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| {
            let folder = entry.path();
            let suffix = suffix_of_ours(&entry.file_name().to_string_lossy())?.to_owned();
            let stamp = Stamp::read(&folder).filter(|_| suffix.is_empty());
            let state = match (&*suffix, &stamp) {
                ("", Some(_)) => EntryState::Complete,
                (PARTIAL, _) => EntryState::Partial,
                _ => EntryState::Remains,
            };
            let (requirements, python) =
                stamp.map_or((vec![], None), |stamp| (stamp.requirements, Some(stamp.python)));
            Some(Entry { folder, state, requirements, python })
        })
        .collect();
    entries.sort_by(|a, b| a.folder.cmp(&b.folder));
    entries
}

/// What follows `py3.11-0123456789ab` in a name of ours.
fn suffix_of_ours(name: &str) -> Option<&str> {
    let (minor, rest) = name.strip_prefix("py3.")?.split_once('-')?;
    let hash = rest.get(..12)?;
    let suffix = &rest[12..];
    let is_ours = !minor.is_empty()
        && minor.bytes().all(|byte| byte.is_ascii_digit())
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        && ["", PARTIAL].contains(&suffix.strip_suffix(REMOVING).unwrap_or(suffix));
    is_ours.then_some(suffix)
}

/// What a removal did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    pub folders: Vec<PathBuf>,
    pub size: TreeSize,
}

/// Removes every environment of ours, complete or not.
///
/// # Errors
/// [`SetupError::Busy`] while a setup runs; a folder that cannot be removed.
pub fn remove(places: &Places) -> Result<Removed, SetupError> {
    let mut removed = Removed { folders: vec![], size: TreeSize::default() };
    if !places.environments().exists() {
        return Ok(removed);
    }
    let lock = open_lock(places)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(SetupError::Busy),
        Err(TryLockError::Error(source)) => {
            return Err(SetupError::files("cannot lock", &places.environments())(source));
        }
    }
    let downloads = Some(places.environments().join(DOWNLOADS)).filter(|folder| folder.is_dir());
    for folder in entries(places).into_iter().map(|entry| entry.folder).chain(downloads) {
        let size = tree_size(&folder);
        remove_tree(&folder).map_err(SetupError::files("cannot remove", &folder))?;
        removed.size.own_bytes += size.own_bytes;
        removed.size.linked_bytes += size.linked_bytes;
        removed.folders.push(folder);
    }
    let log = places.environments().join(LOG);
    if log.exists() {
        std::fs::remove_file(&log).map_err(SetupError::files("cannot remove", &log))?;
    }
    Ok(removed)
}
