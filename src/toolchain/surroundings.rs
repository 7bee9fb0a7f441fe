//! The environment variables that decisions are made on, as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A snapshot of environment variables. Child processes started through [`Surroundings::command`] see
/// exactly these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    variables: BTreeMap<OsString, OsString>,
}

impl Surroundings {
    /// The variables of this process.
    pub fn of_this_process() -> Self {
        std::env::vars_os().collect()
    }

    /// A variable's value; an empty value counts as unset.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable's value even if it is empty, for variables in which that means something.
    pub fn variable_as_set(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A variable that holds an absolute path. A relative one is ignored, as the XDG rules ask.
    pub fn absolute_path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// `$HOME`.
    pub fn home(&self) -> Option<PathBuf> {
        self.absolute_path("HOME")
    }

    /// The variables whose names begin with one of these.
    pub fn beginning_with<'a>(&'a self, starts: &'a [&str]) -> impl Iterator<Item = (&'a OsStr, &'a OsStr)> {
        let is_wanted = |name: &OsString| {
            let name = name.to_string_lossy();
            starts.iter().any(|start| name.starts_with(start))
        };
        let wanted = self.variables.iter().filter(move |(name, _)| is_wanted(name));
        wanted.map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// This environment with one variable set.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// This environment without some variables.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.variables.retain(|name, _| !names.iter().any(|gone| name == gone));
        self
    }

    /// The first executable file called `name` in a folder of `PATH`. Relative `PATH` entries are left
    /// out: what they mean depends on where the editor was started.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        let path = self.variable("PATH")?;
        std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|candidate| is_executable_file(candidate))
    }

    /// A command that sees exactly these variables.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.variables);
        command
    }
}

impl FromIterator<(OsString, OsString)> for Surroundings {
    fn from_iter<T: IntoIterator<Item = (OsString, OsString)>>(variables: T) -> Self {
        Self { variables: variables.into_iter().collect() }
    }
}

/// A regular file (after links) that somebody may execute.
pub(crate) fn is_executable_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_relative_values_count_as_unset() {
        let surroundings = Surroundings::default().with("EMPTY", "").with("RELATIVE", "cache");
        assert_eq!(surroundings.variable("EMPTY"), None);
        assert_eq!(surroundings.variable_as_set("EMPTY"), Some(OsStr::new("")));
        assert_eq!(surroundings.variable_as_set("UNSET"), None);
        assert_eq!(surroundings.absolute_path("RELATIVE"), None);
        assert_eq!(surroundings.variable("RELATIVE"), Some(OsStr::new("cache")));
    }

    #[test]
    fn a_program_is_an_executable_file_in_an_absolute_folder_of_path() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        std::fs::create_dir_all(first.join("tool")).unwrap();
        std::fs::create_dir(&second).unwrap();
        let tool = second.join("tool");
        std::fs::write(&tool, "#!/bin/sh\n").unwrap();

        let path = std::env::join_paths([Path::new("."), &first, &second]).unwrap();
        let surroundings = Surroundings::default().with("PATH", path);
        assert_eq!(surroundings.find_program("tool"), None, "a folder and a file without x are no programs");

        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(surroundings.find_program("tool"), Some(tool));
    }

    #[test]
    fn children_see_nothing_else() {
        let output = Surroundings::default().with("ONLY", "this").command("/usr/bin/env").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ONLY=this\n");
    }
}
