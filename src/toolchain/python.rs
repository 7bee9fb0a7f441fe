//! Finds the Python interpreter that a file's author uses.
//!
//! The first candidate that has torch and triton wins, in the order of [`Origin`]. Probing an
//! interpreter runs it, also one that lies in the workspace, and nobody is asked for trust first: whoever
//! has a file checked runs that file anyway.

mod candidates;
mod probe;
mod problem;
mod standing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use probe::{Package, Probe, ProbeCache};
pub use problem::{Mending, OLDEST_PYTHON, OLDEST_TRITON, Problem, Rejection};
pub use standing::Standing;

use super::Surroundings;

/// Names the interpreter outright; overrides the project's setting.
pub const PYTHON_VARIABLE: &str = "WARPSMITH_PYTHON";

/// How a candidate was found, in the order of the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// `--python`.
    Flag,
    /// `$WARPSMITH_PYTHON`.
    Variable,
    /// `python.path` of the editor's `warpsmith.*` settings.
    Setting,
    /// `[python] path` of the project's `warpsmith.toml`.
    Project { file: PathBuf },
    /// The interpreter that the editor's Python support uses.
    Editor,
    /// `$VIRTUAL_ENV`.
    ActiveVenv,
    /// A `.venv` beside the file or above it.
    DotVenv { place: PathBuf },
    /// `uv python find`.
    Uv { project: PathBuf },
    /// `$CONDA_PREFIX`.
    Conda,
    /// A `.python-version` file that names a pyenv version.
    Pyenv { file: PathBuf },
    /// `python3` on `PATH`.
    Path,
    /// The one that `warpsmith setup` made.
    Managed,
}

impl Origin {
    /// Somebody named this very interpreter: it is used, or it is said why not; none other takes its place.
    pub fn is_explicit(&self) -> bool {
        matches!(self, Self::Flag | Self::Variable | Self::Setting | Self::Project { .. })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("given by --python"),
            Self::Variable => write!(f, "given by ${PYTHON_VARIABLE}"),
            Self::Setting => f.write_str("given by the setting python.path"),
            Self::Project { file } => write!(f, "given by {}", file.display()),
            Self::Editor => f.write_str("the editor's Python"),
            Self::ActiveVenv => f.write_str("the active environment ($VIRTUAL_ENV)"),
            Self::DotVenv { place } => write!(f, "{}", place.display()),
            Self::Uv { project } => write!(f, "uv's choice for {}", project.display()),
            Self::Conda => f.write_str("the active conda environment ($CONDA_PREFIX)"),
            Self::Pyenv { file } => write!(f, "pyenv's choice by {}", file.display()),
            Self::Path => f.write_str("python3 on PATH"),
            Self::Managed => f.write_str("made by warpsmith setup"),
        }
    }
}

/// What the search looks at.
#[derive(Clone, Copy, Debug)]
pub struct SearchRequest<'a> {
    pub surroundings: &'a Surroundings,
    /// The kernel's file; without it the search starts at the workspace.
    pub document: Option<&'a Path>,
    /// Where walking up ends; without it, at the root of the file system.
    pub workspace: Option<&'a Path>,
    pub flag: Option<&'a Path>,
    pub setting: Option<&'a Path>,
    pub project: Option<ProjectPython<'a>>,
    pub editor: Option<&'a Path>,
    /// The managed environment's interpreter, if it is complete.
    pub managed: Option<&'a Path>,
}

/// The interpreter that a project's own file names.
#[derive(Clone, Copy, Debug)]
pub struct ProjectPython<'a> {
    pub executable: &'a Path,
    pub file: &'a Path,
}

impl<'a> SearchRequest<'a> {
    /// A search by environment variables alone.
    pub fn new(surroundings: &'a Surroundings) -> Self {
        let (document, workspace, flag, setting, editor, managed) = (None, None, None, None, None, None);
        Self { surroundings, document, workspace, flag, setting, project: None, editor, managed }
    }
}

/// An interpreter that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonEnvironment {
    pub executable: PathBuf,
    pub origin: Origin,
    /// `3.11.7`.
    pub python: String,
    pub torch: Option<Package>,
    pub triton: Option<Package>,
    pub numpy: Option<Package>,
    /// The folders of `sys.path`.
    pub folders: Vec<PathBuf>,
    pub mending: Mending,
    /// Why checking cannot work, the gravest first; empty when it can.
    pub problems: Vec<Problem>,
}

impl PythonEnvironment {
    fn new(executable: PathBuf, origin: Origin, probe: Probe) -> Self {
        let (problems, mending) = (Problem::of(&probe), Mending::of(&probe));
        // A shim says what it leads to; a file that a program invented is not believed. What somebody
        // named is run as it was named: it may be a script that sets what its interpreter needs.
        let leads_to = !origin.is_explicit() && probe.executable.is_file();
        let executable = if leads_to { probe.executable } else { executable };
        let Probe { python, folders, torch, triton, numpy, .. } = probe;
        Self { executable, origin, python, torch, triton, numpy, folders, mending, problems }
    }

    /// Nothing keeps kernels from being checked with it.
    pub fn is_usable(&self) -> bool {
        self.problems.is_empty()
    }

    /// What is wrong and what to type, one sentence each; `None` when nothing is wrong.
    pub fn complaint(&self) -> Option<String> {
        let problem = self.problems.first()?;
        let remedy = problem.remedy(&self.executable, self.mending);
        Some(format!("{} ({}): {problem}. To mend it, {remedy}.", self.executable.display(), self.origin))
    }
}

/// A candidate that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub executable: PathBuf,
    pub origin: Origin,
    pub reason: Rejection,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonSearch {
    /// May have [`PythonEnvironment::problems`]: it was named outright, or it is the user's and too old.
    pub chosen: Option<PythonEnvironment>,
    /// In the order of the search.
    pub rejected: Vec<Rejected>,
}

impl PythonSearch {
    /// The interpreter, if checking can work with it.
    ///
    /// # Errors
    /// The text for the user: what was looked at, why it will not do, what to type.
    pub fn usable(&self) -> Result<&PythonEnvironment, String> {
        match &self.chosen {
            Some(chosen) => match chosen.complaint() {
                None => Ok(chosen),
                Some(complaint) => Err(complaint),
            },
            None => Err(self.nothing_found()),
        }
    }

    /// Whether making the managed environment would help: nobody named another interpreter, and none of
    /// the user's has torch and triton.
    pub fn wants_managed(&self) -> bool {
        self.chosen.is_none() && !self.rejected.iter().any(|rejected| rejected.origin.is_explicit())
    }

    fn nothing_found(&self) -> String {
        if let Some(named) = self.rejected.iter().find(|rejected| rejected.origin.is_explicit()) {
            let Rejected { executable, origin, reason } = named;
            let remedy = reason.remedy(executable);
            return format!("{} ({origin}): {reason}. To mend it, {remedy}.", executable.display());
        }
        let mut text = "no Python with torch and triton was found; run `warpsmith setup`.".to_owned();
        for Rejected { executable, origin, reason } in &self.rejected {
            text.push_str(&format!("\n  {} ({origin}): {reason}", executable.display()));
        }
        text
    }
}

/// Searches in the order of [`Origin`]; see the module.
pub fn find_python(request: &SearchRequest<'_>, probes: &ProbeCache) -> PythonSearch {
    let mut search = PythonSearch::default();
    let mut seen: Vec<PathBuf> = vec![];
    for source in candidates::SOURCES {
        for (executable, origin) in source(request) {
            if seen.contains(&executable) {
                continue;
            }
            seen.push(executable.clone());
            let explicit = origin.is_explicit();
            match probes.probe(&executable, request.surroundings) {
                Err(reason) => search.rejected.push(Rejected { executable, origin, reason }),
                Ok(probe) => {
                    let environment = PythonEnvironment::new(executable, origin, probe);
                    match environment.problems.iter().find(|problem| problem.means_elsewhere()) {
                        Some(problem) if !explicit => search.rejected.push(Rejected {
                            reason: Rejection::Unusable {
                                problem: problem.clone(),
                                mending: environment.mending,
                            },
                            executable: environment.executable,
                            origin: environment.origin,
                        }),
                        _ => {
                            search.chosen = Some(environment);
                            return search;
                        }
                    }
                }
            }
            if explicit {
                return search;
            }
        }
    }
    search
}
