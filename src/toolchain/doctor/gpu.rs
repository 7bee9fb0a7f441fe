//! The GPU and its driver, as nvidia-smi and the driver's files tell them.

use std::path::Path;

use super::{Check, DoctorContext};
use crate::toolchain::Release;

/// What was found out without opening a CUDA context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gpus {
    gpus: Vec<Gpu>,
    driver: Option<String>,
    /// Why nvidia-smi said nothing, when there is a sign of a GPU all the same.
    trouble: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Gpu {
    name: String,
    memory_mib: Option<u64>,
    compute_capability: Option<Release>,
}

impl Gpus {
    pub(super) fn is_present(&self) -> bool {
        !self.gpus.is_empty()
    }
}

pub(super) fn find(context: &DoctorContext<'_>) -> Gpus {
    let query = ["--query-gpu=name,memory.total,compute_cap,driver_version", "--format=csv,noheader,nounits"];
    let answer = match context.surroundings.find_program("nvidia-smi") {
        Some(program) => context.ask(&program, &query).map_err(|reason| format!("nvidia-smi: {reason}")),
        None => Err("there is no nvidia-smi on PATH".to_owned()),
    };
    match answer.map(|text| read_smi(&text)) {
        Ok(gpus) if gpus.is_present() => gpus,
        Ok(_) => from_files(context, "nvidia-smi lists no GPU".to_owned()),
        Err(reason) => from_files(context, reason),
    }
}

/// Lines of `name, MiB, capability, driver`. A name has no comma; what is `[N/A]` is unknown.
fn read_smi(text: &str) -> Gpus {
    let mut found = Gpus::default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [name, memory, capability, driver] = fields[..] else { continue };
        found.gpus.push(Gpu {
            name: name.to_owned(),
            memory_mib: memory.parse().ok(),
            compute_capability: Release::parse(capability),
        });
        found.driver = Some(driver.to_owned());
    }
    found
}

fn from_files(context: &DoctorContext<'_>, reason: String) -> Gpus {
    let driver_files = context.root.join("proc/driver/nvidia");
    let folders = std::fs::read_dir(driver_files.join("gpus")).into_iter().flatten().filter_map(Result::ok);
    let information =
        folders.filter_map(|entry| std::fs::read_to_string(entry.path().join("information")).ok());
    let gpus: Vec<Gpu> = information
        .filter_map(|text| {
            let model = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
            Some(Gpu { name: model.trim().to_owned(), memory_mib: None, compute_capability: None })
        })
        .collect();
    let driver = std::fs::read_to_string(driver_files.join("version")).ok();
    let driver = driver.and_then(|text| driver_in(&text));
    let has_sign = !gpus.is_empty() || driver.is_some() || context.root.join("dev/nvidiactl").exists();
    Gpus { gpus, driver, trouble: has_sign.then_some(reason) }
}

/// The first word of `/proc/driver/nvidia/version` that looks like 580.126.20.
fn driver_in(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains("NVRM"))?;
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

pub(super) fn checks(context: &DoctorContext<'_>, found: &Gpus) -> Vec<Check> {
    if !found.is_present() && found.trouble.is_none() {
        let detail = "none: kernels are judged in Triton's interpreter, without times";
        return vec![Check::not_applicable("gpu", detail)];
    }
    let mut checks: Vec<Check> = found.gpus.iter().map(gpu_check).collect();
    if let Some(trouble) = &found.trouble {
        let remedy = "see what `nvidia-smi` says; in a container, start it with the GPU (`--gpus all`)";
        checks.push(Check::warning("gpu", format!("the driver is there, but {trouble}"), remedy));
    }
    checks.push(driver_check(context, found));
    checks.push(counters_check(context));
    checks
}

fn gpu_check(gpu: &Gpu) -> Check {
    let mut detail = gpu.name.clone();
    if let Some(memory_mib) = gpu.memory_mib {
        detail.push_str(&format!(", {:.0} GiB", memory_mib as f64 / 1024.0));
    }
    if let Some(Release(major, minor, _)) = gpu.compute_capability {
        detail.push_str(&format!(", compute capability {major}.{minor}"));
    }
    detail.push_str("; not used: this version judges in Triton's interpreter, without times");
    Check::found("gpu", detail)
}

/// The oldest driver that runs programs of a CUDA release (minor releases run on their major's first).
fn oldest_driver(cuda: Release) -> Option<Release> {
    match cuda.0 {
        13 => Some(Release(580, 65, 6)),
        12 => Some(Release(525, 60, 13)),
        11 => Some(Release(450, 80, 2)),
        _ => None,
    }
}

fn driver_check(context: &DoctorContext<'_>, found: &Gpus) -> Check {
    let Some(driver) = &found.driver else {
        return Check::warning("driver", "its version is unknown", "see what `nvidia-smi` says");
    };
    let torch = context.search.chosen.as_ref().and_then(|chosen| chosen.torch.as_ref());
    let needed = torch.and_then(|torch| torch.cuda.as_deref()).and_then(|cuda| {
        let oldest = oldest_driver(Release::parse(cuda)?)?;
        Some((cuda, oldest))
    });
    match (needed, Release::parse(driver)) {
        (Some((cuda, oldest)), Some(release)) if release < oldest => {
            let major = cuda.split('.').next().unwrap_or(cuda);
            Check::warning(
                "driver",
                format!("{driver}, too old for torch's CUDA {cuda}: {} or newer is needed", oldest.0),
                format!(
                    "install NVIDIA driver {} or newer, or a torch built for a CUDA before {major}",
                    oldest.0
                ),
            )
        }
        (Some((cuda, _)), _) => {
            Check::found("driver", format!("{driver}, new enough for torch's CUDA {cuda}"))
        }
        (None, _) => Check::found("driver", driver.clone()),
    }
}

/// Whether this user may read the GPU's performance counters.
fn counters_check(context: &DoctorContext<'_>) -> Check {
    let name = "profiling counters";
    let parameters = std::fs::read_to_string(context.root.join("proc/driver/nvidia/params"));
    let restricted = parameters.ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"));
        line.map(|value| value.trim() != "0")
    });
    match restricted {
        None => Check::not_applicable(name, "the driver does not say who may read them"),
        Some(false) => Check::found(name, "every user may read them"),
        Some(true) if has_admin_capability(context.root) => {
            Check::found(name, "for administrators only, and this process is one")
        }
        Some(true) => Check::warning(
            name,
            "for administrators only: ncu cannot measure",
            "run `echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | \
             sudo tee /etc/modprobe.d/nvidia-profiling.conf` and reboot; in a container add `--cap-add SYS_ADMIN`",
        ),
    }
}

/// CAP_SYS_ADMIN among the effective capabilities.
fn has_admin_capability(root: &Path) -> bool {
    const SYS_ADMIN_BIT: u64 = 21;
    let status = std::fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = capabilities.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> SYS_ADMIN_BIT & 1 == 1)
}
