//! Second step of a check: the candidate runs the cases, one after another, in a process that is replaced when it ends.

use std::sync::Mutex;

use tokio::sync::mpsc;

use super::ahead::Ahead;
use super::assess::Ended;
use super::check::CheckEvent;
use super::inputs::Prepared;
use super::load::{Candidate, Stop};
use super::run::{CRASH_LIMIT, CheckRun, Progress, ToCompare, ToRun, left_out, lock};
use super::trials::TrialOutcome;
use super::{Case, Coverage, NotRun, device_faults};
use crate::runner::Worker;
use crate::runner::protocol::DeathReason;

/// The candidate's process, as it is now.
struct Serving {
    /// `None` between its end and the start of the next one.
    candidate: Option<Candidate>,
    crashes: u32,
    /// Why the cases that are left are left out.
    stop: Option<Stop>,
}

impl<W: Worker> CheckRun<'_, W> {
    /// Ends early when the candidate keeps crashing, hangs, or cannot be loaded again.
    pub(super) async fn run_all(
        &self,
        first: Candidate,
        (progress, ahead): (&Mutex<Progress>, &Ahead),
        mut queue: mpsc::Receiver<ToRun>,
        to_compare: mpsc::Sender<ToCompare>,
    ) {
        let mut serving = Serving { candidate: Some(first), crashes: 0, stop: None };
        while let Some(ToRun { index, case, prepared, started }) = queue.recv().await {
            if self.is_skipped(&case, &serving, progress) {
                self.release(prepared.ok()).await;
                continue;
            }
            let _ = self.events.send(CheckEvent::CaseStarted { index, label: case.label() });
            let mut trials = Vec::new();
            let (prepared, ended) = match prepared {
                Err(ended) => (None, ended),
                Ok(prepared) => {
                    let candidate = serving.candidate.as_ref();
                    let running = self.run_whole_case(candidate, &case, &prepared, &mut trials);
                    let ended = self.with_progress(index, &prepared.request.case, running).await;
                    if let Ended::Ran { ran, .. } = &ended {
                        ahead.has_run(index, ran);
                    }
                    (Some(prepared), ended)
                }
            };
            let ended = self.after(&mut serving, &case, prepared.as_ref(), (ended, &trials)).await;
            if to_compare.send(ToCompare { index, case, prepared, ended, trials, started }).await.is_err() {
                break;
            }
            self.reopen(&mut serving, progress).await;
        }
        if let Some(candidate) = serving.candidate {
            self.close(&candidate).await;
        }
    }

    fn is_skipped(&self, case: &Case, serving: &Serving, progress: &Mutex<Progress>) -> bool {
        if let Some(stop) = &serving.stop {
            let what = format!("{} {}", case.stage, case.label());
            lock(progress).not_run.push(NotRun::new(what, &*stop.why));
            return true;
        }
        self.is_cancelled(case, progress) || left_out(case, progress)
    }

    /// What the way a case ended means for the process; a fault of a GPU is given its line.
    async fn after(
        &self,
        serving: &mut Serving,
        case: &Case,
        prepared: Option<&Prepared>,
        (ended, trials): (Ended, &[TrialOutcome]),
    ) -> Ended {
        let last_trial = trials.last().map(|outcome| &outcome.ended);
        let is_gone = |ended: &Ended| matches!(ended, Ended::Died(_)) || device_faults::ends_process(ended);
        if last_trial.is_some_and(is_gone) {
            serving.candidate = None;
        }
        if !is_gone(&ended) {
            return ended;
        }
        serving.candidate = None;
        serving.crashes += 1;
        let reason = if let Ended::Died(died) = &ended { died.reason } else { DeathReason::Exit };
        serving.stop = stop_after(reason, case.coverage, serving.crashes);
        match (ended, prepared) {
            (Ended::Raised(raised), Some(prepared)) => {
                Ended::Raised(self.located(case, prepared, raised).await)
            }
            (ended, _) => ended,
        }
    }

    async fn reopen(&self, serving: &mut Serving, progress: &Mutex<Progress>) {
        if serving.candidate.is_some() || serving.stop.is_some() || self.cancel.is_cancelled() {
            return;
        }
        match self.open().await {
            Ok(again) => serving.candidate = Some(again),
            Err(failed) => {
                lock(progress).findings.extend(failed.finding.clone());
                serving.stop = Some(failed);
            }
        }
    }
}

/// Whether the way a candidate ended means that the rest of the check is left out.
fn stop_after(reason: DeathReason, coverage: Coverage, crashes: u32) -> Option<Stop> {
    let why = match reason {
        // On a large shape it is too much work rather than an endless loop: the small ones have ended.
        DeathReason::Timeout if coverage != Coverage::Full => return None,
        DeathReason::Timeout => "an earlier case did not end",
        // Tensors larger than memory were copied, which says nothing of the cases that fit.
        DeathReason::Memory if coverage == Coverage::Offsets => return None,
        DeathReason::Memory => "an earlier case ran out of memory",
        DeathReason::Killed => "the check was cancelled",
        _ if crashes >= CRASH_LIMIT => "too many earlier cases crashed",
        _ => return None,
    };
    Some(Stop { finding: None, why: why.to_owned() })
}
