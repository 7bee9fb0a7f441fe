//! The stage of determinism: a case that passed is called again and again, each time a little differently.
//!
//! The judge compares bits on its own copies; that a call differs from another is never a process's claim.

use super::assess::{self, Ended};
use super::inputs::Prepared;
use super::load::Candidate;
use super::means::Means;
use super::philox::Draws;
use super::run::{CheckRun, Manner, judge_ended, read};
use super::stages::{self, Reach};
use super::{Case, Verdict};
use crate::runner::Worker;
use crate::runner::protocol::{
    Autotune, CaseId, Outcome, OutputSpec, ProgramOrder, Ran, Recopy, Redraw, Repeated, Request,
};

/// Configurations of one kernel that are run; more would take longer than anyone waits.
const MOST_CONFIGURATIONS: usize = 48;

/// Longest time for a call with programs in reverse order, in seconds.
const LONGEST_REORDERED_S: f64 = 20.0;

/// Elements of the outputs below which right values with idle kernels may be chance.
const FEWEST_TELLING: u64 = 16;

/// One more call of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    /// The same again: first call against second.
    Again,
    /// Programs in reverse order, fresh memory with another pattern.
    Reordered,
    /// Fresh memory with another pattern, where nobody chooses the order of programs.
    OtherMemory,
    /// Other values at the same addresses, programs in random order.
    OtherValues,
    /// No call: what the first one returned is read once more.
    Held,
    /// The first values but for one element of each tensor.
    OneElement,
    /// The first values again.
    Back,
    /// In a fresh process, with kernels that store nothing: the result must be another one.
    Idle,
    /// In a fresh process, where an autotuned kernel runs all its configurations before the first call.
    Fresh,
    /// One configuration of an autotuned kernel alone.
    Configuration { kernel: String, index: u32, text: String },
    /// Nothing: these trials were left out, and why.
    LeftOut { what: String, why: &'static str },
}

/// How one went.
#[derive(Debug)]
pub(super) struct TrialOutcome {
    pub(super) trial: Trial,
    pub(super) ended: Ended,
    /// Bits against those of the first call.
    pub(super) repeated: Option<Repeated>,
}

impl Trial {
    /// How the call differed, to stand before what went wrong.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Again => "called again with the same inputs".to_owned(),
            Self::Reordered => {
                "with its programs in reverse order and other values in unset memory".to_owned()
            }
            Self::OtherMemory => "called again with other values in unset memory".to_owned(),
            Self::OtherValues => "called again with other values in the same tensors".to_owned(),
            Self::Held => "read once more after a later call".to_owned(),
            Self::Back => "called with the first values again, after others".to_owned(),
            Self::OneElement => "called with one element of each input changed".to_owned(),
            Self::Idle => "called with kernels that store nothing".to_owned(),
            Self::Fresh => "in a fresh process (autotuned kernels try every configuration first)".to_owned(),
            Self::Configuration { kernel, text, .. } if text.is_empty() => {
                format!("autotune configuration without constants of `{kernel}` alone")
            }
            Self::Configuration { kernel, text, .. } => {
                format!("autotune configuration {text} of `{kernel}` alone")
            }
            Self::LeftOut { what, .. } => what.clone(),
        }
    }

    fn manner(&self, first_run_ms: f64) -> Manner {
        let plain = Manner::default();
        match self {
            Self::Reordered => Manner {
                program_order: ProgramOrder::Reverse,
                other_poison: true,
                // Programs that wait for one another never end in reverse; that is no reason to wait long.
                wall_s: Some((2.0 + first_run_ms / 50.0).min(LONGEST_REORDERED_S)),
                ..plain
            },
            Self::OtherMemory => Manner { other_poison: true, ..plain },
            Self::OtherValues => Manner { program_order: ProgramOrder::Random, ..plain },
            Self::Idle => Manner {
                idle_kernels: true,
                // What waits for a kernel's result waits for ever, which is as it should be.
                wall_s: Some((2.0 + first_run_ms / 50.0).min(LONGEST_REORDERED_S)),
                ..plain
            },
            Self::Fresh => Manner { autotune: Autotune::Trial, ..plain },
            Self::Configuration { index, .. } => Manner { autotune: Autotune::Only(*index), ..plain },
            Self::Again | Self::Held | Self::Back | Self::OneElement | Self::LeftOut { .. } => plain,
        }
    }

    /// Whether right results may have other bits than the first call's.
    pub(super) fn may_differ(&self) -> bool {
        matches!(self, Self::OtherValues | Self::OneElement | Self::Configuration { .. })
    }
}

impl<W: Worker> CheckRun<'_, W> {
    /// The first call with its comparison, then the trials until one goes wrong.
    pub(super) async fn run_with_trials(
        &self,
        candidate: &Candidate,
        case: &Case,
        prepared: &Prepared,
        outcomes: &mut Vec<TrialOutcome>,
    ) -> Ended {
        let manner = Manner { hold: true, ..Manner::default() };
        let ended = match self.run_case(candidate, case, prepared, manner).await {
            Ended::Ran { ran, .. } => self.compare(case, prepared, ran).await,
            ended => return ended,
        };
        let Ended::Ran { ran, compared: Some(_) } = &ended else { return ended };
        if !self.passes(case, prepared, &ended) {
            return ended;
        }
        if let Err(ended) = self.repeat(&prepared.request.case).await {
            return ended;
        }
        let mut trials = self.trials(case, prepared, ran).into_iter();
        let mut some_configuration_fails = false;
        for trial in trials.by_ref() {
            if self.cancel.is_cancelled() {
                break;
            }
            if trial == Trial::Fresh && some_configuration_fails {
                continue;
            }
            let (ended, repeated) = self.attempt(candidate, case, prepared, &trial, ran.run_ms).await;
            let passes = self.passes(case, prepared, &ended);
            let is_configuration = matches!(trial, Trial::Configuration { .. });
            some_configuration_fails |= is_configuration && !passes;
            let goes_on = (passes || is_configuration) && !matches!(ended, Ended::Died(_));
            outcomes.push(TrialOutcome { trial, ended, repeated });
            if !goes_on {
                break;
            }
        }
        let configurations = trials.filter(|trial| matches!(trial, Trial::Configuration { .. })).count();
        if configurations > 0 {
            let what = format!("{configurations} autotune configurations");
            outcomes.push(left_out(what, "an earlier call went wrong"));
        }
        ended
    }

    /// What is tried after the first call; processes and configurations only on the smallest shape.
    fn trials(&self, case: &Case, prepared: &Prepared, ran: &Ran) -> Vec<Trial> {
        let is_smallest = self.variant(case).is_some_and(|variant| {
            stages::smallest_axes(&variant.definition, Reach::of(self.means)) == Some(case.axes.clone())
        });
        if !self.compares {
            // Beside a GPU, which tries all the others: of every configuration, and of another order of the programs, the
            // interpreter alone sees where it reads and writes.
            let configurations = if is_smallest { configurations(ran, self.means) } else { Vec::new() };
            return configurations.into_iter().chain([Trial::Reordered]).collect();
        }
        let mut trials = vec![Trial::Again, Trial::OtherValues];
        // What the caller passes to be written into is his own and does change.
        if self.oracle.destinations.is_empty() {
            trials.push(Trial::Held);
        }
        // What a process drew under a seed of its own cannot be drawn again but for one element.
        if prepared.drawn.is_none() {
            trials.push(Trial::OneElement);
        }
        trials.push(Trial::Back);
        if is_smallest {
            trials.extend(configurations(ran, self.means));
            // A broken configuration is told by name before it spoils this.
            trials.push(Trial::Fresh);
        }
        if outputs_tell(prepared) {
            trials.push(Trial::Idle);
        }
        // Last, because it may not end.
        trials.push(if self.means.gpu().is_some() { Trial::OtherMemory } else { Trial::Reordered });
        trials
    }

    async fn attempt(
        &self,
        candidate: &Candidate,
        case: &Case,
        prepared: &Prepared,
        trial: &Trial,
        first_run_ms: f64,
    ) -> (Ended, Option<Repeated>) {
        let seed = prepared.request.seed;
        let redrawn = match trial {
            Trial::OtherValues => self.redraw(prepared, Draws::new(seed, "other values").next_u64()).await,
            Trial::Back => self.redraw(prepared, seed).await,
            Trial::OneElement => {
                let changed = Draws::new(seed, "one element").next_u64();
                self.redraw_as(Redraw { changed: Some(changed), ..Redraw::new(prepared, seed) }).await
            }
            Trial::LeftOut { .. } => return (Ended::Read, None),
            _ => Ok(()),
        };
        if let Err(ended) = redrawn {
            return (ended, None);
        }
        let manner = trial.manner(first_run_ms);
        let ended = match trial {
            Trial::Held => return self.read_held(candidate, prepared).await,
            Trial::Idle => return (self.run_idle(case, prepared, manner).await, None),
            Trial::Fresh => match self.open().await {
                Ok(fresh) => {
                    let ended = self.run_case(&fresh, case, prepared, manner).await;
                    self.close(&fresh).await;
                    ended
                }
                Err(stop) => judge_ended(stop.reason()),
            },
            _ => self.run_case(candidate, case, prepared, manner).await,
        };
        let Ended::Ran { ran, .. } = ended else { return (ended, None) };
        match self.repeat(&prepared.request.case).await {
            Ok(repeated) => (self.compare(case, prepared, ran).await, Some(repeated)),
            Err(ended) => (ended, None),
        }
    }

    /// A call whose kernels store nothing: [`Ended::Ran`] only when its outputs are right all the same. In a process of
    /// its own, where nothing is left of the calls before; how else it ends says nothing.
    async fn run_idle(&self, case: &Case, prepared: &Prepared, manner: Manner) -> Ended {
        let Ok(fresh) = self.open().await else { return Ended::Read };
        let ended = self.run_case(&fresh, case, prepared, manner).await;
        self.close(&fresh).await;
        let Ended::Ran { ran, .. } = ended else { return Ended::Read };
        let ended = self.compare(case, prepared, ran).await;
        let is_right = matches!(ended, Ended::Ran { compared: Some(_), .. });
        if is_right && self.passes(case, prepared, &ended) { ended } else { Ended::Read }
    }

    /// What the first call returned, after a later one.
    async fn read_held(&self, candidate: &Candidate, prepared: &Prepared) -> (Ended, Option<Repeated>) {
        let request = Request::Recopy(Recopy {
            runner: candidate.runner.clone(),
            case: prepared.request.case.clone(),
            wall_s: self.means.case_wall_s(),
        });
        let ended = match self.cancellable(&candidate.runner, self.worker.request(request)).await {
            Ok(Outcome::Done(_)) => match self.repeat(&prepared.request.case).await {
                Ok(repeated) => return (Ended::Read, Some(repeated)),
                Err(ended) => ended,
            },
            Ok(Outcome::Raised(raised)) => Ended::Raised(raised),
            Ok(Outcome::Died(died)) => Ended::Died(died),
            Ok(Outcome::Failed { code, message }) => Ended::Failed { code, message },
            Err(error) => judge_ended(error.to_string()),
        };
        (ended, None)
    }

    pub(super) async fn redraw(&self, prepared: &Prepared, seed: u64) -> Result<(), Ended> {
        if prepared.drawn.is_some() {
            return self.redraw_drawn(prepared, seed).await;
        }
        self.redraw_as(Redraw::new(prepared, seed)).await
    }

    async fn redraw_as(&self, redraw: Redraw) -> Result<(), Ended> {
        match self.worker.request(Request::Redraw(redraw)).await {
            Ok(Outcome::Done(_)) => Ok(()),
            Ok(Outcome::Failed { code, message }) => Err(Ended::Failed { code, message }),
            Ok(other) => Err(judge_ended(format!("{other:?}"))),
            Err(error) => Err(judge_ended(error.to_string())),
        }
    }

    /// Bits against those of the first time.
    pub(super) async fn repeat(&self, case: &CaseId) -> Result<Repeated, Ended> {
        let request = Request::Repeat { case: case.clone() };
        match self.worker.request(request).await {
            Ok(Outcome::Done(value)) => read::<Repeated>(value).map_err(judge_ended),
            Ok(Outcome::Failed { code, message }) => Err(Ended::Failed { code, message }),
            Ok(other) => Err(judge_ended(format!("{other:?}"))),
            Err(error) => Err(judge_ended(error.to_string())),
        }
    }

    fn passes(&self, case: &Case, prepared: &Prepared, ended: &Ended) -> bool {
        let circumstances = self.circumstances(case, &prepared.request.outputs);
        matches!(ended, Ended::Read)
            || assess::assess(circumstances, ended.clone()).verdict == Verdict::Passed
    }
}

/// Whether the outputs have so many elements that they are not right by chance.
fn outputs_tell(prepared: &Prepared) -> bool {
    let elements = |output: &OutputSpec| output.shape.iter().product::<u64>();
    prepared.request.outputs.iter().map(elements).sum::<u64>() >= FEWEST_TELLING
}

impl Redraw {
    fn new(prepared: &Prepared, seed: u64) -> Self {
        Self { case: prepared.request.case.clone(), seed, changed: None }
    }
}

fn left_out(what: String, why: &'static str) -> TrialOutcome {
    TrialOutcome { trial: Trial::LeftOut { what, why }, ended: Ended::Read, repeated: None }
}

/// Each configuration of each autotuned kernel alone.
fn configurations(ran: &Ran, means: &Means) -> Vec<Trial> {
    let mut trials = Vec::new();
    for tuned in &ran.autotuned {
        let mut seen: Vec<&str> = Vec::new();
        for (index, text) in (0_u32..).zip(&tuned.configurations).take(MOST_CONFIGURATIONS) {
            // Warps and stages mean nothing to an interpreter, and do not stand in the text.
            let is_repeated = means.gpu().is_none() && seen.contains(&text.as_str());
            if is_repeated || tuned.configurations.len() == 1 {
                continue;
            }
            seen.push(text);
            trials.push(Trial::Configuration { kernel: tuned.kernel.clone(), index, text: text.clone() });
        }
        if let Some(more) = tuned.configurations.len().checked_sub(MOST_CONFIGURATIONS).filter(|n| *n > 0) {
            let what = format!("{more} autotune configurations of `{}`", tuned.kernel);
            trials.push(Trial::LeftOut { what, why: "too many to run each alone" });
        }
    }
    trials
}
