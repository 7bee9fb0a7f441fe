//! `warpsmith lsp`: serves an editor over stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use crate::judge::Engine;

#[derive(Debug, Args)]
pub(super) struct LspArgs {
    /// Accepted for editors that always pass it; the server speaks stdio and nothing else.
    #[arg(long)]
    stdio: bool,
}

pub(super) fn run(_args: LspArgs) -> anyhow::Result<ExitCode> {
    crate::lsp::run_stdio(Arc::new(Engine::for_editor()))
}
