//! `warpsmith check FILE…`: judges kernels from a terminal or a script.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ci::junit::Junit;
use super::ci::{Format, JudgedFile, github};
use super::setup::{TerminalDialogue, has_terminal};
use super::table::{self, Style};
use super::watch::{self, Checks, RestsOn};
use super::{CANNOT_WRITE, EXIT_USAGE, explain};
use crate::device::{DeviceChoice, WhenBusy};
use crate::judge::bench::{BaselineChoice, TimingChoice};
use crate::judge::check::{CheckEvent, CheckOptions, CheckRequest, Checker};
use crate::judge::{
    CaseRecord, Code, Engine, EngineOptions, Finding, Report, Stage, Verdict, record, unknown_name,
};
use crate::oracle::read_source;
use crate::spec::Dtype;
use crate::text::with_line_feeds;
use crate::toolchain::managed::EnvironmentPolicy;
use crate::toolchain::shell_word;

/// Exit status of a program that was interrupted (128 + SIGINT).
const EXIT_INTERRUPTED: u8 = 130;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Python files with a Triton kernel and something that says what it computes, or a Solution of
    /// FlashInfer-Bench with its sources (`solution.json`).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only this kernel, or this function that launches some (its name).
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Only these dtypes: f32 f16 bf16, or their long names; comma-separated or repeated.
    #[arg(long, value_delimiter = ',', value_name = "DTYPE")]
    dtype: Vec<Dtype>,
    /// Only these stages: smoke, sweep, stability, determinism, edge; comma-separated or repeated.
    #[arg(long, value_delimiter = ',', value_name = "STAGE")]
    stage: Vec<Stage>,
    /// Replay the inputs and shapes of an earlier check.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where kernels run: auto takes a GPU if there is one, cpu the interpreter, cuda:N that GPU.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
    /// What a kernel that passed on a GPU is timed against.
    #[arg(long, value_enum, default_value_t)]
    baseline: BaselineChoice,
    /// Do not time what passed on a GPU. With `--stage` nothing is timed in any case.
    #[arg(long)]
    no_timing: bool,
    /// JSON lines on stdout: a record for each case, then a summary for each file.
    #[arg(long)]
    json: bool,
    /// For CI: annotations of GitHub Actions, or one JUnit XML document; instead of the table.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    /// Check again whenever a file, or one that says what is right, has other contents; until Ctrl-C.
    #[arg(long, conflicts_with = "format")]
    watch: bool,
    /// The Python interpreter to use instead of searching for one.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Never make the managed environment.
    #[arg(long, conflicts_with = "yes")]
    no_setup: bool,
    /// Make the managed environment without asking, if it is needed.
    #[arg(long)]
    yes: bool,
}

impl CheckArgs {
    /// Programs read the answer.
    fn is_for_programs(&self) -> bool {
        self.json || self.format.is_some()
    }
}

pub(super) fn run(args: CheckArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let code = runtime.block_on(check_files(args));
    // Processes were ended by the engine; a thread that still waits for one must not hold us.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn check_files(args: CheckArgs) -> Result<ExitCode> {
    if args.watch {
        return watch_files(args).await;
    }
    let requests: Vec<Result<CheckRequest>> =
        args.files.iter().map(|file| read_request(file, options(&args))).collect();
    if let Some(message) = unknown_everywhere(&requests, &args) {
        super::complain(&anyhow::Error::msg(message));
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let engine = engine(&args);
    let cancel = CancellationToken::new();
    tokio::spawn(cancel_on_interrupt(cancel.clone()));
    let mut worst = Verdict::Passed;
    let mut output = Output { args: &args, junit: Junit::default() };
    for (index, (file, request)) in args.files.iter().zip(requests).enumerate() {
        if index > 0 && !args.is_for_programs() {
            writeln!(io::stdout()).context(CANNOT_WRITE)?;
        }
        let verdict = match request {
            Ok(request) => check_file(&engine, request, file, &mut output, &cancel).await?.verdict,
            Err(error) => output.unreadable(file, &error)?,
        };
        worst = worst.max(verdict);
        if cancel.is_cancelled() {
            break;
        }
    }
    output.finish()?;
    engine.shut_down(Duration::from_secs(3)).await;
    Ok(ExitCode::from(if cancel.is_cancelled() { EXIT_INTERRUPTED } else { worst.exit_code() }))
}

fn engine(args: &CheckArgs) -> Engine {
    Engine::new(EngineOptions {
        python: args.python.clone(),
        environment: EnvironmentPolicy::from_flags(args.yes, args.no_setup, has_terminal()),
        dialogue: || Box::new(TerminalDialogue::new()),
        in_background: false,
    })
}

/// Checks again and again; only an interrupt ends it.
async fn watch_files(args: CheckArgs) -> Result<ExitCode> {
    let engine = engine(&args);
    let cancel = CancellationToken::new();
    tokio::spawn(cancel_on_interrupt(cancel.clone()));
    let output = Output { args: &args, junit: Junit::default() };
    let ended = watch::watch(&args.files, &mut Repeated { engine: &engine, output }, &cancel).await;
    engine.shut_down(Duration::from_secs(3)).await;
    ended.map(|()| ExitCode::from(EXIT_INTERRUPTED))
}

/// The checks of a watch, in one engine, whose worker stays warm.
struct Repeated<'a> {
    engine: &'a Engine,
    output: Output<'a>,
}

impl Checks for Repeated<'_> {
    async fn check(&mut self, file: usize, cancel: &CancellationToken) -> Result<RestsOn> {
        let args = self.output.args;
        let file = &args.files[file];
        let request = match read_request(file, options(args)) {
            Ok(request) => request,
            Err(error) => {
                self.output.unreadable(file, &error)?;
                return Ok(RestsOn::new());
            }
        };
        let report = check_file(self.engine, request, file, &mut self.output, cancel).await?;
        let files = report.judgements().iter().flat_map(|part| &part.provenance.described_by);
        // No hash was taken of what could not be read.
        Ok(files.map(|(path, hash)| (path.clone(), blake3::Hash::from_hex(hash).ok())).collect())
    }

    fn say(&mut self, text: &str) {
        // On stdout are results; `eprintln!` panics when stderr is closed.
        let _ = writeln!(io::stderr(), "warpsmith: {text}");
    }
}

/// What to complain of when no file has what `--kernel` names.
fn unknown_everywhere(requests: &[Result<CheckRequest>], args: &CheckArgs) -> Option<String> {
    let asked = args.kernel.as_deref()?;
    let mut messages = Vec::new();
    for (request, file) in requests.iter().zip(&args.files) {
        let request = request.as_ref().ok()?;
        let message = unknown_name(&request.path, &request.text, asked)?;
        messages.push(format!("{}: {message}", file.display()));
    }
    Some(messages.join("\n"))
}

/// The first Ctrl-C stops the check and its processes; a second one ends us at once.
async fn cancel_on_interrupt(cancel: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        cancel.cancel();
    }
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(i32::from(EXIT_INTERRUPTED));
    }
}

fn options(args: &CheckArgs) -> CheckOptions {
    CheckOptions {
        stages: args.stage.clone(),
        dtypes: args.dtype.clone(),
        kernel: args.kernel.clone(),
        seed: args.seed,
        device: args.device,
        when_busy: WhenBusy::default(),
        // Only what passed every stage is timed.
        timing: if args.no_timing || !args.stage.is_empty() {
            TimingChoice::None
        } else {
            TimingChoice::Some
        },
        baseline: args.baseline,
    }
}

pub(super) fn read_request(file: &Path, options: CheckOptions) -> Result<CheckRequest> {
    let path = std::path::absolute(file).with_context(|| format!("{}", file.display()))?;
    if path.extension().is_some_and(|extension| extension == "cu" || extension == "cuh") {
        bail!("{} is a CUDA file; this version checks Triton kernels in Python files", file.display());
    }
    if path.to_str().is_none() {
        bail!("the path {} is no UTF-8; rename the file or folder", file.display());
    }
    let text = with_line_feeds(read_source(file)?);
    Ok(CheckRequest { path, text: text.into(), python: None, options })
}

async fn check_file(
    engine: &Engine,
    request: CheckRequest,
    shown: &Path,
    output: &mut Output<'_>,
    cancel: &CancellationToken,
) -> Result<Report> {
    let (events, receiver) = mpsc::unbounded_channel();
    let (path, text) = (request.path.clone(), Arc::clone(&request.text));
    let printer = Printer::new(output.args.is_for_programs(), shown);
    let (report, rows) =
        tokio::join!(engine.check(request, events, cancel.clone()), printer.follow(receiver));
    rows?;
    // In a watch this text is no longer the one that counts.
    if !(output.args.watch && cancel.is_cancelled()) {
        output.report(JudgedFile { path: &path, shown, text: &text }, &report)?;
    }
    Ok(report)
}

/// Shows a check while it runs: rows on stdout, the running case on a progress line on stderr.
struct Printer {
    /// No rows: programs read the answer.
    is_silent: bool,
    style: Style,
    file: String,
    bar: Option<ProgressBar>,
    has_rows: bool,
    /// Of a file with several described functions, the one that is judged now.
    function: Option<String>,
    has_heading: bool,
    against_head: bool,
}

impl Printer {
    fn new(is_silent: bool, file: &Path) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {pos}/{len}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            is_silent,
            style: terminal_style(),
            file: file.display().to_string(),
            bar,
            has_rows: false,
            function: None,
            has_heading: false,
            against_head: false,
        }
    }

    async fn follow(mut self, mut events: mpsc::UnboundedReceiver<CheckEvent>) -> Result<()> {
        while let Some(event) = events.recv().await {
            match event {
                CheckEvent::Preparing(step) => self.message(step),
                CheckEvent::Planned { oracle, cases } => {
                    if let Some(bar) = &self.bar {
                        bar.set_length(cases as u64);
                    }
                    self.against_head = oracle.is_head();
                    self.heading(Some(&oracle.label))?;
                }
                CheckEvent::Function { entry } => self.function(entry)?,
                CheckEvent::FunctionJudged(report) => self.function_judged(&report)?,
                CheckEvent::CaseStarted { label, .. } => self.message(label),
                CheckEvent::CaseProgress { .. } => {}
                CheckEvent::CaseFinished { record, .. } => self.finished(&record)?,
                // The row that stands there already says what the GPU said.
                CheckEvent::CaseRejudged { record } => self.row(&record)?,
            }
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        Ok(())
    }

    /// File, function and oracle, once for each function.
    fn heading(&mut self, label: Option<&str>) -> Result<()> {
        if self.is_silent || self.has_heading {
            return Ok(());
        }
        self.has_heading = true;
        let parts = [Some(self.file.as_str()), self.function.as_deref(), label];
        self.line(&parts.into_iter().flatten().collect::<Vec<_>>().join(" · "))
    }

    fn function(&mut self, entry: Option<String>) -> Result<()> {
        if self.function.is_some() && !self.is_silent {
            self.line("")?;
        }
        self.function = Some(entry.unwrap_or_else(|| "a comment".to_owned()));
        (self.has_rows, self.has_heading) = (false, false);
        Ok(())
    }

    fn function_judged(&mut self, report: &Report) -> Result<()> {
        self.heading(None)?;
        if self.is_silent {
            Ok(())
        } else {
            self.line(&table::summary(Path::new(&self.file), report, self.style))
        }
    }

    fn message(&self, message: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(message);
            bar.tick();
        }
    }

    fn finished(&mut self, record: &Arc<CaseRecord>) -> Result<()> {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        self.row(record)
    }

    fn row(&mut self, record: &CaseRecord) -> Result<()> {
        if self.is_silent {
            return Ok(());
        }
        if !self.has_rows {
            self.has_rows = true;
            self.line(&format!("\n{}", table::header()))?;
        }
        self.line(&table::row(record, self.against_head, self.style))
    }

    fn line(&self, text: &str) -> Result<()> {
        let print = || writeln!(io::stdout(), "{text}");
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
        .context(CANNOT_WRITE)
    }
}

/// Where reports go.
struct Output<'a> {
    args: &'a CheckArgs,
    /// A JUnit report is one document for all files.
    junit: Junit,
}

impl Output<'_> {
    fn report(&mut self, file: JudgedFile<'_>, report: &Report) -> Result<()> {
        match self.args.format {
            Some(Format::Junit) => {
                self.junit.add(file, report);
                Ok(())
            }
            Some(Format::Github) => {
                let workspace = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
                print_lines(&github::lines(file, report, workspace.as_deref()))
            }
            None => {
                let notes = explain::lines(file.path, file.shown, file.text, self.args.json);
                // The summary is the last record of a file; on a terminal the verdict comes first.
                if self.args.json {
                    print_lines(&notes)?;
                }
                print_report(file.path, file.shown, report, self.args)?;
                if self.args.json { Ok(()) } else { print_lines(&notes) }
            }
        }
    }

    fn unreadable(&mut self, file: &Path, error: &anyhow::Error) -> Result<Verdict> {
        super::complain(error);
        if self.args.is_for_programs() {
            let finding = Finding::plain(Code::UnreadableFile, format!("{error:#}"));
            let judged = JudgedFile { path: file, shown: file, text: "" };
            self.report(judged, &Report::ended_at_once(finding))?;
        }
        Ok(Verdict::CouldNotRun)
    }

    fn finish(&self) -> Result<()> {
        if self.args.format != Some(Format::Junit) {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(self.junit.document().as_bytes()).context(CANNOT_WRITE)?;
        stdout.flush().context(CANNOT_WRITE)
    }
}

fn print_lines(lines: &[String]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    lines.iter().try_for_each(|line| writeln!(stdout, "{line}")).context(CANNOT_WRITE)?;
    stdout.flush().context(CANNOT_WRITE)
}

fn print_report(path: &Path, shown: &Path, report: &Report, args: &CheckArgs) -> Result<()> {
    let mut stdout = io::stdout().lock();
    if args.json {
        for part in report.judgements() {
            for case in &part.cases {
                writeln!(stdout, "{}", record::case_json(path, part, case)).context(CANNOT_WRITE)?;
            }
        }
        writeln!(stdout, "{}", record::summary_json(path, report)).context(CANNOT_WRITE)?;
    } else {
        writeln!(stdout, "{}", table::summary(shown, report, terminal_style())).context(CANNOT_WRITE)?;
        if report.verdict != Verdict::Passed
            && let Some(case) = report.all_cases().next()
        {
            writeln!(stdout, "replay: {}", replay_command(shown, case.seed, args)).context(CANNOT_WRITE)?;
        }
    }
    stdout.flush().context(CANNOT_WRITE)
}

/// What to type to run the same cases on the same inputs: the plan depends on what was asked for.
fn replay_command(file: &Path, seed: u64, args: &CheckArgs) -> String {
    let mut command = format!("warpsmith check {}", shell_word(file));
    if let Some(kernel) = &args.kernel {
        command.push_str(&format!(" --kernel {}", shell_word(Path::new(kernel))));
    }
    let dtypes: Vec<&str> = args.dtype.iter().map(|dtype| dtype.short()).collect();
    let stages: Vec<&str> = args.stage.iter().map(|stage| stage.name()).collect();
    // Elsewhere other things are found.
    if args.device != DeviceChoice::Auto {
        command.push_str(&format!(" --device {}", args.device));
    }
    for (option, values) in [("--dtype", dtypes), ("--stage", stages)] {
        if !values.is_empty() {
            command.push_str(&format!(" {option} {}", values.join(",")));
        }
    }
    command.push_str(&format!(" --seed {seed}"));
    command
}

fn terminal_style() -> Style {
    let color =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Style { color }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CheckArgs,
    }

    fn replay(words: &[&str]) -> String {
        let args = Line::parse_from([&["check"], words].concat()).args;
        replay_command(&args.files[0], 7, &args)
    }

    #[test]
    fn a_replay_asks_for_what_was_asked_for() {
        assert_eq!(replay(&["k.py"]), "warpsmith check k.py --seed 7");
        assert_eq!(
            replay(&[
                "--stage",
                "smoke,sweep",
                "--dtype",
                "float32",
                "--dtype",
                "bf16",
                "k.py",
                "--kernel",
                "k"
            ]),
            "warpsmith check k.py --kernel k --dtype f32,bf16 --stage smoke,sweep --seed 7"
        );
        assert_eq!(replay(&["--device", "cpu", "k.py"]), "warpsmith check k.py --device cpu --seed 7");
        assert_eq!(replay(&["--device", "cuda", "k.py"]), "warpsmith check k.py --device cuda:0 --seed 7");
    }

    #[test]
    fn a_replay_can_be_pasted_into_a_shell() {
        assert_eq!(replay(&["my kernels/k.py"]), "warpsmith check 'my kernels/k.py' --seed 7");
    }
}
