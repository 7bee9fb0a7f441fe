//! The engine behind the command line and the language server: finds the environment, keeps its worker
//! warm, finds the oracle, runs the plan.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::bench::{Bench, TimingChoice};
use super::beside;
use super::check::{BoxFuture, CheckEvent, CheckRequest, Checker, Earlier};
use super::devices::Devices;
use super::environment::Silent;
use super::means::Means;
use super::obstacles::{missing_oracle, nothing_left, unknown_in};
use super::packed::{self, Packed};
use super::run::{CheckRun, Outcomes};
use super::sources::{Sources, resident_limit};
use super::stages::{self, Reach};
use super::start::{Preparing, Ready};
use super::timing::{NoTiming, NoTimingCode, TimingHistory};
use super::verdict::hashes_of;
use super::workers::Workers;
use super::{Code, Finding, NotRun, Provenance, Report, Verdict, head};
use crate::oracle::{self, Described, Draft, Head, MissKind, Oracle, OracleMiss};
use crate::runner::Supervisor;
use crate::source::{self, Kernel, SourceModel};
use crate::spec::Definition;
use crate::store::History;
use crate::toolchain::managed::{Dialogue, EnvironmentPolicy};
use crate::toolchain::python::ProbeCache;
use crate::toolchain::{AtHead, NoHead, Places, Surroundings, at_head};

/// A verdict does not wait longer than this for the commit that its history names.
const PATIENCE_WITH_GIT: Duration = Duration::from_millis(300);

/// What the engine was told when it was made.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The interpreter to use, instead of a search.
    pub python: Option<PathBuf>,
    /// Whether the managed environment may be made when no other has torch and Triton.
    pub environment: EnvironmentPolicy,
    /// Makes the other side of that: whom to ask, where to show progress.
    pub dialogue: fn() -> Box<dyn Dialogue>,
    /// Nobody waits for a check: what else the user does comes first.
    pub in_background: bool,
}

/// See the module's documentation.
pub struct Engine {
    pub(super) options: EngineOptions,
    pub(super) surroundings: Surroundings,
    pub(super) probes: Arc<ProbeCache>,
    pub(super) workers: Workers,
    pub(super) devices: Devices,
    /// Opened with the first check.
    pub(super) history: OnceLock<History>,
}

/// One function to judge.
#[derive(Clone, Copy)]
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
        Self::with_surroundings(options, Surroundings::of_this_process())
    }

    fn with_surroundings(options: EngineOptions, surroundings: Surroundings) -> Self {
        let devices = Devices::new(&surroundings);
        let workers = Workers::new(options.in_background);
        Self { options, surroundings, probes: Arc::default(), workers, devices, history: OnceLock::new() }
    }

    /// For an editor: nothing is installed without being asked for.
    pub fn for_editor() -> Self {
        Self::for_editor_in(Surroundings::of_this_process())
    }

    /// The same with other variables than those of this process.
    pub fn for_editor_in(surroundings: Surroundings) -> Self {
        let options = EngineOptions {
            python: None,
            environment: EnvironmentPolicy::Never,
            dialogue: || Box::new(Silent),
            in_background: true,
        };
        Self::with_surroundings(options, surroundings)
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
        let found = self.ask_head(path).await;
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

    /// Judges one function.
    async fn judge(&self, judging: Judging<'_>, mut report: Report) -> Report {
        let judging_beside = judging;
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
            compares: true,
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
        let is_save = request.options.timing == TimingChoice::First;
        let reach = Reach::of(&ready.means);
        let reach = if is_save { reach.quick() } else { reach };
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
        let beside = async {
            match &ready.beside {
                None => None,
                Some(Err(why)) => Some(Err(why.clone())),
                Some(Ok(worker)) => Some(self.look_beside(&judging_beside, worker, &definitions).await),
            }
        };
        let (mut outcomes, beside) = tokio::join!(run.run(candidate, plan), beside);
        if let Some(beside) = beside {
            for record in beside::merge(&mut outcomes, beside) {
                let _ = events.send(CheckEvent::CaseRejudged { record: Arc::new(record) });
            }
        }
        report.timeline.judged = Some(milliseconds_since(began));
        self.time(&run, (request, ready), &definitions, (&mut outcomes, &mut report)).await;
        run.close_reference().await;
        report.timeline.first_verdict = outcomes.first_verdict_ms;
        report.timeline.end = Some(milliseconds_since(began));
        report.finish(outcomes, &request.options, cancel.is_cancelled())
    }
}

impl Engine {
    /// Times what passed, on the GPU that there is. What turns out wrong meanwhile counts like any other case.
    async fn time(
        &self,
        run: &CheckRun<'_, Supervisor>,
        (request, ready): (&CheckRequest, &Ready),
        definitions: &[&Definition],
        (outcomes, report): (&mut Outcomes, &mut Report),
    ) {
        if request.options.timing == TimingChoice::None {
            return;
        }
        let gpu = match &ready.bench {
            Ok(gpu) => gpu,
            Err(missing) => return report.not_timed.push(missing.clone()),
        };
        let has_passed = outcomes.findings.is_empty()
            && !outcomes.cases.is_empty()
            && outcomes.cases.iter().all(|record| record.verdict == Verdict::Passed);
        if !has_passed || run.cancel.is_cancelled() {
            let why = "only what passed is timed";
            return report.not_timed.push(NoTiming::new(None, NoTimingCode::NotPassed, why));
        }
        let head = self.version_at_head(&request.path).await;
        let head_hash = head.as_ref().map(|head| source::code_hash(&head.text).to_hex().to_string());
        let commit = head.as_ref().map(|head| head.commit.clone());
        let bench = Bench {
            gpu,
            sources: Sources { places: &ready.places, means: &ready.means },
            options: &request.options,
            path: &request.path,
            provenance: &report.provenance,
            code_hash: source::code_hash(&request.text).to_hex().to_string(),
            head,
        };
        let code_hash = bench.code_hash.clone();
        let benched = run.bench(&bench, definitions, &outcomes.cases).await;
        outcomes.cases.extend(benched.records);
        report.timings = benched.timings;
        report.not_timed.extend(benched.not_timed);
        let Some(history) = self.history().cloned().map(TimingHistory::new) else { return };
        for timing in &mut report.timings {
            timing.commit = commit.clone().filter(|_| head_hash.as_ref() == Some(&code_hash));
            history.settle(&request.path, timing, head_hash.as_deref()).await;
        }
        if let Some(complaint) = history.complaint() {
            tracing::warn!("{complaint}");
        }
    }

    /// What the interpreter sees of the same function while it runs on a GPU.
    async fn look_beside(
        &self,
        judging: &Judging<'_>,
        worker: &Supervisor,
        definitions: &[&Definition],
    ) -> Result<Outcomes, String> {
        let Judging { request, packed, oracle, ready, began, cancel, .. } = *judging;
        let means = Means::Interpreter;
        let sources = Sources { places: &ready.places, means: &means };
        let source = match packed {
            Some(packed) => packed.source(request, resident_limit(&means)),
            None => sources.source(request, oracle).map_err(|finding| finding.message)?,
        };
        let foreign = sources.foreign(request, oracle, &source).map_err(|finding| finding.message)?;
        if !sources.modules(oracle).map_err(|finding| finding.message)?.is_empty() {
            return Err("a class that draws its own inputs is not looked at twice".to_owned());
        }
        // Its steps are no progress of the check that the user sees.
        let (events, _) = mpsc::unbounded_channel();
        let run = CheckRun {
            worker,
            oracle,
            source: &source,
            foreign: foreign.as_ref(),
            modules: &[],
            means: &means,
            compares: false,
            seed: ready.seed,
            began,
            events: &events,
            cancel,
        };
        let candidate = run.load().await.map_err(|finding| finding.message)?;
        let plan = beside::plan_beside(definitions, &request.options, ready.seed);
        if plan.cases.is_empty() {
            run.close(&candidate).await;
            run.close_reference().await;
            return Err("none of the stages that it takes part in was asked for".to_owned());
        }
        Ok(run.run(candidate, plan).await)
    }

    async fn version_at_head(&self, path: &Path) -> Option<AtHead> {
        self.ask_head(path).await.ok()?.ok()
    }

    /// Questions to git are processes.
    fn ask_head(&self, path: &Path) -> JoinHandle<Result<AtHead, NoHead>> {
        let (file, surroundings) = (path.to_owned(), self.surroundings.clone());
        tokio::task::spawn_blocking(move || at_head(&file, &surroundings))
    }
}

impl Engine {
    /// One check, without its trace in the history.
    async fn checked(
        &self,
        request: &CheckRequest,
        events: &UnboundedSender<CheckEvent>,
        cancel: &CancellationToken,
    ) -> Report {
        if !packed::is_packed(&request.path) {
            return self.run_check(request, None, events, cancel).await;
        }
        let runs = Places::of(&self.surroundings).map(|places| places.runs());
        let written = runs
            .map_err(|error| Box::new(Finding::plain(Code::JudgeFailed, error.to_string())))
            .and_then(|runs| Packed::write_out(request, &runs));
        match written {
            Ok((packed, inner)) => packed.told(self.run_check(&inner, Some(&packed), events, cancel).await),
            Err(finding) => Report::ended_at_once(*finding),
        }
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
            // Both take a few milliseconds, which the check takes anyway.
            if let Some(history) = self.history().filter(|_| request.path.is_file()) {
                history.prepare();
            }
            let head = self.ask_head(&request.path);
            let report = self.checked(&request, &events, &cancel).await;
            let head = tokio::time::timeout(PATIENCE_WITH_GIT, head).await;
            self.keep(&request, &report, head.ok().and_then(|asked| asked.ok()?.ok())).await;
            self.keep_report(&request, &report).await;
            report
        })
    }

    fn recall(&self, request: CheckRequest) -> BoxFuture<'_, Option<Earlier>> {
        Box::pin(async move { self.recalled(&request).await })
    }

    fn still_stands(&self, request: CheckRequest, report: Arc<Report>) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.stands(&request, &report).await })
    }
}

/// The comment to propose for a kernel; `None` when it is known already what is right, or nothing can be said.
pub fn draft_comment(path: &Path, text: &str, model: &SourceModel, kernel: &Kernel) -> Option<Draft> {
    let is_unknown = |miss: &OracleMiss| miss.kind == MissKind::NoConvention;
    let miss = oracle::find(path, text, model, None).err()?;
    is_unknown(&miss).then(|| oracle::draft(text, model, kernel)).flatten()
}

pub(super) fn milliseconds_since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
