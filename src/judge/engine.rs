//! The engine behind the command line and the language server: finds the environment, keeps its worker
//! warm, finds the oracle, runs the plan.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::check::{BoxFuture, CheckEvent, CheckOptions, CheckRequest, Checker};
use super::run::{CheckRun, Outcomes, Source};
use super::{Code, Finding, Provenance, Report, Verdict, stages};
use crate::oracle::{self, Oracle};
use crate::runner::{Supervisor, Worker, WorkerVersions, copy_source, unpack};
use crate::source::{self, SourceModel};
use crate::toolchain::{EnvironmentPolicy, EnvironmentSource, Places, Surroundings};

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
}

/// See the module's documentation.
pub struct Engine {
    options: EngineOptions,
    surroundings: Surroundings,
    workers: Arc<Mutex<HashMap<PathBuf, Warm>>>,
}

struct Warm {
    worker: Arc<Supervisor>,
    last_used: Instant,
}

impl Engine {
    pub fn new(options: EngineOptions) -> Self {
        Self { options, surroundings: Surroundings::of_this_process(), workers: Arc::default() }
    }

    /// For an editor: nothing is installed without being asked for.
    pub fn for_editor() -> Self {
        Self::new(EngineOptions { python: None, environment: EnvironmentPolicy::Never })
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
        let mut report = Report::new(&request.text);
        let model = source::parse(&request.text);
        let oracle = match self.find_oracle(request, &model) {
            Ok(oracle) => oracle,
            Err(finding) => return report.ended_by(*finding),
        };
        report.oracle = Some(oracle.label.clone());
        let _ = events.send(CheckEvent::Preparing("looking for Python with torch and Triton".to_owned()));
        let (worker, versions) = match self.worker_for(&request.path, events).await {
            Ok(found) => found,
            Err(finding) => return report.ended_by(*finding),
        };
        report.provenance.rest_on(&versions);
        let source = match self.source(request) {
            Ok(source) => source,
            Err(finding) => return report.ended_by(*finding),
        };
        let seed = match request.options.seed.map_or_else(random_seed, Ok) {
            Ok(seed) => seed,
            Err(finding) => return report.ended_by(*finding),
        };
        let plan = stages::plan(&oracle.definition, &request.options, seed);
        let planned = CheckEvent::Planned { oracle: oracle.label.clone(), cases: plan.cases.len() };
        let _ = events.send(planned);
        if plan.cases.is_empty() {
            report.not_run = plan.not_run;
            return report.ended_by(finding(Code::NoOracle, nothing_left(&request.options, &oracle)));
        }
        let run = CheckRun { worker: &*worker, oracle: &oracle, source: &source, seed, events, cancel };
        report.finish(run.run(plan).await, &request.options, cancel.is_cancelled())
    }

    fn find_oracle(&self, request: &CheckRequest, model: &SourceModel) -> Result<Oracle, Box<Finding>> {
        let asked = request.options.kernel.as_deref();
        if let Some(kernel) = asked
            && !model.kernels.iter().any(|known| known.name == kernel || known.id.0 == kernel)
        {
            let known: Vec<&str> = model.kernels.iter().map(|kernel| kernel.id.0.as_str()).collect();
            let message = format!("no kernel `{kernel}` in this file; it has: {}", known.join(", "));
            return Err(Box::new(finding(Code::OtherKernel, message)));
        }
        let oracle = oracle::find(&request.path, &request.text, model)
            .map_err(|miss| Box::new(finding(miss.code(), miss.to_string())))?;
        let at_import = source::module_level_launches(model);
        if let Some((kernel, launch)) = at_import.first() {
            let line = source::line_of(&request.text, launch.range.start);
            let message = format!(
                "line {line} launches `{}` when the file is imported, so the file is not imported automatically; \
                 move the launch into a function or under `if __name__ == \"__main__\":`",
                kernel.name
            );
            return Err(Box::new(finding(Code::ModuleLevelLaunch, message)));
        }
        Ok(oracle)
    }

    /// A warm worker for the interpreter of this file, started when there is none.
    async fn worker_for(
        &self,
        file: &Path,
        events: &UnboundedSender<CheckEvent>,
    ) -> Result<(Arc<Supervisor>, WorkerVersions), Box<Finding>> {
        let source = EnvironmentSource { file, explicit: self.options.python.as_deref() };
        let surroundings = self.surroundings.clone();
        let policy = self.options.environment;
        let python = source
            .find_or_make(surroundings, policy)
            .await
            .map_err(|error| Box::new(finding(error.code(), error.to_string())))?;
        let mut workers = self.workers.lock().await;
        workers.retain(|_, warm| !warm.worker.has_ended());
        if let Some(warm) = workers.get_mut(&python) {
            warm.last_used = Instant::now();
            return Ok((Arc::clone(&warm.worker), warm.worker.versions()));
        }
        let _ = events.send(CheckEvent::Preparing(format!("starting {}", python.display())));
        let failed = |message: String| Box::new(finding(Code::JudgeFailed, message));
        let places = Places::of(&self.surroundings).map_err(|error| failed(error.to_string()))?;
        let main = unpack(places.cache()).map_err(|error| failed(error.to_string()))?;
        let worker =
            Arc::new(Supervisor::start(&python, &main).await.map_err(|error| failed(error.to_string()))?);
        let versions = worker.versions();
        workers.insert(python, Warm { worker: Arc::clone(&worker), last_used: Instant::now() });
        tokio::spawn(end_when_idle(Arc::downgrade(&self.workers)));
        Ok((worker, versions))
    }

    fn source(&self, request: &CheckRequest) -> Result<Source, Box<Finding>> {
        let failed = |message: String| Box::new(finding(Code::JudgeFailed, message));
        let places = Places::of(&self.surroundings).map_err(|error| failed(error.to_string()))?;
        let copy = copy_source(&places.runs(), &request.path, &request.text)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Source {
            path: request.path.display().to_string(),
            text_path: copy.path.display().to_string(),
            search_paths: project_root(&request.path).map(|root| root.display().to_string()).into_iter().collect(),
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
            && !self.cases.iter().flat_map(|record| &record.launches).any(|launch| launch.kernel == *kernel)
        {
            let message = format!("`{kernel}` was never launched by the entry that was judged");
            self.findings.push(finding(Code::OtherKernel, message));
        }
        if cancelled {
            self.findings.push(finding(Code::Cancelled, "cancelled before the end".to_owned()));
        } else if self.cases.is_empty() && self.findings.is_empty() {
            self.findings.push(finding(Code::JudgeFailed, "no case was run".to_owned()));
        }
        let of_findings = self.findings.iter().map(|finding| finding.code.verdict());
        let of_cases = self.cases.iter().map(|record| record.verdict);
        self.verdict = of_findings.chain(of_cases).max().unwrap_or(Verdict::CouldNotRun);
        self
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

fn finding(code: Code, message: String) -> Finding {
    Finding { code, kernel: None, place: None, called_from: Vec::new(), message, element: None }
}

fn nothing_left(options: &CheckOptions, oracle: &Oracle) -> String {
    let dtypes: Vec<&str> = oracle.definition.dtypes().into_iter().map(|dtype| dtype.name()).collect();
    if options.stages.is_empty() || !options.dtypes.is_empty() {
        format!("no case is left to run; the Definition `{}` has the dtypes {}", oracle.definition.name, dtypes.join(", "))
    } else {
        "no case is left to run: this version has the stages smoke and sweep".to_owned()
    }
}

fn random_seed() -> Result<u64, Box<Finding>> {
    getrandom::u64().map_err(|error| {
        Box::new(finding(Code::JudgeFailed, format!("the system gives no random numbers: {error}; pass --seed")))
    })
}

/// The nearest folder above the file that looks like a project's root.
fn project_root(file: &Path) -> Option<PathBuf> {
    const MARKERS: [&str; 5] = ["warpsmith.toml", "pyproject.toml", "setup.py", "setup.cfg", ".git"];
    file.ancestors()
        .skip(1)
        .find(|folder| MARKERS.iter().any(|marker| folder.join(marker).exists()))
        .map(Path::to_path_buf)
}

fn resident_limit() -> u64 {
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    available.map_or(RESIDENT_LIMIT_BYTES, |kib| (kib * 1024 / 2).min(RESIDENT_LIMIT_BYTES))
}

/// Ends the workers that nobody used for [`IDLE_LIMIT`]; stops when none is left.
async fn end_when_idle(workers: std::sync::Weak<Mutex<HashMap<PathBuf, Warm>>>) {
    loop {
        tokio::time::sleep(IDLE_LIMIT / 4).await;
        let Some(workers) = workers.upgrade() else { return };
        let mut workers = workers.lock().await;
        // A worker in use is held by its check as well.
        workers.retain(|_, warm| warm.last_used.elapsed() < IDLE_LIMIT || Arc::strong_count(&warm.worker) > 1);
        if workers.is_empty() {
            return;
        }
    }
}
