//! The card that is timed on: its lease, its other users, its ceilings.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::super::check::CheckEvent;
use super::super::run::read;
use super::super::timing::{Estimate, NoTimingCode};
use crate::device::{
    Ceilings, Conditions, Gpu, Lease, LeaseError, LeaseFolder, Management, OtherProcess, Owner, Usage,
};
use crate::runner::Worker;
use crate::runner::protocol::{BandwidthPoint, MeasureCeilings, MeasuredCeilings, Outcome, Request};

/// Wall clock of the ceilings, which are measured once for each GPU and driver, in seconds.
const CEILINGS_WALL_S: f64 = 20.0;
/// The same of the copy that every time is held against.
const SAME_BYTES_WALL_S: f64 = 5.0;

/// See the module's documentation.
pub(in crate::judge) struct BenchGpu {
    pub(in crate::judge) gpu: Gpu,
    pub(in crate::judge) management: Arc<dyn Management>,
    pub(in crate::judge) leases: LeaseFolder,
    /// Where the ceilings of every GPU are kept.
    pub(in crate::judge) ceilings_folder: PathBuf,
    /// How long the lease is waited for.
    pub(in crate::judge) patience: Duration,
    /// What is timed, for whoever waits for the lease.
    pub(in crate::judge) what: String,
}

/// Times of moving as many bytes as a call does, in the same run.
#[derive(Default)]
pub(super) struct SameBytes {
    pub(super) copy_us: Option<Estimate>,
    pub(super) read_us: Option<Estimate>,
}

impl BenchGpu {
    pub(super) fn name(&self) -> &str {
        &self.gpu.name
    }

    pub(super) fn uuid(&self) -> &str {
        &self.gpu.uuid
    }

    /// Waits for the right to time; whoever has it is told.
    pub(super) async fn lease(
        &self,
        events: &UnboundedSender<CheckEvent>,
        cancel: &CancellationToken,
    ) -> Result<Lease, (NoTimingCode, String)> {
        let on_waiting = |owner: Option<&Owner>| {
            let owner = owner.map_or_else(|| "another process".to_owned(), Owner::to_string);
            let waiting = format!("waiting for {}, which {owner} times on", self.gpu.device());
            let _ = events.send(CheckEvent::Preparing(waiting));
        };
        let lease = Lease::acquire(&self.leases, self.uuid(), &self.what, self.patience, cancel, on_waiting);
        lease.await.map_err(|error| {
            let code = match error {
                LeaseError::StillTaken { .. } => NoTimingCode::GpuBusy,
                _ => NoTimingCode::Failed,
            };
            (code, error.to_string())
        })
    }

    /// Who uses the card now; `None` where NVML does not answer.
    pub(super) fn look(&self) -> Option<Usage> {
        let ours = BTreeSet::from([std::process::id()]);
        Usage::read(&*self.management, self.uuid(), &ours).ok()
    }

    /// What must be said of the times: another process on the card, then everything else.
    pub(super) fn conditions(
        &self,
        before: Option<Usage>,
        after: Option<Usage>,
    ) -> (Option<String>, Vec<String>) {
        let mut sentences = Vec::new();
        if self.gpu.is_mig {
            sentences.push("the GPU is one MIG slice of a card".to_owned());
        }
        let (Some(before), Some(after)) = (before, after) else {
            sentences.push("NVML does not answer, so nobody knows who else used the GPU".to_owned());
            return (None, sentences);
        };
        let disturbed_by = [&before, &after].iter().find_map(|usage| disturber(usage));
        let disturbing = Conditions { before, after }.what_disturbs().into_iter();
        sentences.extend(disturbing.filter(|sentence| Some(sentence) != disturbed_by.as_ref()));
        (disturbed_by, sentences)
    }

    /// From the file, or measured now and written there. `None` when they cannot be measured.
    pub(super) async fn ceilings<W: Worker>(
        &self,
        worker: &W,
        events: &UnboundedSender<CheckEvent>,
    ) -> Option<Ceilings> {
        let driver = self.gpu.driver_version.as_deref().unwrap_or("unknown");
        if let Some(known) = Ceilings::load(&self.ceilings_folder, self.uuid(), driver) {
            return Some(known);
        }
        let told = format!("measuring what the {} reaches at best (once)", self.gpu.name);
        let _ = events.send(CheckEvent::Preparing(told));
        let before = self.look();
        let measured = measured(worker, MeasureCeilings { wall_s: CEILINGS_WALL_S, bytes: None }).await?;
        if let Some(why) = [before, self.look()].iter().flatten().find_map(disturber) {
            // Half a rate would be kept for good, and whoever is quicker then called impossible.
            tracing::warn!("the ceilings of the GPU were measured and are not believed: {why}");
            return None;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let ceilings = Ceilings::new(self.uuid(), self.name(), driver, now, measured);
        if let Err(error) = ceilings.store(&self.ceilings_folder) {
            tracing::warn!(%error, "the ceilings of the GPU cannot be kept; they are measured again next time");
        }
        Some(ceilings)
    }

    /// A copy and a read that move this many bytes, as fast as they are right now.
    pub(super) async fn same_bytes<W: Worker>(&self, worker: &W, bytes: Option<u64>) -> SameBytes {
        let Some(bytes) = bytes.filter(|bytes| *bytes > 0) else { return SameBytes::default() };
        let request = MeasureCeilings { wall_s: SAME_BYTES_WALL_S, bytes: Some(bytes) };
        let Some(measured) = measured(worker, request).await else { return SameBytes::default() };
        let time = |points: &[BandwidthPoint]| {
            let point = points.first().filter(|point| point.time_us.is_finite() && point.time_us > 0.0)?;
            // The size may be rounded to whole elements.
            Some(Estimate::exact(point.time_us * bytes as f64 / point.bytes.max(1) as f64))
        };
        SameBytes { copy_us: time(&measured.copy), read_us: time(&measured.read) }
    }
}

/// Who else was at work there, as a sentence.
fn disturber(usage: &Usage) -> Option<String> {
    usage.others_at_work().next().map(OtherProcess::was_there_too)
}

async fn measured<W: Worker>(worker: &W, request: MeasureCeilings) -> Option<MeasuredCeilings> {
    match worker.request(Request::Ceilings(request)).await {
        Ok(Outcome::Done(value)) => read(value).ok(),
        Ok(other) => {
            tracing::warn!(?other, "the ceilings of the GPU cannot be measured");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "the ceilings of the GPU cannot be measured");
            None
        }
    }
}
