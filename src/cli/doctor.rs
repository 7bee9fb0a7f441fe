//! `warpsmith doctor`: what is on this machine, what is missing, what to type.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::setup::TerminalDialogue;
use crate::device::attributes::Libcuda;
use crate::device::{LeaseFolder, NoGpus, Survey, Visible, lease, open};
use crate::judge::check::{CheckOptions, CheckRequest, Checker};
use crate::judge::{Engine, EngineOptions, Report as Judged, Stage, Verdict};
use crate::spec::Dtype;
use crate::toolchain::doctor::{Check, DoctorContext, State, TOOL_LIMIT_S, examine};
use crate::toolchain::managed::{EnvironmentPolicy, Requirements, installed};
use crate::toolchain::python::{ProbeCache, ProjectPython, SearchRequest, find_python};
use crate::toolchain::{Places, Surroundings};

/// Looks for the Python environment, the GPU, compilers and profilers, and says how to get what is missing.
#[derive(Clone, Debug, Args)]
pub(super) struct DoctorArgs {
    /// The kernel file, or folder, that the Python environment is looked for (default: this folder)
    pub(super) path: Option<PathBuf>,
    /// Look at this Python interpreter
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,
    /// One JSON object instead of the table
    #[arg(long)]
    pub(super) json: bool,
    /// Only look; do not check a small kernel to see whether it works
    #[arg(long)]
    pub(super) no_trial: bool,
}

/// What the trial checks.
const TRIAL_KERNEL: &str = include_str!("../../kernels/triton/softmax.py");
/// Where the trial's kernel is said to be: in no project, so that no module of one is imported.
const TRIAL_PATH: &str = "/warpsmith-trial/softmax.py";
/// From the end of the trial until its processes are gone.
const TRIAL_END: Duration = Duration::from_secs(3);

/// Exit code 0 if kernels can be checked, 2 otherwise.
///
/// # Errors
/// There is no place for our files, the current folder is gone, or stdout cannot be written.
pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let surroundings = Surroundings::of_this_process();
    let places = Places::of(&surroundings)?;
    let here = std::env::current_dir()?;
    let path = args.path.as_ref().map_or_else(|| here.clone(), |path| here.join(path));
    // The search starts in the folder that holds the document, which need not exist.
    let document = if path.is_dir() { path.join("kernel.py") } else { path };
    let flag = args.python.as_ref().map(|python| here.join(python));
    let made = installed(&places, &Requirements::of(&surroundings));
    // What is wrong with the file is told by a check; here it only names an interpreter.
    let project = crate::project::find(&document).ok().flatten();
    let request = SearchRequest {
        document: Some(&document),
        project: project.as_ref().and_then(|project| {
            Some(ProjectPython { executable: project.python.as_deref()?, file: &project.path })
        }),
        flag: flag.as_deref(),
        managed: made.as_ref().map(|made| &*made.executable),
        ..SearchRequest::new(&surroundings)
    };
    let search = find_python(&request, &ProbeCache::default());
    let mut report = examine(DoctorContext {
        surroundings: &surroundings,
        places: &places,
        search: &search,
        gpus: &survey_gpus(&surroundings),
        root: Path::new("/"),
        tool_limit_s: TOOL_LIMIT_S,
    });
    if let Some(chosen) = search.chosen.as_ref().filter(|_| report.can_check && !args.no_trial) {
        let trial = trial(&chosen.executable)?;
        report.can_check = trial.state == State::Found;
        report.checks.push(trial);
    }
    if args.json {
        super::say(&serde_json::to_string(&report)?)?;
    } else {
        super::say(&report.to_string())?;
    }
    Ok(ExitCode::from(if report.can_check { 0 } else { 2 }))
}

/// How long the driver may take to say what GPUs there are: it wakes them first where nobody uses them.
const SURVEY_LIMIT: Duration = Duration::from_secs(15);

/// On a thread of its own: a driver that hangs cannot be interrupted, only left behind.
fn survey_gpus(surroundings: &Surroundings) -> Survey {
    let visible = Visible::of_variable(surroundings.variable_as_set("CUDA_VISIBLE_DEVICES"));
    let leases = LeaseFolder::of_variable(surroundings.variable(lease::FOLDER_VARIABLE));
    let ours = [std::process::id()].into();
    let (found, survey) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Nobody waits any more when it took too long.
        let _ = found.send(Survey::take(&*open(), &visible, &Libcuda, &leases, &ours));
    });
    survey.recv_timeout(SURVEY_LIMIT).unwrap_or_else(|_| {
        Survey::none(NoGpus::NoAnswer(format!("no answer in {} s", SURVEY_LIMIT.as_secs())))
    })
}

/// Checks a starter in this interpreter: that the packages are there does not say that they work.
fn trial(python: &Path) -> anyhow::Result<Check> {
    let engine = Engine::new(EngineOptions {
        python: Some(python.to_owned()),
        environment: EnvironmentPolicy::Never,
        dialogue: || Box::new(TerminalDialogue::new()),
        in_background: false,
    });
    let request = CheckRequest {
        path: PathBuf::from(TRIAL_PATH),
        text: TRIAL_KERNEL.into(),
        python: None,
        options: CheckOptions {
            stages: vec![Stage::Smoke],
            dtypes: vec![Dtype::Float32],
            ..CheckOptions::default()
        },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let judged = runtime.block_on(async {
        let (events, _nobody) = mpsc::unbounded_channel();
        let judged = engine.check(request, events, CancellationToken::new()).await;
        engine.shut_down(TRIAL_END).await;
        judged
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(trial_check(&judged))
}

fn trial_check(judged: &Judged) -> Check {
    let name = "trial";
    let of_cases = judged.cases.iter().flat_map(|case| &case.findings);
    let finding =
        judged.findings.iter().chain(of_cases).find(|finding| finding.code.verdict() == judged.verdict);
    let message = finding.map_or("it said nothing", |finding| &finding.message);
    let (state, detail, remedy) = match judged.verdict {
        Verdict::Passed => (State::Found, "a small softmax kernel was checked and passed".to_owned(), None),
        Verdict::CouldNotRun => {
            let remedy =
                "mend this Python environment, name another by WARPSMITH_PYTHON, or run `warpsmith setup`";
            (State::Warning, format!("no kernel can be checked: {message}"), Some(remedy))
        }
        Verdict::Wrong => {
            let remedy = "report it, with these lines: the kernel is right elsewhere";
            (State::Warning, format!("a right softmax kernel is judged wrong: {message}"), Some(remedy))
        }
    };
    Check { name, state, detail, remedy: remedy.map(str::to_owned) }
}
