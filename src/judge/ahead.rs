//! Compiling ahead: on a GPU, other processes of the same source meet the cases of a plan before the judged one does.
//!
//! Triton compiles a kernel anew for every dtype and for every way in which sizes divide, one after another, and in the
//! first check of a text that is nearly all of its time. These processes call the entry on zeros; what they launch ends
//! after the compiler and fills Triton's cache on disk, where the judged process finds it.
//!
//! **Invariant:** nothing that they say or leave in their memory reaches a verdict. They end before anything is timed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::load::{module_role, open_request};
use super::run::{CheckRun, fresh_name};
use super::{Case, Coverage, inputs};
use crate::oracle::Variant;
use crate::runner::Worker;
use crate::runner::protocol::{Compile, Limits, ModuleSide, Open, Outcome, Ran, Request};

/// A call that takes longer has met the compiler: to load what was compiled before takes some 70 ms on an H200's host.
const COMPILING_MS: f64 = 400.0;
/// Processes at most: each has a context, some 0.5 GB of the GPU and as much of the host.
const MOST_LANES: usize = 8;
/// Cores that are left to the judge, the judged process and the interpreter beside it.
const OTHER_CORES: usize = 3;
/// All of these processes together may have this part of what the judged one may have of the GPU.
const PART_OF_MEMORY: u64 = 4;
/// What the context of one of them takes of a GPU, generously.
const CONTEXT_BYTES: u64 = 1 << 29;

/// How many processes go ahead on this machine, whose GPU has so many bytes for the judged process; one alone would
/// hardly be faster than that.
pub(super) fn lanes(device_bytes: u64) -> usize {
    let cores = available_parallelism().map_or(1, usize::from);
    lanes_of(cores, device_bytes)
}

fn lanes_of(cores: usize, device_bytes: u64) -> usize {
    let room = usize::try_from(device_bytes / PART_OF_MEMORY / CONTEXT_BYTES).unwrap_or(MOST_LANES);
    let lanes = cores.saturating_sub(OTHER_CORES).min(room).min(MOST_LANES);
    if lanes < 2 { 0 } else { lanes }
}

/// What the judged process and those ahead of it know of each other.
pub(super) struct Ahead {
    cases: Vec<Case>,
    /// Processes that go ahead.
    lanes: usize,
    /// The next case that nobody has met.
    next: AtomicUsize,
    compiles: Notify,
    over: CancellationToken,
}

impl Ahead {
    pub(super) fn new(cases: &[Case], lanes: usize) -> Self {
        let (cases, next, compiles) = (cases.to_vec(), AtomicUsize::new(0), Notify::new());
        Self { cases, lanes, next, compiles, over: CancellationToken::new() }
    }

    /// The judged process has met the case at `index` of the plan.
    pub(super) fn has_run(&self, index: usize, ran: &Ran) {
        self.next.fetch_max(index + 1, Ordering::Relaxed);
        if ran.run_ms > COMPILING_MS {
            self.compiles.notify_one();
        }
    }

    /// Every case is judged.
    pub(super) fn end(&self) {
        self.over.cancel();
    }

    fn take(&self) -> Option<&Case> {
        self.cases.get(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

impl<W: Worker> CheckRun<'_, W> {
    /// Waits until the judged process is seen to compile; ends when nothing is left to compile, or with [`Ahead::end`].
    pub(super) async fn compile_ahead(&self, ahead: &Ahead, parameters: &[String]) {
        if self.means.gpu().is_none() || !self.modules.is_empty() || ahead.lanes == 0 {
            return;
        }
        tokio::select! {
            () = ahead.compiles.notified() => {}
            () = ahead.over.cancelled() => return,
        }
        join_all((0..ahead.lanes).map(|_| self.lane(ahead, parameters))).await;
    }

    /// One process.
    async fn lane(&self, ahead: &Ahead, parameters: &[String]) {
        let runner = fresh_name("a");
        let work = async {
            let role = module_role(self.oracle, ModuleSide::Candidate, self.means);
            let open = open_request(self.source, &self.oracle.entry, &runner, self.means, role);
            let device_bytes = open.limits.device_bytes / PART_OF_MEMORY / ahead.lanes as u64;
            let limits = Limits { device_bytes, ..open.limits };
            let opened = self.worker.request(Request::Open(Open { limits, ..open })).await;
            if !matches!(opened, Ok(Outcome::Done(_))) {
                return;
            }
            while let Some(case) = ahead.take() {
                let Some(compile) = self.compile_request(case, &runner, parameters) else { continue };
                if !matches!(self.worker.request(Request::Compile(compile)).await, Ok(Outcome::Done(_))) {
                    return;
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = ahead.over.cancelled() => {}
            () = self.cancel.cancelled() => {}
        }
        self.close_runner(&runner).await;
    }

    fn compile_request(&self, case: &Case, runner: &str, parameters: &[String]) -> Option<Compile> {
        if case.coverage != Coverage::Full {
            // Of tensors larger than memory.
            return None;
        }
        let variant: &Variant = self.variant(case)?;
        let name = fresh_name("k");
        let prepared =
            inputs::prepare(&variant.definition, case, name, self.seed, self.foreign.is_none()).ok()?;
        Some(Compile {
            runner: runner.to_owned(),
            inputs: prepared.request.inputs,
            outputs: prepared.request.outputs,
            arguments: self.arguments(variant, parameters),
            wall_s: self.means.case_wall_s(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::lanes_of;

    #[test]
    fn processes_have_cores_and_room_on_the_gpu() {
        let gib = 1 << 30;
        let cases = [
            (16, 56 * gib, 8),
            (16, 9 * gib, 4),
            (16, 3 * gib, 0),
            (6, 56 * gib, 3),
            (4, 56 * gib, 0),
            (16, 0, 0),
        ];
        for (cores, device_bytes, lanes) in cases {
            assert_eq!(lanes_of(cores, device_bytes), lanes, "{cores} cores, {device_bytes} bytes");
        }
    }
}
