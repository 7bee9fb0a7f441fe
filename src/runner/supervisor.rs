//! The Rust end of one Python supervisor: starts it, sends requests, matches replies, ends it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::protocol::{Envelope, Event, Line, Outcome, PROTOCOL_VERSION, Reply, Request, WarmDevice};

/// How long the supervisor may take to say `ready`. It imports nothing but the standard library.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// How long it may take to end after its stdin was closed.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How much of its stderr is kept for error messages.
const STDERR_TAIL_BYTES: usize = 16 * 1024;
/// Longest line taken from it; a longer one is a fault.
const LINE_LIMIT_BYTES: u64 = 16 * 1024 * 1024;
/// Of a line that cannot be read, in the log.
const LOGGED_CHARACTERS: usize = 500;

/// Why a request got no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("cannot start `{python}`: {reason}; `warpsmith doctor` looks at it")]
    Start { python: PathBuf, reason: String },
    #[error("the Python worker ended unexpectedly; check again to start another one{}", tail_clause(.stderr))]
    Ended { stderr: String },
    #[error(
        "the Python worker speaks protocol {theirs}, this binary speaks {PROTOCOL_VERSION}; remove the folder `worker` in warpsmith's cache and check again"
    )]
    Protocol { theirs: u32 },
}

fn tail_clause(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!(". Its last words:\n{text}"),
    }
}

/// What was learnt from the `ready` line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerVersions {
    pub python: String,
    pub torch: Option<String>,
    pub triton: Option<String>,
    pub numpy: Option<String>,
}

/// Whoever can answer requests: the supervisor, or a fake in tests of the judge.
pub trait Worker: Send + Sync {
    /// Sends one request and waits for its reply.
    fn request(&self, request: Request) -> impl Future<Output = Result<Outcome, WorkerError>> + Send;
    /// Events from now on.
    fn events(&self) -> broadcast::Receiver<Event>;
    /// What it said of its environment when it started.
    fn versions(&self) -> WorkerVersions;
}

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Outcome>>>>;

/// A running supervisor. Dropping it closes its stdin, on which it kills its runners and ends; whoever
/// does not end within two seconds is killed.
pub struct Supervisor {
    next_id: AtomicU64,
    lines: mpsc::UnboundedSender<String>,
    pending: Pending,
    events: broadcast::Sender<Event>,
    versions: WorkerVersions,
    device: Arc<OnceLock<WarmDevice>>,
    ended: watch::Receiver<Option<String>>,
}

/// The GPU that a worker is to run on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerDevice {
    /// `cuda:0`: what people call it.
    pub name: String,
    /// What CUDA is allowed to see: its UUID.
    pub visible: String,
}

/// How a worker runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerManner<'a> {
    /// `None` runs kernels in Triton's interpreter.
    pub device: Option<&'a WorkerDevice>,
    /// Its processes have a lower priority than what else the user does.
    pub steps_aside: bool,
}

impl Supervisor {
    /// Starts `python -I -X utf8 main_py`, for a GPU when one is named, and waits for its first line.
    pub async fn start(python: &Path, main_py: &Path, manner: WorkerManner<'_>) -> Result<Self, WorkerError> {
        let start_error = |reason: String| WorkerError::Start { python: python.to_path_buf(), reason };
        let mut child = Command::new(python)
            // `-B`: nothing but what the binary holds may lie in the worker's folder.
            .args(["-I", "-B", "-X", "utf8"])
            .arg(main_py)
            .args(manner.device.iter().flat_map(|on| ["--device", &on.name, "--visible", &on.visible]))
            .args(manner.steps_aside.then_some("--step-aside"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Never in the editor's process group: a signal for one must not reach the other.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| start_error(error.to_string()))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(start_error("its pipes are missing".to_owned()));
        };
        let stderr_tail = Arc::new(Mutex::new(String::new()));
        tokio::spawn(keep_tail(stderr, Arc::clone(&stderr_tail)));
        let mut reader = BufReader::new(stdout);
        let ready = match tokio::time::timeout(READY_LIMIT, next_line(&mut reader)).await {
            Ok(Some(line)) => line,
            Ok(None) => return Err(WorkerError::Ended { stderr: settled_tail(&stderr_tail).await }),
            Err(_) => return Err(start_error(format!("not ready after {} s", READY_LIMIT.as_secs()))),
        };
        let versions = read_ready(&ready).map_err(|theirs| match theirs {
            Some(theirs) => WorkerError::Protocol { theirs },
            None => start_error(format!("its first line is not `ready`: {ready}")),
        })?;

        // Every line in it is a request that somebody waits for, and a check has a handful at a time.
        let (lines, line_queue) = mpsc::unbounded_channel();
        let (events, _) = broadcast::channel(256);
        let (ended_sender, ended) = watch::channel(None);
        let pending = Pending::default();
        tokio::spawn(write_lines(stdin, line_queue, child));
        let device = Arc::<OnceLock<WarmDevice>>::default();
        let heard =
            Heard { pending: Arc::clone(&pending), events: events.clone(), device: Arc::clone(&device) };
        tokio::spawn(read_lines(reader, heard, ended_sender, stderr_tail));
        Ok(Self { next_id: AtomicU64::new(1), lines, pending, events, versions, device, ended })
    }

    /// The GPU it runs on; `None` without one, and until it is warm. It is once a request was answered.
    pub fn device(&self) -> Option<&WarmDevice> {
        self.device.get()
    }

    /// Whether the process has ended (its pipe is closed).
    pub fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Waits until the process has ended and its pipe is closed.
    pub fn when_ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.ended.clone();
        async move {
            // An error means that the reader is gone, which is the end as well.
            let _ = ended.wait_for(Option::is_some).await;
        }
    }

    fn gone(&self) -> WorkerError {
        WorkerError::Ended { stderr: self.ended.borrow().clone().unwrap_or_default() }
    }
}

impl Worker for Supervisor {
    async fn request(&self, request: Request) -> Result<Outcome, WorkerError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = serde_json::to_string(&Envelope { id, request: &request }).map_err(|_| {
            WorkerError::Ended { stderr: "a request could not be written as JSON".to_owned() }
        })?;
        let (sender, receiver) = oneshot::channel();
        lock(&self.pending).insert(id, sender);
        // After the insert: the reader clears what is pending when the process ends, and only what it
        // finds then.
        if self.has_ended() || self.lines.send(line).is_err() {
            lock(&self.pending).remove(&id);
            return Err(self.gone());
        }
        receiver.await.map_err(|_| self.gone())
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    fn versions(&self) -> WorkerVersions {
        self.versions.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `Err(Some(version))` for a foreign protocol, `Err(None)` for anything that is not `ready`.
fn read_ready(line: &str) -> Result<WorkerVersions, Option<u32>> {
    match serde_json::from_str(line) {
        Ok(Line::Event(Event::Ready {
            protocol: PROTOCOL_VERSION, python, torch, triton, numpy, ..
        })) => Ok(WorkerVersions { python, torch, triton, numpy }),
        Ok(Line::Event(Event::Ready { protocol, .. })) => Err(Some(protocol)),
        _ => Err(None),
    }
}

/// Owns stdin and the child: when the last sender is dropped, stdin closes and the child is awaited,
/// then killed. The runners of a killed supervisor end by themselves (their zygote sees the end of its
/// socket).
async fn write_lines(mut stdin: ChildStdin, mut queue: mpsc::UnboundedReceiver<String>, mut child: Child) {
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            break;
        }
    }
    drop(stdin);
    if tokio::time::timeout(EXIT_GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// Where what it says goes.
struct Heard {
    pending: Pending,
    events: broadcast::Sender<Event>,
    device: Arc<OnceLock<WarmDevice>>,
}

async fn read_lines(
    mut reader: BufReader<impl AsyncRead + Unpin>,
    Heard { pending, events, device }: Heard,
    ended: watch::Sender<Option<String>>,
    stderr_tail: Arc<Mutex<String>>,
) {
    while let Some(line) = next_line(&mut reader).await {
        match serde_json::from_str(&line) {
            Ok(Line::Reply(Reply { id, outcome })) => {
                if let Some(sender) = lock(&pending).remove(&id) {
                    let _ = sender.send(outcome);
                }
            }
            Ok(Line::Event(event)) => {
                if let Event::Warm { device: Some(warm), .. } = &event {
                    let _ = device.set(warm.clone());
                }
                let _ = events.send(event);
            }
            Err(error) => {
                tracing::error!(%error, line = %start_of(&line), "unreadable line from the Python worker");
                // Whoever waits for this answer must not wait for ever.
                if let Some(sender) = addressee(&line).and_then(|id| lock(&pending).remove(&id)) {
                    let message = format!("the Python worker's answer makes no sense to us ({error})");
                    let _ = sender.send(Outcome::Failed { code: "unreadable-answer".to_owned(), message });
                }
            }
        }
    }
    let tail = settled_tail(&stderr_tail).await;
    let _ = ended.send(Some(tail));
    lock(&pending).clear();
}

/// The request that a line answers, when nothing else of the line can be read.
fn addressee(line: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Addressed {
        id: u64,
    }
    serde_json::from_str::<Addressed>(line).ok().map(|addressed| addressed.id)
}

/// As much of a line as a log should hold.
fn start_of(line: &str) -> String {
    line.chars().take(LOGGED_CHARACTERS).collect()
}

/// The next line without its end; `None` at the end of the stream or past [`LINE_LIMIT_BYTES`].
async fn next_line(reader: &mut BufReader<impl AsyncRead + Unpin>) -> Option<String> {
    let mut bytes = Vec::new();
    let read = reader.take(LINE_LIMIT_BYTES).read_until(b'\n', &mut bytes).await.ok()?;
    if read == 0 || bytes.pop() != Some(b'\n') {
        return None;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

async fn keep_tail(mut stream: impl AsyncRead + Unpin, tail: Arc<Mutex<String>>) {
    let mut buffer = [0_u8; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        let text = String::from_utf8_lossy(&buffer[..read]);
        tracing::debug!(target: "worker", "{text}");
        let mut tail = lock(&tail);
        tail.push_str(&text);
        if tail.len() > STDERR_TAIL_BYTES {
            let mut cut = tail.len() - STDERR_TAIL_BYTES;
            while !tail.is_char_boundary(cut) {
                cut += 1;
            }
            tail.drain(..cut);
        }
    }
}

/// stdout and stderr close at the same moment; gives the other pipe a moment to be read.
async fn settled_tail(tail: &Arc<Mutex<String>>) -> String {
    tokio::time::sleep(Duration::from_millis(50)).await;
    lock(tail).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What request 3 is answered with when the worker says these lines and ends.
    async fn answer_to_3(lines: &str) -> Option<Outcome> {
        let (sender, receiver) = oneshot::channel();
        let pending = Pending::default();
        lock(&pending).insert(3, sender);
        let (events, _) = broadcast::channel(1);
        let (ended, _) = watch::channel(None);
        let reader = BufReader::new(lines.as_bytes());
        let heard = Heard { pending: Arc::clone(&pending), events, device: Arc::default() };
        read_lines(reader, heard, ended, Arc::default()).await;
        receiver.await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_gets_an_answer_or_an_end() {
        let good = answer_to_3("no JSON\n{\"id\":2,\"done\":{}}\n{\"id\":3,\"done\":{}}\n").await;
        assert!(matches!(good, Some(Outcome::Done(_))), "{good:?}");
        for unreadable in [r#"{"id":3,"what":{}}"#, r#"{"id":3,"died":{"reason":"boredom"}}"#, r#"{"id":3}"#]
        {
            let answer = answer_to_3(&format!("{unreadable}\n")).await;
            let Some(Outcome::Failed { code, .. }) = answer else { panic!("{unreadable}: {answer:?}") };
            assert_eq!(code, "unreadable-answer");
        }
        assert!(answer_to_3(r#"{"id":3,"done":{}} cut off"#).await.is_none());
    }
}
