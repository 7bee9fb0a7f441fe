//! Why no oracle was found, and what to do next.

use std::fmt;
use std::ops::Range;

/// Why a file cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleMiss {
    pub kind: MissKind,
    /// Bytes of the file to show it at; `None` means the first line.
    pub range: Option<Range<usize>>,
}

impl std::error::Error for OracleMiss {}

/// The reasons. Every message says what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissKind {
    #[error("no `@triton.jit` function in this file; nothing to check")]
    NoKernel,
    #[error(
        "`@triton.jit` stands here in a string, and no kernel in the code of this file; Triton reads a kernel's source from a file, and so does warpsmith: write it into a .py file of its own"
    )]
    KernelInString,
    #[error(
        "there are kernels, but nothing says what they should compute; write above the function that launches the kernel a comment such as `# warpsmith: ref=torch.nn.functional.silu x=f16[M,N] M=1,127 N=1000`, or add `KERNEL_TYPE = \"softmax\"` and a function `kernel_fn` that launches the kernel"
    )]
    NoConvention,
    #[error("`KERNEL_TYPE` is \"{found}\", which this version cannot check; it knows {}", known.join(", "))]
    UnknownKernelType { found: String, known: Vec<String> },
    #[error(
        "`KERNEL_TYPE` is computed, and this file is not run to find it out; write it as a string, such as `KERNEL_TYPE = \"softmax\"`"
    )]
    KernelTypeNotLiteral,
    #[error("`KERNEL_TYPE` is assigned {count} times with different values; keep one")]
    KernelTypeAmbiguous { count: usize },
    #[error(
        "`KERNEL_TYPE` is \"{kernel_type}\", but there is no module-level function `kernel_fn`; add `{signature}` that launches the kernel and returns the result"
    )]
    NoKernelFn { kernel_type: String, signature: String },
    #[error(
        "`kernel_fn` is itself a `@triton.jit` function and cannot be called from Python; rename it and add `{signature}` that launches it"
    )]
    KernelFnIsKernel { signature: String },
    #[error(
        "there are kernels, but nothing in this file launches {}; check the file that launches them, with a comment such as `# warpsmith: ref=torch.nn.functional.silu x=f16[M,N] M=1,127 N=1000` above the function that does, or write such a function here",
        listed(kernels)
    )]
    LaunchedElsewhere { kernels: Vec<String> },
    #[error("nothing says what `{asked}` should compute; what is judged here: {}", listed(entries))]
    NotDescribed { asked: String, entries: Vec<String> },
    #[error("{0}")]
    Comment(String),
    /// What a file beside this one says cannot be used.
    #[error("{0}")]
    Described(String),
    /// It is known what is meant, and this version cannot judge it.
    #[error("{0}")]
    NotJudged(String),
    /// A class in the manner of KernelBench without a usable reference.
    #[error("{0}")]
    KernelBench(String),
    #[error(
        "the comment names no reference; add `ref=torch.nn.functional.silu`, or `ref=my_ref` for a function of this file"
    )]
    NoReference,
    #[error("{miss}; nor can it be compared with its version at HEAD: {why}")]
    WithoutHead { miss: Box<Self>, why: String },
    #[error(
        "unchanged since HEAD {commit}, so there is nothing to compare; to know whether it is right, write above the function that launches the kernel a comment such as `# warpsmith: ref=torch.nn.functional.silu x=f16[M,N] M=1,127 N=1000`"
    )]
    Unchanged { commit: String },
    #[error(
        "`{entry}` cannot be compared with HEAD {commit}: {why}; write above it a comment that says what is right, such as `# warpsmith: ref=torch.nn.functional.silu x=f16[M,N] M=1,127 N=1000`"
    )]
    OtherAtHead { entry: String, commit: String, why: String },
    #[error(
        "nothing says what `{entry}` should compute, and to compare it with HEAD {commit} the code does not show enough of its inputs: {}; write above it a comment such as `# warpsmith: x=f16[M,N] M=1,127 N=1000`, with `ref=` to have it judged rather than compared", unknown.join("; ")
    )]
    InputsUnknown { entry: String, commit: String, unknown: Vec<String> },
    #[error("the operation \"{0}\" has no Definition inside this warpsmith; this is a fault of ours")]
    NoDefinition(String),
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl OracleMiss {
    pub(super) fn new(kind: MissKind, range: Option<Range<usize>>) -> Self {
        Self { kind, range }
    }

    /// Nothing says what is right, so the version at HEAD may be what to compare with.
    pub fn asks_for_head(&self) -> bool {
        matches!(self.kind, MissKind::NoConvention | MissKind::NoReference)
    }

    /// There is no such version, for this reason.
    #[must_use]
    pub fn without_head(self, why: String) -> Self {
        Self { kind: MissKind::WithoutHead { miss: Box::new(self.kind), why }, ..self }
    }

    /// The version at HEAD is the same.
    #[must_use]
    pub fn unchanged(self, commit: &str) -> Self {
        Self { kind: MissKind::Unchanged { commit: commit.to_owned() }, ..self }
    }
}

impl fmt::Display for OracleMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}
