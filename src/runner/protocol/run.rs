//! One call of an entry: what is passed, how its launches are interpreted, what it says it did.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CaseId, InputSpec, OutputSpec, RunnerId};

/// One call of the entry on a prepared case.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub runner: RunnerId,
    pub case: CaseId,
    /// Arguments by keyword.
    pub arguments: Vec<Argument>,
    /// Wall clock after which the runner is killed, in seconds.
    pub wall_s: f64,
    pub interpreter: InterpreterOptions,
    /// Keep what the entry returns alive, until another call says so.
    pub hold: bool,
    /// Casts to float32 become casts to float64, and what is returned is handed over in float64.
    pub widened: bool,
}

/// A call of the entry on zeros, on a GPU, whose launches end after the compiler: Triton's cache on disk is filled for
/// other processes of the same source.
#[derive(Clone, Debug, Serialize)]
pub struct Compile {
    pub runner: RunnerId,
    /// Shapes, dtypes and strides; how they are filled stays with the supervisor.
    pub inputs: Vec<InputSpec>,
    pub outputs: Vec<OutputSpec>,
    pub arguments: Vec<Argument>,
    /// Wall clock after which the runner is killed, in seconds.
    pub wall_s: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Recopy {
    pub runner: RunnerId,
    pub case: CaseId,
    /// Wall clock after which the runner is killed, in seconds.
    pub wall_s: f64,
}

/// Other values for a case.
#[derive(Clone, Debug, Serialize)]
pub struct Redraw {
    pub case: CaseId,
    pub seed: u64,
    /// Draws one element of each float tensor that gets a value far from its own; `None` leaves all.
    pub changed: Option<u64>,
}

/// One argument of the call.
#[derive(Clone, Debug, Serialize)]
pub struct Argument {
    /// The parameter of the entry.
    pub parameter: String,
    #[serde(flatten)]
    pub source: ArgumentSource,
}

/// What is passed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ArgumentSource {
    /// The tensor or scalar of this input of the case.
    Input { input: String },
    /// The memory of this output of the case: the entry writes into it (destination passing).
    Output { output: String },
    /// An option that the reference has built in.
    Value { value: Value },
}

/// How Triton launches are interpreted in one call.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InterpreterOptions {
    /// Run at most this many programs of each launch: all corners of the grid, then random ones.
    /// `None` runs all.
    pub max_programs: Option<u32>,
    /// Whether the values of the outputs matter. `false`: only offsets are checked, outputs are not
    /// copied, and nothing may touch whole tensors.
    pub compare_values: bool,
    /// Draws the random programs. Derived from the check's seed, and not the seed of any input.
    pub sampling_seed: u64,
    pub program_order: ProgramOrder,
    pub autotune: Autotune,
    /// Fill fresh memory with large ordinary values instead of NaN.
    pub other_poison: bool,
    /// Launches are recorded and run no program.
    pub idle_kernels: bool,
}

/// In which order the programs of a launch run, one after another. Any is right for a right kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramOrder {
    #[default]
    Forward,
    Reverse,
    Random,
}

/// Which configuration of autotuned kernels runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Autotune {
    /// One, drawn from what the kernel is called with; it has run once before it is chosen.
    #[default]
    Drawn,
    /// A kernel that is not tuned yet runs every configuration once before the first, as on a GPU.
    Trial,
    /// The configuration of this index alone, of those that are left after pruning. Kernels that have
    /// fewer run their first.
    Only(u32),
}

/// Answer to [`Request::Repeat`](super::Request::Repeat), for each output.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Repeated {
    pub outputs: Vec<RepeatedOutput>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RepeatedOutput {
    pub name: String,
    pub elements: u64,
    /// Elements whose bits are not those of the first time.
    pub differing: u64,
    /// The first of them.
    pub first: Option<Vec<u64>>,
}

/// Answer to [`Request::Run`](super::Request::Run).
#[derive(Clone, Debug, Deserialize)]
pub struct Ran {
    /// What the entry returned, flattened (tuple, list, or one tensor); a claim until compared.
    pub outputs: Vec<ReturnedValue>,
    pub launches: Vec<Launch>,
    pub findings: Vec<WorkerFinding>,
    /// Set when a feature was met that the interpreter cannot check.
    pub unsupported: Option<Unsupported>,
    #[serde(default)]
    pub autotuned: Vec<Autotuned>,
    /// Functions of PyTorch's libraries that were called, by their plain names.
    #[serde(default)]
    pub library: Vec<String>,
    pub run_ms: f64,
}

/// An autotuned kernel that was launched.
#[derive(Clone, Debug, Deserialize)]
pub struct Autotuned {
    pub kernel: String,
    /// `BLOCK=128 STAGES=2` for each configuration that pruning left, in order; see [`Autotune::Only`].
    pub configurations: Vec<String>,
}

/// One returned value, as the candidate describes it: a claim until it was compared.
#[derive(Clone, Debug, Deserialize)]
pub struct ReturnedValue {
    /// `torch.Tensor`, `float`, `MyTensorSubclass` …: the exact type.
    pub type_name: String,
    /// Of an exact `torch.Tensor`; `None` for anything else.
    pub dtype: Option<String>,
    #[serde(default)]
    pub shape: Vec<u64>,
    #[serde(default)]
    pub strides: Vec<i64>,
    /// The storage overlaps that of this input.
    pub aliases_input: Option<String>,
    /// The storage is one that an earlier call returned: that result has changed meanwhile.
    #[serde(default)]
    pub returned_before: bool,
    /// Every element of the storage that holds a value was stored by one interpreted launch, and that
    /// launch was the only one. Only then may a sampled run be compared.
    #[serde(default)]
    pub written_by_single_launch: bool,
    /// The bytes were copied to the judge's memory (dtype and shape agree with [`OutputSpec`](super::OutputSpec)).
    #[serde(default)]
    pub copied: bool,
}

/// One interpreted launch.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Launch {
    /// Name of the `@triton.jit` function.
    pub kernel: String,
    pub file: String,
    /// 1-based line of the kernel's `def`.
    pub line: u32,
    pub grid: [u64; 3],
    pub programs: u64,
    pub programs_run: u64,
    /// `tl.dot` calls on float32 that ran as TF32: `(file, 1-based line)`.
    #[serde(default)]
    pub tf32_dots: Vec<Place>,
    #[serde(default)]
    pub ms: f64,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    pub file: String,
    /// 1-based.
    pub line: u32,
}

/// Something the interpreter saw happen.
#[derive(Clone, Debug, Deserialize)]
pub struct WorkerFinding {
    pub kind: WorkerFindingKind,
    pub kernel: Option<String>,
    /// The innermost line in the user's own files.
    pub place: Place,
    /// Outer lines when the innermost is in a helper, nearest first.
    #[serde(default)]
    pub called_from: Vec<Place>,
    /// One sentence for people, with numbers: element, tensor, program, how many lanes.
    pub message: String,
    pub program: Option<[u64; 3]>,
    /// How often the same kind met the same line.
    #[serde(default)]
    pub occurrences: u64,
}

/// What kinds of things the interpreter sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerFindingKind {
    OutOfBoundsLoad,
    OutOfBoundsStore,
    OutOfBoundsAtomic,
    /// Two programs of one launch touch the same element, at least one stores, none atomically, and
    /// the stored values differ.
    Race,
    /// As [`Self::Race`], but every store left the same bytes: legal on hardware, worth knowing.
    BenignRace,
    /// One store names the same element from several lanes with different values.
    DuplicateStore,
    IntegerOverflow,
    DeviceAssert,
    UninitialisedRead,
    /// An error of Triton's front end (undefined name, shape mismatch, `tl.arange` not a power of two).
    CompileError,
}

/// A feature that the interpreter lacks: inline assembly, libdevice, a newer builtin.
#[derive(Clone, Debug, Deserialize)]
pub struct Unsupported {
    /// `inline-asm`, `libdevice`, `interpreter`.
    pub code: String,
    pub message: String,
    pub place: Option<Place>,
}
