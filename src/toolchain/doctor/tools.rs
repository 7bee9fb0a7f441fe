//! Compilers, profilers and libraries.

use std::path::{Path, PathBuf};

use super::{Check, DoctorContext};
use crate::toolchain::surroundings::is_executable_file;

/// A program with an answer to `--version`.
struct Tool {
    name: &'static str,
    programs: &'static [&'static str],
    /// Only of use with a GPU.
    needs_gpu: bool,
    /// What it is for.
    purpose: &'static str,
    remedy: &'static str,
}

const TOOLS: [Tool; 6] = [
    Tool {
        name: "nvcc",
        programs: &["nvcc"],
        needs_gpu: false,
        purpose: "for CUDA files, which this version does not check",
        remedy: "install the CUDA toolkit and set CUDA_HOME",
    },
    Tool {
        name: "ptxas",
        programs: &["ptxas"],
        needs_gpu: false,
        purpose: "for registers and spills, which this version does not show",
        remedy: "install triton (it brings ptxas) or the CUDA toolkit",
    },
    Tool {
        name: "ncu",
        programs: &["ncu"],
        needs_gpu: true,
        purpose: "for profiles, which this version does not make",
        remedy: "install Nsight Compute (it is in the CUDA toolkit) and put `ncu` on PATH",
    },
    Tool {
        name: "compute-sanitizer",
        programs: &["compute-sanitizer"],
        needs_gpu: true,
        purpose: "for checks on the GPU, which this version does not use",
        remedy: "install the CUDA toolkit and set CUDA_HOME",
    },
    Tool {
        name: "c++ compiler",
        programs: &["c++", "g++", "clang++"],
        needs_gpu: false,
        purpose: "for Triton on a GPU, which this version does not use, and for torch extensions",
        remedy: "run `sudo apt install g++` (Debian, Ubuntu) or `sudo dnf install gcc-c++` (Fedora)",
    },
    Tool {
        name: "uv",
        programs: &["uv"],
        needs_gpu: false,
        purpose: "for a faster `warpsmith setup`, which uses venv and pip without it",
        remedy: "run `python3 -m pip install --user uv`",
    },
];

pub(super) fn checks(context: &DoctorContext<'_>, has_gpu: bool) -> Vec<Check> {
    let tools = std::thread::scope(|scope| {
        let answers = TOOLS.each_ref().map(|tool| scope.spawn(move || tool_check(context, tool, has_gpu)));
        answers.into_iter().filter_map(|answer| answer.join().ok()).collect::<Vec<_>>()
    });
    [nvrtc_check(context)].into_iter().chain(tools).collect()
}

fn tool_check(context: &DoctorContext<'_>, tool: &Tool, has_gpu: bool) -> Check {
    let Some(program) = find(context, tool) else {
        if tool.needs_gpu && !has_gpu {
            return Check::not_applicable(tool.name, "of no use without a GPU");
        }
        return Check::missing(tool.name, tool.purpose, tool.remedy);
    };
    match context.ask(&program, &["--version"]) {
        Ok(text) => Check::found(tool.name, format!("{} at {}", version_in(&text), program.display())),
        Err(reason) => {
            Check::warning(tool.name, format!("{} fails: {reason}", program.display()), tool.remedy)
        }
    }
}

/// On PATH, in a CUDA toolkit, in the standalone Nsight Compute, in triton.
fn find(context: &DoctorContext<'_>, tool: &Tool) -> Option<PathBuf> {
    let on_path = tool.programs.iter().find_map(|name| context.surroundings.find_program(name));
    let elsewhere = || {
        let toolkits = context.toolkits().into_iter().map(|toolkit| toolkit.join("bin"));
        let nsight = newest_first(&context.root.join("opt/nvidia/nsight-compute"));
        let triton = site_folders(context).into_iter().map(|site| site.join("triton/backends/nvidia/bin"));
        let folders = toolkits.chain(nsight).chain(triton);
        folders
            .flat_map(|folder| tool.programs.iter().map(move |name| folder.join(name)))
            .find(|program| is_executable_file(program))
    };
    on_path.or_else(elsewhere)
}

fn newest_first(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort_by(|a, b| b.cmp(a));
    folders
}

fn site_folders(context: &DoctorContext<'_>) -> Vec<PathBuf> {
    let chosen = context.search.chosen.iter();
    let folders = chosen.flat_map(|chosen| chosen.folders.iter());
    folders
        .filter(|folder| folder.ends_with("site-packages") || folder.ends_with("dist-packages"))
        .cloned()
        .collect()
}

/// What follows `release` or `Version`, else the first line.
fn version_in(text: &str) -> String {
    for marker in ["release ", "Version "] {
        let after = text.lines().find_map(|line| Some(line.split_once(marker)?.1));
        let version = after.and_then(|rest| rest.split([',', ' ']).next());
        if let Some(version) = version.filter(|version| version.starts_with(|c: char| c.is_ascii_digit())) {
            return version.to_owned();
        }
    }
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("of unknown version");
    first.trim().chars().take(80).collect()
}

/// NVIDIA's runtime compiler: in the environment's own libraries, else in a toolkit.
fn nvrtc_check(context: &DoctorContext<'_>) -> Check {
    let name = "nvrtc";
    let in_environment = site_folders(context).into_iter().flat_map(|site| {
        let packages = newest_first(&site.join("nvidia"));
        packages.into_iter().map(|package| package.join("lib"))
    });
    let toolkits = context.toolkits().into_iter();
    let in_toolkits = toolkits.flat_map(|toolkit| [toolkit.join("lib64"), toolkit.join("lib")]);
    match in_environment.chain(in_toolkits).find_map(|folder| nvrtc_in(&folder)) {
        Some(library) => Check::found(name, library.display().to_string()),
        None => {
            let remedy = match &context.search.chosen {
                Some(chosen) => {
                    let python = crate::toolchain::shell_word(&chosen.executable);
                    format!(
                        "run `{python} -m pip install nvidia-cuda-nvrtc`, or set CUDA_HOME to a CUDA toolkit"
                    )
                }
                None => "set CUDA_HOME to a CUDA toolkit".to_owned(),
            };
            Check::missing(name, "for CUDA files, which this version does not check", remedy)
        }
    }
}

/// `libnvrtc.so`, `libnvrtc.so.13`, not its companions (`libnvrtc-builtins`).
fn nvrtc_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let libraries = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        name.starts_with("libnvrtc.so")
    });
    libraries.min()
}
