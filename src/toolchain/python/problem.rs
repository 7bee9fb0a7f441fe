//! What can be wrong with an interpreter, in words, and what to do about it.

use std::path::{Path, PathBuf};

use super::Probe;
use crate::toolchain::{Release, shell_word};

/// The oldest Python that the worker runs on.
pub const OLDEST_PYTHON: Release = Release(3, 10, 0);
/// The oldest Triton whose interpreter the worker knows.
pub const OLDEST_TRITON: Release = Release(3, 5, 0);
/// From this NumPy on, the interpreter of Triton up to [`LAST_TRITON_WITH_OLD_NUMPY`] fails on any
/// `for … in range(…)` in a kernel. From Triton 3.6 on, the worker rewrites kernels so that it does not
/// matter.
const NUMPY_THAT_BREAKS: Release = Release(2, 4, 0);
const LAST_TRITON_WITH_OLD_NUMPY: Release = Release(3, 5, u32::MAX);

/// How packages get into an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mending {
    Pip,
    /// It has no pip, as uv makes them.
    Uv,
    /// Its distribution forbids it (PEP 668).
    Forbidden,
}

impl Mending {
    pub(super) fn of(probe: &Probe) -> Self {
        match (probe.externally_managed, probe.has_pip) {
            (true, _) => Self::Forbidden,
            (false, true) => Self::Pip,
            (false, false) => Self::Uv,
        }
    }
}

/// Why a candidate was passed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("no such file")]
    NotThere,
    #[error("not an executable file")]
    NotExecutable,
    #[error("does not start: {reason}")]
    DoesNotStart { reason: String },
    #[error("no answer within {limit_s} s")]
    NoAnswer { limit_s: u64 },
    #[error("fails: {reason}")]
    Fails { reason: String },
    #[error("does not answer like Python")]
    NotPython,
    #[error("{problem}")]
    Unusable { problem: Problem, mending: Mending },
}

/// Why an interpreter that runs cannot be used for checking.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("torch and triton are not installed")]
    NeitherTorchNorTriton,
    #[error("torch is not installed")]
    NoTorch,
    #[error("torch is only in {}, which isolated mode leaves out", site.display())]
    TorchInUserSite { site: PathBuf },
    #[error("triton is not installed")]
    NoTriton,
    #[error("numpy is not installed")]
    NoNumpy,
    #[error("Python {found} is too old: {OLDEST_PYTHON} or newer is needed")]
    PythonTooOld { found: String },
    #[error("Triton {found} is too old: {OLDEST_TRITON} or newer is needed")]
    TritonTooOld { found: String },
    #[error("NumPy {numpy} breaks the interpreter of Triton {triton} (loops over range fail)")]
    NumpyTooNew { numpy: String, triton: String },
}

impl Problem {
    /// All that is wrong, the gravest first; empty when checking can work.
    pub(in crate::toolchain) fn of(probe: &Probe) -> Vec<Self> {
        let mut problems = vec![];
        match (&probe.torch, &probe.triton, &probe.torch_in_user_site) {
            (None, _, Some(site)) => problems.push(Self::TorchInUserSite { site: site.clone() }),
            (None, None, None) => problems.push(Self::NeitherTorchNorTriton),
            (None, Some(_), None) => problems.push(Self::NoTorch),
            (Some(_), None, _) => problems.push(Self::NoTriton),
            (Some(_), Some(_), _) => {}
        }
        if Release::parse(&probe.python).is_some_and(|found| found < OLDEST_PYTHON) {
            problems.push(Self::PythonTooOld { found: probe.python.clone() });
        }
        let Some(triton) = &probe.triton else { return problems };
        let release = Release::parse(&triton.version);
        if release.is_some_and(|found| found < OLDEST_TRITON) {
            problems.push(Self::TritonTooOld { found: triton.version.clone() });
        }
        match &probe.numpy {
            None => problems.push(Self::NoNumpy),
            Some(numpy) => {
                let new = Release::parse(&numpy.version).is_some_and(|found| found >= NUMPY_THAT_BREAKS);
                if new && release.is_some_and(|found| found <= LAST_TRITON_WITH_OLD_NUMPY) {
                    let (numpy, triton) = (numpy.version.clone(), triton.version.clone());
                    problems.push(Self::NumpyTooNew { numpy, triton });
                }
            }
        }
        problems
    }

    /// Whether this is not the user's kernel environment at all, so that the search goes on. Everything
    /// else is reported rather than passed over: another environment would judge with another Triton.
    pub(super) fn means_elsewhere(&self) -> bool {
        matches!(
            self,
            Self::NeitherTorchNorTriton | Self::NoTorch | Self::TorchInUserSite { .. } | Self::NoTriton
        )
    }

    /// What to type. `executable` is the interpreter to mend.
    pub fn remedy(&self, executable: &Path, mending: Mending) -> String {
        let packages = match self {
            Self::PythonTooOld { .. } => {
                return format!("make an environment with Python {OLDEST_PYTHON} or newer");
            }
            Self::NeitherTorchNorTriton | Self::TorchInUserSite { .. } => "torch 'triton>=3.5'",
            Self::NoTorch => "torch",
            Self::NoTriton => "'triton>=3.5'",
            Self::NoNumpy => "numpy",
            Self::TritonTooOld { .. } => "--upgrade torch 'triton>=3.5'",
            Self::NumpyTooNew { .. } => "'numpy<2.4'",
        };
        let executable = shell_word(executable);
        match mending {
            Mending::Pip => format!("run `{executable} -m pip install {packages}`"),
            Mending::Uv => format!("run `uv pip install --python {executable} {packages}`"),
            Mending::Forbidden => {
                "name an environment of your own (this one forbids pip), or none and run `warpsmith setup`"
                    .to_owned()
            }
        }
    }
}

impl Rejection {
    /// What to type or change.
    pub fn remedy(&self, executable: &Path) -> String {
        match self {
            Self::Unusable { problem, mending } => problem.remedy(executable, *mending),
            Self::NotThere | Self::NotExecutable | Self::NotPython => {
                "give the path of a Python interpreter".to_owned()
            }
            Self::DoesNotStart { .. } | Self::NoAnswer { .. } | Self::Fails { .. } => {
                format!("see what `{} -I -c 'print(1)'` says", shell_word(executable))
            }
        }
    }
}
