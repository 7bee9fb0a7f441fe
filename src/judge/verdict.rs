//! Verdicts, the findings behind them, and the record of a check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::Foundation;
use super::case::Case;
use crate::oracle;
use crate::runner::protocol::{Launch, OutputErrors, Place};
use crate::source::SourceModel;

/// What the judge says. `wrong` (your kernel is wrong) and `could not run` (we could not judge it) are
/// different words, severities and exit codes everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Passed,
    CouldNotRun,
    Wrong,
}

impl Verdict {
    /// Exit code of the command line.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Wrong => 1,
            Self::CouldNotRun => 2,
        }
    }

    /// As people read it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Wrong => "wrong",
            Self::CouldNotRun => "could not run",
        }
    }
}

/// Why a case is wrong, could not run, or deserves a warning. Stable names: they stand in JSON records
/// and diagnostics. One kind is never used for two verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    // wrong
    Mismatch,
    /// A float32 result that only a TF32 product explains.
    Tf32,
    NonFinite,
    Unwritten,
    WrongShape,
    WrongDtype,
    /// Not the expected number of outputs, or not exact `torch.Tensor`s.
    WrongOutputs,
    InputsChanged,
    /// An output that shares memory with an input although the Definition does not say so.
    AliasesInput,
    OutOfBounds,
    /// A GPU refused an access: memory that is nobody's, or another's.
    IllegalAccess,
    MisalignedAccess,
    Race,
    DuplicateStore,
    IntegerOverflow,
    DeviceAssert,
    UninitialisedRead,
    /// A later call changed what an earlier one had returned.
    OutputReused,
    /// The result of other values was handed back.
    Memoised,
    /// Repeats are not bitwise equal, and the Definition asks for it.
    NotRepeatable,
    CompileError,
    Raised,
    /// A launch asks for more shared memory, registers or threads than the GPU has.
    OutOfResources,
    IllegalInstruction,
    /// The GPU ended a launch and does not say why.
    LaunchFailed,
    Crashed,
    /// The process ended without an answer, whatever its status.
    Exited,
    /// Other values than the version at HEAD gives; which of the two are right is not known.
    DiffersFromHead,
    // could not run
    UnreadableFile,
    NoKernel,
    NoOracle,
    NoDefinition,
    /// A file that says what is right cannot be used.
    BadDescription,
    /// The convention cannot call the entry with these parameters.
    BadSignature,
    ModuleLevelLaunch,
    SyntaxError,
    ImportError,
    CrashedAtImport,
    NoPython,
    NoTorch,
    TritonTooOld,
    /// Too old itself, or with packages that do not work together.
    UnusablePython,
    /// The interpreter lacks a feature the kernel uses.
    Unsupported,
    Timeout,
    OutOfMemory,
    /// Our own process failed; never the user's fault.
    JudgeFailed,
    /// What says what is right raised, changed its inputs, or gave no usable values: nothing is known of the
    /// kernel.
    ReferenceFailed,
    /// A class that gives no object when it is called with the reference's arguments.
    NotBuilt,
    /// The reference's parameters cannot be given to the judged object, so that nobody knows what it computes with.
    UnmatchedWeights,
    /// Inputs and weights of every size are more than an interpreter gets through.
    TooLarge,
    /// A sampled run whose outputs are not stored by one launch alone.
    NotComparable,
    /// The entry returned something without launching a Triton kernel: there was nothing to judge.
    NotLaunched,
    /// The outputs are right also when kernels store nothing.
    NoEffect,
    /// PyTorch computes the operation that was to be judged.
    Delegated,
    /// A thread that the call started still runs after it returned.
    LeftRunning,
    /// The entry declines a very long axis before it launches anything.
    Refused,
    /// The kernel that was asked for is not in the file, or was not launched.
    OtherKernel,
    /// Nothing says what is right, and the version at HEAD is the same.
    UnchangedSinceHead,
    /// To compare with HEAD, the code does not show enough of the inputs.
    InputsUnknown,
    /// The version at HEAD does not run well on the inputs that its code shows.
    InputsUnsuitable,
    /// No GPU where one was asked for.
    NoDevice,
    /// A GPU that the environment's torch cannot use.
    DeviceUnusable,
    /// Somebody else uses the GPU, and the settings say that it is left alone then.
    DeviceBusy,
    DeviceLost,
    /// Nobody said that code of this folder may be run. Only an editor asks.
    NotTrusted,
    Cancelled,
    // warnings on a passed case
    BenignRace,
    /// Repeats are not bitwise equal, but each is within the tolerance.
    Nondeterministic,
    /// A launch does not end when its programs run in another order.
    OrderDependent,
    /// The tolerance accepts a null candidate: a passed case says little.
    WeakTolerance,
}

impl Code {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 70] = [
        Self::Mismatch,
        Self::Tf32,
        Self::NonFinite,
        Self::Unwritten,
        Self::WrongShape,
        Self::WrongDtype,
        Self::WrongOutputs,
        Self::InputsChanged,
        Self::AliasesInput,
        Self::OutOfBounds,
        Self::IllegalAccess,
        Self::MisalignedAccess,
        Self::Race,
        Self::DuplicateStore,
        Self::IntegerOverflow,
        Self::DeviceAssert,
        Self::UninitialisedRead,
        Self::OutputReused,
        Self::Memoised,
        Self::NotRepeatable,
        Self::CompileError,
        Self::Raised,
        Self::OutOfResources,
        Self::IllegalInstruction,
        Self::LaunchFailed,
        Self::Crashed,
        Self::Exited,
        Self::DiffersFromHead,
        Self::UnreadableFile,
        Self::NoKernel,
        Self::NoOracle,
        Self::NoDefinition,
        Self::BadDescription,
        Self::BadSignature,
        Self::ModuleLevelLaunch,
        Self::SyntaxError,
        Self::ImportError,
        Self::CrashedAtImport,
        Self::NoPython,
        Self::NoTorch,
        Self::TritonTooOld,
        Self::UnusablePython,
        Self::Unsupported,
        Self::Timeout,
        Self::OutOfMemory,
        Self::JudgeFailed,
        Self::ReferenceFailed,
        Self::NotBuilt,
        Self::UnmatchedWeights,
        Self::TooLarge,
        Self::NotComparable,
        Self::NotLaunched,
        Self::NoEffect,
        Self::Delegated,
        Self::LeftRunning,
        Self::Refused,
        Self::OtherKernel,
        Self::UnchangedSinceHead,
        Self::InputsUnknown,
        Self::InputsUnsuitable,
        Self::NoDevice,
        Self::DeviceUnusable,
        Self::DeviceBusy,
        Self::DeviceLost,
        Self::NotTrusted,
        Self::Cancelled,
        Self::BenignRace,
        Self::Nondeterministic,
        Self::OrderDependent,
        Self::WeakTolerance,
    ];

    /// The one verdict that this code stands for.
    pub fn verdict(self) -> Verdict {
        use Code::*;
        match self {
            Mismatch | Tf32 | NonFinite | Unwritten | WrongShape | WrongDtype | WrongOutputs
            | InputsChanged | AliasesInput | OutOfBounds | IllegalAccess | MisalignedAccess
            | OutOfResources | IllegalInstruction | LaunchFailed | Race | DuplicateStore
            | IntegerOverflow | DeviceAssert | UninitialisedRead | OutputReused | Memoised
            | NotRepeatable | CompileError | Raised | Crashed | Exited | DiffersFromHead => Verdict::Wrong,
            UnreadableFile | NoKernel | NoOracle | NoDefinition | BadDescription | BadSignature
            | ModuleLevelLaunch | SyntaxError | ImportError | CrashedAtImport | NoPython | NoTorch
            | TritonTooOld | UnusablePython | Unsupported | Timeout | OutOfMemory | JudgeFailed
            | ReferenceFailed | NotBuilt | UnmatchedWeights | TooLarge | NotComparable | NotLaunched
            | NoEffect | Delegated | LeftRunning | Refused | OtherKernel | UnchangedSinceHead
            | InputsUnknown | InputsUnsuitable | NoDevice | DeviceUnusable | DeviceBusy | DeviceLost
            | NotTrusted | Cancelled => Verdict::CouldNotRun,
            BenignRace | Nondeterministic | OrderDependent | WeakTolerance => Verdict::Passed,
        }
    }

    /// Rows of the catalogue of cheats (`docs/cheats.md`) that such a finding is about. Most codes are errors that
    /// anybody makes, and have none.
    pub fn rows(self) -> &'static [u8] {
        match self {
            Self::Memoised => &[1, 2, 3, 4],
            Self::AliasesInput => &[7],
            Self::Unwritten => &[8],
            Self::OutputReused => &[10],
            Self::NotLaunched => &[11, 22],
            Self::WrongOutputs => &[12],
            Self::LeftRunning => &[14],
            Self::NoEffect => &[21, 22, 32],
            Self::Delegated => &[21],
            Self::Tf32 => &[23],
            Self::Exited => &[27],
            Self::InputsChanged => &[35],
            _ => &[],
        }
    }

    /// The name in records and diagnostics: `out-of-bounds`.
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => format!("{self:?}"),
        }
    }
}

/// One thing to tell the user, at one place.
#[derive(Clone, Debug, Deserialize)]
pub struct Finding {
    pub code: Code,
    /// The kernel's bare name, when known.
    pub kernel: Option<String>,
    /// The line, when known; otherwise it is shown at the kernel or on line 1.
    pub place: Option<Place>,
    /// Outer lines when the innermost is in a helper.
    pub called_from: Vec<Place>,
    /// One or two sentences with numbers; what to do next when it is not obvious.
    pub message: String,
    /// First bad element, when values were compared.
    pub element: Option<BadElement>,
}

/// With `rows`, see [`Code::rows`], where there are any.
impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.code.rows();
        let mut fields = serializer.serialize_struct("Finding", if rows.is_empty() { 6 } else { 7 })?;
        fields.serialize_field("code", &self.code)?;
        fields.serialize_field("kernel", &self.kernel)?;
        fields.serialize_field("place", &self.place)?;
        fields.serialize_field("called_from", &self.called_from)?;
        fields.serialize_field("message", &self.message)?;
        fields.serialize_field("element", &self.element)?;
        if !rows.is_empty() {
            fields.serialize_field("rows", rows)?;
        }
        fields.end()
    }
}

/// One element of an output that is not what it should be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BadElement {
    pub output: String,
    pub index: Vec<u64>,
    pub expected: crate::runner::protocol::Number,
    pub got: crate::runner::protocol::Number,
    pub allowed: crate::runner::protocol::Number,
}

/// One case after it ran (or could not).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseRecord {
    pub case: Case,
    pub verdict: Verdict,
    /// The findings that decided, worst first; warnings of a passed case too.
    pub findings: Vec<Finding>,
    pub errors: Vec<OutputErrors>,
    pub launches: Vec<Launch>,
    /// Told now that the verdict is there: `--seed` replays it.
    pub seed: u64,
    /// Wall clock of the whole case, in milliseconds. How long the check took, never a kernel's time.
    pub elapsed_ms: f64,
}

impl CaseRecord {
    /// Values were compared, and each is the very one that was expected (0 and −0 count as one).
    pub fn is_equal(&self) -> bool {
        let is_equal = |errors: &OutputErrors| {
            errors.max_absolute_error.0 == 0.0 && errors.non_finite_mismatches == 0 && errors.unwritten == 0
        };
        !self.errors.is_empty() && self.errors.iter().all(is_equal)
    }
}

/// When a check reached what, in milliseconds since it began. How long checking took, never a kernel's
/// time. A point that was not reached is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The interpreter was found.
    pub python: Option<f64>,
    /// Its worker answered (at once, when it was warm).
    pub worker: Option<f64>,
    /// The file was imported; in a fresh worker, after torch and Triton.
    pub loaded: Option<f64>,
    pub first_verdict: Option<f64>,
    /// Every case is judged; what comes after is timing.
    pub judged: Option<f64>,
    pub end: Option<f64>,
}

/// Something that was left out, which must never look as if it had passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    pub what: String,
    pub why: String,
}

/// A kernel of the file that nothing launches that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotJudged {
    /// Its [`crate::source::KernelId`].
    pub kernel: String,
    /// Why, and what to do about it.
    pub why: String,
}

impl Finding {
    /// A finding that is tied to no place.
    pub fn plain(code: Code, message: impl Into<String>) -> Self {
        let (kernel, place, called_from, element) = (None, None, Vec::new(), None);
        Self { code, kernel, place, called_from, message: message.into(), element }
    }
}

impl NotRun {
    /// `why` completes "not run: `what` (`why`)".
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

/// What a verdict rests on. A version is `None` until the worker has told it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub warpsmith: String,
    /// `triton-interpreter` or `gpu`.
    pub method: String,
    /// The GPU; `None` in the interpreter.
    pub gpu: Option<super::OnGpu>,
    pub python: Option<String>,
    pub torch: Option<String>,
    pub triton: Option<String>,
    pub numpy: Option<String>,
    /// blake3 of the judged text.
    pub source_hash: String,
    /// blake3 of the other files that say what is right, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub described_by: BTreeMap<PathBuf, String>,
    /// The [`oracle::fingerprint`] of all that was said of the file; `None` when nobody asked.
    #[serde(skip)]
    pub described_as: Option<String>,
    /// The rest of what it rests on, where all of it can be looked at again.
    #[serde(skip)]
    pub foundation: Option<Arc<Foundation>>,
}

impl Provenance {
    /// Whether what says what is right is still as it was, for the file with this path and text. Reads the files
    /// that say it and looks for new ones: they are few and small. Of a Python file that is not known: it may import
    /// others.
    pub fn is_still_described(&self, path: &Path, text: &str, model: &SourceModel) -> bool {
        let is_as_it_was = |(path, hash): (&PathBuf, &String)| {
            path.extension().is_none_or(|extension| extension != "py") && hash_of(path).as_ref() == Some(hash)
        };
        let now = || oracle::fingerprint(&oracle::find_all(path, text, model, None));
        self.described_by.iter().all(is_as_it_was)
            && self.described_as.as_ref().is_none_or(|then| *then == now())
    }
}

/// What [`Provenance::described_by`] holds of these files, as they are now.
pub(super) fn hashes_of<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> BTreeMap<PathBuf, String> {
    files.into_iter().map(|path| (real_path(path), hash_of(path).unwrap_or_default())).collect()
}

/// Without `..` and links, so that a file has one name; as it is when there is no such file.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn hash_of(path: &Path) -> Option<String> {
    // To open a pipe is to wait for whoever writes into it.
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    std::fs::read(path).ok().map(|bytes| blake3::hash(&bytes).to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readers find the rows of the catalogue where a code is about some, and nothing where it is not.
    #[test]
    fn a_finding_has_the_rows_that_it_is_about() {
        let kept = serde_json::to_value(Finding::plain(Code::Memoised, "kept")).unwrap();
        assert_eq!(kept["rows"], serde_json::json!([1, 2, 3, 4]));
        let wrong = serde_json::to_value(Finding::plain(Code::Mismatch, "wrong")).unwrap();
        let keys: Vec<&str> = wrong.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["code", "kernel", "place", "called_from", "message", "element"]);
        let catalogue = include_str!("../../tests/cheats/README.md");
        for row in Code::ALL.iter().flat_map(|code| code.rows()) {
            assert!(catalogue.contains(&format!("\n| {row} | ")), "row {row}");
        }
    }

    #[test]
    fn a_file_that_says_what_is_right_has_one_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("kernels")).unwrap();
        std::fs::write(folder.path().join("ref.py"), "").unwrap();
        let hashes =
            hashes_of(&[folder.path().join("kernels/../ref.py"), folder.path().join("gone/../x.py")]);
        let names: Vec<&PathBuf> = hashes.keys().collect();
        assert!(names.contains(&&real_path(&folder.path().join("ref.py"))), "{names:?}");
        assert!(names.contains(&&folder.path().join("gone/../x.py")), "{names:?}");
    }
}
