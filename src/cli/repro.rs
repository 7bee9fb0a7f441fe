//! `warpsmith repro FILE`: a failing case as one Python file that needs nothing of ours.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::check;
use super::setup::{TerminalDialogue, has_terminal};
use crate::judge::check::{CheckEvent, CheckOptions, CheckRequest, Checker};
use crate::judge::{CaseRecord, Engine, EngineOptions, Report, Verdict, repro};
use crate::toolchain::managed::EnvironmentPolicy;

#[derive(Debug, Args)]
pub(super) struct ReproArgs {
    /// A Python file with a Triton kernel that `warpsmith check` finds wrong.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replay the inputs and shapes of an earlier check.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The case to write down, as the table of the check names it: `M=1 N=255 · f16`. The first wrong one otherwise.
    #[arg(long, value_name = "LABEL")]
    case: Option<String>,
    /// Only this kernel, or this function that launches some (its name).
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Where to write it; `repro_FILE` in the current folder otherwise, which must not exist yet. `-` is stdout.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// The Python interpreter to use instead of searching for one.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

pub(super) fn run(args: &ReproArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let options = CheckOptions { kernel: args.kernel.clone(), seed: args.seed, ..CheckOptions::default() };
    let request = check::read_request(&args.file, options)?;
    if request.path.extension().is_some_and(|extension| extension == "json") {
        bail!("{} holds a Solution's sources; name the file of its kernel instead", args.file.display());
    }
    let report = runtime.block_on(checked(args, request.clone()));
    runtime.shutdown_timeout(Duration::from_secs(1));
    let chosen = match repro::choose(&report, args.case.as_deref()) {
        Ok(chosen) => chosen,
        Err(error) => {
            let told: Vec<&str> = report.all_findings().map(|finding| finding.message.as_str()).collect();
            bail!("{error}{}{}", if told.is_empty() { "" } else { "\n" }, told.join("\n"));
        }
    };
    let script = repro::script(&request.path, &request.text, chosen, args.kernel.as_deref())?;
    let record = chosen.record;
    let place = write(args, &script)?;
    let case = format!("{} {}", record.case.stage, record.case.label());
    let told = format!("{place}: {case}, seed {}", record.seed);
    let _ = writeln!(std::io::stderr(), "{told}");
    Ok(ExitCode::SUCCESS)
}

async fn checked(args: &ReproArgs, request: CheckRequest) -> Report {
    let engine = Engine::new(EngineOptions {
        python: args.python.clone(),
        environment: EnvironmentPolicy::from_flags(false, false, has_terminal()),
        dialogue: || Box::new(TerminalDialogue::new()),
        in_background: false,
    });
    let (events, mut receiver) = mpsc::unbounded_channel();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
    });
    let enough = cancel.clone();
    let until_found = async {
        let mut is_head = false;
        while let Some(event) = receiver.recv().await {
            match event {
                CheckEvent::Planned { oracle, .. } => is_head = oracle.is_head(),
                CheckEvent::CaseFinished { record, .. }
                    if !is_head && is_wanted(&record, args.case.as_deref()) =>
                {
                    enough.cancel();
                }
                _ => {}
            }
        }
    };
    let (report, ()) = tokio::join!(engine.check(request, events, cancel), until_found);
    engine.shut_down(Duration::from_secs(3)).await;
    report
}

/// The rest of the check need not be run once this case is there.
fn is_wanted(record: &CaseRecord, asked: Option<&str>) -> bool {
    asked.map_or(record.verdict == Verdict::Wrong && repro::can_write(record), |asked| {
        repro::is_named(record, asked)
    })
}

fn write(args: &ReproArgs, script: &str) -> Result<String> {
    let name = args.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let default = PathBuf::from(format!("repro_{name}"));
    match &args.output {
        Some(path) if path == Path::new("-") => {
            std::io::stdout().write_all(script.as_bytes()).context("cannot write to stdout")?;
            return Ok("stdout".to_owned());
        }
        Some(path) => {
            std::fs::write(path, script).with_context(|| format!("cannot write {}", path.display()))?;
            return Ok(path.display().to_string());
        }
        None => {}
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&default)
        .with_context(|| format!("cannot make {}; name another file with `-o OUT`", default.display()))?;
    file.write_all(script.as_bytes()).with_context(|| format!("cannot write {}", default.display()))?;
    Ok(default.display().to_string())
}
