//! The command line: thin verbs over the same engine that the language server uses.
//!
//! This room may print: stdout carries results, stderr everything else. The `lsp` verb prints nothing,
//! its stdout belongs to the protocol.

mod check;
mod ci;
mod doctor;
mod explain;
mod history;
mod lsp;
mod repro;
mod setup;
mod table;
mod trust;
mod watch;

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

/// Exit code for a command line that makes no sense (sysexits' EX_USAGE).
const EXIT_USAGE: u8 = 64;
/// Exit code when a verb could not do its work.
const EXIT_COULD_NOT_RUN: u8 = 2;

/// A language server and checker for people who write GPU kernels.
#[derive(Debug, Parser)]
#[command(name = "warpsmith", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Judge the kernel in a file: is it right, and if not, on which case and line?
    Check(check::CheckArgs),
    /// Write a failing case down as one Python file that needs nothing of ours.
    Repro(repro::ReproArgs),
    /// Show what was judged before, the newest first, and what changed.
    History(history::HistoryArgs),
    /// Say what a static finding means, or list the rules.
    Explain(explain::ExplainArgs),
    /// Trust a folder, so that editors may run its kernels; list what is trusted, or take it back.
    Trust(trust::TrustArgs),
    /// Make (or remove) the Python environment that warpsmith manages.
    Setup(setup::SetupArgs),
    /// Say what was found on this machine, what is missing, and how to get it.
    Doctor(doctor::DoctorArgs),
    /// Serve an editor over stdin and stdout.
    Lsp(lsp::LspArgs),
}

/// Parses the command line and runs the verb.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not mistakes.
            let code = if error.use_stderr() { EXIT_USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let outcome = match cli.verb {
        Verb::Check(args) => check::run(args),
        Verb::Repro(args) => repro::run(&args),
        Verb::History(args) => history::run(&args),
        Verb::Explain(args) => explain::run(&args),
        Verb::Trust(args) => trust::run(&args),
        Verb::Setup(args) => setup::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Lsp(args) => lsp::run(args),
    };
    outcome.unwrap_or_else(|error| {
        complain(&error);
        ExitCode::from(EXIT_COULD_NOT_RUN)
    })
}

/// What is said when a result cannot be shown.
const CANNOT_WRITE: &str = "cannot write to stdout";

/// A verb's result on stdout, with a newline. `println!` panics when nobody reads.
fn say(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{text}").context(CANNOT_WRITE)
}

/// The whole chain of an error on stderr; silent when a pipe was closed, as `| head` does.
fn complain(error: &anyhow::Error) {
    use std::io::Write;
    let is_closed_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    };
    if error.to_string() == CANNOT_WRITE && error.chain().any(is_closed_pipe) {
        return;
    }
    // `eprintln!` panics when stderr is closed.
    let _ = writeln!(std::io::stderr(), "warpsmith: {error:#}");
}
