//! Makes the partial environment: the empty virtual environment, then the packages.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::installer_output::{InstallerOutput, OnDisk};
use super::tree::{remove_tree, tree_size};
use super::{
    ARGUMENTS_VARIABLE, DOWNLOADS, Dialogue, LOG, Maker, Phase, Plan, Progress, SetupContext, SetupError,
    flow, write_atomically,
};
use crate::toolchain::Release;
use crate::toolchain::subprocess::{End, Finished, Flow, Limits, Observed, run, run_observed};

/// In the partial environment: what it is made with.
const STATE: &str = "warpsmith-setup.json";
/// Downloads go here, not into a system's temporary folder that may be small.
const TEMPORARY: &str = "tmp";
/// A slow line may take hours; this only ends what hangs for good.
const INSTALL_LIMIT: Duration = Duration::from_secs(12 * 3600);
const MEASURE_EVERY: Duration = Duration::from_secs(2);
/// The first pip that writes its progress as plain lines.
const PIP_WITH_RAW_PROGRESS: Release = Release(24, 1, 0);
/// Settings that would send packages somewhere else than into the environment.
const DIVERTING_VARIABLES: [&str; 6] =
    ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN", "PIP_REQUIREMENT", "VIRTUAL_ENV"];

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    requirements: Vec<String>,
    with_uv: bool,
    base: Option<PathBuf>,
}

/// Makes or completes `plan.partial`, except for the stamp.
pub(super) fn fill_partial(
    context: SetupContext<'_>,
    plan: &Plan,
    dialogue: &mut dyn Dialogue,
) -> Result<(), SetupError> {
    let environments = context.places.environments();
    let log = environments.join(LOG);
    let file = File::create(&log).map_err(SetupError::files("cannot write", &log))?;
    let installer = Installer { context, plan, log, started: Instant::now() };
    if !can_go_on(plan) {
        remove_tree(&plan.partial).map_err(SetupError::files("cannot remove", &plan.partial))?;
        installer.make_venv(&file, dialogue)?;
        write_atomically(&plan.partial.join(STATE), &state_of(plan))?;
    }
    let temporary = plan.partial.join(TEMPORARY);
    std::fs::create_dir_all(&temporary).map_err(SetupError::files("cannot create", &temporary))?;
    installer.install(&file, dialogue)?;
    for folder in [temporary, environments.join(DOWNLOADS)] {
        remove_tree(&folder).map_err(SetupError::files("cannot remove", &folder))?;
    }
    Ok(())
}

fn state_of(plan: &Plan) -> State {
    let (with_uv, base) = match &plan.maker {
        Maker::Pip { python } => (false, Some(python.clone())),
        Maker::Uv { python, .. } => (true, python.clone()),
    };
    State { requirements: plan.requirements.items().to_vec(), with_uv, base }
}

/// A partial environment goes on if it was made the same way and nothing was unpacked into it yet. A
/// package that was unpacked halfway can look complete to an installer, so then only the downloads are
/// kept, which lie in the installer's cache.
fn can_go_on(plan: &Plan) -> bool {
    let state = std::fs::read_to_string(plan.partial.join(STATE)).ok();
    let state = state.and_then(|text| serde_json::from_str(&text).ok());
    state == Some(state_of(plan))
        && plan.partial.join("bin/python").exists()
        && site_entries(&plan.partial).all(|name| {
            let fresh =
                ["pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-", "_virtualenv"];
            name == "__pycache__" || fresh.iter().any(|prefix| name.starts_with(prefix))
        })
}

/// Names of what lies in the environment's site folder.
fn site_entries(environment: &Path) -> impl Iterator<Item = String> {
    let versions = std::fs::read_dir(environment.join("lib")).into_iter().flatten().filter_map(Result::ok);
    versions
        .flat_map(|version| std::fs::read_dir(version.path().join("site-packages")).into_iter().flatten())
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
}

impl OnDisk {
    fn of(partial: &Path) -> Self {
        let downloads_bytes = tree_size(&partial.join(TEMPORARY)).total_bytes();
        let unpacked_bytes = tree_size(partial).total_bytes().saturating_sub(downloads_bytes);
        Self { downloads_bytes, unpacked_bytes }
    }
}

struct Installer<'a> {
    context: SetupContext<'a>,
    plan: &'a Plan,
    log: PathBuf,
    started: Instant,
}

impl Installer<'_> {
    fn make_venv(&self, log: &File, dialogue: &mut dyn Dialogue) -> Result<(), SetupError> {
        let surroundings = self.context.surroundings;
        let mut command = match &self.plan.maker {
            Maker::Uv { uv, python } => {
                let mut command = surroundings.command(uv);
                command.args(["venv", "--python"]);
                match python {
                    Some(python) => command.arg(python),
                    None => command.arg(self.plan.python.to_string()),
                };
                command
            }
            Maker::Pip { python } => {
                let mut command = surroundings.command(python);
                command.args(["-I", "-m", "venv"]);
                command
            }
        };
        command.arg(&self.plan.partial).current_dir(self.context.places.environments());
        let mut progress = self.progress(Phase::Preparing);
        dialogue.progress(&progress);
        let finished = self.run(command, log, &mut |observed| {
            if let Observed::Tick = observed {
                progress.elapsed = self.started.elapsed();
                dialogue.progress(&progress);
            }
            flow(dialogue)
        })?;
        self.check("making the virtual environment", &finished)
    }

    fn install(&self, log: &File, dialogue: &mut dyn Dialogue) -> Result<(), SetupError> {
        let mut output = InstallerOutput::new();
        let (mut disk, mut measured) = (OnDisk::default(), None::<Instant>);
        let mut last_lines: Vec<String> = vec![];
        let finished = self.run(self.install_command(), log, &mut |observed| {
            match observed {
                Observed::Line(line) => {
                    output.line(line);
                    if line.starts_with("ERROR") || line.contains("error") {
                        last_lines.push(line.to_owned());
                    }
                }
                Observed::Tick => {
                    if measured.is_none_or(|then| then.elapsed() > MEASURE_EVERY) {
                        disk = OnDisk::of(&self.plan.partial);
                        measured = Some(Instant::now());
                    }
                }
            }
            let requirements = &self.plan.requirements;
            let sizes = requirements.download_bytes().zip(requirements.installed_bytes());
            let fraction = sizes.map(|(download, installed)| output.fraction(disk, download, installed));
            let progress = self.progress(output.phase().clone());
            dialogue.progress(&Progress { folder_bytes: disk.total_bytes(), fraction, ..progress });
            flow(dialogue)
        })?;
        let reason = last_lines.last().cloned();
        self.check("installing the packages", &finished).map_err(|error| match (error, reason) {
            (SetupError::Installer { step, log, .. }, Some(reason)) => {
                SetupError::Installer { step, reason, log }
            }
            (error, _) => error,
        })
    }

    fn install_command(&self) -> Command {
        let python = self.plan.partial.join("bin/python");
        let surroundings = self.context.surroundings.clone().without(&DIVERTING_VARIABLES);
        let mut command = match &self.plan.maker {
            Maker::Uv { uv, .. } => {
                let mut command = surroundings.command(uv);
                command.args(["pip", "install", "--python"]).arg(&python).env("NO_COLOR", "1");
                command
            }
            Maker::Pip { .. } => {
                let mut command = surroundings.command(&python);
                command.args([
                    "-I",
                    "-u",
                    "-m",
                    "pip",
                    "install",
                    "--no-input",
                    "--disable-pip-version-check",
                ]);
                command.args(["--progress-bar", if self.pip_has_raw_progress() { "raw" } else { "off" }]);
                if self.pip_keeps_nothing() {
                    command.arg("--cache-dir").arg(self.context.places.environments().join(DOWNLOADS));
                }
                command.env("PIP_USER", "0");
                command
            }
        };
        command.args(["--only-binary", ":all:"]);
        if let Some(arguments) = surroundings.variable(ARGUMENTS_VARIABLE) {
            command.args(arguments.to_string_lossy().split_whitespace());
        }
        command.args(self.plan.requirements.items());
        command
            .env("TMPDIR", self.plan.partial.join(TEMPORARY))
            .current_dir(self.context.places.environments());
        command
    }

    /// The user's pip has its cache turned off: an interrupted download would start again from nothing.
    fn pip_keeps_nothing(&self) -> bool {
        let mut command = self.context.surroundings.command(self.plan.partial.join("bin/python"));
        command.args(["-I", "-m", "pip", "cache", "dir"]);
        run(command, Limits::seconds(20)).is_ok_and(|finished| !finished.succeeded())
    }

    fn pip_has_raw_progress(&self) -> bool {
        site_entries(&self.plan.partial)
            .filter_map(|name| Release::parse(name.strip_prefix("pip-")?))
            .any(|pip| pip >= PIP_WITH_RAW_PROGRESS)
    }

    fn progress(&self, phase: Phase) -> Progress {
        Progress { phase, elapsed: self.started.elapsed(), folder_bytes: 0, fraction: None }
    }

    /// Runs a step, with every line in the log.
    fn run(
        &self,
        command: Command,
        mut log: &File,
        observe: &mut dyn FnMut(Observed<'_>) -> Flow,
    ) -> Result<Finished, SetupError> {
        let program = PathBuf::from(command.get_program());
        let limits = Limits { wall: INSTALL_LIMIT, output_bytes: 64 << 10 };
        run_observed(command, limits, &mut |observed| {
            if let Observed::Line(line) = observed
                && !line.starts_with("Progress ")
            {
                // The log is for the reader's comfort; a full disk shows in the installer itself.
                let _ = writeln!(log, "{line}");
            }
            observe(observed)
        })
        .map_err(SetupError::files("cannot start", &program))
    }

    fn check(&self, step: &str, finished: &Finished) -> Result<(), SetupError> {
        match finished.end {
            End::Exited(0) => Ok(()),
            End::Stopped => Err(SetupError::Interrupted),
            _ => Err(SetupError::Installer {
                step: step.to_owned(),
                reason: finished.failure(),
                log: self.log.clone(),
            }),
        }
    }
}

/// The installer's command, as text.
#[cfg(test)]
pub(super) fn command_line(context: SetupContext<'_>, plan: &Plan) -> String {
    let installer = Installer { context, plan, log: PathBuf::new(), started: Instant::now() };
    let command = installer.install_command();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
