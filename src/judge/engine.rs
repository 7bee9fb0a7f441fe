//! The engine behind the command line and the language server: finds the environment, keeps its worker
//! warm, finds the oracle, runs the plan.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::check::{BoxFuture, CheckEvent, CheckOptions, CheckRequest, Checker};
use super::environment::{Search, Silent, find_python_for, project_root};
use super::foreign::ForeignRun;
use super::run::{CheckRun, Outcomes, Source};
use super::{Code, Finding, Provenance, Report, Timeline, Verdict, stages};
use crate::oracle::{self, Draft, ForeignFile, MissKind, Oracle, OracleMiss, Reference};
use crate::runner::protocol::Place;
use crate::runner::{Supervisor, Worker, WorkerVersions, copy_source, unpack};
use crate::source::{self, Kernel, KernelId, SourceModel};
use crate::spec::{Definition, Dtype};
use crate::toolchain::managed::{Dialogue, EnvironmentPolicy};
use crate::toolchain::python::ProbeCache;
use crate::toolchain::{Memory, Places, Surroundings};

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
        events: &UnboundedSender<CheckEvent>,
        cancel: &CancellationToken,
    ) -> Report {
        let began = Instant::now();
        let mut report = Report::new(&request.text);
        let model = source::parse(&request.text);
        let oracle = match self.find_oracle(request, &model) {
            Ok(oracle) => oracle,
            Err(finding) => return report.ended_by(*finding),
        };
        report.oracle = Some(oracle.label.clone());
        let _ = events.send(CheckEvent::Preparing("looking for Python with torch and Triton".to_owned()));
        let python = match self.python_for(request).await {
            Ok(python) => python,
            Err(finding) => return report.ended_by(*finding),
        };
        report.timeline.python = Some(milliseconds_since(began));
        let (worker, versions) = match self.worker_for(python, events).await {
            Ok(found) => found,
            Err(finding) => return report.ended_by(*finding),
        };
        report.timeline.worker = Some(milliseconds_since(began));
        report.provenance.rest_on(&versions);
        let source = match self.source(request) {
            Ok(source) => source,
            Err(finding) => return report.ended_by(*finding),
        };
        let seed = match request.options.seed.map_or_else(random_seed, Ok) {
            Ok(seed) => seed,
            Err(finding) => return report.ended_by(*finding),
        };
        let foreign = match self.foreign(request, &oracle, &source) {
            Ok(foreign) => foreign,
            Err(finding) => return report.ended_by(*finding),
        };
        let run = CheckRun {
            worker: &*worker,
            oracle: &oracle,
            source: &source,
            foreign: foreign.as_ref(),
            seed,
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
        let (definitions, not_chosen) = run.choose(&candidate);
        let plan = stages::plan(&definitions, &request.options, seed);
        report.not_run = not_chosen;
        let planned = CheckEvent::Planned { oracle: oracle.label.clone(), cases: plan.cases.len() };
        let _ = events.send(planned);
        if plan.cases.is_empty() {
            run.close(&candidate).await;
            run.close_reference().await;
            report.not_run.extend(plan.not_run);
            return report
                .ended_by(Finding::plain(Code::NoOracle, nothing_left(&request.options, &definitions)));
        }
        let outcomes = run.run(candidate, plan).await;
        report.timeline.first_verdict = outcomes.first_verdict_ms;
        report.timeline.end = Some(milliseconds_since(began));
        report.finish(outcomes, &request.options, cancel.is_cancelled())
    }

    fn find_oracle(&self, request: &CheckRequest, model: &SourceModel) -> Result<Oracle, Box<Finding>> {
        let asked = request.options.kernel.as_deref();
        if let Some(kernel) = asked
            && !model.kernels.iter().any(|known| known.name == kernel || known.id.0 == kernel)
        {
            let known: Vec<&str> = model.kernels.iter().map(|kernel| kernel.id.0.as_str()).collect();
            let message = format!("no kernel `{kernel}` in this file; it has: {}", known.join(", "));
            return Err(Box::new(Finding::plain(Code::OtherKernel, message)));
        }
        let oracle = oracle::find(&request.path, &request.text, model, asked)
            .map_err(|miss| Box::new(missing_oracle(request, model, &miss)))?;
        let at_import = source::module_level_launches(model);
        if let Some(launch) = at_import.first() {
            let line = source::line_of(&request.text, launch.range.start);
            let kernels: Vec<&str> = launch.kernels.iter().map(|kernel| kernel.0.as_str()).collect();
            let message = format!(
                "importing the file launches `{}`, so it is not imported automatically; move the launch into a \
                 function or under `if __name__ == \"__main__\":`",
                kernels.join("`, `"),
            );
            let place = Place { file: request.path.display().to_string(), line };
            return Err(Box::new(Finding {
                place: Some(place),
                ..Finding::plain(Code::ModuleLevelLaunch, message)
            }));
        }
        Ok(oracle)
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
    async fn python_for(&self, request: &CheckRequest) -> Result<PathBuf, Box<Finding>> {
        let failed = |message: String| Box::new(Finding::plain(Code::JudgeFailed, message));
        let search = Search {
            file: request.path.clone(),
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

    fn source(&self, request: &CheckRequest) -> Result<Source, Box<Finding>> {
        self.source_of(&request.path, &request.text)
    }

    /// The reference that is not ours, if there is one, as it is right now.
    fn foreign(
        &self,
        request: &CheckRequest,
        oracle: &Oracle,
        judged: &Source,
    ) -> Result<Option<ForeignRun>, Box<Finding>> {
        let Reference::Foreign(reference) = &oracle.reference else { return Ok(None) };
        let source = match &reference.file {
            ForeignFile::Same => judged.clone(),
            ForeignFile::Text { path, text } => self.source_of(path, text)?,
            ForeignFile::Other(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    let message = format!("the reference's file {} cannot be read: {error}", path.display());
                    let place = oracle.place(&request.path, &request.text);
                    Box::new(Finding { place, ..Finding::plain(Code::ReferenceFailed, message) })
                })?;
                self.source_of(path, &text)?
            }
        };
        Ok(Some(ForeignRun::new(source, reference.function.clone())))
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
        Box::pin(async move { self.run_check(&request, &events, &cancel).await })
    }
}

impl Report {
    fn new(text: &str) -> Self {
        Self {
            oracle: None,
            cases: Vec::new(),
            findings: Vec::new(),
            not_run: Vec::new(),
            verdict: Verdict::CouldNotRun,
            timeline: Timeline::default(),
            provenance: Provenance {
                warpsmith: env!("CARGO_PKG_VERSION").to_owned(),
                method: "triton-interpreter".to_owned(),
                source_hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
                ..Provenance::default()
            },
        }
    }

    fn ended_by(mut self, finding: Finding) -> Self {
        self.verdict = finding.code.verdict();
        self.findings.push(finding);
        self
    }

    /// wrong > could not run > passed; and nothing passes that ran no case or was cut short.
    fn finish(mut self, outcomes: Outcomes, options: &CheckOptions, cancelled: bool) -> Self {
        self.cases = outcomes.cases;
        self.findings.extend(outcomes.findings);
        self.not_run.extend(outcomes.not_run);
        if let Some(kernel) = &options.kernel
            && self.findings.is_empty()
            && !self.has_launched(kernel)
        {
            let message = format!("`{kernel}` was never launched by the entry that was judged");
            self.findings.push(Finding::plain(Code::OtherKernel, message));
        }
        if cancelled {
            self.findings.push(Finding::plain(Code::Cancelled, "cancelled before the end".to_owned()));
        } else if self.cases.is_empty() && self.findings.is_empty() {
            self.findings.push(Finding::plain(Code::JudgeFailed, "no case was run".to_owned()));
        }
        let of_findings = self.findings.iter().map(|finding| finding.code.verdict());
        let of_cases = self.cases.iter().map(|record| record.verdict);
        self.verdict = of_findings.chain(of_cases).max().unwrap_or(Verdict::CouldNotRun);
        self
    }

    /// Whether any case launched a kernel of this name or [`KernelId`].
    fn has_launched(&self, kernel: &str) -> bool {
        let kernel = KernelId(kernel.to_owned());
        let mut launches = self.cases.iter().flat_map(|record| &record.launches);
        launches.any(|launch| launch.kernel == kernel.bare_name())
    }
}

impl Provenance {
    fn rest_on(&mut self, versions: &WorkerVersions) {
        self.python = Some(versions.python.clone());
        self.torch.clone_from(&versions.torch);
        self.triton.clone_from(&versions.triton);
        self.numpy.clone_from(&versions.numpy);
    }
}

/// The comment to propose for a kernel; `None` when it is known already what is right, or nothing can be said.
pub fn draft_comment(path: &Path, text: &str, model: &SourceModel, kernel: &Kernel) -> Option<Draft> {
    let is_unknown = |miss: &OracleMiss| miss.kind == MissKind::NoConvention;
    let miss = oracle::find(path, text, model, None).err()?;
    is_unknown(&miss).then(|| oracle::draft(text, model, kernel)).flatten()
}

fn missing_oracle(request: &CheckRequest, model: &SourceModel, miss: &OracleMiss) -> Finding {
    let file = || request.path.display().to_string();
    // What is missing may stand in the part that cannot be parsed.
    if let Some(error) = &model.first_error {
        let place = Place { file: file(), line: source::line_of(&request.text, error.start) };
        let message = format!("the file cannot be parsed from here on; {miss}");
        return Finding { place: Some(place), ..Finding::plain(Code::SyntaxError, message) };
    }
    let code = match miss.kind {
        MissKind::NoKernel => Code::NoKernel,
        MissKind::UnknownKernelType { .. } | MissKind::NoDefinition(_) => Code::NoDefinition,
        MissKind::NoConvention
        | MissKind::KernelTypeNotLiteral
        | MissKind::KernelTypeAmbiguous { .. }
        | MissKind::Comment(_)
        | MissKind::NoKernelFn { .. }
        | MissKind::KernelFnIsKernel { .. } => Code::NoOracle,
    };
    let place = miss
        .range
        .as_ref()
        .map(|range| Place { file: file(), line: source::line_of(&request.text, range.start) });
    Finding { place, ..Finding::plain(code, miss.to_string()) }
}

fn nothing_left(options: &CheckOptions, definitions: &[&Definition]) -> String {
    let dtypes: BTreeSet<&str> =
        definitions.iter().flat_map(|definition| definition.dtypes()).map(Dtype::name).collect();
    if options.dtypes.is_empty() {
        return "no case is left to run".to_owned();
    }
    let dtypes: Vec<&str> = dtypes.into_iter().collect();
    format!("no case is left to run; this operation has the dtypes {}", dtypes.join(", "))
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
