//! `trust.json`. Several servers and the command line write it: under a lock, and by renaming a whole new file.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Place, Trusted, resolve};

const SCHEMA: &str = "warpsmith.trust/1";
/// Longer ones are not ours.
const MOST_BYTES: u64 = 1 << 20;

/// Where trust is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustFile {
    path: PathBuf,
}

/// Why nothing is known, or could not be remembered. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("{path} cannot be read: {why}; until it can, no folder is trusted")]
    Unreadable { path: PathBuf, why: String },
    #[error("{path} is broken ({why}), so no folder is trusted; delete it, and answer again")]
    Broken { path: PathBuf, why: String },
    #[error("{path} was written by a newer warpsmith, so no folder is trusted; update this one")]
    Newer { path: PathBuf },
    #[error("{path} cannot be written: {why}")]
    Unwritable { path: PathBuf, why: String },
    #[error("{place} cannot be remembered in {path}: its path is not UTF-8")]
    NotText { path: PathBuf, place: Place },
}

/// What taking trust back has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    pub removed: Vec<Place>,
    /// A folder above that is trusted, and with it still what was to be revoked.
    pub still_below: Option<Place>,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    schema: String,
    folders: Vec<Place>,
}

impl TrustFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is trusted; nothing when there is no file yet.
    ///
    /// # Errors
    /// There is one and it cannot be used. Then nothing is trusted.
    pub fn read(&self) -> Result<Trusted, TrustError> {
        let unreadable = |why: String| TrustError::Unreadable { path: self.path.clone(), why };
        let broken = |why: String| TrustError::Broken { path: self.path.clone(), why };
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Trusted::default()),
            Err(error) => return Err(unreadable(error.to_string())),
            // A pipe would be waited for.
            Ok(found) if !found.is_file() => return Err(broken("it is no file".to_owned())),
            Ok(found) if found.len() > MOST_BYTES => {
                return Err(broken(format!("it has {} bytes", found.len())));
            }
            Ok(_) => {}
        }
        let bytes = fs::read(&self.path).map_err(|error| unreadable(error.to_string()))?;
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        match value["schema"].as_str() {
            Some(SCHEMA) => {}
            Some(other) if other.starts_with("warpsmith.trust/") => {
                return Err(TrustError::Newer { path: self.path.clone() });
            }
            _ => return Err(broken("it does not say what it is".to_owned())),
        }
        let contents: Contents = serde_json::from_value(value).map_err(|error| broken(error.to_string()))?;
        match contents.folders.iter().find(|place| !place.folder.is_absolute()) {
            Some(place) => Err(broken(format!("{} is no absolute path", place.folder.display()))),
            None => Ok(Trusted(contents.folders.into_iter().collect())),
        }
    }

    /// Remembers a place; all that is trusted then.
    ///
    /// # Errors
    /// The file cannot be used or written; it is left as it was.
    pub fn grant(&self, place: &Place) -> Result<Trusted, TrustError> {
        if place.folder.to_str().is_none() {
            return Err(TrustError::NotText { path: self.path.clone(), place: place.clone() });
        }
        self.change(|trusted| {
            trusted.insert(place.clone());
        })
        .map(|(trusted, ())| trusted)
    }

    /// Forgets a folder and all below it.
    ///
    /// # Errors
    /// The file cannot be used or written; it is left as it was.
    pub fn revoke(&self, folder: &Path) -> Result<Revoked, TrustError> {
        let folder = resolve(folder);
        let (_, revoked) = self.change(|trusted| {
            let removed: Vec<Place> =
                trusted.places().filter(|place| place.folder.starts_with(&folder)).cloned().collect();
            trusted.0.retain(|place| !place.folder.starts_with(&folder));
            let mut above = trusted.places().filter(|place| place.below && folder.starts_with(&place.folder));
            let still_below = above.next().cloned();
            Revoked { removed, still_below }
        })?;
        Ok(revoked)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Trusted) -> T) -> Result<(Trusted, T), TrustError> {
        let unwritable = |error: std::io::Error| TrustError::Unwritable {
            path: self.path.clone(),
            why: error.to_string(),
        };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(unwritable)?;
        let lock = File::create(self.path.with_extension("json.lock")).map_err(unwritable)?;
        // Held for milliseconds. A file system without locks has one writer at a time by luck only.
        let _ = lock.lock();
        let before = self.read()?;
        let mut trusted = before.clone();
        let told = change(&mut trusted);
        if trusted != before {
            self.write(&trusted).map_err(unwritable)?;
        }
        Ok((trusted, told))
    }

    fn write(&self, trusted: &Trusted) -> std::io::Result<()> {
        let contents = Contents { schema: SCHEMA.to_owned(), folders: trusted.places().cloned().collect() };
        let text = serde_json::to_string_pretty(&contents)?;
        let new = self.path.with_extension(format!("json.{}", std::process::id()));
        let written = (|| {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            writeln!(file, "{text}")?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }
}
