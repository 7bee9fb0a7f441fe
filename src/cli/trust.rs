//! `warpsmith trust`: whose kernels an editor may run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;

use crate::toolchain::{Places, Surroundings};
use crate::trust::{Place, TrustFile};

/// Lets editors run the kernels of a folder and of all below it. An editor that has a workspace trust of its own, such as
/// VS Code, goes by that.
#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// The folder (default: this one)
    #[arg(conflicts_with = "list")]
    folder: Option<PathBuf>,
    /// Only the files in it, not the folders below
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    files_only: bool,
    /// Show what is trusted
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// Take it back, with all below
    #[arg(long)]
    revoke: bool,
}

/// # Errors
/// There is no place for the file, it cannot be used, or the folder stays trusted by one above it.
pub(super) fn run(args: &TrustArgs) -> anyhow::Result<ExitCode> {
    let file = TrustFile::new(Places::of(&Surroundings::of_this_process())?.trust());
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_dir()?,
    };
    if args.list {
        list(&file)?;
    } else if args.revoke {
        revoke(&file, &folder)?;
    } else {
        ensure!(folder.is_dir(), "{} is no folder", folder.display());
        let place = Place { below: !args.files_only, ..Place::below(&folder) };
        file.grant(&place)?;
        super::say(&format!("trusted: {place}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(file: &TrustFile) -> anyhow::Result<()> {
    let trusted = file.read()?;
    if trusted.places().next().is_none() {
        return super::say("no folder is trusted");
    }
    trusted.places().try_for_each(|place| super::say(&place.to_string()))
}

fn revoke(file: &TrustFile, folder: &std::path::Path) -> anyhow::Result<()> {
    let revoked = file.revoke(folder)?;
    for place in &revoked.removed {
        super::say(&format!("no longer trusted: {place}"))?;
    }
    if let Some(above) = revoked.still_below {
        anyhow::bail!("{} is still trusted, by {above}; revoke that", folder.display());
    }
    if revoked.removed.is_empty() {
        super::say(&format!("{} was not trusted", folder.display()))?;
    }
    Ok(())
}
