//! Asks an interpreter what it has, in one short process, and remembers the answer while nothing that
//! the answer rests on has changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::Deserialize;

use super::Rejection;
use crate::toolchain::Surroundings;
use crate::toolchain::subprocess::{End, Limits, run};
use crate::toolchain::surroundings::is_executable_file;

const PROBE: &str = include_str!("probe.py");
const PROBE_LIMIT_S: u64 = 10;

/// What an interpreter said about itself. Nothing was imported to find out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Probe {
    /// Marks the line as ours: a program that prints other JSON is no Python.
    warpsmith_probe: u32,
    /// `sys.executable`: what a shim leads to.
    pub executable: PathBuf,
    /// `3.11.7`.
    pub python: String,
    /// The folders of `sys.path` that exist.
    pub folders: Vec<PathBuf>,
    /// The distribution forbids pip to install into it (PEP 668).
    pub externally_managed: bool,
    pub has_pip: bool,
    /// Has `venv` and `ensurepip`; some distributions package them apart.
    pub can_make_venv: bool,
    pub torch: Option<Package>,
    pub triton: Option<Package>,
    pub numpy: Option<Package>,
    /// The user's own site folder, if torch lies there; it is left out in isolated mode.
    pub torch_in_user_site: Option<PathBuf>,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Package {
    /// As the package says it, `unknown` when nothing says it.
    pub version: String,
    /// The folder that holds the package's folder.
    pub site: PathBuf,
    /// torch only: the CUDA it was built for, `13.2`.
    #[serde(default)]
    pub cuda: Option<String>,
}

/// Answers of interpreters, kept in memory.
#[derive(Debug)]
pub struct ProbeCache {
    limit_s: u64,
    answers: Mutex<HashMap<PathBuf, Answer>>,
}

#[derive(Clone, Debug)]
struct Answer {
    probe: Probe,
    /// Modification times of what the answer rests on: the executable, `pyvenv.cfg`, the site folders.
    /// Installing or removing a package changes its site folder.
    rests_on: Vec<(PathBuf, Option<SystemTime>)>,
}

impl Default for ProbeCache {
    fn default() -> Self {
        Self::with_limit_s(PROBE_LIMIT_S)
    }
}

impl ProbeCache {
    /// Gives up on an interpreter after so many seconds.
    pub fn with_limit_s(limit_s: u64) -> Self {
        Self { limit_s, answers: Mutex::default() }
    }

    /// The interpreter's answer, from memory if nothing changed.
    ///
    /// # Errors
    /// Why the file is no usable Python. Such answers are not kept.
    pub fn probe(&self, executable: &Path, surroundings: &Surroundings) -> Result<Probe, Rejection> {
        let kept = self.lock().get(executable).cloned();
        if let Some(answer) = kept.filter(Answer::holds) {
            return Ok(answer.probe);
        }
        let probe = probe_now(executable, surroundings, self.limit_s)?;
        let rests_on = foundations(executable, &probe);
        self.lock().insert(executable.to_owned(), Answer { probe: probe.clone(), rests_on });
        Ok(probe)
    }

    /// What the answer of this interpreter rests on; `None` when it gave none.
    pub(super) fn rests_on(&self, executable: &Path) -> Option<Vec<PathBuf>> {
        let answers = self.lock();
        answers.get(executable).map(|answer| answer.rests_on.iter().map(|(path, _)| path.clone()).collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    fn holds(&self) -> bool {
        self.rests_on.iter().all(|(path, time)| modified(path) == *time)
    }
}

fn foundations(executable: &Path, probe: &Probe) -> Vec<(PathBuf, Option<SystemTime>)> {
    let configuration = executable.parent().and_then(Path::parent).map(|prefix| prefix.join("pyvenv.cfg"));
    let paths = [executable.to_owned(), probe.executable.clone()].into_iter();
    paths
        .chain(configuration)
        .chain(probe.folders.iter().cloned())
        .map(|path| (path.clone(), modified(&path)))
        .collect()
}

pub(super) fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn probe_now(executable: &Path, surroundings: &Surroundings, limit_s: u64) -> Result<Probe, Rejection> {
    if !executable.exists() {
        return Err(Rejection::NotThere);
    }
    if !is_executable_file(executable) {
        return Err(Rejection::NotExecutable);
    }
    let mut command = surroundings.command(executable);
    command.args(["-I", "-X", "utf8", "-c", PROBE]).current_dir("/");
    let finished = run(command, Limits::seconds(limit_s))
        .map_err(|error| Rejection::DoesNotStart { reason: error.to_string() })?;
    if finished.end == End::TimedOut {
        return Err(Rejection::NoAnswer { limit_s });
    }
    // A site hook may print; our line is the last one.
    let text = finished.stdout_text();
    let answer = text.lines().rev().find(|line| line.contains("warpsmith_probe"));
    match answer.and_then(|line| serde_json::from_str(line).ok()) {
        Some(probe) if finished.succeeded() => Ok(probe),
        _ if finished.succeeded() => Err(Rejection::NotPython),
        _ => Err(Rejection::Fails { reason: finished.failure() }),
    }
}
