//! Reports on machines made of folders and stub programs.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::device::{Gpu, NoGpus, OtherProcess, Owner, Surveyed, Usage};
use crate::toolchain::python::{Mending, Origin, Package, Problem, PythonEnvironment, Rejected, Rejection};

struct Machine {
    folder: tempfile::TempDir,
    surroundings: Surroundings,
    places: Places,
    search: PythonSearch,
    gpus: Survey,
    tool_limit_s: u64,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let surroundings =
            Surroundings::default().with("PATH", root.join("bin")).with("HOME", root.join("home"));
        let places = Places::of(&surroundings).unwrap();
        let search = PythonSearch { chosen: Some(environment(root)), rejected: vec![] };
        let gpus = Survey::none(NoGpus::NoDriver);
        let machine = Self { folder, surroundings, places, search, gpus, tool_limit_s: 60 };
        machine.write("proc/meminfo", "MemTotal:       24000000 kB\nMemAvailable:   20000000 kB\n");
        machine.write("home/.cache/warpsmith/worker/a", "");
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn program(&self, name: &str, answer: &str) {
        let path = format!("bin/{name}");
        self.write(&path, &format!("#!/bin/sh\n{answer}\n"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.folder.path().join(path), mode).unwrap();
    }

    fn report(&self) -> Report {
        let Self { surroundings, places, search, gpus, folder, .. } = self;
        let (root, tool_limit_s) = (folder.path(), self.tool_limit_s);
        examine(DoctorContext { surroundings, places, search, gpus, root, tool_limit_s })
    }

    /// The report as text, without what differs between machines.
    fn text(&self) -> String {
        let text = self.report().to_string().replace(&self.folder.path().display().to_string(), "");
        let lines = text.lines().map(|line| match line.split_once("folder  ") {
            Some((name, _)) => format!("{name}folder  …"),
            None if line.contains(" cores ") => "cores …".to_owned(),
            None => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn check(&self, name: &str) -> Check {
        let checks = self.report().checks;
        checks.into_iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no check {name}"))
    }

    /// With a GPU, a driver and everything that goes with it.
    fn with_gpu(driver: &str) -> Self {
        let mut machine = Self::new();
        machine.gpus = Survey { gpus: vec![h200(driver)], why_none: None };
        machine.write("proc/driver/nvidia/params", "Other: 1\nRmProfilingAdminOnly: 1\n");
        machine.write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
        machine
    }
}

/// Idle, and as the driver describes it.
fn h200(driver: &str) -> Surveyed {
    let gpu = Gpu {
        index: 0,
        uuid: "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6".to_owned(),
        name: "NVIDIA H200".to_owned(),
        capability: Some((9, 0)),
        total_bytes: Some(150_754_820_096),
        free_bytes: Some(150_121_545_728),
        driver_version: Some(driver.to_owned()),
        cuda_version: Some((13, 0)),
        sm_count: Some(132),
        l2_bytes: Some(62_914_560),
        shared_bytes_per_block: Some(232_448),
        is_mig: false,
        pci_bus_id: None,
    };
    let usage = Usage { other_processes: Some(vec![]), ..Usage::default() };
    Surveyed { gpu, usage: Ok(usage), lease: Ok(None) }
}

fn environment(root: &Path) -> PythonEnvironment {
    let site = root.join("venv/lib/python3.12/site-packages");
    let package = |version: &str, cuda: Option<&str>| {
        Some(Package { version: version.into(), site: site.clone(), cuda: cuda.map(str::to_owned) })
    };
    PythonEnvironment {
        executable: root.join("venv/bin/python"),
        origin: Origin::DotVenv { place: root.join("code/.venv") },
        python: "3.12.4".into(),
        torch: package("2.15.0+cu132", Some("13.2")),
        triton: package("3.9.0", None),
        numpy: package("2.4.6", None),
        folders: vec![site.clone()],
        mending: Mending::Pip,
        problems: vec![],
    }
}

#[test]
fn a_machine_without_a_gpu() {
    let machine = Machine::new();
    machine.program("g++", "echo 'g++ (Debian 12.2.0) 12.2.0'");
    insta::assert_snapshot!(machine.text());
}

#[test]
fn a_complete_gpu_machine() {
    let machine = Machine::with_gpu("580.126.20");
    machine.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n");
    machine.write("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13", "");
    machine.write("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc-builtins.so.13", "");
    for tool in ["nvcc", "ptxas"] {
        machine
            .program(tool, "echo 'nvcc: NVIDIA (R)'; echo 'Cuda compilation tools, release 13.0, V13.0.48'");
    }
    machine.program("ncu", "echo 'NVIDIA (R) Nsight Compute'; echo 'Version 2025.3.0.0 (build 36273991)'");
    machine.program("compute-sanitizer", "echo 'NVIDIA (R) Compute Sanitizer'; echo 'Version 2025.3.0'");
    machine.program("c++", "echo 'c++ 13.3.0'");
    machine.program("uv", "echo 'uv 0.13.9'");
    insta::assert_snapshot!(machine.text());
}

#[test]
fn a_gpu_with_an_old_driver_and_closed_counters() {
    let machine = Machine::with_gpu("570.86.10");
    let checks = ["gpu", "driver", "profiling counters", "ncu"].map(|name| machine.check(name));
    insta::assert_json_snapshot!(checks);
    machine.write("proc/self/status", "CapEff:\t0000000000200000\n");
    assert_eq!(machine.check("profiling counters").state, State::Found);
}

#[test]
fn who_uses_the_gpu_and_who_times_on_it() {
    let mut machine = Machine::with_gpu("580.126.20");
    let process = |pid, name: Option<&str>, used_bytes| OtherProcess {
        pid,
        name: name.map(str::to_owned),
        used_bytes,
        sm_percent: None,
    };
    let others = vec![process(77, Some("python3"), Some(3 << 30)), process(78, None, None)];
    let mut second = h200("580.126.20");
    second.gpu = Gpu {
        index: 1,
        uuid: "MIG-1".to_owned(),
        name: "NVIDIA H200 MIG 1g.18gb".to_owned(),
        is_mig: true,
        driver_version: Some("580.126.20".to_owned()),
        ..Gpu::default()
    };
    second.usage = Err("the driver does not know the device".to_owned());
    second.lease = Err("/tmp cannot be written".to_owned());
    machine.gpus.gpus[0].usage = Ok(Usage { other_processes: Some(others), ..Usage::default() });
    machine.gpus.gpus[0].lease = Ok(Some(Owner::example()));
    machine.gpus.gpus.push(second);
    let report = machine.report();
    let about = report.checks.iter().filter(|check| check.name.starts_with("gpu"));
    insta::assert_json_snapshot!(about.collect::<Vec<_>>());
}

#[test]
fn gpus_that_are_hidden_are_not_missed() {
    let mut machine = Machine::new();
    machine.gpus = Survey::none(NoGpus::Hidden("-1".to_owned()));
    machine.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module  580.126.20  Release\n",
    );
    let report = machine.report();
    let about = report.checks.iter().filter(|check| ["gpu", "driver"].contains(&check.name));
    insta::assert_json_snapshot!(about.collect::<Vec<_>>());
}

#[test]
fn a_driver_that_does_not_answer() {
    let mut machine = Machine::new();
    machine.gpus = Survey::none(NoGpus::NoAnswer("no answer in 15 s".to_owned()));
    machine.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module  580.126.20  Release\n",
    );
    machine.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n");
    let report = machine.report();
    let about = report.checks.iter().filter(|check| ["gpu", "driver"].contains(&check.name));
    insta::assert_json_snapshot!(about.collect::<Vec<_>>());
}

#[test]
fn a_hanging_tool_is_given_up() {
    let machine = Machine { tool_limit_s: 1, ..Machine::new() };
    machine.program("c++", "trap '' TERM; while :; do :; done");
    let check = machine.check("c++ compiler");
    assert_eq!(check.state, State::Warning);
    assert!(check.detail.ends_with("fails: no answer in 1 s"), "{}", check.detail);
}

#[test]
fn no_interpreter() {
    let mut machine = Machine::new();
    let rejected = |name: &str, reason| Rejected { executable: name.into(), origin: Origin::Path, reason };
    let problem = Problem::NeitherTorchNorTriton;
    machine.search = PythonSearch {
        chosen: None,
        rejected: vec![
            rejected("/usr/bin/python3", Rejection::Unusable { problem, mending: Mending::Forbidden }),
            rejected("/opt/python3", Rejection::NoAnswer { limit_s: 10 }),
        ],
    };
    let report = machine.report();
    assert!(!report.can_check);
    insta::assert_json_snapshot!(&report.checks[..3]);
    assert!(machine.text().ends_with("kernels cannot be checked yet"));
}

#[test]
fn packages_that_do_not_fit_together() {
    let mut machine = Machine::new();
    let chosen = machine.search.chosen.as_mut().unwrap();
    chosen.problems = vec![
        Problem::TritonTooOld { found: "3.4.0".into() },
        Problem::NumpyTooNew { numpy: "2.4.6".into(), triton: "3.4.0".into() },
    ];
    chosen.executable = "/my venv/bin/python".into();
    let report = machine.report();
    assert!(!report.can_check);
    insta::assert_json_snapshot!(&report.checks[2..4]);
}

#[test]
fn the_json_object_names_its_schema() {
    let value = serde_json::to_value(Machine::new().report()).unwrap();
    assert_eq!((&value["schema"], &value["can_check"]), (&SCHEMA.into(), &true.into()));
    let first = &value["checks"][0];
    assert_eq!((&first["name"], &first["state"]), (&"python".into(), &"found".into()));
    assert_eq!(first.get("remedy"), None);
}

#[test]
fn little_memory_and_a_group_limit() {
    let machine = Machine::new();
    machine.write("sys/fs/cgroup/memory.max", "2000000000\n");
    let check = machine.check("memory");
    assert_eq!(check.state, State::Warning);
    insta::assert_snapshot!(check.detail);
    machine.write("sys/fs/cgroup/memory.max", "max\n");
    assert_eq!(machine.check("memory").state, State::Found);
}

#[test]
fn a_cache_folder_below_a_file_cannot_be_written() {
    let mut machine = Machine::new();
    machine.write("file", "");
    let below = machine.folder.path().join("file/cache");
    machine.places = Places::of(&machine.surroundings.clone().with("WARPSMITH_CACHE_DIR", below)).unwrap();
    assert_eq!(machine.check("cache folder").state, State::Warning);
}
