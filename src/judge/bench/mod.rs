//! Timing: after every case passed, the function is timed against a baseline on the GPU.
//!
//! The order is part of the design. The size is judged first like any other case, in the fresh process that is timed
//! afterwards; nothing is timed that is not right. Compiling and tuning happen before the first sample. While the
//! lease is held nothing else of ours runs on the card. The outputs of one timed call, drawn by a seed that the process
//! does not know, are compared like those of a run: a function that computes something else when it is timed is wrong.

mod baseline;
mod cases;
mod gpu;

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use self::baseline::Baseline;
pub use self::baseline::BaselineChoice;
use self::cases::{BenchCase, bench_cases, is_judged};
pub(super) use self::gpu::BenchGpu;
use super::assess::{self, Ended};
use super::check::{CheckEvent, CheckOptions};
use super::device_faults;
use super::inputs::Prepared;
use super::load::Candidate;
use super::philox::Draws;
use super::run::{CheckRun, Manner, read};
use super::sources::Sources;
use super::stages::Reach;
use super::timing::{
    self, Limits, MatrixPeak, Measured, NoTiming, NoTimingCode, Subject, Timing, Versions, Work,
};
use super::unstated;
use super::{CaseRecord, Provenance, Verdict};
use crate::runner::Worker;
use crate::runner::protocol::{Launch, Outcome, Raised, Ran, Request, Time, Timed, TimedSides};
use crate::spec::{Definition, Dtype, Precision};
use crate::toolchain::AtHead;

/// Paired samples of one timing; on a save the answer is wanted soon, and 16 give an interval too.
const PAIRS: u32 = 30;
const PAIRS_OF_A_SAVE: u32 = 16;
/// Wall clock of one timing, in seconds: warming up compiles and tunes both sides.
const TIME_WALL_S: f64 = 120.0;

/// How much is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimingChoice {
    #[default]
    None,
    /// The first size: on a save.
    First,
    /// A few sizes of every Definition.
    Some,
}

/// What timing needs besides the check it belongs to.
pub(super) struct Bench<'a> {
    pub(super) gpu: &'a BenchGpu,
    pub(super) sources: Sources<'a>,
    pub(super) options: &'a CheckOptions,
    /// The judged file.
    pub(super) path: &'a Path,
    pub(super) provenance: &'a Provenance,
    /// Of the judged text, see [`crate::source::code_hash`].
    pub(super) code_hash: String,
    /// The version that git has, if it was asked.
    pub(super) head: Option<AtHead>,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Benched {
    /// Cases that were judged for it and had not been before, or that are wrong.
    pub(super) records: Vec<CaseRecord>,
    pub(super) timings: Vec<Timing>,
    pub(super) not_timed: Vec<NoTiming>,
}

impl<W: Worker> CheckRun<'_, W> {
    /// Times what was judged and passed.
    pub(super) async fn bench(
        &self,
        bench: &Bench<'_>,
        definitions: &[&Definition],
        judged: &[CaseRecord],
    ) -> Benched {
        let mut benched = Benched::default();
        for case in bench_cases(definitions, bench.options, Reach::of(self.means)) {
            if self.cancel.is_cancelled() {
                break;
            }
            let label = format!("timing {}", case.case.label());
            let _ = self.events.send(CheckEvent::Preparing(label));
            match self.bench_case(bench, &case).await {
                Ok((record, timed)) => {
                    let is_wrong = record.verdict != Verdict::Passed;
                    if is_wrong || !is_judged(&record.case, judged) {
                        benched.records.push(record);
                    }
                    match timed {
                        Ok(timing) => benched.timings.push(timing),
                        Err(missing) => benched.not_timed.push(missing),
                    }
                    if is_wrong {
                        // Of a function that is wrong no time is kept, also not of the sizes before.
                        benched.timings.clear();
                        break;
                    }
                }
                Err(missing) => benched.not_timed.push(missing),
            }
        }
        benched
    }

    /// The record of the case, and its time if that is published. An error when the case could not be judged at all,
    /// which is no case that ran.
    async fn bench_case(
        &self,
        bench: &Bench<'_>,
        of: &BenchCase<'_>,
    ) -> Result<(CaseRecord, Result<Timing, NoTiming>), NoTiming> {
        let began = Instant::now();
        let subject = Subject::new(&self.oracle.entry, of.definition, &of.case.axes, of.case.dtype);
        let missing = |code, why: String| NoTiming::new(Some(subject.clone()), code, why);
        let (opened, prepared) = tokio::join!(biased; self.open_for_timing(), self.prepare(&of.case));
        let candidate = match opened {
            Ok(candidate) => candidate,
            Err(stop) => {
                self.release(prepared.ok()).await;
                return Err(missing(NoTimingCode::Failed, stop.reason()));
            }
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(ended) => {
                self.close(&candidate).await;
                return Err(missing(NoTimingCode::Failed, words_of(ended)));
            }
        };
        let mut record = self.judge_once(of, &prepared, &candidate).await;
        let timed = if record.verdict == Verdict::Passed {
            self.time_case(bench, of, &prepared, &candidate, &mut record, &subject).await
        } else if record.verdict == Verdict::CouldNotRun {
            let why = record.findings.first().map(|finding| finding.message.clone());
            self.close(&candidate).await;
            self.release(Some(prepared)).await;
            return Err(missing(NoTimingCode::Failed, why.unwrap_or_default()));
        } else {
            let why = "its size is judged first, and that did not pass";
            Err(missing(NoTimingCode::NotPassed, why.to_owned()))
        };
        self.close(&candidate).await;
        self.release(Some(prepared)).await;
        record.elapsed_ms = began.elapsed().as_secs_f64() * 1e3;
        Ok((record, timed))
    }

    /// One call like any other case's.
    async fn judge_once(&self, of: &BenchCase<'_>, prepared: &Prepared, candidate: &Candidate) -> CaseRecord {
        let ended = match self.run_case(candidate, &of.case, prepared, Manner::default()).await {
            Ended::Ran { ran, compared: None } => self.compare(&of.case, prepared, ran).await,
            ended => ended,
        };
        self.record_of(of, prepared, ended).await
    }

    async fn record_of(&self, of: &BenchCase<'_>, prepared: &Prepared, ended: Ended) -> CaseRecord {
        let circumstances = self.circumstances(&of.case, &prepared.request.outputs);
        let record = unstated::eased(assess::assess(circumstances, ended), self.oracle);
        self.seen_from_head(record, Some(prepared)).await
    }

    async fn time_case(
        &self,
        bench: &Bench<'_>,
        of: &BenchCase<'_>,
        prepared: &Prepared,
        candidate: &Candidate,
        record: &mut CaseRecord,
        subject: &Subject,
    ) -> Result<Timing, NoTiming> {
        let missing = |code, why: String| NoTiming::new(Some(subject.clone()), code, why);
        let (baseline, no_baseline) = match self.baseline(bench, of, prepared).await {
            Ok(baseline) => (Some(baseline), None),
            Err(none) => (None, Some(none)),
        };
        // Other values than those of the judged call: a result that was kept is wrong for them.
        let other = Draws::new(self.seed, &format!("values of the timing of {}", of.case.label())).next_u64();
        let measured = match self.redraw(prepared, other).await {
            Ok(()) => self.measure(bench, of, prepared, (candidate, baseline.as_ref())).await,
            Err(ended) => Err(NotTaken::from((NoTimingCode::Failed, words_of(ended)))),
        };
        if let Some(own) = baseline.as_ref().filter(|baseline| baseline.is_own) {
            self.close_runner(&own.side.runner).await;
        }
        let mut taken = match measured {
            Ok(taken) => taken,
            Err(NotTaken { code, why, fault }) => {
                if let Some(raised) = fault {
                    // The inputs were right ones, so the fault is the kernel's however often it ran well before.
                    *record = self.record_of(of, prepared, Ended::Raised(*raised)).await;
                }
                return Err(missing(code, why));
            }
        };
        let ran = match outputs_of(&taken.sides, &record.launches) {
            Ok(ran) => ran,
            Err(why) => return Err(missing(NoTimingCode::Failed, why)),
        };
        let shares_reference = baseline.as_ref().is_some_and(|baseline| !baseline.is_own);
        if shares_reference && taken.sides.baseline_failed.is_some() {
            // Its process may have ended; what says what is right is needed once more.
            self.close_reference().await;
        }
        let kept = self.compare(&of.case, prepared, ran).await;
        let kept = self.record_of(of, prepared, kept).await;
        if kept.verdict == Verdict::CouldNotRun {
            let why = kept.findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
            let why = format!("whether the outputs of a timed call are right cannot be said: {why}");
            return Err(missing(NoTimingCode::Failed, why));
        }
        let timed_call_wrong = (kept.verdict != Verdict::Passed)
            .then(|| kept.findings.first().map(|finding| finding.message.clone()).unwrap_or_default());
        if kept.verdict == Verdict::Wrong {
            *record = kept;
        }
        if let Some(none) = no_baseline {
            taken.sides.baseline_failed = Some(format!("{}: {}", none.name, none.why));
        }
        let work = Work {
            bytes: of.definition.bytes(&of.case.axes, of.case.dtype).ok().flatten(),
            flops: of.definition.flops(&of.case.axes, of.case.dtype).ok().flatten(),
        };
        timing::assess(Measured {
            subject: subject.clone(),
            baseline: baseline.map(|baseline| baseline.name),
            is_passed: record.verdict == Verdict::Passed,
            timed_call_wrong,
            limits: taken.limits,
            work,
            gpu: timing::Gpu { name: bench.gpu.name().to_owned(), uuid: bench.gpu.uuid().to_owned() },
            versions: Versions {
                driver: self.means.gpu().map(|gpu| gpu.driver.clone()).filter(|driver| !driver.is_empty()),
                cuda: self.means.gpu().map(|gpu| gpu.torch_cuda.clone()).filter(|cuda| !cuda.is_empty()),
                torch: bench.provenance.torch.clone(),
                triton: bench.provenance.triton.clone(),
            },
            disturbed_by: taken.disturbed_by,
            conditions: taken.conditions,
            taken_at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            code_hash: bench.code_hash.clone(),
            source_hash: bench.provenance.source_hash.clone(),
            commit: None,
            seed: Draws::new(self.seed, "resamples").next_u64(),
            sides: taken.sides,
        })
    }

    /// Takes the samples while the card is leased, and the limits of the same bytes with them.
    async fn measure(
        &self,
        bench: &Bench<'_>,
        of: &BenchCase<'_>,
        prepared: &Prepared,
        (candidate, baseline): (&Candidate, Option<&Baseline>),
    ) -> Result<Taken, NotTaken> {
        let failed = |why: String| Err(NotTaken::from((NoTimingCode::Failed, why)));
        let arguments = match &prepared.drawn {
            Some(drawn) => drawn.candidate.clone(),
            None => match self.variant(&of.case) {
                Some(variant) => variant
                    .arguments(&candidate.parameters)
                    .into_iter()
                    .chain(self.oracle.destination_arguments())
                    .collect(),
                None => return failed("nobody knows how it is called".to_owned()),
            },
        };
        let lease = bench.gpu.lease(self.events, self.cancel).await?;
        // Once for each GPU and driver; afterwards the answer is in a file.
        let peaks = bench.gpu.ceilings(self.worker, self.events).await;
        let before = bench.gpu.look();
        let request = Request::Time(Time {
            case: prepared.request.case.clone(),
            candidate: Timed { runner: candidate.runner.clone(), arguments },
            baseline: baseline.map(|baseline| baseline.side.clone()),
            pairs: if bench.options.timing == TimingChoice::First { PAIRS_OF_A_SAVE } else { PAIRS },
            seed: Draws::new(self.seed, &format!("timing of {}", of.case.label())).next_u64(),
            wall_s: TIME_WALL_S,
        });
        // Either may be at work when the check is cancelled, and the GPU is free once both are gone.
        let timed = self.cancellable(&candidate.runner, self.worker.request(request));
        let answer = match baseline {
            Some(baseline) => self.cancellable(&baseline.side.runner, timed).await,
            None => timed.await,
        };
        if self.cancel.is_cancelled() {
            return failed("the check was cancelled".to_owned());
        }
        let after = bench.gpu.look();
        let bytes = of.definition.bytes(&of.case.axes, of.case.dtype).ok().flatten();
        let same_bytes = bench.gpu.same_bytes(self.worker, bytes).await;
        drop(lease);
        let sides = match answer {
            Ok(Outcome::Done(value)) => {
                read::<TimedSides>(value).map_err(|message| (NoTimingCode::Failed, message))?
            }
            Ok(Outcome::Raised(mut raised)) => {
                let why = format!("raised {}: {} while it was timed", raised.exception, raised.message);
                // Other exceptions may be for what timing does, such as recording a graph.
                if !device_faults::is_of_kernel(&raised) {
                    return failed(why);
                }
                raised.message = format!("while it was timed: {}", raised.message);
                return Err(NotTaken {
                    code: NoTimingCode::TimedCallWrong,
                    why,
                    fault: Some(Box::new(raised)),
                });
            }
            Ok(Outcome::Died(died)) => {
                let ended = super::ends::died_finding(&died, TIME_WALL_S, true);
                return failed(ended.message);
            }
            Ok(Outcome::Failed { message, .. }) => return failed(message),
            Err(error) => return failed(error.to_string()),
        };
        let (disturbed_by, conditions) = bench.gpu.conditions(before, after);
        let matrix = peaks.as_ref().and_then(|peaks| {
            let kind = matrix_kind(of.case.dtype, of.definition.extras.precision)?;
            let rate = peaks.measured.matrix.iter().find(|rate| rate.kind == kind)?;
            Some(MatrixPeak { kind: kind.to_owned(), flops_per_s: rate.flops_per_s })
        });
        let limits = Limits { copy_us: same_bytes.copy_us, read_us: same_bytes.read_us, matrix };
        Ok(Taken { sides, limits, disturbed_by, conditions })
    }
}

/// What one timing gave.
struct Taken {
    sides: TimedSides,
    limits: Limits,
    disturbed_by: Option<String>,
    conditions: Vec<String>,
}

/// Why there is none.
struct NotTaken {
    code: NoTimingCode,
    why: String,
    /// What only a kernel can do wrong.
    fault: Option<Box<Raised>>,
}

impl From<(NoTimingCode, String)> for NotTaken {
    fn from((code, why): (NoTimingCode, String)) -> Self {
        Self { code, why, fault: None }
    }
}

/// The kept call, as a run that is compared. It launched what the judged call launched.
fn outputs_of(sides: &TimedSides, launches: &[Launch]) -> Result<Ran, String> {
    let outputs = serde_json::from_value(sides.outputs.clone())
        .map_err(|error| format!("what the timed call returned cannot be read: {error}"))?;
    Ok(Ran {
        outputs,
        launches: launches.to_vec(),
        findings: Vec::new(),
        unsupported: None,
        autotuned: Vec::new(),
        library: Vec::new(),
        run_ms: 0.0,
    })
}

/// The name of the rate that products of this dtype are bound by.
fn matrix_kind(dtype: Dtype, precision: Precision) -> Option<&'static str> {
    match (dtype, precision) {
        (Dtype::Float16, _) => Some("float16"),
        (Dtype::Bfloat16, _) => Some("bfloat16"),
        (Dtype::Float32, Precision::Tf32) => Some("tf32"),
        (Dtype::Float32, Precision::Ieee) => Some("float32"),
        _ => None,
    }
}

fn words_of(ended: Ended) -> String {
    match ended {
        Ended::Failed { message, .. } => message,
        Ended::NoTruth(finding) => finding.message,
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests;
