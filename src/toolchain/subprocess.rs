//! Runs a tool to its end, never longer than a deadline, and leaves nothing of it behind.
//!
//! The tool gets a process group of its own, no stdin, and a death signal for the case that we die
//! first. When it ends, or when its time is up, the whole group is killed before its leader is reaped,
//! so the group's number cannot belong to anybody else.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// From the polite signal to the one that cannot be refused.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is still read after the tool has ended. It only lasts when a process left the group
/// and kept the pipe.
const DRAIN: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);

/// What a tool may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub wall: Duration,
    /// Kept of stdout from its start and of stderr from its end; the rest is read and dropped.
    pub output_bytes: usize,
}

impl Limits {
    /// For a short question to a tool: 256 KiB of output.
    pub fn seconds(seconds: u64) -> Self {
        Self { wall: Duration::from_secs(seconds), output_bytes: 256 << 10 }
    }
}

/// How the tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    /// By a signal that was not ours.
    Signalled(i32),
    TimedOut,
    /// The observer asked for it.
    Stopped,
}

/// A tool that has ended.
#[derive(Debug)]
pub struct Finished {
    pub end: End,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Some output was dropped.
    pub truncated: bool,
    pub elapsed: Duration,
}

impl Finished {
    /// It ended by itself with status 0.
    pub fn succeeded(&self) -> bool {
        self.end == End::Exited(0)
    }

    /// Bytes that are no UTF-8 are replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What ended it, with the last line that it wrote to stderr: `exit code 1: no such option`.
    pub fn failure(&self) -> String {
        let end = match self.end {
            End::Exited(code) => format!("exit code {code}"),
            End::Signalled(signal) => format!("killed by signal {signal}"),
            End::TimedOut => format!("no answer in {} s", self.elapsed.saturating_sub(GRACE).as_secs()),
            End::Stopped => "stopped".to_owned(),
        };
        let text = String::from_utf8_lossy(&self.stderr);
        match text.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
            Some(line) => format!("{end}: {}", line.chars().take(300).collect::<String>()),
            None => end,
        }
    }
}

/// What happened since the observer was last called.
#[derive(Debug)]
pub enum Observed<'a> {
    /// A line of stdout or stderr, without its end. A carriage return ends a line too.
    Line(&'a str),
    /// At most 100 ms went by.
    Tick,
}

/// Whether the tool may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Stop,
}

/// Runs a command and waits for it.
///
/// # Errors
/// Only when it cannot be started; everything else is in [`Finished::end`].
pub fn run(command: Command, limits: Limits) -> std::io::Result<Finished> {
    run_observed(command, limits, &mut |_| Flow::Continue)
}

/// Like [`run`], with every line shown to `observe` as it comes.
///
/// # Errors
/// Only when the command cannot be started.
pub fn run_observed(
    mut command: Command,
    limits: Limits,
    observe: &mut dyn FnMut(Observed<'_>) -> Flow,
) -> std::io::Result<Finished> {
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    die_with_us(&mut command);
    let mut group = Group { child: command.spawn()?, reaped: false };
    let events = group.watch()?;
    let mut output = Output::new(limits.output_bytes);
    let end = group.supervise(&events, started + limits.wall, &mut output, observe);
    group.kill(Signal::KILL);
    output.drain(&events, observe);
    let status = group.reap()?;
    let end = end.unwrap_or_else(|| natural_end(status));
    let Output { stdout, stderr, truncated, .. } = output;
    Ok(Finished { end, stdout, stderr, truncated, elapsed: started.elapsed() })
}

#[cfg(target_os = "linux")]
fn die_with_us(command: &mut Command) {
    let set = || rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into);
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(set) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_us(_: &mut Command) {}

fn natural_end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Signalled(signal.unwrap_or(0)),
    }
}

enum Event {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// One of the two pipes is at its end.
    Closed,
    Ended,
}

/// A child that leads its own group. Dropped, it takes the group with it.
struct Group {
    child: Child,
    reaped: bool,
}

impl Group {
    /// Two threads that read and one that waits, without reaping.
    fn watch(&mut self) -> std::io::Result<Receiver<Event>> {
        let (sender, events) = sync_channel(64);
        if let Some(pipe) = self.child.stdout.take() {
            forward(pipe, sender.clone(), Event::Stdout)?;
        }
        if let Some(pipe) = self.child.stderr.take() {
            forward(pipe, sender.clone(), Event::Stderr)?;
        }
        let pid = self.pid();
        std::thread::Builder::new().name("tool-wait".into()).spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options) {}
            // The receiver is gone when the tool was given up.
            let _ = sender.send(Event::Ended);
        })?;
        Ok(events)
    }

    /// Until the leader has ended: `None` by itself, otherwise why we ended it.
    fn supervise(
        &self,
        events: &Receiver<Event>,
        deadline: Instant,
        output: &mut Output,
        observe: &mut dyn FnMut(Observed<'_>) -> Flow,
    ) -> Option<End> {
        loop {
            let now = Instant::now();
            if now >= deadline {
                self.terminate(events, output);
                return Some(End::TimedOut);
            }
            let flow = match events.recv_timeout(TICK.min(deadline - now)) {
                Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => return None,
                Ok(event) => output.take(event, observe),
                Err(RecvTimeoutError::Timeout) => observe(Observed::Tick),
            };
            if flow == Flow::Stop {
                self.terminate(events, output);
                return Some(End::Stopped);
            }
        }
    }

    /// TERM to the group, and up to [`GRACE`] for its leader to end.
    fn terminate(&self, events: &Receiver<Event>, output: &mut Output) {
        self.kill(Signal::TERM);
        let until = Instant::now() + GRACE;
        loop {
            match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Ended) | Err(_) => return,
                Ok(event) => {
                    output.take(event, &mut |_| Flow::Continue);
                }
            }
        }
    }

    fn kill(&self, signal: Signal) {
        // Fails only when the group is gone already.
        let _ = rustix::process::kill_process_group(self.pid(), signal);
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn reap(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn forward(
    mut pipe: impl Read + Send + 'static,
    sender: SyncSender<Event>,
    wrap: fn(Vec<u8>) -> Event,
) -> std::io::Result<()> {
    let read = move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            match pipe.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    if sender.send(wrap(buffer[..count].to_vec())).is_err() {
                        return;
                    }
                }
            }
        }
        let _ = sender.send(Event::Closed);
    };
    std::thread::Builder::new().name("tool-output".into()).spawn(read).map(drop)
}

struct Output {
    limit: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    truncated: bool,
    open: usize,
    stdout_lines: Lines,
    stderr_lines: Lines,
}

impl Output {
    fn new(limit: usize) -> Self {
        let (stdout_lines, stderr_lines) = (Lines::default(), Lines::default());
        Self { limit, stdout: vec![], stderr: vec![], truncated: false, open: 2, stdout_lines, stderr_lines }
    }

    fn take(&mut self, event: Event, observe: &mut dyn FnMut(Observed<'_>) -> Flow) -> Flow {
        match event {
            Event::Stdout(bytes) => {
                let room = self.limit - self.stdout.len();
                self.truncated |= bytes.len() > room;
                self.stdout.extend_from_slice(&bytes[..bytes.len().min(room)]);
                self.stdout_lines.feed(&bytes, observe)
            }
            Event::Stderr(bytes) => {
                self.stderr.extend_from_slice(&bytes);
                let surplus = self.stderr.len().saturating_sub(self.limit);
                self.truncated |= surplus > 0;
                self.stderr.drain(..surplus);
                self.stderr_lines.feed(&bytes, observe)
            }
            Event::Closed => {
                self.open -= 1;
                Flow::Continue
            }
            Event::Ended => Flow::Continue,
        }
    }

    /// What is still in the pipes after the end. The end and the last lines come from different threads, so
    /// these lines are observed like all others.
    fn drain(&mut self, events: &Receiver<Event>, observe: &mut dyn FnMut(Observed<'_>) -> Flow) {
        let until = Instant::now() + DRAIN;
        while self.open > 0 {
            match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(event) => self.take(event, observe),
                Err(_) => return,
            };
        }
    }
}

/// Cuts a byte stream into lines; a line over 64 KiB loses its end.
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], observe: &mut dyn FnMut(Observed<'_>) -> Flow) -> Flow {
        for &byte in bytes {
            if byte != b'\n' && byte != b'\r' {
                if self.line.len() < 64 << 10 {
                    self.line.push(byte);
                }
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).into_owned();
            self.line.clear();
            if !line.is_empty() && observe(Observed::Line(&line)) == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    fn limits(wall_ms: u64, output_bytes: usize) -> Limits {
        Limits { wall: Duration::from_millis(wall_ms), output_bytes }
    }

    /// Waits for a signalled process to be gone, at most ten seconds.
    fn is_gone(pid: &str) -> bool {
        (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !lives(pid)
        })
    }

    /// Whether a process exists and is no zombie.
    fn lives(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
    }

    #[test]
    fn output_and_exit_code() {
        let finished = run(shell("echo out; echo err >&2; exit 3"), Limits::seconds(20)).unwrap();
        assert_eq!(finished.end, End::Exited(3));
        assert_eq!((&finished.stdout[..], &finished.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert!(!finished.truncated);
        assert_eq!(finished.failure(), "exit code 3: err");
    }

    /// However late the reading threads are.
    #[test]
    fn every_line_is_observed() {
        for _ in 0..50 {
            let mut lines = Vec::new();
            run_observed(shell("echo first >&2; echo last"), Limits::seconds(20), &mut |observed| {
                if let Observed::Line(line) = observed {
                    lines.push(line.to_owned());
                }
                Flow::Continue
            })
            .unwrap();
            lines.sort();
            assert_eq!(lines, ["first", "last"]);
        }
    }

    #[test]
    fn a_signal_is_told_apart() {
        assert_eq!(run(shell("kill -SEGV $$"), Limits::seconds(20)).unwrap().end, End::Signalled(11));
    }

    #[test]
    fn stdin_is_empty() {
        let finished = run(shell("read line || echo nothing"), Limits::seconds(20)).unwrap();
        assert_eq!(finished.stdout_text(), "nothing\n");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        assert!(run(Command::new("/nowhere/tool"), Limits::seconds(20)).is_err());
    }

    #[test]
    fn a_flood_is_read_to_the_end_and_bounded() {
        let finished =
            run(shell("yes | head -c 30000000; yes | head -c 3000000 >&2"), limits(60_000, 1_000)).unwrap();
        assert_eq!(finished.stdout.len(), 1_000);
        assert_eq!(finished.stderr.len(), 1_000);
        assert!(finished.truncated);
        assert_eq!(finished.end, End::Exited(0));
    }

    #[test]
    fn the_deadline_ends_the_whole_group() {
        let script = "trap '' TERM; (trap '' TERM; sleep 300) & echo $!; echo $$; wait";
        let finished = run(shell(script), limits(300, 1_000)).unwrap();
        assert_eq!(finished.end, End::TimedOut);
        let pids = finished.stdout_text();
        assert_eq!(pids.lines().count(), 2, "{pids}");
        assert!(pids.lines().all(is_gone));
    }

    #[test]
    fn what_the_tool_leaves_in_the_background_goes_with_it() {
        let finished = run(shell("sleep 300 & echo $!"), Limits::seconds(20)).unwrap();
        assert_eq!(finished.end, End::Exited(0));
        assert!(is_gone(&finished.stdout_text()));
    }

    #[test]
    fn a_process_that_left_the_group_does_not_hold_us_up() {
        let script = "setsid sh -c 'echo $$; exec sleep 300' & sleep 0.5";
        let finished = run(shell(script), Limits::seconds(20)).unwrap();
        assert_eq!(finished.end, End::Exited(0));
        let escaped = finished.stdout_text().trim().parse().ok().and_then(Pid::from_raw).unwrap();
        let _ = rustix::process::kill_process(escaped, Signal::KILL);
    }

    #[test]
    fn lines_are_seen_as_they_come_and_can_stop_it() {
        let mut seen = vec![];
        let finished = run_observed(
            shell("printf 'one\\rtwo\\n\\nthree\\n'; sleep 300"),
            Limits::seconds(60),
            &mut |observed| match observed {
                Observed::Line(line) => {
                    seen.push(line.to_owned());
                    if line == "three" { Flow::Stop } else { Flow::Continue }
                }
                Observed::Tick => Flow::Continue,
            },
        );
        assert_eq!(finished.unwrap().end, End::Stopped);
        assert_eq!(seen, ["one", "two", "three"]);
    }
}
