//! Checks of files: asking for one, following it, and what its end changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower_lsp::ls_types::{ProgressToken, Uri};

use super::event::{Event, EventSender};
use super::file_state::{FileRun, FileState, Phase};
use super::gate::{Executor, is_refused};
use super::global_state::GlobalState;
use super::lens::{first_obstacle, plural};
use super::outbox::{ClientRequest, Outgoing};
use super::progress::{Progress, ProgressStep};
use super::schedule::{Action, Job};
use crate::config::Settings;
use crate::judge::bench::TimingChoice;
use crate::judge::check::{CheckEvent, CheckOptions, CheckRequest};
use crate::judge::{Code, Finding, Report};
use crate::source::{SourceModel, rests_on_itself};

/// Progress inside one case is passed on at most this often.
const CASE_PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// One check of one text. The text is a copy: later edits cannot reach it.
pub(crate) struct CheckJob {
    /// Counts the checks of this server. What an older check of a file says is dropped.
    pub(crate) generation: u64,
    pub(crate) uri: Uri,
    pub(crate) path: PathBuf,
    pub(crate) version: i32,
    pub(crate) text: Arc<str>,
    pub(crate) text_hash: blake3::Hash,
    pub(crate) code_hash: blake3::Hash,
    pub(crate) model: Arc<SourceModel>,
    /// Somebody asked for it and waits.
    pub(crate) is_urgent: bool,
}

impl Job for Arc<CheckJob> {
    type File = Uri;

    fn file(&self) -> &Uri {
        &self.uri
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn is_urgent(&self) -> bool {
        self.is_urgent
    }
}

pub(crate) enum RunUpdate {
    Event(CheckEvent),
    Ended(RunEnd),
}

pub(crate) enum RunEnd {
    Report(Box<Report>),
    /// The checker panicked, or was dropped because it did not end in time.
    Failed(String),
}

/// The check that runs now.
pub(crate) struct ActiveRun {
    job: Arc<CheckJob>,
    /// The settings as they were.
    settings: Settings,
    cancel: CancellationToken,
    task: AbortHandle,
    progress: Progress,
    done: usize,
    planned: Option<usize>,
}

/// Why a check was asked for, the weightier last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    Save,
    /// The same code was saved, and something else that its verdict rests on has changed.
    Changed,
    /// The user asked for it, so it runs even when nothing changed.
    Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this file is not open in the editor")]
    NotOpen,
    #[error("only files can be checked: save this buffer first")]
    NotAFile,
    #[error("warpsmith lost track of this text: save or reopen the file")]
    Desynced,
    #[error("no kernel is launched in this file")]
    NoKernel,
    #[error("nothing changed since the last check")]
    Unchanged,
    #[error("it was checked again and again although nobody edits it")]
    Looping,
}

impl GlobalState {
    /// Schedules a check of the current text; the number of the check that will tell.
    pub(crate) fn request_check(&mut self, uri: &Uri, cause: Cause) -> Result<u64, Refusal> {
        let generation = self.next_generation;
        let file = self.files.get_mut(uri).ok_or(Refusal::NotOpen)?;
        let path = file.path.clone().ok_or(Refusal::NotAFile)?;
        if file.document.is_desynced() {
            return Err(Refusal::Desynced);
        }
        file.parse();
        let code_hash = file.code_hash();
        if let Some(run) = file.run.as_mut().filter(|run| run.job.code_hash == code_hash) {
            run.cause = run.cause.max(cause);
            return Ok(run.job.generation);
        }
        if cause == Cause::Save
            && let Err(refusal) = worth_a_check(file, code_hash, &self.settings)
        {
            if refusal == Refusal::Unchanged {
                self.ask_whether_it_stands(uri);
            }
            return Err(refusal);
        }
        if cause != Cause::Command {
            self.not_in_a_loop(uri, &path)?;
        }
        // Looked up again: the guard is another part of the state.
        let file = self.files.get_mut(uri).ok_or(Refusal::NotOpen)?;
        self.next_generation += 1;
        let text = file.document.text();
        let job = Arc::new(CheckJob {
            generation,
            uri: uri.clone(),
            path,
            version: file.document.version(),
            text_hash: blake3::hash(text.as_bytes()),
            text,
            code_hash,
            model: Arc::clone(&file.model),
            is_urgent: cause == Cause::Command,
        });
        tracing::info!(generation, version = job.version, text = %job.text_hash, ?cause, "check requested");
        file.run = Some(FileRun { job: Arc::clone(&job), cause, splices: Vec::new(), phase: Phase::Waiting });
        let now = Instant::now();
        self.refresh.want(now);
        let actions = self.scheduler.request(job, now);
        self.perform(actions);
        Ok(generation)
    }

    /// Ends the waiting or running check of `uri`; what stood there before stands again.
    pub(crate) fn cancel_check(&mut self, uri: &Uri) {
        if let Some(file) = self.files.get_mut(uri) {
            file.cancelled |= file.run.is_some();
        }
        self.forget_check(uri);
    }

    /// The same for one that nobody asked for.
    pub(crate) fn forget_check(&mut self, uri: &Uri) {
        if self.files.get_mut(uri).is_some_and(|file| file.run.take().is_some()) {
            self.refresh.want(Instant::now());
        }
        let actions = self.scheduler.cancel(uri, Instant::now());
        self.perform(actions);
    }

    /// The file of the check that shows progress under `token`.
    pub(crate) fn file_of_progress(&self, token: &ProgressToken) -> Option<Uri> {
        self.active.as_ref().filter(|run| run.progress.token() == token).map(|run| run.job.uri.clone())
    }

    pub(crate) fn file_of_active_run(&self) -> Option<Uri> {
        self.active.as_ref().map(|run| run.job.uri.clone())
    }

    pub(crate) fn has_active_run(&self) -> bool {
        self.active.is_some()
    }

    /// Ends every check, for the end of the session.
    pub(crate) fn cancel_all_checks(&mut self) {
        let open: Vec<Uri> = self.files.keys().cloned().collect();
        open.iter().for_each(|uri| self.cancel_check(uri));
        if let Some(run) = &self.active {
            run.cancel.cancel();
        }
    }

    /// Drops a check that did not end although it was told to.
    pub(crate) fn abort_active_run(&mut self) {
        if let Some(run) = &self.active {
            run.task.abort();
        }
    }

    /// Gives up a check whose events could not be taken: nothing that it says is shown, and the next one may start.
    pub(crate) fn give_up_run(&mut self, generation: u64) {
        let is_it = self.active.as_ref().is_some_and(|run| run.job.generation == generation);
        if is_it {
            self.abort_active_run();
            if let Some((job, _)) = self.end_active("dropped")
                && let Some(file) = self.files.get_mut(&job.uri)
            {
                file.run.take_if(|run| run.job.generation == generation);
                self.refresh.want(Instant::now());
                self.touched.insert(job.uri.clone());
            }
        }
        let actions = self.scheduler.finished(generation, Instant::now());
        self.perform(actions);
    }

    pub(crate) fn perform(&mut self, actions: Vec<Action<Arc<CheckJob>>>) {
        for action in actions {
            match action {
                Action::Start(job) => self.start(job),
                Action::Cancel(generation) => self.cancel_active(generation),
                Action::Abandon(generation) => {
                    tracing::error!(generation, "a cancelled check did not end in time and was dropped");
                    self.abort_active_run();
                    self.end_active("dropped");
                }
            }
        }
    }

    fn start(&mut self, job: Arc<CheckJob>) {
        let file_name = job.path.file_name().unwrap_or_default();
        let title = format!("check {}", file_name.display());
        let show_at = Instant::now() + self.context.timing.progress_delay;
        let settings = self.settings.clone();
        let executor = self.context.gate.executor();
        let (cancel, task) = spawn(
            check_request(&job.path, &job.text, &settings),
            executor,
            &self.context.workers,
            (job.generation, self.context.events.clone()),
        );
        let progress = Progress::new(job.generation, title, self.client.progress, show_at);
        self.active = Some(ActiveRun { job, settings, cancel, task, progress, done: 0, planned: None });
        self.show_phase();
        self.refresh.want(Instant::now());
    }

    fn cancel_active(&mut self, generation: u64) {
        if let Some(run) = self.active.as_mut().filter(|run| run.job.generation == generation) {
            run.cancel.cancel();
            run.progress.update("cancelling".to_owned(), 0);
        }
    }

    fn end_active(&mut self, message: &str) -> Option<(Arc<CheckJob>, Settings)> {
        let mut run = self.active.take()?;
        let step = run.progress.end(message);
        self.tell_progress(run.job.generation, step);
        Some((run.job, run.settings))
    }

    pub(crate) fn on_run_update(&mut self, generation: u64, update: RunUpdate) {
        match update {
            RunUpdate::Event(event) => self.on_check_event(generation, event),
            RunUpdate::Ended(end) => self.on_run_ended(generation, end),
        }
    }

    fn on_check_event(&mut self, generation: u64, event: CheckEvent) {
        let Some(run) = self.active.as_mut().filter(|run| run.job.generation == generation) else { return };
        if run.cancel.is_cancelled() {
            return;
        }
        let count = |run: &ActiveRun| match run.planned {
            Some(planned) => format!("{}/{planned}", run.done),
            None => plural(run.done, "case"),
        };
        let percentage = |run: &ActiveRun, part: f64| {
            let cases = run.planned.unwrap_or(0).max(run.done).max(1);
            ((run.done as f64 + part) * 100.0 / cases as f64) as u32
        };
        match event {
            CheckEvent::Preparing(step) => run.progress.update(step, 0),
            CheckEvent::Planned { cases, oracle } => {
                let before = run.done;
                run.planned = Some(before + cases);
                let label = format!("{} · {}", plural(cases, "case"), oracle.label);
                run.progress.update(label, percentage(run, 0.0));
            }
            CheckEvent::Function { entry } => {
                run.progress.update(entry.unwrap_or_default(), percentage(run, 0.0));
            }
            CheckEvent::FunctionJudged(_) => {}
            CheckEvent::CaseStarted { label, .. } => {
                run.progress.update(format!("{} · {label}", count(run)), percentage(run, 0.0));
            }
            CheckEvent::CaseProgress { programs_done, programs, .. } => {
                let part = programs_done.min(programs) as f64 / programs.max(1) as f64;
                run.progress.update(
                    format!("{} · program {programs_done} of {programs}", count(run)),
                    percentage(run, part),
                );
            }
            CheckEvent::CaseRejudged { .. } => {}
            CheckEvent::CaseFinished { record, .. } => {
                run.done += 1;
                let label = format!("{} · {}", count(run), record.case.label());
                run.progress.update(label, percentage(run, 0.0));
            }
        }
        self.show_phase();
    }

    /// Lets the file of the running check know how far it is.
    fn show_phase(&mut self) {
        let Some(active) = &self.active else { return };
        let phase = Phase::Running { done: active.done, planned: active.planned };
        let run = self.files.get_mut(&active.job.uri).and_then(|file| file.run.as_mut());
        if let Some(run) = run.filter(|run| run.job.generation == active.job.generation && run.phase != phase)
        {
            run.phase = phase;
            self.refresh.want_count(Instant::now());
        }
    }

    fn on_run_ended(&mut self, generation: u64, end: RunEnd) {
        let report = match end {
            RunEnd::Report(report) => *report,
            RunEnd::Failed(why) => failed(&why),
        };
        if self.active.as_ref().is_some_and(|run| run.job.generation == generation) {
            let words = if report.is_cancelled() { "cancelled" } else { report.verdict.words() };
            if let Some((job, settings)) = self.end_active(words) {
                self.conclude(&job, report, settings);
            }
        }
        let actions = self.scheduler.finished(generation, Instant::now());
        self.perform(actions);
    }

    /// Takes a report into its file, unless the file was closed or a newer check was asked for.
    fn conclude(&mut self, job: &CheckJob, report: Report, settings: Settings) {
        let awaited =
            |file: &&mut FileState| file.run.as_ref().is_some_and(|run| run.job.generation == job.generation);
        let Some(file) = self.files.get_mut(&job.uri).filter(awaited) else {
            tracing::info!(
                generation = job.generation,
                "the report of a check that nobody awaits was dropped"
            );
            return;
        };
        let verdict = report.verdict.words();
        tracing::info!(generation = job.generation, verdict, timeline = ?report.timeline, "check ended");
        if let Some(finding) = first_obstacle(&report) {
            tracing::info!(generation = job.generation, code = finding.code.name(), "{}", finding.message);
        }
        let cause = file.run.as_ref().map_or(Cause::Save, |run| run.cause);
        let is_refused = is_refused(&report);
        let is_news = file.is_trusted == is_refused;
        if is_refused {
            file.run = None;
        } else if report.is_cancelled() {
            // Half a check proves nothing; what stood there before stands again.
            file.run = None;
            file.cancelled = true;
        } else {
            let had_times = file.has_times();
            file.conclude(report, settings);
            if had_times || file.has_times() {
                self.hint_refresh.want(Instant::now());
            }
        }
        self.touched.insert(job.uri.clone());
        self.refresh.want(Instant::now());
        if is_news {
            self.reload_trust();
        }
        if is_refused {
            self.on_not_trusted(job, cause);
        }
    }

    pub(crate) fn on_progress_created(&mut self, generation: u64, accepted: bool) {
        if let Some(run) = self.active.as_mut().filter(|run| run.job.generation == generation) {
            let step = run.progress.created(accepted, Instant::now());
            self.tell_progress(generation, step);
        }
    }

    pub(crate) fn tick_progress(&mut self, now: Instant) {
        if let Some(run) = &mut self.active {
            let generation = run.job.generation;
            let step = run.progress.tick(now);
            self.tell_progress(generation, step);
        }
    }

    pub(crate) fn progress_deadline(&self) -> Option<Instant> {
        self.active.as_ref().and_then(|run| run.progress.deadline())
    }

    fn tell_progress(&self, generation: u64, step: Option<ProgressStep>) {
        match step {
            Some(ProgressStep::Create(token)) => {
                self.context.outbox.request(ClientRequest::CreateProgress { generation, token });
            }
            Some(ProgressStep::Send(params)) => self.context.outbox.send(Outgoing::Progress(params)),
            None => {}
        }
    }
}

/// A save starts nothing in a file without kernels, nor when the last verdict of this session stands as far as text and
/// settings say. Whether other files and the environment agree is asked then.
fn worth_a_check(file: &FileState, code_hash: blake3::Hash, settings: &Settings) -> Result<(), Refusal> {
    if file.kernels.launched().next().is_none() {
        return Err(Refusal::NoKernel);
    }
    match &file.outcome {
        // What kept it from running may be repaired by now, and a helper in another file may have changed.
        Some(outcome)
            if !outcome.is_earlier()
                && outcome.report.may_stand()
                && outcome.code_hash == code_hash
                && outcome.settings.judge_like(settings)
                && rests_on_itself(&file.document.text(), &file.model) =>
        {
            Err(Refusal::Unchanged)
        }
        _ => Ok(()),
    }
}

/// The report of a check that gave none.
fn failed(why: &str) -> Report {
    Report::ended_at_once(Finding::plain(Code::JudgeFailed, format!("warpsmith itself failed: {why}")))
}

/// What is asked of the checker about a text: the whole file, whichever lens was clicked, as a narrowed report would clear
/// findings of kernels that were not judged again.
pub(crate) fn check_request(path: &Path, text: &Arc<str>, settings: &Settings) -> CheckRequest {
    CheckRequest {
        path: path.to_owned(),
        text: Arc::clone(text),
        python: settings.python.clone(),
        options: CheckOptions {
            device: settings.device,
            when_busy: settings.when_busy,
            timing: if settings.on_save.times_several() { TimingChoice::Some } else { TimingChoice::First },
            ..CheckOptions::default()
        },
    }
}

/// Runs a check on the workers; what it says reaches the main loop in order, its end last.
fn spawn(
    request: CheckRequest,
    executor: Executor,
    workers: &Handle,
    (generation, events): (u64, EventSender),
) -> (CancellationToken, AbortHandle) {
    let cancel = CancellationToken::new();
    let (sender, receiver) = mpsc::unbounded_channel();
    let token = cancel.clone();
    let check = workers.spawn(executor.check(request, sender, token));
    let abort = check.abort_handle();
    workers.spawn(forward(generation, check, receiver, events));
    (cancel, abort)
}

async fn forward(
    generation: u64,
    mut check: JoinHandle<Report>,
    mut progress: UnboundedReceiver<CheckEvent>,
    events: EventSender,
) {
    let mut last_case_progress: Option<Instant> = None;
    let mut pass_on = |event: CheckEvent| {
        if let CheckEvent::CaseProgress { .. } = event {
            let now = Instant::now();
            if last_case_progress.is_some_and(|last| now - last < CASE_PROGRESS_INTERVAL) {
                return;
            }
            last_case_progress = Some(now);
        }
        // Fails only when the main loop has ended.
        let _ = events.send(Event::Run { generation, update: RunUpdate::Event(event) });
    };
    let report = loop {
        tokio::select! {
            biased;
            Some(event) = progress.recv() => pass_on(event),
            report = &mut check => {
                while let Ok(event) = progress.try_recv() {
                    pass_on(event);
                }
                break report;
            }
        }
    };
    let end = match report {
        Ok(report) => RunEnd::Report(Box::new(report)),
        Err(error) if error.is_panic() => RunEnd::Failed(panic_words(&*error.into_panic())),
        Err(_) => RunEnd::Failed("the check was dropped".to_owned()),
    };
    let _ = events.send(Event::Run { generation, update: RunUpdate::Ended(end) });
}

pub(crate) fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}
