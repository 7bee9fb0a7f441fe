//! What a setup would do: with which Python, which installer, where, how large.

use std::fmt;
use std::path::PathBuf;

use super::tree::{free_bytes, in_words};
use super::{PARTIAL, SetupContext, SetupError};
use crate::toolchain::{Release, Surroundings};

/// Requirements to install in place of the pinned ones, separated by blanks; for mirrors and tests.
pub const REQUIREMENTS_VARIABLE: &str = "WARPSMITH_SETUP_REQUIREMENTS";

const PINNED: [&str; 3] = ["torch==2.15.0", "triton==3.9.0", "numpy==2.4.6"];
/// Python versions that the pinned packages have wheels for.
const OLDEST_BASE: Release = Release(3, 11, 0);
const AFTER_NEWEST_BASE: Release = Release(3, 15, 0);
/// What uv fetches where no Python fits.
const PYTHON_FROM_UV: Release = Release(3, 13, 0);
/// In the order of preference after plain `python3`.
const VERSIONED_NAMES: [&str; 4] = ["python3.13", "python3.12", "python3.11", "python3.14"];

/// Sizes of the pinned packages with all that they need, measured on Linux x86-64 with pip.
const INSTALLED_BYTES: u64 = 5_800_000_000;
const DOWNLOAD_BYTES: u64 = 3_000_000_000;

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements {
    items: Vec<String>,
    is_pinned: bool,
}

impl Requirements {
    /// The pinned ones, unless `$WARPSMITH_SETUP_REQUIREMENTS` names others.
    pub fn of(surroundings: &Surroundings) -> Self {
        match surroundings.variable(REQUIREMENTS_VARIABLE) {
            Some(others) => {
                let items = others.to_string_lossy().split_whitespace().map(str::to_owned).collect();
                Self { items, is_pinned: false }
            }
            None => Self { items: PINNED.map(str::to_owned).to_vec(), is_pinned: true },
        }
    }

    /// As pip and uv read them: `torch==2.15.0`.
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// Size on the disk when installed; known for the pinned ones.
    pub fn installed_bytes(&self) -> Option<u64> {
        self.is_pinned.then_some(INSTALLED_BYTES)
    }

    /// What is downloaded; known for the pinned ones.
    pub fn download_bytes(&self) -> Option<u64> {
        self.is_pinned.then_some(DOWNLOAD_BYTES)
    }

    fn hash(&self) -> String {
        blake3::hash(self.items.join("\n").as_bytes()).to_hex()[..12].to_owned()
    }
}

/// Who makes the environment, from what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maker {
    /// `python -m venv` and the pip that it brings.
    Pip { python: PathBuf },
    /// uv; without an interpreter it fetches one.
    Uv { uv: PathBuf, python: Option<PathBuf> },
}

/// Everything that is decided before anything is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub requirements: Requirements,
    pub maker: Maker,
    pub python: Release,
    /// Where the environment will be.
    pub folder: PathBuf,
    /// Where it is built.
    pub partial: PathBuf,
    /// On the disk that holds the folder.
    pub free_bytes: u64,
    /// An earlier setup was interrupted.
    pub goes_on: bool,
}

impl Plan {
    /// # Errors
    /// No suitable Python, or the disk cannot be asked.
    pub(super) fn make(context: SetupContext<'_>, requirements: Requirements) -> Result<Self, SetupError> {
        let (maker, python) = find_maker(context)?;
        let Release(major, minor, _) = python;
        let environments = context.places.environments();
        let key = format!("py{major}.{minor}-{}", requirements.hash());
        let (folder, partial) = (environments.join(&key), environments.join(format!("{key}{PARTIAL}")));
        let free_bytes = free_bytes(&environments)
            .map_err(SetupError::files("cannot measure the disk of", &environments))?;
        let goes_on = partial.exists();
        Ok(Self { requirements, maker, python, folder, partial, free_bytes, goes_on })
    }

    /// Bytes that must be free. pip keeps each download twice for a while, beside what it unpacks.
    pub fn needed_bytes(&self) -> u64 {
        let installed = self.requirements.installed_bytes().unwrap_or(100_000_000);
        let download = self.requirements.download_bytes().unwrap_or(0);
        match self.maker {
            Maker::Uv { .. } => installed + download / 2,
            Maker::Pip { .. } => installed + 2 * download,
        }
    }

    /// # Errors
    /// [`SetupError::NoSpace`]. A continued setup is not held up: how much it still needs is not known.
    pub(super) fn check_space(&self) -> Result<(), SetupError> {
        let needed_bytes = self.needed_bytes();
        if self.goes_on || self.free_bytes >= needed_bytes {
            return Ok(());
        }
        Err(SetupError::NoSpace { folder: self.folder.clone(), needed_bytes, free_bytes: self.free_bytes })
    }
}

/// The question that is asked, without its question mark.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requirements = self.requirements.items().join(", ");
        let Release(major, minor, _) = self.python;
        let tool = if let Maker::Uv { .. } = self.maker { "uv" } else { "pip" };
        writeln!(f, "warpsmith makes a Python environment of its own:")?;
        writeln!(f, "  what   {requirements} for Python {major}.{minor}, with {tool}")?;
        writeln!(f, "  where  {}", self.folder.display())?;
        match (self.requirements.installed_bytes(), self.requirements.download_bytes()) {
            (Some(installed), Some(download)) => writeln!(
                f,
                "  size   about {} on the disk, {} to download; {} are free",
                in_words(installed),
                in_words(download),
                in_words(self.free_bytes)
            )?,
            _ => writeln!(f, "  size   not known beforehand; {} are free", in_words(self.free_bytes))?,
        }
        if self.goes_on {
            writeln!(f, "  state  goes on with a setup that was interrupted")?;
        }
        write!(f, "  undo   warpsmith setup --remove")
    }
}

fn find_maker(context: SetupContext<'_>) -> Result<(Maker, Release), SetupError> {
    let uv = context.surroundings.find_program("uv");
    let mut seen = vec![];
    let mut without_venv = None;
    for name in ["python3"].into_iter().chain(VERSIONED_NAMES) {
        let Some(program) = context.surroundings.find_program(name) else { continue };
        let Ok(probe) = context.probes.probe(&program, context.surroundings) else { continue };
        let Some(release) = Release::parse(&probe.python) else { continue };
        let python = if probe.executable.is_file() { probe.executable } else { program };
        if !(OLDEST_BASE..AFTER_NEWEST_BASE).contains(&release) {
            seen.push(format!("{} is {}", python.display(), probe.python));
            continue;
        }
        match &uv {
            Some(uv) => return Ok((Maker::Uv { uv: uv.clone(), python: Some(python) }, release)),
            None if probe.can_make_venv => return Ok((Maker::Pip { python }, release)),
            None => drop(without_venv.get_or_insert((python, release))),
        }
    }
    if let Some(uv) = uv {
        return Ok((Maker::Uv { uv, python: None }, PYTHON_FROM_UV));
    }
    if let Some((python, Release(major, minor, _))) = without_venv {
        let remedy = format!(
            "install its venv module (`sudo apt install python{major}.{minor}-venv` on Debian and Ubuntu) or uv"
        );
        return Err(SetupError::NoVenv { python, remedy });
    }
    let seen = if seen.is_empty() { String::new() } else { format!(" ({})", seen.join(", ")) };
    let newest = format!("{}.{}", AFTER_NEWEST_BASE.0, AFTER_NEWEST_BASE.1 - 1);
    Err(SetupError::NoBasePython { oldest: OLDEST_BASE.to_string(), newest, seen })
}
