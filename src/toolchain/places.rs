//! Where warpsmith keeps its files: one cache and one state folder per user.

use std::path::{Path, PathBuf};

use super::Surroundings;

/// Overrides the cache folder (used as it stands, nothing is appended). For tests and shared machines.
pub const CACHE_VARIABLE: &str = "WARPSMITH_CACHE_DIR";
/// Overrides the state folder, in the same way.
pub const STATE_VARIABLE: &str = "WARPSMITH_STATE_DIR";

/// The two folders and what lies in them. Nothing is created by asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    cache: PathBuf,
    state: PathBuf,
}

/// Neither `$WARPSMITH_CACHE_DIR`, `$XDG_CACHE_HOME` nor `$HOME` is an absolute path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no folder for {what}: set HOME, {xdg} or {ours} to an absolute path")]
pub struct NoPlace {
    what: &'static str,
    xdg: &'static str,
    ours: &'static str,
}

impl Places {
    /// `$WARPSMITH_CACHE_DIR`, else `$XDG_CACHE_HOME/warpsmith`, else `~/.cache/warpsmith`; and the
    /// same with STATE and `~/.local/state`.
    pub fn of(surroundings: &Surroundings) -> Result<Self, NoPlace> {
        let find = |ours: &str, xdg: &str, below_home: &str| {
            surroundings
                .absolute_path(ours)
                .or_else(|| surroundings.absolute_path(xdg).map(|folder| folder.join("warpsmith")))
                .or_else(|| surroundings.home().map(|home| home.join(below_home).join("warpsmith")))
        };
        let cache = find(CACHE_VARIABLE, "XDG_CACHE_HOME", ".cache").ok_or(NoPlace {
            what: "cached files",
            xdg: "XDG_CACHE_HOME",
            ours: CACHE_VARIABLE,
        })?;
        let state = find(STATE_VARIABLE, "XDG_STATE_HOME", ".local/state").ok_or(NoPlace {
            what: "logs",
            xdg: "XDG_STATE_HOME",
            ours: STATE_VARIABLE,
        })?;
        Ok(Self { cache, state })
    }

    /// What can be made again: may be deleted at any time when nothing runs.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// What cannot: logs.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Our Python files, written out of the binary.
    pub fn worker(&self) -> PathBuf {
        self.cache.join("worker")
    }

    /// Managed Python environments.
    pub fn environments(&self) -> PathBuf {
        self.cache.join("env")
    }

    /// What the GPUs of this machine reach at best, one file for each and its driver.
    pub fn ceilings(&self) -> PathBuf {
        self.cache.join("ceilings")
    }

    /// Copies of judged texts and other files of single runs.
    pub fn runs(&self) -> PathBuf {
        self.cache.join("runs")
    }

    /// Times of earlier versions, for all servers of this user.
    pub fn history(&self) -> PathBuf {
        self.state.join("history.sqlite")
    }

    /// Which folders the user trusts.
    pub fn trust(&self) -> PathBuf {
        self.state.join("trust.json")
    }

    /// The log folder.
    pub fn log(&self) -> PathBuf {
        self.state.join("log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> Result<Places, NoPlace> {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Places::of(&variables.collect())
    }

    #[test]
    fn home_then_xdg_then_our_own_variable() {
        let home = places(&[("HOME", "/home/u")]).unwrap();
        assert_eq!(home.environments(), Path::new("/home/u/.cache/warpsmith/env"));
        assert_eq!(home.log(), Path::new("/home/u/.local/state/warpsmith/log"));
        assert_eq!(home.history(), Path::new("/home/u/.local/state/warpsmith/history.sqlite"));

        let xdg = [("HOME", "/home/u"), ("XDG_CACHE_HOME", "/c"), ("XDG_STATE_HOME", "/s")];
        let found = places(&xdg).unwrap();
        assert_eq!((found.cache(), found.state()), (Path::new("/c/warpsmith"), Path::new("/s/warpsmith")));

        let ours = places(&[("HOME", "/home/u"), (CACHE_VARIABLE, "/x"), (STATE_VARIABLE, "/y")]).unwrap();
        assert_eq!((ours.cache(), ours.state()), (Path::new("/x"), Path::new("/y")));
    }

    #[test]
    fn relative_xdg_folders_are_ignored() {
        let found = places(&[("HOME", "/home/u"), ("XDG_CACHE_HOME", "cache")]).unwrap();
        assert_eq!(found.cache(), Path::new("/home/u/.cache/warpsmith"));
    }

    #[test]
    fn without_a_home_it_says_which_variable_helps() {
        insta::assert_snapshot!(
            places(&[]).unwrap_err(),
            @"no folder for cached files: set HOME, XDG_CACHE_HOME or WARPSMITH_CACHE_DIR to an absolute path"
        );
    }
}
