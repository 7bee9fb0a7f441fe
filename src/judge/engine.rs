//! The engine behind the command line and the language server: finds the environment, keeps its worker
//! warm, finds the oracle, runs the plan.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::check::{BoxFuture, CheckEvent, CheckRequest, Checker};
use super::environment::{Search, Silent, find_python_for, project_root};
use super::foreign::ForeignRun;
use super::load::module_role;
use super::module::{self, ModuleRun};
use super::obstacles::{
    launch_on_import, launch_on_import_of_reference, missing_oracle, nothing_left, unknown_in,
};
use super::packed::{self, Packed};
use super::run::{CheckRun, Source};
use super::verdict::hashes_of;
use super::{Code, Finding, NotRun, Provenance, Report, head, stages};
use crate::oracle::{
    self, Described, Draft, ForeignFile, Head, MissKind, ModuleSize, Oracle, OracleMiss, Reference,
};
use crate::runner::protocol::ModuleSide;
use crate::runner::{Supervisor, Worker, WorkerVersions, copy_source, unpack};
use crate::source::{self, Kernel, SourceModel};
use crate::toolchain::managed::{Dialogue, EnvironmentPolicy};
use crate::toolchain::python::ProbeCache;
use crate::toolchain::{AtHead, Memory, NoHead, Places, Surroundings, at_head};

/// A worker that served no check for this long is ended: it holds several hundred megabytes.
const IDLE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Resident memory of one candidate: never more than this, and never more than half of what is free.
const RESIDENT_LIMIT_BYTES: u64 = 8 << 30;

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
    workers: Arc<Mutex<HashMap<PathBuf, Warm>>>,
}

/// What judging any function of a file needs.
struct Ready {
    worker: Arc<Supervisor>,
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

struct Warm {
    worker: Arc<Supervisor>,
    last_used: Instant,
}

impl Engine {
    /// An engine without a worker: the first check starts one.
    pub fn new(options: EngineOptions) -> Self {
        Self {
            options,
            surroundings: Surroundings::of_this_process(),
            probes: Arc::default(),
            workers: Arc::default(),
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
        let workers: Vec<Arc<Supervisor>> =
            self.workers.lock().await.drain().map(|(_, warm)| warm.worker).collect();
        let ends: Vec<_> = workers.iter().map(|worker| worker.when_ended()).collect();
        drop(workers);
        let all = async {
            for end in ends {
                end.await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
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
        let (worker, versions) = self.worker_for(python, events).await?;
        report.timeline.worker = Some(milliseconds_since(began));
        report.provenance.rest_on(&versions);
        let seed = request.options.seed.map_or_else(random_seed, Ok)?;
        Ok(Ready { worker, seed })
    }

    /// Judges one function.
    async fn judge(&self, judging: Judging<'_>, mut report: Report) -> Report {
        let Judging { request, packed, oracle, ready, began, events, cancel } = judging;
        report.oracle = Some(oracle.label.clone());
        if cancel.is_cancelled() {
            return report.ended_by(Finding::plain(Code::Cancelled, "cancelled before it began"));
        }
        let source = match packed {
            Some(packed) => packed.source(request, resident_limit()),
            None => match self.source(request, oracle) {
                Ok(source) => source,
                Err(finding) => return report.ended_by(*finding),
            },
        };
        let foreign = match self.foreign(request, oracle, &source) {
            Ok(foreign) => foreign,
            Err(finding) => return report.ended_by(*finding),
        };
        let modules = match self.modules(oracle) {
            Ok(modules) => modules,
            Err(finding) => return report.ended_by(*finding),
        };
        let run = CheckRun {
            worker: &*ready.worker,
            oracle,
            source: &source,
            foreign: foreign.as_ref(),
            modules: &modules,
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
        let mut plan = match modules.is_empty() {
            true => stages::plan(&definitions, &request.options, ready.seed),
            false => stages::plan_drawn(&definitions, &request.options),
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

    /// A warm worker of this interpreter, started when there is none.
    async fn worker_for(
        &self,
        python: PathBuf,
        events: &UnboundedSender<CheckEvent>,
    ) -> Result<(Arc<Supervisor>, WorkerVersions), Box<Finding>> {
        let mut workers = self.workers.lock().await;
        workers.retain(|_, warm| !warm.worker.has_ended());
        if let Some(warm) = workers.get_mut(&python) {
            warm.last_used = Instant::now();
            return Ok((Arc::clone(&warm.worker), warm.worker.versions()));
        }
        let _ = events.send(CheckEvent::Preparing(format!("starting {}", python.display())));
        let failed = |message: String| Box::new(Finding::plain(Code::JudgeFailed, message));
        let places = Places::of(&self.surroundings).map_err(|error| failed(error.to_string()))?;
        let main = unpack(&places.worker()).map_err(|error| failed(error.to_string()))?;
        let worker =
            Arc::new(Supervisor::start(&python, &main).await.map_err(|error| failed(error.to_string()))?);
        let versions = worker.versions();
        workers.insert(python, Warm { worker: Arc::clone(&worker), last_used: Instant::now() });
        tokio::spawn(end_when_idle(Arc::downgrade(&self.workers)));
        Ok((worker, versions))
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

    /// The judged file; as one with its reference it has the constants that the comment says.
    fn source(&self, request: &CheckRequest, oracle: &Oracle) -> Result<Source, Box<Finding>> {
        let text = match &oracle.reference {
            Reference::Module(reference) if reference.is_same_file => {
                reference.sizes.first().map_or(&*request.text, |size| size.text.as_str())
            }
            _ => &request.text,
        };
        self.source_of(&request.path, text)
    }

    /// A process for each size of a class that says what is right.
    fn modules(&self, oracle: &Oracle) -> Result<Vec<ModuleRun>, Box<Finding>> {
        let (Reference::Module(reference), Some(role)) =
            (&oracle.reference, module_role(oracle, ModuleSide::Reference))
        else {
            return Ok(Vec::new());
        };
        let is_only = reference.sizes.len() == 1;
        let run = |size: &ModuleSize| {
            let source = match reference.is_same_file {
                true => self.source_of(&reference.path, &size.text)?,
                false => self.source_of_reference(&reference.path, &size.text, None)?,
            };
            Ok(ModuleRun {
                definition: module::definition_name(&oracle.entry, size, is_only),
                size: size.clone(),
                foreign: ForeignRun::of_class(source, reference.class.clone(), role),
            })
        };
        reference.sizes.iter().map(run).collect()
    }

    /// The reference that is not ours, if there is one, as it is right now.
    fn foreign(
        &self,
        request: &CheckRequest,
        oracle: &Oracle,
        judged: &Source,
    ) -> Result<Option<ForeignRun>, Box<Finding>> {
        let Some(reference) = oracle.reference.foreign() else { return Ok(None) };
        let source = match &reference.file {
            ForeignFile::Same => judged.clone(),
            ForeignFile::Text { path, text } => {
                let commit = oracle.reference.head().map(|head| head.commit.as_str());
                self.source_of_reference(path, text, commit)?
            }
            ForeignFile::Other(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    let message = format!("the reference's file {} cannot be read: {error}", path.display());
                    let place = oracle.place(&request.path, &request.text);
                    Box::new(Finding { place, ..Finding::plain(Code::ReferenceFailed, message) })
                })?;
                self.source_of_reference(path, &text, None)?
            }
        };
        let is_text = matches!(reference.file, ForeignFile::Text { .. });
        let function = reference.function.clone();
        Ok(Some(match oracle.reference.head() {
            Some(head) => ForeignRun::at_head(source, function, &head.commit),
            None => ForeignRun::new(source, function, is_text),
        }))
    }

    /// A file that says what is right is not imported either when that launches kernels.
    fn source_of_reference(
        &self,
        path: &Path,
        text: &str,
        commit: Option<&str>,
    ) -> Result<Source, Box<Finding>> {
        match launch_on_import_of_reference(path, text, commit) {
            Some(finding) => Err(Box::new(finding)),
            None => self.source_of(path, text),
        }
    }

    fn source_of(&self, path: &Path, text: &str) -> Result<Source, Box<Finding>> {
        let failed = |message: String| Box::new(Finding::plain(Code::JudgeFailed, message));
        let places = Places::of(&self.surroundings).map_err(|error| failed(error.to_string()))?;
        let copy = copy_source(&places.runs(), path, text).map_err(|error| failed(error.to_string()))?;
        Ok(Source {
            path: path.display().to_string(),
            text_path: copy.display().to_string(),
            search_paths: project_root(path).map(|root| root.display().to_string()).into_iter().collect(),
            resident_bytes: resident_limit(),
        })
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

fn resident_limit() -> u64 {
    let memory = Memory::read(Path::new("/"));
    memory.map_or(RESIDENT_LIMIT_BYTES, |memory| (memory.usable_bytes() / 2).min(RESIDENT_LIMIT_BYTES))
}

/// Ends the workers that nobody used for [`IDLE_LIMIT`]; stops when none is left.
async fn end_when_idle(workers: std::sync::Weak<Mutex<HashMap<PathBuf, Warm>>>) {
    loop {
        tokio::time::sleep(IDLE_LIMIT / 4).await;
        let Some(workers) = workers.upgrade() else { return };
        let mut workers = workers.lock().await;
        // A worker in use is held by its check as well.
        workers
            .retain(|_, warm| warm.last_used.elapsed() < IDLE_LIMIT || Arc::strong_count(&warm.worker) > 1);
        if workers.is_empty() {
            return;
        }
    }
}
