//! All state of the language server. The main loop owns it; nobody else mutates it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower_lsp::ls_types::{PublishDiagnosticsParams, Uri};

use super::capabilities::ClientProfile;
use super::diagnostics::diagnostics;
use super::event::EventSender;
use super::ext::{Health, ServerStatusParams};
use super::file_state::FileState;
use super::findings::is_of_environment;
use super::gate::{Gate, NOT_TRUSTED};
use super::lens::{first_obstacle, reason};
use super::loops::LoopGuard;
use super::outbox::{ClientAnswer, ClientRequest, Outbox, Outgoing};
use super::progress::PROGRESS_DELAY;
use super::refresh::LensRefresh;
use super::runs::{ActiveRun, CheckJob};
use super::schedule::{DEBOUNCE, Scheduler};
use super::settings::Layers;
use crate::config::Settings;
use crate::judge::Code;

/// Between an edit that takes long to look at and the look at it, if no other edit comes.
const PAUSE: Duration = Duration::from_millis(250);

/// How long things wait. Tests shorten or stretch these.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between a save and its check, for a still newer save.
    pub debounce: Duration,
    /// Checks shorter than this show no progress.
    pub progress_delay: Duration,
    /// How long checks wait for the client to tell its settings.
    pub settings_limit: Duration,
    /// Between two looks at the client's process.
    pub parent_poll: Duration,
    /// How long a running check may take to end when the session ends.
    pub stop_limit: Duration,
    /// A turn of the main loop that lasts longer is told of.
    pub stuck_turn: Duration,
    /// Such a turn ends the process: for tests, which would otherwise only time out.
    pub abort_when_stuck: bool,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            debounce: DEBOUNCE,
            progress_delay: PROGRESS_DELAY,
            settings_limit: Duration::from_secs(5),
            parent_poll: Duration::from_secs(1),
            stop_limit: Duration::from_secs(1),
            stuck_turn: Duration::from_secs(5),
            abort_when_stuck: false,
        }
    }
}

/// What the state reaches out to.
pub(crate) struct Context {
    pub(crate) events: EventSender,
    pub(crate) outbox: Outbox,
    /// Where checks and read-only requests run.
    pub(crate) workers: Handle,
    pub(crate) gate: Gate,
    pub(crate) timing: Timing,
    /// Cancelled when the client's process is gone.
    pub(crate) parent_gone: CancellationToken,
    /// The status that the client shows, if it shows one: whoever looks at the loop from outside may send another.
    pub(crate) last_status: Arc<Mutex<Option<ServerStatusParams>>>,
}

pub(crate) struct GlobalState {
    pub(crate) context: Context,
    pub(crate) client: Arc<ClientProfile>,
    pub(crate) settings: Settings,
    pub(crate) layers: Layers,
    /// Open documents.
    pub(crate) files: HashMap<Uri, FileState>,
    pub(crate) scheduler: Scheduler<Arc<CheckJob>>,
    pub(crate) active: Option<ActiveRun>,
    pub(crate) next_generation: u64,
    pub(crate) refresh: LensRefresh,
    /// The same for hints, which only times change.
    pub(crate) hint_refresh: LensRefresh,
    /// Files whose diagnostics may have changed in this turn.
    pub(crate) touched: BTreeSet<Uri>,
    /// Files whose edits take long to look at: looked at when the typing pauses.
    paused: HashMap<Uri, Instant>,
    pub(crate) loops: LoopGuard,
    /// When lenses last told how old a verdict of the store is.
    pub(crate) age_told_at: Option<Instant>,
    status: Option<ServerStatusParams>,
    pub(crate) initialized: bool,
    pub(crate) has_told_of_panic: bool,
}

/// What a read-only request sees: one file as it was when the request came.
pub(crate) struct Snapshot {
    pub(crate) client: Arc<ClientProfile>,
    pub(crate) file: Option<FileState>,
}

impl GlobalState {
    pub(crate) fn new(context: Context) -> Self {
        Self {
            scheduler: Scheduler::new(context.timing.debounce),
            context,
            client: Arc::default(),
            settings: Settings::default(),
            layers: Layers::default(),
            files: HashMap::new(),
            active: None,
            next_generation: 1,
            refresh: LensRefresh::default(),
            hint_refresh: LensRefresh::default(),
            touched: BTreeSet::new(),
            paused: HashMap::new(),
            loops: LoopGuard::default(),
            age_told_at: None,
            status: None,
            initialized: false,
            has_told_of_panic: false,
        }
    }

    pub(crate) fn snapshot(&mut self, uri: &Uri) -> Snapshot {
        let file = self.files.get_mut(uri).map(|file| {
            bring_up_to_date(file);
            file.clone()
        });
        Snapshot { client: Arc::clone(&self.client), file }
    }

    pub(crate) fn on_answer(&mut self, answer: ClientAnswer) {
        match answer {
            ClientAnswer::ProgressCreated { generation, accepted } => {
                self.on_progress_created(generation, accepted);
            }
            ClientAnswer::LensesRefreshed => self.refresh.answered(),
            ClientAnswer::HintsRefreshed => self.hint_refresh.answered(),
            ClientAnswer::Settings { number, answer } => self.on_settings(number, answer),
            ClientAnswer::SettingsLate => self.end_wait_for_settings(),
            ClientAnswer::Trust { place, answer } => self.on_trust_answer(&place, answer),
        }
    }

    /// When [`Self::settle`] must run next, if nothing happens before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let refresh = self.refresh.deadline().filter(|_| self.client.lens_refresh);
        let hints = self.hint_refresh.deadline().filter(|_| self.client.hint_refresh);
        let paused = self.paused.values().min().copied();
        let checks = self.scheduler.deadline().filter(|_| !self.layers.is_awaited);
        [checks, self.progress_deadline(), refresh, hints, paused, self.age_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The end of a turn: what is due is done, what changed is told.
    pub(crate) fn settle(&mut self) {
        let now = Instant::now();
        if !self.layers.is_awaited {
            let actions = self.scheduler.tick(now);
            self.perform(actions);
        }
        self.tick_progress(now);
        self.tick_age(now);
        let over = |due: &Instant| *due <= now;
        let rested: Vec<Uri> =
            self.paused.iter().filter(|(_, due)| over(due)).map(|(uri, _)| uri.clone()).collect();
        self.paused.retain(|_, due| !over(due));
        self.touched.extend(rested);
        // One by one: a panic must not lose the others.
        while let Some(uri) = self.touched.pop_first() {
            self.publish(&uri);
        }
        self.tell_status();
        // After the diagnostics, so that the lenses the client fetches agree with them.
        if self.client.lens_refresh && self.refresh.tick(now) {
            self.context.outbox.request(ClientRequest::RefreshLenses);
        }
        if self.client.hint_refresh && self.hint_refresh.tick(now) {
            self.context.outbox.request(ClientRequest::RefreshHints);
        }
    }

    /// A file was edited. The look at it waits for a pause where it takes longer than the next keystroke.
    pub(crate) fn edited(&mut self, uri: Uri) {
        if self.files.get(&uri).is_some_and(FileState::is_slow) {
            self.paused.insert(uri, Instant::now() + PAUSE);
        } else {
            self.touched.insert(uri);
        }
    }

    /// Publishes the diagnostics of an open file if they changed.
    fn publish(&mut self, uri: &Uri) {
        let Some(file) = self.files.get_mut(uri) else { return };
        bring_up_to_date(file);
        let diagnostics = diagnostics(uri, file, &self.client);
        if *file.published == diagnostics {
            return;
        }
        file.published = Arc::new(diagnostics.clone());
        let version = Some(file.document.version());
        self.context.outbox.send(Outgoing::Diagnostics(PublishDiagnosticsParams::new(
            uri.clone(),
            diagnostics,
            version,
        )));
    }

    fn tell_status(&mut self) {
        if !self.client.server_status || !self.initialized {
            return;
        }
        let status = self.current_status();
        if self.status.as_ref() != Some(&status) {
            *self.context.last_status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status.clone());
            self.context.outbox.send(Outgoing::Status(status.clone()));
            self.status = Some(status);
        }
    }

    /// Somebody else sent one meanwhile.
    pub(crate) fn forget_status(&mut self) {
        self.status = None;
        self.tell_status();
    }

    fn current_status(&self) -> ServerStatusParams {
        let obstacles = self.files.values().filter_map(|file| {
            let finding = first_obstacle(&file.outcome.as_ref()?.report)?;
            let health = match finding.code {
                Code::JudgeFailed => Health::Error,
                code if is_of_environment(code) => Health::Warning,
                _ => return None,
            };
            Some((health, format!("could not run: {}", reason(finding))))
        });
        let worst = obstacles.max_by_key(|(health, message)| (*health == Health::Error, message.clone()));
        let (health, message) = worst.map_or((Health::Ok, None), |(health, message)| (health, Some(message)));
        let trusted = self.is_trusted();
        let message = message.or_else(|| (!trusted).then(|| NOT_TRUSTED.to_owned()));
        ServerStatusParams { health, quiescent: self.scheduler.is_idle(), message, trusted }
    }

    /// Whether the kernels that are open may be run; without any, whether those of the editor's folders may.
    fn is_trusted(&self) -> bool {
        let mut with_kernels =
            self.files.values().filter(|file| file.kernels.shown().next().is_some()).peekable();
        match with_kernels.peek() {
            Some(_) => with_kernels.all(|file| file.is_trusted),
            None => self.context.gate.is_open_for_workspace(),
        }
    }
}

fn bring_up_to_date(file: &mut FileState) {
    file.parse();
    if file.outcome.is_some() {
        file.code_hash();
    }
}
