//! Setups with the real venv and pip, or with a stub uv, of tiny packages in a temporary folder.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;
use crate::toolchain::places::CACHE_VARIABLE;

/// Writes wheels named torch, triton and numpy: `script FOLDER`.
const MAKE_WHEELS: &str = r#"
import sys, zipfile
for name, version in (("torch", "2.15.0"), ("triton", "3.9.0"), ("numpy", "2.4.6")):
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f"__version__ = '{version}'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}-{version}-py3-none-any.whl", "w") as wheel:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(file, text)
"#;

struct Machine {
    folder: tempfile::TempDir,
    surroundings: Surroundings,
    places: Places,
    probes: ProbeCache,
}

impl Machine {
    /// With the real Python of this machine and no uv; `None` where there is no suitable Python.
    fn with_pip() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let python = Surroundings::of_this_process().find_program("python3")?;
        let wheels = folder.path().join("wheels");
        std::fs::create_dir_all(&wheels).unwrap();
        let made = std::process::Command::new(&python).arg("-c").arg(MAKE_WHEELS).arg(&wheels).status();
        assert!(made.unwrap().success());
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(&python, bin.join("python3")).unwrap();
        let machine = Self::new(folder, "torch triton numpy");
        let plan = Plan::make(machine.context(), Requirements::of(&machine.surroundings));
        match plan {
            Ok(_) => Some(machine),
            Err(SetupError::NoBasePython { .. } | SetupError::NoVenv { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn new(folder: tempfile::TempDir, requirements: &str) -> Self {
        let root = folder.path();
        let system = ["/usr/bin".into(), "/bin".into()];
        let path = std::env::join_paths([root.join("bin")].into_iter().chain(system)).unwrap();
        let wheels = format!("--no-index --find-links {}", root.join("wheels").display());
        let surroundings = Surroundings::default()
            .with("PATH", path)
            .with("HOME", root.join("home"))
            .with(CACHE_VARIABLE, root.join("cache"))
            .with(REQUIREMENTS_VARIABLE, requirements)
            .with(ARGUMENTS_VARIABLE, wheels);
        let places = Places::of(&surroundings).unwrap();
        Self { folder, surroundings, places, probes: ProbeCache::default() }
    }

    fn context(&self) -> SetupContext<'_> {
        SetupContext { surroundings: &self.surroundings, places: &self.places, probes: &self.probes }
    }

    fn script(&self, name: &str, body: &str) {
        let path = self.folder.path().join("bin").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn ensure(&self, policy: EnvironmentPolicy, dialogue: &mut Recorder) -> Result<Installed, SetupError> {
        ensure(self.context(), policy, dialogue)
    }

    fn plain(&self, text: impl ToString) -> String {
        let root = self.folder.path().display().to_string();
        text.to_string().replace(&root, "")
    }

    /// Completes a partial environment; whether a file in it was there before and after.
    fn interrupted_marker_survives(&self, plan: &Plan) -> bool {
        std::fs::write(plan.partial.join("bin/kept"), "").unwrap();
        let made = self.ensure(EnvironmentPolicy::Yes, &mut Recorder::default()).unwrap();
        made.folder.join("bin/kept").exists()
    }

    fn states(&self) -> Vec<EntryState> {
        entries(&self.places).iter().map(|entry| entry.state).collect()
    }
}

/// A dialogue that answers as it was told and remembers what it was shown.
#[derive(Default)]
struct Recorder {
    consents: bool,
    cancels_in: Option<fn(&Phase) -> bool>,
    cancelled: bool,
    questions: Vec<String>,
    notes: Vec<String>,
    phases: Vec<Phase>,
}

impl Dialogue for Recorder {
    fn consents(&mut self, plan: &Plan) -> bool {
        self.questions.push(plan.to_string());
        self.consents
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn progress(&mut self, progress: &Progress) {
        self.cancelled |= self.cancels_in.is_some_and(|cancels| cancels(&progress.phase));
        if self.phases.last() != Some(&progress.phase) {
            self.phases.push(progress.phase.clone());
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled
    }
}

fn in_download(phase: &Phase) -> bool {
    matches!(phase, Phase::Downloading { .. })
}

#[test]
fn policies() {
    use EnvironmentPolicy::{Ask, Never, Yes};
    let policies = [(false, false, true), (false, false, false), (true, false, true), (true, true, false)];
    let policies =
        policies.map(|(yes, no_setup, terminal)| EnvironmentPolicy::from_flags(yes, no_setup, terminal));
    assert_eq!(policies, [Ask, Yes, Yes, Never]);
}

#[test]
fn venv_and_pip_make_it_and_remove_takes_it_away() {
    let Some(machine) = Machine::with_pip() else { return };
    let refused = machine.ensure(EnvironmentPolicy::Never, &mut Recorder::default());
    assert!(matches!(refused, Err(SetupError::Forbidden)), "{refused:?}");
    let mut asked = Recorder::default();
    let declined = machine.ensure(EnvironmentPolicy::Ask, &mut asked);
    assert!(matches!(declined, Err(SetupError::Declined)), "{declined:?}");
    assert_eq!((asked.questions.len(), machine.states()), (1, vec![]));

    let mut dialogue = Recorder { consents: true, ..Recorder::default() };
    let made = machine.ensure(EnvironmentPolicy::Ask, &mut dialogue).unwrap();
    assert_eq!(machine.states(), [EntryState::Complete]);
    assert!(dialogue.phases.contains(&Phase::Unpacking), "{:?}", dialogue.phases);
    let probe = machine.probes.probe(&made.executable, &machine.surroundings).unwrap();
    assert_eq!(probe.executable, made.executable);
    assert_eq!(probe.triton.unwrap().version, "3.9.0");
    assert!(!made.folder.join("tmp").exists());

    assert!(!machine.places.environments().join(DOWNLOADS).exists());

    let mut again = Recorder::default();
    assert_eq!(machine.ensure(EnvironmentPolicy::Never, &mut again).unwrap(), made);
    assert!(again.questions.is_empty() && again.phases.is_empty());

    let keep = machine.places.environments().join("somebody-elses");
    std::fs::create_dir(&keep).unwrap();
    let removed = remove(&machine.places).unwrap();
    assert_eq!(removed.folders, [made.folder]);
    assert!(removed.size.own_bytes > 10_000, "{removed:?}");
    assert!(keep.exists() && machine.states().is_empty());
}

#[test]
fn an_interrupted_setup_with_pip_goes_on() {
    let Some(mut machine) = Machine::with_pip() else { return };
    machine.surroundings = machine.surroundings.clone().with("PIP_NO_CACHE_DIR", "1");
    let mut dialogue = Recorder { cancels_in: Some(in_download), ..Recorder::default() };
    let interrupted = machine.ensure(EnvironmentPolicy::Yes, &mut dialogue);
    assert!(matches!(interrupted, Err(SetupError::Interrupted)), "{interrupted:?}");
    assert_eq!(machine.states(), [EntryState::Partial]);

    let requirements = Requirements::of(&machine.surroundings);
    let plan = Plan::make(machine.context(), requirements).unwrap();
    assert!(plan.goes_on && plan.to_string().contains("goes on with a setup that was interrupted"));
    // A pip that keeps no downloads is given a place for them.
    let command = machine.plain(install::command_line(machine.context(), &plan));
    assert!(command.contains("--cache-dir /cache/env/downloads"), "{command}");
    let downloads = machine.places.environments().join(DOWNLOADS);
    std::fs::create_dir_all(&downloads).unwrap();
    let made = machine.interrupted_marker_survives(&plan);
    assert!(made && !downloads.exists());
    assert_eq!(machine.states(), [EntryState::Complete]);
}

#[test]
fn half_unpacked_packages_are_not_trusted() {
    let machine = with_uv();
    let mut dialogue = Recorder { cancels_in: Some(in_download), ..Recorder::default() };
    machine.ensure(EnvironmentPolicy::Yes, &mut dialogue).unwrap_err();
    let plan = Plan::make(machine.context(), Requirements::of(&machine.surroundings)).unwrap();
    let site = plan.partial.join("lib/python3.12/site-packages");
    std::fs::create_dir_all(site.join("pip-26.0.dist-info")).unwrap();
    std::fs::create_dir_all(site.join("torch-2.15.0.dist-info")).unwrap();
    assert!(!machine.interrupted_marker_survives(&plan), "the environment was not made anew");
}

#[test]
fn an_environment_of_other_requirements_is_not_continued() {
    let mut machine = with_uv();
    let mut dialogue = Recorder { cancels_in: Some(in_download), ..Recorder::default() };
    machine.ensure(EnvironmentPolicy::Yes, &mut dialogue).unwrap_err();
    machine.surroundings = machine.surroundings.clone().with(REQUIREMENTS_VARIABLE, "torch triton");
    machine.ensure(EnvironmentPolicy::Yes, &mut Recorder::default()).unwrap();
    assert_eq!(machine.states().iter().filter(|state| **state == EntryState::Complete).count(), 1);
    assert_eq!(machine.states().len(), 2);
}

#[test]
fn a_failing_installer_is_quoted_and_its_log_named() {
    let machine = with_uv();
    let uv = std::fs::read_to_string(machine.folder.path().join("bin/uv")).unwrap();
    let body = uv.lines().skip(1).collect::<Vec<_>>().join("\n");
    let failing = body.replace("pip) ", "pip) echo 'error: No solution found' >&2; echo hint >&2; exit 1;");
    machine.script("uv", &failing);
    let error = machine.ensure(EnvironmentPolicy::Yes, &mut Recorder::default()).unwrap_err();
    insta::assert_snapshot!(machine.plain(&error));
    let log = std::fs::read_to_string(machine.places.environments().join(LOG)).unwrap();
    assert_eq!(log, "error: No solution found\nhint\n");
}

/// A uv that makes an environment whose Python answers the probe, and says what uv says.
fn stub_uv(machine: &Machine, torch: &str) {
    let package = |version: &str| serde_json::json!({"version": version, "site": "/site"});
    let answer = serde_json::json!({"warpsmith_probe": 1, "executable": "/nowhere", "python": "3.12.1",
        "folders": [], "externally_managed": false, "has_pip": false, "can_make_venv": false,
        "torch": package(torch), "triton": package("3.9.0"), "numpy": package("2.4.6"),
        "torch_in_user_site": null});
    machine.script("python3", &format!("cat <<'END'\n{answer}\nEND"));
    let calls = machine.folder.path().join("calls");
    let body = format!(
        "echo \"$@\" >> {calls}\n\
         for last; do :; done\n\
         case $1 in\n\
         venv) mkdir -p \"$last/bin\" && cp {python} \"$last/bin/python\";;\n\
         pip) echo 'Resolved 3 packages in 1ms' >&2; echo 'Downloading torch (850.2MiB)' >&2\n\
           [ -z \"$SLOW\" ] || sleep 300; sleep 0.3\n\
           echo 'Prepared 3 packages in 2ms' >&2;;\n\
         esac",
        calls = calls.display(),
        python = machine.folder.path().join("bin/python3").display(),
    );
    machine.script("uv", &body);
}

fn with_uv() -> Machine {
    let machine = Machine::new(tempfile::tempdir().unwrap(), "torch==2.15.0 triton==3.9.0");
    stub_uv(&machine, "2.15.0");
    machine
}

#[test]
fn uv_is_preferred() {
    let machine = with_uv();
    let mut dialogue = Recorder::default();
    let made = machine.ensure(EnvironmentPolicy::Yes, &mut dialogue).unwrap();
    assert_eq!(machine.plain(made.executable.display()), "/cache/env/py3.12-8d79a3246f33/bin/python");
    assert!(dialogue.phases.contains(&Phase::Downloading { package: Some("torch".to_owned()) }));
    let calls = std::fs::read_to_string(machine.folder.path().join("calls")).unwrap();
    insta::assert_snapshot!(machine.plain(calls));
}

#[test]
fn the_question_says_what_where_and_how_large() {
    let machine = with_uv();
    let pinned = machine.surroundings.clone().without(&[REQUIREMENTS_VARIABLE]);
    let context = SetupContext { surroundings: &pinned, ..machine.context() };
    let plan = Plan::make(context, Requirements::of(&pinned)).unwrap();
    let plan = Plan { free_bytes: 80_000_000_000, ..plan };
    insta::assert_snapshot!(machine.plain(&plan));

    let full = Plan { free_bytes: 4_000_000_000, ..plan };
    insta::assert_snapshot!(machine.plain(full.check_space().unwrap_err()));
    Plan { goes_on: true, ..full }.check_space().unwrap();
}

#[test]
fn an_environment_that_the_probe_refuses_is_not_stamped() {
    let machine = with_uv();
    let script = std::fs::read_to_string(machine.folder.path().join("bin/python3")).unwrap();
    let old = script.lines().skip(1).collect::<Vec<_>>().join("\n").replace("3.9.0", "3.4.0");
    machine.script("python3", &old);
    let error = machine.ensure(EnvironmentPolicy::Yes, &mut Recorder::default()).unwrap_err();
    insta::assert_snapshot!(error, @"the new environment is not usable: Triton 3.4.0 is too old: 3.5 or newer is needed");
    assert_eq!(machine.states(), [EntryState::Partial]);
}

#[test]
fn no_python_and_no_uv_is_told() {
    let machine = with_uv();
    let bin = machine.folder.path().join("bin");
    std::fs::remove_file(bin.join("uv")).unwrap();
    // The stub needs `cat`; the real interpreters of this machine must not be found.
    std::os::unix::fs::symlink("/bin/cat", bin.join("cat")).unwrap();
    let alone = machine.surroundings.clone().with("PATH", &bin);
    let refusal = || {
        let context =
            SetupContext { surroundings: &alone, probes: &ProbeCache::default(), places: &machine.places };
        machine.plain(ensure(context, EnvironmentPolicy::Yes, &mut Recorder::default()).unwrap_err())
    };
    let no_venv = refusal();
    let script = std::fs::read_to_string(bin.join("python3")).unwrap().replace("3.12.1", "3.8.10");
    std::fs::write(bin.join("python3"), script).unwrap();
    let too_old = refusal();
    std::fs::remove_file(bin.join("python3")).unwrap();
    insta::assert_snapshot!([no_venv, too_old, refusal()].join("\n"));
}

#[test]
fn two_setups_at_once_make_one_environment() {
    let machine = with_uv();
    let (first, second) = std::thread::scope(|scope| {
        let run = || {
            let mut dialogue = Recorder::default();
            let made = machine.ensure(EnvironmentPolicy::Yes, &mut dialogue).unwrap();
            (made, dialogue)
        };
        let (first, second) = (scope.spawn(run), scope.spawn(run));
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!(first.0, second.0);
    let calls = std::fs::read_to_string(machine.folder.path().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 2, "one venv and one install:\n{calls}");
}

#[test]
fn a_second_process_waits_and_remove_does_not() {
    let machine = with_uv();
    let lock = open_lock(&machine.places).unwrap();
    lock.lock().unwrap();
    assert!(matches!(remove(&machine.places), Err(SetupError::Busy)));
    let mut dialogue = Recorder::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            drop(lock);
        });
        machine.ensure(EnvironmentPolicy::Yes, &mut dialogue).unwrap();
    });
    assert_eq!(dialogue.notes, ["another warpsmith is setting up the environment; waiting for it"]);
}

#[test]
fn only_names_of_ours_are_ours() {
    let folder = tempfile::tempdir().unwrap();
    let surroundings = Surroundings::default().with("HOME", folder.path());
    let places = Places::of(&surroundings).unwrap();
    let ours = ["py3.11-0123456789ab", "py3.11-0123456789ab.partial", "py3.12-0123456789ab.partial.removing"];
    let others = ["py3.11", "py3.11-0123456789ab-mine", "py3.x-0123456789ab", "mine", "py3.11-0123456789é"];
    for name in ours.iter().chain(&others) {
        std::fs::create_dir_all(places.environments().join(name)).unwrap();
    }
    let found: Vec<EntryState> = entries(&places).iter().map(|entry| entry.state).collect();
    assert_eq!(found, [EntryState::Remains, EntryState::Partial, EntryState::Remains]);
    assert_eq!(remove(&places).unwrap().folders.len(), 3);
    assert!(others.iter().all(|name| places.environments().join(name).exists()));
}

#[test]
fn a_search_that_finds_nothing_ends_in_a_setup() {
    let machine = with_uv();
    let script = std::fs::read_to_string(machine.folder.path().join("bin/python3")).unwrap();
    // uv's environments answer with torch; python3 on PATH has none.
    machine.script("torch-python", &script.lines().skip(1).collect::<Vec<_>>().join("\n"));
    let without = script.lines().skip(1).collect::<Vec<_>>().join("\n");
    let torch = "\"torch\":{\"version\":\"2.15.0\",\"site\":\"/site\"}";
    assert!(without.contains(torch));
    let uv = std::fs::read_to_string(machine.folder.path().join("bin/uv")).unwrap();
    machine.script("uv", &uv.replace("bin/python3 ", "bin/torch-python "));
    machine.script("python3", &without.replace(torch, "\"torch\":null"));

    let request = SearchRequest::new(&machine.surroundings);
    let find = |policy| find_or_make_python(machine.context(), &request, policy, &mut Recorder::default());
    insta::assert_snapshot!(machine.plain(find(EnvironmentPolicy::Never).unwrap_err()));
    let made = find(EnvironmentPolicy::Yes).unwrap();
    assert_eq!(made.origin, crate::toolchain::python::Origin::Managed);
    assert_eq!(find(EnvironmentPolicy::Never).unwrap(), made);
}
