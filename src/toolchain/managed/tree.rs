//! Sizes and removal of whole folders.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a folder takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSize {
    /// Freed when the folder is removed.
    pub own_bytes: u64,
    /// In files that have other names too (uv links files from its cache): removing frees nothing of it.
    pub linked_bytes: u64,
}

impl TreeSize {
    /// What it seems to take.
    pub fn total_bytes(self) -> u64 {
        self.own_bytes + self.linked_bytes
    }
}

/// Measures without following links; what cannot be read counts nothing.
pub fn tree_size(path: &Path) -> TreeSize {
    let Ok(metadata) = path.symlink_metadata() else { return TreeSize::default() };
    let bytes = metadata.blocks() * 512;
    if !metadata.is_dir() {
        let is_linked = metadata.nlink() > 1;
        return if is_linked {
            TreeSize { own_bytes: 0, linked_bytes: bytes }
        } else {
            TreeSize { own_bytes: bytes, linked_bytes: 0 }
        };
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| tree_size(&entry.path())).fold(
        TreeSize { own_bytes: bytes, linked_bytes: 0 },
        |sum, size| TreeSize {
            own_bytes: sum.own_bytes + size.own_bytes,
            linked_bytes: sum.linked_bytes + size.linked_bytes,
        },
    )
}

/// Marks what is being removed.
pub(super) const REMOVING: &str = ".removing";

/// Removes a folder, which first gets a name that nobody takes for an environment.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let mut going = path.as_os_str().to_owned();
    if !going.to_string_lossy().ends_with(REMOVING) {
        going.push(REMOVING);
        if Path::new(&going).exists() {
            std::fs::remove_dir_all(&going)?;
        }
        match std::fs::rename(path, &going) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
    }
    std::fs::remove_dir_all(&going)
}

/// Bytes that this user may still write on the disk that holds `path` (which need not exist yet).
///
/// # Errors
/// When not even the root folder can be asked.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let existing = path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let space = rustix::fs::statvfs(existing)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// `5.4 GB`, `12 MB`: decimal units, as disks are sold.
pub fn in_words(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            let amount = bytes as f64 / unit as f64;
            return if amount < 10.0 { format!("{amount:.1} {name}") } else { format!("{amount:.0} {name}") };
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_words() {
        let words: Vec<String> = [0, 999, 1_000, 12_345_678, 5_400_000_000].map(in_words).into();
        assert_eq!(words, ["0 bytes", "999 bytes", "1.0 kB", "12 MB", "5.4 GB"]);
    }

    #[test]
    fn links_are_not_followed_and_shared_files_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, tree) = (folder.path().join("cache"), folder.path().join("tree"));
        std::fs::create_dir_all(tree.join("below")).unwrap();
        std::fs::create_dir(&cache).unwrap();
        std::fs::write(cache.join("large"), vec![1; 200_000]).unwrap();
        std::fs::write(tree.join("below/own"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink(&cache, tree.join("elsewhere")).unwrap();
        let before = tree_size(&tree);
        assert!((100_000..200_000).contains(&before.own_bytes), "{before:?}");
        std::fs::hard_link(cache.join("large"), tree.join("linked")).unwrap();
        assert!(tree_size(&tree).linked_bytes >= 200_000);

        remove_tree(&tree).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(cache.join("large").exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn free_space_of_a_folder_to_come() {
        assert!(free_bytes(&std::env::temp_dir().join("not/yet/there")).unwrap() > 0);
    }
}
