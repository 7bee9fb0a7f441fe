//! The engine behind the command line and the language server: finds the environment, keeps its worker
//! warm, finds the oracle, runs the plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::check::{BoxFuture, CheckEvent, CheckRequest, Checker};
use super::environment::{Search, Silent, find_python_for};
use super::means::Means;
use super::obstacles::{launch_on_import, missing_oracle, nothing_left, unknown_in};
use super::packed::{self, Packed};
use super::run::CheckRun;
use super::sources::{Sources, resident_limit};
use super::stages::{self, Reach};
use super::verdict::hashes_of;
use super::workers::{WorkerKey, Workers};
use super::{Code, Finding, NotRun, Provenance, Report, head};
use crate::oracle::{self, Described, Draft, Head, MissKind, Oracle, OracleMiss};
use crate::runner::{Supervisor, Worker, unpack};
use crate::source::{self, Kernel, SourceModel};
use crate::toolchain::managed::{Dialogue, EnvironmentPolicy};
use crate::toolchain::python::ProbeCache;
use crate::toolchain::{AtHead, NoHead, Places, Surroundings, at_head};

/// What the engine was told when it was made.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The interpreter to use, instead of a search.
    pub python: Option<PathBuf>,
    /// Whether the managed environment may be made when no other has torch and Triton.
    pub environment: EnvironmentPolicy,
    /// Makes the other side of that: whom to ask, where to show progress.
    pub dialogue: fn() -> Box<dyn Dialogue>,
}

/// See the module's documentation.
pub struct Engine {
    options: EngineOptions,
    surroundings: Surroundings,
    probes: Arc<ProbeCache>,
    workers: Workers,
}

/// What judging any function of a file needs.
struct Ready {
    worker: Arc<Supervisor>,
    means: Means,
    places: Places,
    seed: u64,
}

/// A file to get ready for.
struct Preparing<'a> {
    request: &'a CheckRequest,
    packed: Option<&'a Packed>,
    model: &'a SourceModel,
    began: Instant,
    events: &'a UnboundedSender<CheckEvent>,
}

/// One function to judge.
struct Judging<'a> {
    request: &'a CheckRequest,
    packed: Option<&'a Packed>,
    oracle: &'a Oracle,
    ready: &'a Ready,
    began: Instant,
    events: &'a UnboundedSender<CheckEvent>,
    cancel: &'a CancellationToken,
}

impl Engine {
    /// An engine without a worker: the first check starts one.
    pub fn new(options: EngineOptions) -> Self {
        Self {
            options,
            surroundings: Surroundings::of_this_process(),
            probes: Arc::default(),
            workers: Workers::default(),
        }
    }

    /// For an editor: nothing is installed without being asked for.
    pub fn for_editor() -> Self {
        Self::new(EngineOptions {
            python: None,
            environment: EnvironmentPolicy::Never,
            dialogue: || Box::new(Silent),
        })
    }

    /// Ends every worker and waits until they are gone, at most `limit`.
    pub async fn shut_down(&self, limit: Duration) {
        self.workers.shut_down(limit).await;
    }

    async fn run_check(
        &self,
        request: &CheckRequest,
        packed: Option<&Packed>,
        events: &UnboundedSender<CheckEvent>,
        cancel: &CancellationToken,
    ) -> Report {
        let began = Instant::now();
        let mut report = Report::new(&request.text);
        let model = source::parse(&request.text);
        let asked = request.options.kernel.as_deref();
        if let Some(message) =
            asked.and_then(|asked| unknown_in(&model, (&request.path, &request.text), asked))
        {
            return report.ended_by(Finding::plain(Code::OtherKernel, message));
        }
        let described = match packed {
            Some(Packed { solution, path, .. }) => {
                vec![oracle::of_solution(solution, path, &request.text, &model)]
            }
            None => self.describe(request, &model, &mut report).await,
        };
        // At once: nothing of the user's has run that could change them.
        let hashes: Vec<_> = described
            .iter()
            .map(|one| {
                one.oracle.as_ref().map(|oracle| hashes_of(oracle.files_besides())).unwrap_or_default()
            })
            .collect();
        let ready = if described.iter().any(|one| one.oracle.is_ok()) {
            match self.prepare(Preparing { request, packed, model: &model, began, events }, &mut report).await
            {
                Ok(ready) => Some(ready),
                Err(finding) => return report.ended_by(*finding),
            }
        } else {
            None
        };
        let mut judged = Vec::new();
        let several = described.len() > 1;
        for (Described { entry, oracle }, described_by) in described.into_iter().zip(hashes) {
            if several {
                let _ = events.send(CheckEvent::Function { entry: entry.clone() });
            }
            let function = entry.as_deref().and_then(|name| model.function(name));
            let kernels = function.map(|function| function.launches.as_slice()).unwrap_or_default();
            let kernels = kernels.iter().map(|kernel| kernel.bare_name().to_owned()).collect();
            let provenance = Provenance { described_by, ..report.provenance.clone() };
            let part = Report { entry, kernels, provenance, ..report.clone() };
            let part = match (&oracle, &ready) {
                (Err(miss), _) => part.ended_by(missing_oracle(request, &model, miss)),
                (Ok(oracle), Some(ready)) => {
                    self.judge(Judging { request, packed, oracle, ready, began, events, cancel }, part).await
                }
                (Ok(_), None) => part.ended_by(Finding::plain(Code::JudgeFailed, "nothing was prepared")),
            };
            if several {
                let _ = events.send(CheckEvent::FunctionJudged(Box::new(part.clone())));
            }
            judged.push(part);
        }
        let mut report = report.of_file(judged);
        if asked.is_none() && ready.is_some() {
            report.list_not_judged(&model);
        }
        report
    }

    /// Where truth comes from for each function; where nothing says it, the version at HEAD is asked for.
    async fn describe(
        &self,
        request: &CheckRequest,
        model: &SourceModel,
        report: &mut Report,
    ) -> Vec<Described> {
        let CheckRequest { path, text, options, .. } = request;
        let asked = options.kernel.as_deref();
        let mut described = oracle::find_all(path, text, model, asked);
        report.provenance.described_as = Some(oracle::fingerprint(&described));
        if !described.iter().any(Described::asks_for_head) {
            return described;
        }
        // Questions to git are processes.
        let (file, surroundings) = (path.clone(), self.surroundings.clone());
        let found = tokio::task::spawn_blocking(move || at_head(&file, &surroundings)).await;
        let found = found.unwrap_or_else(|error| Err(NoHead::Failed(error.to_string())));
        if let Ok(AtHead { commit, text: before }) = &found
            && !source::is_same_code(before, text)
        {
            let head = Head { commit: commit.clone(), text: before.clone() };
            return oracle::find_all_or_head(path, text, model, asked, Some(&head));
        }
        for one in &mut described {
            if one.asks_for_head() {
                one.oracle = one.oracle.clone().map_err(|miss| match &found {
                    Ok(head) => miss.unchanged(&head.commit),
                    Err(why) => miss.without_head(why.to_string()),
                });
            }
        }
        described
    }

    /// What all functions of a file share: no import launches anything, the interpreter with its worker, the seed.
    async fn prepare(&self, preparing: Preparing<'_>, report: &mut Report) -> Result<Ready, Box<Finding>> {
        let Preparing { request, packed, model, began, events } = preparing;
        if let Some(finding) = launch_on_import(&request.path, &request.text, model) {
            return Err(Box::new(finding));
        }
        let _ = events.send(CheckEvent::Preparing("looking for Python with torch and Triton".to_owned()));
        let python = self.python_for(request, packed).await?;
        report.timeline.python = Some(milliseconds_since(began));
        let places = Places::of(&self.surroundings)
            .map_err(|error| Box::new(Finding::plain(Code::JudgeFailed, error.to_string())))?;
        let means = Means::Interpreter;
        let worker = self.worker_for(WorkerKey { python, device: None }, &places, events).await?;
        report.timeline.worker = Some(milliseconds_since(began));
        report.provenance.rest_on(&worker.versions());
        let seed = request.options.seed.map_or_else(random_seed, Ok)?;
        Ok(Ready { worker, means, places, seed })
    }

    /// Judges one function.
    async fn judge(&self, judging: Judging<'_>, mut report: Report) -> Report {
        let Judging { request, packed, oracle, ready, began, events, cancel } = judging;
        report.oracle = Some(oracle.label.clone());
        if cancel.is_cancelled() {
            return report.ended_by(Finding::plain(Code::Cancelled, "cancelled before it began"));
        }
        let sources = Sources { places: &ready.places, means: &ready.means };
        let source = match packed {
            Some(packed) => packed.source(request, resident_limit(&ready.means)),
            None => match sources.source(request, oracle) {
                Ok(source) => source,
                Err(finding) => return report.ended_by(*finding),
            },
        };
        let foreign = match sources.foreign(request, oracle, &source) {
            Ok(foreign) => foreign,
            Err(finding) => return report.ended_by(*finding),
        };
        let modules = match sources.modules(oracle) {
            Ok(modules) => modules,
            Err(finding) => return report.ended_by(*finding),
        };
        let run = CheckRun {
            worker: &*ready.worker,
            oracle,
            source: &source,
            foreign: foreign.as_ref(),
            modules: &modules,
            means: &ready.means,
            seed: ready.seed,
            began,
            events,
            cancel,
        };
        let candidate = match run.load().await {
            Ok(candidate) => candidate,
            Err(mut finding) => {
                // Of a reference that never ran, the place is where it is named.
                if finding.code == Code::ReferenceFailed && finding.place.is_none() {
                    finding.place = oracle.place(&request.path, &request.text);
                }
                return report.ended_by(finding);
            }
        };
        report.timeline.loaded = Some(milliseconds_since(began));
        let learned = match run.learned(&mut report.not_run).await {
            Ok(learned) => learned,
            Err(mut finding) => {
                finding.place = finding.place.or_else(|| oracle.place(&request.path, &request.text));
                run.close(&candidate).await;
                run.close_reference().await;
                return report.ended_by(finding);
            }
        };
        let run = CheckRun { oracle: learned.as_ref().unwrap_or(oracle), ..run };
        let (definitions, not_chosen) = run.choose(&candidate);
        let reach = Reach::of(&ready.means);
        let mut plan = match modules.is_empty() {
            true => stages::plan(&definitions, &request.options, ready.seed, reach),
            false => stages::plan_drawn(&definitions, &request.options, reach),
        };
        if oracle.reference.head().is_some() {
            head::only_comparable(&mut plan);
        }
        let left_out = oracle.left_out.iter().map(|line| NotRun::new(&line.what, &line.why));
        report.not_run.extend(not_chosen.into_iter().chain(left_out));
        let planned = CheckEvent::Planned { oracle: oracle.label.clone(), cases: plan.cases.len() };
        let _ = events.send(planned);
        if plan.cases.is_empty() {
            run.close(&candidate).await;
            run.close_reference().await;
            report.not_run.extend(plan.not_run);
            return report.ended_by(nothing_left(&request.options, &definitions));
        }
        let outcomes = run.run(candidate, plan).await;
        report.timeline.first_verdict = outcomes.first_verdict_ms;
        report.timeline.end = Some(milliseconds_since(began));
        report.finish(outcomes, &request.options, cancel.is_cancelled())
    }

    /// A warm worker, started when there is none.
    async fn worker_for(
        &self,
        key: WorkerKey,
        places: &Places,
        events: &UnboundedSender<CheckEvent>,
    ) -> Result<Arc<Supervisor>, Box<Finding>> {
        if let Some(warm) = self.workers.warm(&key).await {
            return Ok(warm);
        }
        let _ = events.send(CheckEvent::Preparing(format!("starting {}", key.python.display())));
        let failed = |message: String| Box::new(Finding::plain(Code::JudgeFailed, message));
        let main = unpack(&places.worker()).map_err(|error| failed(error.to_string()))?;
        self.workers.start(key, &main).await.map_err(|error| failed(error.to_string()))
    }

    /// Probes are processes and a setup takes minutes: both run on a thread of their own.
    async fn python_for(
        &self,
        request: &CheckRequest,
        packed: Option<&Packed>,
    ) -> Result<PathBuf, Box<Finding>> {
        let failed = |message: String| Box::new(Finding::plain(Code::JudgeFailed, message));
        let search = Search {
            file: packed.map_or(&request.path, |packed| &packed.path).clone(),
            named: self.options.python.clone(),
            setting: request.python.clone(),
            policy: self.options.environment,
        };
        let places = Places::of(&self.surroundings).map_err(|error| failed(error.to_string()))?;
        let (surroundings, probes) = (self.surroundings.clone(), Arc::clone(&self.probes));
        let dialogue = self.options.dialogue;
        let found = tokio::task::spawn_blocking(move || {
            find_python_for(&search, &surroundings, &places, &probes, &mut *dialogue())
        });
        found.await.map_err(|error| failed(format!("the search for Python failed: {error}")))?
    }
}

impl Checker for Engine {
    fn check<'a>(
        &'a self,
        request: CheckRequest,
        events: UnboundedSender<CheckEvent>,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Report> {
        Box::pin(async move {
            if !packed::is_packed(&request.path) {
                return self.run_check(&request, None, &events, &cancel).await;
            }
            let runs = Places::of(&self.surroundings).map(|places| places.runs());
            let written = runs
                .map_err(|error| Box::new(Finding::plain(Code::JudgeFailed, error.to_string())))
                .and_then(|runs| Packed::write_out(&request, &runs));
            match written {
                Ok((packed, inner)) => {
                    packed.told(self.run_check(&inner, Some(&packed), &events, &cancel).await)
                }
                Err(finding) => Report::ended_at_once(*finding),
            }
        })
    }
}

/// The comment to propose for a kernel; `None` when it is known already what is right, or nothing can be said.
pub fn draft_comment(path: &Path, text: &str, model: &SourceModel, kernel: &Kernel) -> Option<Draft> {
    let is_unknown = |miss: &OracleMiss| miss.kind == MissKind::NoConvention;
    let miss = oracle::find(path, text, model, None).err()?;
    is_unknown(&miss).then(|| oracle::draft(text, model, kernel)).flatten()
}

fn random_seed() -> Result<u64, Box<Finding>> {
    getrandom::u64().map_err(|error| {
        Box::new(Finding::plain(
            Code::JudgeFailed,
            format!("the system gives no random numbers: {error}; pass --seed"),
        ))
    })
}

fn milliseconds_since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
