//! `warpsmith setup`: makes, shows and removes the managed Python environment.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::say;
use crate::toolchain::managed::{
    Dialogue, EntryState, EnvironmentPolicy, Phase, Plan, Progress, SetupContext, SetupError, ensure,
    entries, in_words, remove, tree_size,
};
use crate::toolchain::python::ProbeCache;
use crate::toolchain::{Places, Surroundings};

/// Exit code of a program that ended on Ctrl-C.
const INTERRUPTED: u8 = 130;
const COULD_NOT: u8 = 2;

/// Makes the Python environment (torch, triton, numpy) that checks use where you have none of your own.
#[derive(Clone, Debug, Args)]
pub(super) struct SetupArgs {
    /// Ask nothing
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Remove every environment that setup made
    #[arg(long, conflicts_with = "status")]
    pub(super) remove: bool,
    /// Show what setup made, and its size
    #[arg(long)]
    pub(super) status: bool,
}

/// # Errors
/// The text for the user; the exit code is 2 then.
pub(super) fn run(args: &SetupArgs) -> anyhow::Result<ExitCode> {
    let surroundings = Surroundings::of_this_process();
    let places = Places::of(&surroundings)?;
    if args.status {
        return status(&places);
    }
    if args.remove {
        return run_remove(&places, args.yes || !has_terminal());
    }
    let probes = ProbeCache::default();
    let context = SetupContext { surroundings: &surroundings, places: &places, probes: &probes };
    let mut dialogue = TerminalDialogue::new();
    let made = ensure(context, EnvironmentPolicy::from_flags(args.yes, false, has_terminal()), &mut dialogue);
    drop(dialogue);
    match made {
        Ok(installed) => {
            say(&format!("ready: {}", installed.executable.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ SetupError::Interrupted) => {
            eprintln!("{error}");
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether there is somebody to ask: questions stand on stderr, also when stdout goes into a file or a pipe.
pub(super) fn has_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn status(places: &Places) -> anyhow::Result<ExitCode> {
    let entries = entries(places);
    if entries.is_empty() {
        say(&format!("no environment in {}", places.environments().display()))?;
    }
    for entry in entries {
        let state = match entry.state {
            EntryState::Complete => {
                let python = entry.python.as_deref().unwrap_or("");
                format!("complete, Python {python} with {}", entry.requirements.join(", "))
            }
            EntryState::Partial => "interrupted or in the making; `warpsmith setup` goes on".to_owned(),
            EntryState::Remains => "remains; `warpsmith setup --remove` removes them".to_owned(),
        };
        let size = in_words(tree_size(&entry.folder).total_bytes());
        say(&format!("{}\n  {size}, {state}", entry.folder.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_remove(places: &Places, without_asking: bool) -> anyhow::Result<ExitCode> {
    let entries = entries(places);
    if entries.is_empty() {
        say(&format!("nothing to remove in {}", places.environments().display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !without_asking {
        for entry in &entries {
            let size = in_words(tree_size(&entry.folder).total_bytes());
            eprintln!("  {} ({size})", entry.folder.display());
        }
        if !confirm("Remove?") {
            eprintln!("nothing was removed");
            return Ok(ExitCode::from(COULD_NOT));
        }
    }
    let removed = remove(places)?;
    let own = removed.size.own_bytes;
    say(&format!("freed {own} bytes ({}) in {}", in_words(own), places.environments().display()))?;
    if removed.size.linked_bytes > 0 {
        say(&format!(
            "{} more are shared with uv's cache and stay there",
            in_words(removed.size.linked_bytes)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks on stderr; only `y` and `yes` are consent.
fn confirm(question: &str) -> bool {
    eprint!("{question} [y/N] ");
    // Without a terminal nobody sees the question; then there is no answer either.
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Asks and shows on stderr. From the first progress on, Ctrl-C ends the installer instead of us; after
/// the setup it ends us again.
#[derive(Default)]
pub(super) struct TerminalDialogue {
    bar: Option<ProgressBar>,
    said: Option<String>,
    interrupt: Option<Interrupt>,
}

impl TerminalDialogue {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn listen(&mut self) {
        self.interrupt.get_or_insert_with(Interrupt::listen);
    }

    /// On a terminal a bar, otherwise a line for every new phase.
    fn show(&mut self, progress: &Progress) {
        let words = in_progress(&progress.phase);
        if !std::io::stderr().is_terminal() {
            if self.said.as_ref() != Some(&words) {
                eprintln!("{words}");
                self.said = Some(words);
            }
            return;
        }
        let bar = self.bar.get_or_insert_with(new_bar);
        if let Some(fraction) = progress.fraction {
            bar.set_position((fraction * f64::from(BAR_STEPS)) as u64);
        }
        bar.set_message(format!("{words} · {}", in_words(progress.folder_bytes)));
    }
}

const BAR_STEPS: u32 = 1_000;

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new(BAR_STEPS.into());
    let style = ProgressStyle::with_template("{spinner} [{bar:30}] {percent:>3} % · {elapsed} · {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn in_progress(phase: &Phase) -> String {
    match phase {
        Phase::Preparing => "making the environment".to_owned(),
        Phase::Downloading { package: Some(package) } => format!("downloading {package}"),
        Phase::Downloading { package: None } => "looking for the packages".to_owned(),
        Phase::Unpacking => "unpacking".to_owned(),
    }
}

impl Dialogue for TerminalDialogue {
    fn consents(&mut self, plan: &Plan) -> bool {
        eprintln!("{plan}");
        confirm("Make it?")
    }

    fn note(&mut self, text: &str) {
        self.listen();
        eprintln!("{text}");
    }

    fn progress(&mut self, progress: &Progress) {
        self.listen();
        self.show(progress);
    }

    fn is_cancelled(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|interrupt| interrupt.asked.load(Ordering::Relaxed))
    }
}

impl Drop for TerminalDialogue {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Ctrl-C while a setup runs.
struct Interrupt {
    asked: Arc<AtomicBool>,
    running: Arc<AtomicBool>,
}

impl Interrupt {
    /// A thread that waits for the signal. The second Ctrl-C, and one after the setup, end the process.
    fn listen() -> Self {
        let interrupt =
            Self { asked: Arc::new(AtomicBool::new(false)), running: Arc::new(AtomicBool::new(true)) };
        let (asked, running) = (Arc::clone(&interrupt.asked), Arc::clone(&interrupt.running));
        std::thread::spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
                return;
            };
            while runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                if !running.load(Ordering::Relaxed) || asked.swap(true, Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED.into());
                }
            }
        });
        interrupt
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.running.store(false, Ordering::Relaxed);
    }
}
