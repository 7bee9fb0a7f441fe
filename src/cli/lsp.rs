//! `warpsmith lsp`: serves an editor over stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use crate::judge::Engine;
use crate::lsp::{Host, Timing, logging, run_stdio};
use crate::toolchain::{Places, Surroundings};
use crate::trust::TrustFile;

#[derive(Debug, Args)]
pub(super) struct LspArgs {
    /// Accepted for editors that always pass it; the server speaks stdio and nothing else.
    #[arg(long)]
    stdio: bool,
}

pub(super) fn run(_args: LspArgs) -> anyhow::Result<ExitCode> {
    let places = Places::of(&Surroundings::of_this_process()).ok();
    logging::start(places.as_ref().map(Places::log).as_deref())?;
    run_stdio(Host {
        checker: Arc::new(Engine::for_editor()),
        trust: places.map(|places| TrustFile::new(places.trust())),
        timing: Timing::default(),
    })
}
