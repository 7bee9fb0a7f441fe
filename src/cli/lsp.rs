//! `warpsmith lsp`: serves an editor over stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use crate::judge::Engine;
use crate::lsp::{logging, run_stdio};
use crate::toolchain::{Places, Surroundings};

#[derive(Debug, Args)]
pub(super) struct LspArgs {
    /// Accepted for editors that always pass it; the server speaks stdio and nothing else.
    #[arg(long)]
    stdio: bool,
}

pub(super) fn run(_args: LspArgs) -> anyhow::Result<ExitCode> {
    let folder = Places::of(&Surroundings::of_this_process()).ok().map(|places| places.log());
    logging::start(folder.as_deref())?;
    run_stdio(Arc::new(Engine::for_editor()))
}
