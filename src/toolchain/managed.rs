//! The managed environment: a virtual environment of warpsmith's own with pinned torch, triton and numpy,
//! for machines where the user has none.
//!
//! It is built in `<key>.partial` and becomes `<key>` by one rename after it was verified and stamped, so
//! a folder of that name with a stamp is complete. A partial folder is kept: together with the
//! installer's own download cache it lets an interrupted setup go on. Where packages come from is the
//! business of the user's pip or uv configuration.

mod install;
mod installer_output;
mod plan;
mod remove;
#[cfg(test)]
mod tests;
mod tree;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use installer_output::{Phase, Progress};
pub use plan::{Maker, Plan, REQUIREMENTS_VARIABLE, Requirements};
pub use remove::{Entry, EntryState, Removed, entries, remove};
pub use tree::{TreeSize, free_bytes, in_words, tree_size};

use super::python::{ProbeCache, Problem, PythonEnvironment, SearchRequest, find_python};
use super::subprocess::Flow;
use super::{Places, Surroundings};

/// More arguments for `pip install` and `uv pip install`, separated by blanks; for mirrors and tests.
pub const ARGUMENTS_VARIABLE: &str = "WARPSMITH_SETUP_PIP_ARGS";

const STAMP: &str = "warpsmith-environment.json";
const LOCK: &str = "setup.lock";
/// Ends the name of an environment that is being made.
const PARTIAL: &str = ".partial";
/// Downloads, where the user's pip keeps none itself. Gone after a complete setup.
const DOWNLOADS: &str = "downloads";
const LOG: &str = "setup.log";

/// Whether a missing environment is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvironmentPolicy {
    /// After the dialogue's consent.
    Ask,
    Yes,
    Never,
}

impl EnvironmentPolicy {
    /// `--no-setup` forbids; `--yes` or no terminal to ask on proceeds.
    pub fn from_flags(yes: bool, no_setup: bool, has_terminal: bool) -> Self {
        match (no_setup, yes || !has_terminal) {
            (true, _) => Self::Never,
            (false, true) => Self::Yes,
            (false, false) => Self::Ask,
        }
    }
}

/// The other side of a setup: a terminal, an editor, a test.
pub trait Dialogue {
    /// Asked under [`EnvironmentPolicy::Ask`], with the size and the place.
    fn consents(&mut self, plan: &Plan) -> bool;
    /// A sentence worth showing at once.
    fn note(&mut self, text: &str);
    /// About ten times a second while the installer runs.
    fn progress(&mut self, progress: &Progress);
    /// Whether to stop as soon as possible; asked about ten times a second.
    fn is_cancelled(&self) -> bool;
}

/// What a setup works on.
#[derive(Clone, Copy, Debug)]
pub struct SetupContext<'a> {
    pub surroundings: &'a Surroundings,
    pub places: &'a Places,
    pub probes: &'a ProbeCache,
}

/// A complete managed environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub folder: PathBuf,
    pub executable: PathBuf,
}

/// Why there is no managed environment now. Each text says what to do, or stands before one that does.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("no environment was made: --no-setup, or an editor, forbids it")]
    Forbidden,
    #[error("nothing was installed")]
    Declined,
    #[error("setup was interrupted; run `warpsmith setup` to go on where it stopped")]
    Interrupted,
    #[error("another warpsmith is setting up the environment; wait for it or end it")]
    Busy,
    #[error(
        "no Python {oldest} to {newest} was found to make the environment with{seen}; install uv or such a Python"
    )]
    NoBasePython { oldest: String, newest: String, seen: String },
    #[error("{} cannot make environments: {remedy}", python.display())]
    NoVenv { python: PathBuf, remedy: String },
    #[error(
        "not enough space in {}: {} are needed and {} are free; free some, or set XDG_CACHE_HOME to a larger disk",
        folder.display(), tree::in_words(*needed_bytes), tree::in_words(*free_bytes)
    )]
    NoSpace { folder: PathBuf, needed_bytes: u64, free_bytes: u64 },
    #[error("{step} failed: {reason}\nall it said is in {}", log.display())]
    Installer { step: String, reason: String, log: PathBuf },
    #[error("the new environment is not usable: {0}")]
    Unusable(String),
    #[error("{action} {}: {source}", path.display())]
    Files { action: &'static str, path: PathBuf, source: std::io::Error },
}

impl SetupError {
    fn files(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Files { action, path, source }
    }
}

/// Written last: with it, the folder is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    schema: String,
    requirements: Vec<String>,
    python: String,
}

const STAMP_SCHEMA: &str = "warpsmith.environment/1";

impl Stamp {
    fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join(STAMP)).ok()?;
        serde_json::from_str(&text).ok().filter(|stamp: &Self| stamp.schema == STAMP_SCHEMA)
    }
}

/// The complete environment with these requirements, if there is one.
pub fn installed(places: &Places, requirements: &Requirements) -> Option<Installed> {
    entries(places).into_iter().find_map(|entry| {
        let executable = entry.folder.join("bin/python");
        let stamp = Stamp::read(&entry.folder).filter(|_| entry.state == EntryState::Complete)?;
        let fits = stamp.requirements == requirements.items() && executable.exists();
        fits.then_some(Installed { folder: entry.folder, executable })
    })
}

/// Finds the managed environment or makes it.
///
/// # Errors
/// Why there is none now; the text says what to do. [`SetupError::Interrupted`] and
/// [`SetupError::Installer`] leave a partial environment that the next call continues.
pub fn ensure(
    context: SetupContext<'_>,
    policy: EnvironmentPolicy,
    dialogue: &mut dyn Dialogue,
) -> Result<Installed, SetupError> {
    let requirements = Requirements::of(context.surroundings);
    if let Some(installed) = installed(context.places, &requirements) {
        return Ok(installed);
    }
    if policy == EnvironmentPolicy::Never {
        return Err(SetupError::Forbidden);
    }
    let plan = Plan::make(context, requirements)?;
    plan.check_space()?;
    if policy == EnvironmentPolicy::Ask && !dialogue.consents(&plan) {
        return Err(SetupError::Declined);
    }
    let lock = lock_waiting(context.places, dialogue)?;
    // Somebody else may have made it while we waited.
    let made = match installed(context.places, &plan.requirements) {
        Some(installed) => Ok(installed),
        None => make(context, &plan, dialogue),
    };
    drop(lock);
    made
}

/// Searches, and makes the managed environment when nobody named an interpreter and none of the user's has
/// torch and triton.
///
/// # Errors
/// The whole text for the user: what was found, why it will not do, what to type.
pub fn find_or_make_python(
    context: SetupContext<'_>,
    request: &SearchRequest<'_>,
    policy: EnvironmentPolicy,
    dialogue: &mut dyn Dialogue,
) -> Result<PythonEnvironment, String> {
    let made = installed(context.places, &Requirements::of(context.surroundings));
    let managed = made.as_ref().map(|made| &*made.executable);
    let search = find_python(&SearchRequest { managed, ..*request }, context.probes);
    if !search.wants_managed() {
        return search.usable().cloned();
    }
    let made = ensure(context, policy, dialogue)
        .map_err(|error| format!("{error}\n{}", search.usable().err().unwrap_or_default()))?;
    let managed = Some(&*made.executable);
    find_python(&SearchRequest { managed, ..*request }, context.probes).usable().cloned()
}

fn make(
    context: SetupContext<'_>,
    plan: &Plan,
    dialogue: &mut dyn Dialogue,
) -> Result<Installed, SetupError> {
    install::fill_partial(context, plan, dialogue)?;
    let python = verify(context, &plan.partial)?;
    let stamp =
        Stamp { schema: STAMP_SCHEMA.to_owned(), requirements: plan.requirements.items().to_vec(), python };
    write_atomically(&plan.partial.join(STAMP), &stamp)?;
    if plan.folder.exists() {
        // Without a valid stamp, or it would have been found.
        tree::remove_tree(&plan.folder).map_err(SetupError::files("cannot remove", &plan.folder))?;
    }
    std::fs::rename(&plan.partial, &plan.folder).map_err(SetupError::files("cannot create", &plan.folder))?;
    Ok(Installed { folder: plan.folder.clone(), executable: plan.folder.join("bin/python") })
}

/// The Python version, if the probe finds nothing to complain about.
fn verify(context: SetupContext<'_>, folder: &Path) -> Result<String, SetupError> {
    let executable = folder.join("bin/python");
    let probe = context
        .probes
        .probe(&executable, context.surroundings)
        .map_err(|reason| SetupError::Unusable(reason.to_string()))?;
    match Problem::of(&probe).first() {
        Some(problem) => Err(SetupError::Unusable(problem.to_string())),
        None => Ok(probe.python),
    }
}

fn write_atomically(path: &Path, value: &impl Serialize) -> Result<(), SetupError> {
    let temporary = path.with_extension("new");
    let write = || {
        let file = File::create(&temporary)?;
        serde_json::to_writer_pretty(&file, value)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(SetupError::files("cannot write", path))
}

fn open_lock(places: &Places) -> Result<File, SetupError> {
    let folder = places.environments();
    std::fs::create_dir_all(&folder).map_err(SetupError::files("cannot create", &folder))?;
    let path = folder.join(LOCK);
    let options = File::options().create(true).truncate(false).write(true).clone();
    options.open(&path).map_err(SetupError::files("cannot open", &path))
}

/// The lock of all environments. Says so when it has to wait.
fn lock_waiting(places: &Places, dialogue: &mut dyn Dialogue) -> Result<File, SetupError> {
    let file = open_lock(places)?;
    let mut said = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => {
                return Err(SetupError::files("cannot lock", &places.environments())(source));
            }
            Err(TryLockError::WouldBlock) => {
                if !said {
                    dialogue.note("another warpsmith is setting up the environment; waiting for it");
                    said = true;
                }
                if dialogue.is_cancelled() {
                    return Err(SetupError::Interrupted);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn flow(dialogue: &dyn Dialogue) -> Flow {
    if dialogue.is_cancelled() { Flow::Stop } else { Flow::Continue }
}
