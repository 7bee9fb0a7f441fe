//! One check against one worker: prepare, run and compare every case of a plan.
//!
//! The three steps form a pipeline: while the candidate runs one case, the judge runner compares the
//! one before and makes the inputs of the one after. On two cores that halves the wait.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::de::DeserializeOwned;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ahead::{self, Ahead};
use super::assess::{self, Circumstances, Ended};
use super::check::CheckEvent;
use super::comparison::{bounds_only, depends_on_more, note_full_run, without_truth};
use super::foreign::ForeignRun;
use super::head::{unsuitable, why_unsuitable};
use super::inputs::{self, Prepared};
use super::load::Candidate;
use super::means::Means;
use super::module::{ModuleRun, cannot_follow};
use super::philox::Draws;
use super::stages::{Plan, Reach};
use super::trials::{Trial, TrialOutcome};
use super::unstated;
use super::{Case, CaseRecord, Coverage, Finding, NotRun, Stage, Verdict};
use crate::oracle::{Oracle, Variant};
use crate::runner::Worker;
use crate::runner::protocol::{
    Argument, Autotune, CaseMade, Event, InterpreterOptions, Outcome, OutputSpec, ProgramOrder, Ran, Request,
    Run,
};
use crate::spec::Dtype;

/// Wall clock of one step of our own: making the inputs of a case, or running its references and comparing.
pub(super) const JUDGE_WALL_S: f64 = 120.0;
/// Programs of each launch that a sampled case runs.
const SAMPLED_PROGRAMS: u32 = 24;
/// Programs of each launch that an offsets case runs: the corners of the grid and a few.
const OFFSETS_PROGRAMS: u32 = 10;
/// Crashes after which the rest of a check is left out.
pub(super) const CRASH_LIMIT: u32 = 3;
/// Cases that wait between two steps of the pipeline.
const AHEAD: usize = 1;

/// Unique names of runners and cases, for all checks of this process.
static NEXT_NAME: AtomicU64 = AtomicU64::new(1);

pub(super) fn fresh_name(prefix: &str) -> String {
    format!("{prefix}{}", NEXT_NAME.fetch_add(1, Ordering::Relaxed))
}

/// The source to judge, as the worker needs it.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text_path: String,
    pub(super) text: Arc<str>,
    pub(super) search_paths: Vec<String>,
    pub(super) resident_bytes: u64,
    /// Its text multiplies matrices in a kernel, as far as words show it.
    pub(super) has_dot: bool,
}

/// One check that is being run.
pub(super) struct CheckRun<'a, W> {
    pub(super) worker: &'a W,
    pub(super) oracle: &'a Oracle,
    pub(super) source: &'a Source,
    /// A reference that is not ours.
    pub(super) foreign: Option<&'a ForeignRun>,
    /// Or one for each size of a problem that draws its inputs.
    pub(super) modules: &'a [ModuleRun],
    pub(super) means: &'a Means,
    /// Whether values are compared; beside a GPU its own were.
    pub(super) compares: bool,
    pub(super) seed: u64,
    /// When the check began.
    pub(super) began: Instant,
    pub(super) events: &'a mpsc::UnboundedSender<CheckEvent>,
    pub(super) cancel: &'a CancellationToken,
}

/// What the cases of a check came to.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) cases: Vec<CaseRecord>,
    pub(super) findings: Vec<Finding>,
    pub(super) not_run: Vec<NotRun>,
    /// Milliseconds since the check began.
    pub(super) first_verdict_ms: Option<f64>,
}

/// What the steps of the pipeline tell each other, besides the cases.
#[derive(Default)]
pub(super) struct Progress {
    /// Dtypes whose smoke case did not pass: their sweep would only repeat it.
    pub(super) failed_dtypes: BTreeSet<(String, Dtype)>,
    pub(super) not_run: Vec<NotRun>,
    pub(super) findings: Vec<Finding>,
    pub(super) first_verdict_ms: Option<f64>,
    /// Why the first of the cases that HEAD does not run well on is left out.
    pub(super) unsuitable: Option<Finding>,
}

pub(super) struct ToRun {
    pub(super) index: usize,
    pub(super) case: Case,
    pub(super) prepared: Result<Prepared, Ended>,
    pub(super) started: Instant,
}

pub(super) struct ToCompare {
    pub(super) index: usize,
    pub(super) case: Case,
    pub(super) prepared: Option<Prepared>,
    pub(super) ended: Ended,
    pub(super) trials: Vec<TrialOutcome>,
    pub(super) started: Instant,
}

/// How a case is run; the default is what every stage but determinism does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    pub(super) program_order: ProgramOrder,
    pub(super) autotune: Autotune,
    pub(super) other_poison: bool,
    pub(super) idle_kernels: bool,
    pub(super) hold: bool,
    /// Wall clock, in seconds; `None` allows what every case is allowed.
    pub(super) wall_s: Option<f64>,
}

impl<W: Worker> CheckRun<'_, W> {
    pub(super) fn variant(&self, case: &Case) -> Option<&Variant> {
        self.oracle.variants.iter().find(|variant| variant.definition.name == case.definition)
    }

    /// Runs the plan to its end, to a cancellation, or until the worker fails.
    pub(super) async fn run(&self, candidate: Candidate, plan: Plan) -> Outcomes {
        let mut outcomes = Outcomes { not_run: plan.not_run, ..Outcomes::default() };
        let progress = Mutex::new(Progress::default());
        let (to_run, run_queue) = mpsc::channel(AHEAD);
        let (to_compare, compare_queue) = mpsc::channel(AHEAD);
        let others = Ahead::new(&plan.cases, ahead::lanes(self.means.device_bytes()));
        let parameters = candidate.parameters.clone();
        let judged = async {
            let judged = tokio::join!(
                self.prepare_all(plan.cases, &progress, to_run),
                self.run_all(candidate, (&progress, &others), run_queue, to_compare),
                self.compare_all(&progress, compare_queue),
            );
            others.end();
            judged
        };
        let ((_, _, cases), ()) = tokio::join!(judged, self.compile_ahead(&others, &parameters));
        let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcomes.cases = cases;
        outcomes.first_verdict_ms = progress.first_verdict_ms;
        outcomes.findings.extend(progress.findings);
        if outcomes.cases.is_empty() {
            outcomes.findings.extend(progress.unsuitable);
        }
        outcomes.not_run.extend(summed(progress.not_run));
        self.close_reference().await;
        outcomes
    }

    fn elapsed_ms(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1e3
    }

    /// First step: inputs.
    async fn prepare_all(&self, cases: Vec<Case>, progress: &Mutex<Progress>, to_run: mpsc::Sender<ToRun>) {
        for (index, case) in cases.into_iter().enumerate() {
            if self.is_cancelled(&case, progress) || left_out(&case, progress) {
                continue;
            }
            let started = Instant::now();
            let prepared = self.prepare(&case).await;
            if to_run.send(ToRun { index, case, prepared, started }).await.is_err() {
                return;
            }
        }
    }

    pub(super) async fn prepare(&self, case: &Case) -> Result<Prepared, Ended> {
        if !self.modules.is_empty() {
            return self.prepare_drawn(case).await;
        }
        let Some(Variant { definition, .. }) = self.variant(case) else {
            return Err(judge_ended(format!("nobody knows the Definition `{}`", case.definition)));
        };
        let mut prepared =
            inputs::prepare(definition, case, fresh_name("k"), self.seed, self.foreign.is_none())
                .map_err(|error| judge_ended(error.to_string()))?;
        if definition.outputs.is_empty() && self.foreign.is_some() {
            prepared.request.outputs =
                self.ask_reference_for_outputs(&prepared).await.map_err(Ended::NoTruth)?;
        }
        match self.worker.request(Request::Prepare(prepared.request.clone())).await {
            Ok(Outcome::Done(value)) => {
                if prepared.request.infer_outputs {
                    prepared.request.outputs = read::<CaseMade>(value).map_err(judge_ended)?.outputs;
                }
                Ok(prepared)
            }
            Ok(Outcome::Failed { code, message }) => Err(Ended::Failed { code, message }),
            Ok(other) => Err(judge_ended(format!("{other:?}"))),
            Err(error) => Err(judge_ended(error.to_string())),
        }
    }

    /// Whether the check was cancelled; the case is then noted as not run.
    pub(super) fn is_cancelled(&self, case: &Case, progress: &Mutex<Progress>) -> bool {
        let cancelled = self.cancel.is_cancelled();
        if cancelled {
            let what = format!("{} {}", case.stage, case.dtype.short());
            lock(progress).not_run.push(NotRun::new(what, "the check was cancelled"));
        }
        cancelled
    }

    pub(super) async fn run_case(
        &self,
        candidate: &Candidate,
        case: &Case,
        prepared: &Prepared,
        manner: Manner,
    ) -> Ended {
        let Candidate { runner, parameters } = candidate;
        let Some(variant) = self.variant(case) else {
            return judge_ended(format!("nobody knows the Definition `{}`", case.definition));
        };
        let request = Request::Run(Run {
            runner: runner.clone(),
            case: prepared.request.case.clone(),
            arguments: match &prepared.drawn {
                Some(drawn) => drawn.candidate.clone(),
                None => self.arguments(variant, parameters),
            },
            wall_s: manner.wall_s.unwrap_or_else(|| self.means.case_wall_s()),
            interpreter: InterpreterOptions {
                max_programs: match case.coverage {
                    Coverage::Full => None,
                    Coverage::Sampled => Some(SAMPLED_PROGRAMS),
                    Coverage::Offsets => Some(OFFSETS_PROGRAMS),
                },
                compare_values: case.coverage != Coverage::Offsets,
                sampling_seed: Draws::new(
                    self.seed,
                    &format!("programs of {} {} {}", case.stage, case.definition, case.label()),
                )
                .next_u64(),
                program_order: manner.program_order,
                autotune: manner.autotune,
                other_poison: manner.other_poison,
                idle_kernels: manner.idle_kernels,
            },
            hold: manner.hold,
            widened: false,
        });
        match self.cancellable(runner, self.worker.request(request)).await {
            Ok(Outcome::Done(value)) => match read::<Ran>(value) {
                Ok(ran) => Ended::Ran { ran, compared: None },
                Err(message) => judge_ended(message),
            },
            Ok(Outcome::Raised(raised)) => Ended::Raised(raised),
            Ok(Outcome::Died(died)) => Ended::Died(died),
            Ok(Outcome::Failed { code, message }) => Ended::Failed { code, message },
            Err(error) => judge_ended(error.to_string()),
        }
    }

    /// What the entry is called with.
    pub(super) fn arguments(&self, variant: &Variant, parameters: &[String]) -> Vec<Argument> {
        let inputs = variant.arguments(parameters).into_iter();
        inputs.chain(self.oracle.destination_arguments()).collect()
    }

    /// A case and, in the stage of determinism, everything that is tried with it afterwards.
    pub(super) async fn run_whole_case(
        &self,
        candidate: Option<&Candidate>,
        case: &Case,
        prepared: &Prepared,
        trials: &mut Vec<TrialOutcome>,
    ) -> Ended {
        let Some(candidate) = candidate else {
            return judge_ended("no candidate is loaded".to_owned());
        };
        if case.stage == Stage::Determinism {
            self.run_with_trials(candidate, case, prepared, trials).await
        } else {
            self.run_case(candidate, case, prepared, Manner::default()).await
        }
    }

    /// Passes the worker's progress events of one case on while `run` is waited for.
    pub(super) async fn with_progress<T>(&self, index: usize, case: &str, run: impl Future<Output = T>) -> T {
        let mut worker_events = self.worker.events();
        tokio::pin!(run);
        loop {
            tokio::select! {
                outcome = &mut run => return outcome,
                event = worker_events.recv() => match event {
                    Ok(Event::Progress { case: of, programs_done, programs }) if of == case => {
                        let _ = self.events.send(CheckEvent::CaseProgress { index, programs_done, programs });
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return run.await,
                },
            }
        }
    }

    /// Third step: comparison and verdict.
    async fn compare_all(
        &self,
        progress: &Mutex<Progress>,
        mut queue: mpsc::Receiver<ToCompare>,
    ) -> Vec<CaseRecord> {
        let mut records = Vec::new();
        while let Some(ToCompare { index, mut case, prepared, ended, trials, started }) = queue.recv().await {
            // It ran before its smoke case was judged. How many do is chance, and a record is not.
            if left_out(&case, progress) {
                self.release(prepared).await;
                continue;
            }
            let ended = match (&prepared, ended) {
                (Some(prepared), Ended::Ran { ran, compared: None }) => {
                    note_full_run(&mut case, &ran);
                    if depends_on_more(&case, &ran, prepared.request.outputs.len()) {
                        lock(progress).not_run.push(bounds_only(&mut case));
                    }
                    self.compare(&case, prepared, ran).await
                }
                (_, ended) => ended,
            };
            for TrialOutcome { trial, .. } in &trials {
                if let Trial::LeftOut { what, why } = trial {
                    lock(progress).not_run.push(NotRun::new(format!("{} {what}", case.stage), *why));
                }
            }
            let outputs = prepared.as_ref().map_or(&[][..], |prepared| &prepared.request.outputs);
            let circumstances = Circumstances {
                elapsed_ms: started.elapsed().as_secs_f64() * 1e3,
                trials: &trials,
                ..self.circumstances(&case, outputs)
            };
            let record = unstated::eased(assess::assess(circumstances, ended), self.oracle);
            let record = self.seen_from_head(record, prepared.as_ref()).await;
            let unsuitable = unsuitable(&record);
            let shown_nothing =
                assess::beyond_a_sample(&record, self.is_large(&case)).or_else(|| without_truth(&record));
            let shown_nothing = shown_nothing.map(str::to_owned).or_else(|| cannot_follow(&record));
            if let Some(why) = shown_nothing.or(unsuitable.map(|found| why_unsuitable(found).to_owned())) {
                leave_out(progress, &case, &why, unsuitable);
                self.release(prepared).await;
                continue;
            }
            lock(progress).first_verdict_ms.get_or_insert_with(|| self.elapsed_ms());
            if case.stage == Stage::Smoke && record.verdict != Verdict::Passed {
                lock(progress).failed_dtypes.insert((case.definition.clone(), case.dtype));
            }
            let _ = self.events.send(CheckEvent::CaseFinished { index, record: Arc::new(record.clone()) });
            records.push(record);
            self.release(prepared).await;
        }
        records
    }

    /// What is known of a case of this check, before it took any time and without trials.
    pub(super) fn circumstances<'c>(
        &'c self,
        case: &'c Case,
        outputs: &'c [OutputSpec],
    ) -> Circumstances<'c> {
        Circumstances {
            case,
            outputs,
            seed: self.seed,
            elapsed_ms: 0.0,
            wall_s: self.means.case_wall_s(),
            on_gpu: self.means.gpu().is_some(),
            may_use_tf32: self.source.has_dot,
            op_type: self.variant(case).map_or("", |variant| variant.definition.op_type.as_str()),
            trials: &[],
            must_be_deterministic: self
                .variant(case)
                .is_some_and(|variant| variant.definition.extras.deterministic),
        }
    }

    /// Whether a case takes so much of a GPU that there may be no room for it.
    fn is_large(&self, case: &Case) -> bool {
        let reach = Reach::of(self.means);
        self.means.gpu().is_some()
            && self.variant(case).is_some_and(|variant| !reach.is_small(&variant.definition, &case.axes))
    }

    pub(super) async fn release(&self, prepared: Option<Prepared>) {
        if let Some(prepared) = prepared {
            let _ = self.worker.request(Request::Release { case: prepared.request.case }).await;
        }
    }
}

/// A case that has shown nothing; `unsuitable` when that is for its inputs.
fn leave_out(progress: &Mutex<Progress>, case: &Case, why: &str, unsuitable: Option<&Finding>) {
    let what = if unsuitable.is_some() { case.dtype.short().to_owned() } else { case.label() };
    let mut progress = lock(progress);
    progress.not_run.push(NotRun::new(format!("{} {what}", case.stage), why));
    progress.unsuitable = progress.unsuitable.take().or(unsuitable.cloned());
}

pub(super) fn left_out(case: &Case, progress: &Mutex<Progress>) -> bool {
    let mut progress = lock(progress);
    let left_out =
        case.stage != Stage::Smoke && progress.failed_dtypes.contains(&(case.definition.clone(), case.dtype));
    if left_out {
        let what = format!("{} {}", case.stage, case.dtype.short());
        progress.not_run.push(NotRun::new(what, "its smoke case did not pass"));
    }
    left_out
}

/// The same line once, with how often it stood there.
fn summed(not_run: Vec<NotRun>) -> Vec<NotRun> {
    let mut counted: Vec<(NotRun, usize)> = Vec::new();
    for line in not_run {
        match counted.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => counted.push((line, 1)),
        }
    }
    let describe = |(line, count): (NotRun, usize)| match count {
        1 => line,
        _ => NotRun::new(format!("{} ({count} cases)", line.what), line.why),
    };
    counted.into_iter().map(describe).collect()
}

pub(super) fn lock(progress: &Mutex<Progress>) -> std::sync::MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn read<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("the worker's answer cannot be read: {error}"))
}

pub(super) fn judge_ended(message: String) -> Ended {
    Ended::Failed { code: "judge".to_owned(), message }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
