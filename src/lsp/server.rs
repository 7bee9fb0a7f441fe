//! From a pair of streams to a running server, and to a clean end: `exit`, the end of the input and the
//! death of the client's process all lead here.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower_lsp::{LspService, Server};

use super::backend::Backend;
use super::event::Event;
use super::frames::{self, InputEnd};
use super::gate::Gate;
use super::global_state::{Context, Timing};
use super::outbox::{self, Outbox};
use super::{logging, main_loop};
use crate::judge::check::Checker;
use crate::trust::TrustFile;

/// Handlers only wait for the main loop, so many may wait at once; with a low limit, slow answers would
/// hold up edits and cancellations behind them.
const CONCURRENT_MESSAGES: usize = 256;
/// After the input ended, how long answers under way may take.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
const PIPE_BYTES: usize = 64 << 10;
const WORKER_THREADS: usize = 2;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// `exit`, or the end of the input.
    Transport,
    /// The process named in `initialize` is gone.
    ParentGone,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub reason: StopReason,
    /// `shutdown` came before the end, as the protocol asks.
    pub after_shutdown: bool,
}

/// What a server works with.
pub struct Host {
    pub checker: Arc<dyn Checker>,
    /// Where it is remembered which folders are trusted; without it every server asks anew.
    pub trust: Option<TrustFile>,
    pub timing: Timing,
}

/// Serves one client on standard input and output until it leaves. Exit code 0 if it said `shutdown`
/// before, 1 otherwise. Logging must have been started by the caller; nothing else may use stdout.
///
/// # Errors
/// When no runtime or thread can be started, or the main loop died.
pub fn run_stdio(host: Host) -> anyhow::Result<ExitCode> {
    logging::log_panics();
    if std::io::stdin().is_terminal() {
        tracing::warn!("stdin is a terminal: the language server is started by an editor, not by hand");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build()
        .context("the runtime could not be started")?;
    let session = serve(tokio::io::stdin(), tokio::io::stdout(), host);
    let stopped = runtime.block_on(session);
    // A thread may still be blocked in a read of stdin; dropping the runtime would wait for it.
    runtime.shutdown_background();
    let stopped = stopped?;
    tracing::info!(?stopped, "the session ended");
    Ok(if stopped.after_shutdown { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Serves one client on any pair of streams. Must be called on a runtime with more than one thread.
///
/// # Errors
/// When the main loop's thread cannot be started, panicked, or did not end in time.
pub async fn serve<I, O>(input: I, output: O, host: Host) -> anyhow::Result<Stopped>
where
    I: AsyncRead + Unpin + Send,
    O: AsyncWrite + Send,
{
    let (events, received) = mpsc::unbounded_channel();
    let (outbox, messages) = Outbox::new();
    let parent_gone = CancellationToken::new();
    let Host { checker, trust, timing } = host;
    let context = Context {
        events: events.clone(),
        outbox,
        workers: Handle::current(),
        gate: Gate::new(checker, trust),
        timing,
        parent_gone: parent_gone.clone(),
        last_status: Arc::default(),
    };
    let mut ended = main_loop::spawn(context, received).context("the main loop could not be started")?;

    let (service, socket) = LspService::build(|client| {
        tokio::spawn(outbox::run(client, messages, events.clone()));
        Backend::new(events.clone())
    })
    .custom_method("window/workDoneProgress/cancel", Backend::work_done_progress_cancel)
    .finish();
    let (to_transport, messages) = tokio::io::duplex(PIPE_BYTES);
    let transport =
        Server::new(messages, output, socket).concurrency_level(CONCURRENT_MESSAGES).serve(service);
    let mut input_end = InputEnd::default();
    let input_gone = async {
        if let Err(error) = frames::forward(input, to_transport, &mut input_end).await {
            tracing::warn!("the input ended badly: {error}");
        }
        // The transport ends by itself unless the client has stopped reading.
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    let reason = tokio::select! {
        () = transport => StopReason::Transport,
        () = input_gone => StopReason::Transport,
        () = parent_gone.cancelled() => StopReason::ParentGone,
    };

    // Fails only when the loop is dead already, which the next line finds out.
    let _ = events.send(Event::Stop);
    tokio::time::timeout(2 * timing.stop_limit, &mut ended)
        .await
        .context("the main loop did not end in time")?
        .context("the main loop panicked")?;
    Ok(Stopped { reason, after_shutdown: input_end.after_shutdown })
}
