//! The one entry to the engine, for the command line and the language server alike.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::bench::{BaselineChoice, TimingChoice};
use super::{CaseRecord, Report, Stage};
use crate::device::{DeviceChoice, WhenBusy};
use crate::oracle::OracleLabel;
use crate::spec::Dtype;

/// What to check.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// The user's file, absolute; named in findings. It is not read: `text` is what is judged.
    pub path: PathBuf,
    /// The saved text.
    pub text: Arc<str>,
    /// The interpreter that the editor's settings name. What the engine was told itself goes first.
    pub python: Option<PathBuf>,
    pub options: CheckOptions,
}

/// Narrowing of a check. The default runs every stage that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Only these stages; empty means all.
    pub stages: Vec<Stage>,
    /// Only these dtypes; empty means all of the Definition.
    pub dtypes: Vec<Dtype>,
    /// Only what concerns this kernel or function.
    pub kernel: Option<String>,
    /// Replays a run; otherwise drawn from the system's randomness and told with the verdict.
    pub seed: Option<u64>,
    pub device: DeviceChoice,
    /// What is done when another process uses the GPU.
    pub when_busy: WhenBusy,
    /// What is timed once everything passed, on a GPU.
    pub timing: TimingChoice,
    /// What it is timed against.
    pub baseline: BaselineChoice,
}

/// What happens while a check runs, in order.
#[derive(Clone, Debug)]
pub enum CheckEvent {
    /// A step before the first case: `starting Python 3.11 with torch 2.15`.
    Preparing(String),
    /// Of a file with several described functions, the next one; the events after it are its own.
    Function {
        entry: Option<String>,
    },
    /// The end of what [`Self::Function`] began.
    FunctionJudged(Box<Report>),
    /// The cases that will run.
    Planned {
        oracle: OracleLabel,
        cases: usize,
    },
    CaseStarted {
        index: usize,
        label: String,
    },
    /// Programs interpreted so far in the running case.
    CaseProgress {
        index: usize,
        programs_done: u64,
        programs: u64,
    },
    CaseFinished {
        index: usize,
        record: Arc<CaseRecord>,
    },
    /// A case is wrong for what the interpreter saw beside a GPU, whatever was said of it before.
    CaseRejudged {
        record: Arc<CaseRecord>,
    },
}

/// A verdict from the store.
#[derive(Clone, Debug)]
pub struct Earlier {
    pub report: Report,
    /// Unix time, in seconds.
    pub judged_at_s: u64,
}

/// A future that can be stored.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The engine as others see it; tests put a fake in its place.
pub trait Checker: Send + Sync + 'static {
    /// Runs one check to its end. A cancelled check stops its processes and returns what it has, with
    /// [`super::Code::Cancelled`] among the findings. Never panics on any input.
    ///
    /// `events` holds a few for each case and ten a second while one runs, so it needs no bound.
    fn check<'a>(
        &'a self,
        request: CheckRequest,
        events: UnboundedSender<CheckEvent>,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Report>;

    /// What the last whole check of exactly this text and these settings said, also that of another server, if
    /// nothing that it rests on has changed since. Where that is not surely known, `None`. Runs nothing: no process is
    /// started.
    fn recall(&self, request: CheckRequest) -> BoxFuture<'_, Option<Earlier>>;

    /// Whether environment, device and settings are still those that this report rests on, as far as it says. The text
    /// and what describes it are not looked at. Starts no process.
    fn still_stands(&self, request: CheckRequest, report: Arc<Report>) -> BoxFuture<'_, bool>;
}
