//! The GPU and its driver, as NVML (see [`crate::device`]) and the driver's files tell them.

use std::path::Path;

use super::{Check, DoctorContext};
use crate::device::{Gpu, NoGpus, Owner, Surveyed, Usage};
use crate::toolchain::Release;

/// What was found out without opening a CUDA context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gpus {
    surveyed: Vec<Surveyed>,
    /// Names that stand in the driver's files although NVML does not list the GPUs.
    names: Vec<String>,
    driver: Option<String>,
    cuda: Option<(u32, u32)>,
    /// Why none may be used although there are some: the user's wish.
    hidden: Option<String>,
    /// Why NVML lists none, when there is a sign of a GPU all the same.
    trouble: Option<String>,
}

impl Gpus {
    pub(super) fn is_present(&self) -> bool {
        !self.surveyed.is_empty() || !self.names.is_empty()
    }
}

pub(super) fn find(context: &DoctorContext<'_>) -> Gpus {
    let survey = context.gpus;
    match &survey.why_none {
        Some(why @ NoGpus::Hidden(_)) => {
            Gpus { hidden: Some(why.to_string()), trouble: None, ..from_files(context, String::new()) }
        }
        // With a sign of a GPU there is a driver, which then lacks its library.
        Some(NoGpus::NoDriver) => from_files(context, "libnvidia-ml.so.1 cannot be loaded".to_owned()),
        Some(why) => from_files(context, why.to_string()),
        None => {
            let first = survey.gpus.first().map(|surveyed| &surveyed.gpu);
            Gpus {
                driver: first.and_then(|gpu| gpu.driver_version.clone()),
                cuda: first.and_then(|gpu| gpu.cuda_version),
                surveyed: survey.gpus.clone(),
                ..Gpus::default()
            }
        }
    }
}

fn from_files(context: &DoctorContext<'_>, reason: String) -> Gpus {
    let driver_files = context.root.join("proc/driver/nvidia");
    let folders = std::fs::read_dir(driver_files.join("gpus")).into_iter().flatten().filter_map(Result::ok);
    let information =
        folders.filter_map(|entry| std::fs::read_to_string(entry.path().join("information")).ok());
    let names: Vec<String> = information
        .filter_map(|text| {
            let model = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
            Some(model.trim().to_owned())
        })
        .collect();
    let driver = std::fs::read_to_string(driver_files.join("version")).ok();
    let driver = driver.and_then(|text| driver_in(&text));
    let has_sign = !names.is_empty() || driver.is_some() || context.root.join("dev/nvidiactl").exists();
    Gpus { names, driver, trouble: has_sign.then_some(reason), ..Gpus::default() }
}

/// The first word of `/proc/driver/nvidia/version` that looks like 580.126.20.
fn driver_in(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains("NVRM"))?;
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

pub(super) fn checks(context: &DoctorContext<'_>, found: &Gpus) -> Vec<Check> {
    const NONE: &str = "kernels are judged in Triton's interpreter, without times";
    let mut checks: Vec<Check> = found.surveyed.iter().flat_map(gpu_checks).collect();
    if let Some(hidden) = &found.hidden {
        checks.push(Check::not_applicable("gpu", format!("{hidden}: {NONE}")));
    } else if !found.is_present() && found.trouble.is_none() {
        return vec![Check::not_applicable("gpu", format!("none ({}): {NONE}", why_none(context)))];
    } else {
        checks.extend(found.names.iter().map(|name| Check::found("gpu", name)));
    }
    if let Some(trouble) = &found.trouble {
        let remedy = "see what `nvidia-smi` says; in a container, start it with the GPU (`--gpus all`)";
        checks.push(Check::warning("gpu", format!("there are signs of a GPU, but {trouble}"), remedy));
    }
    checks.push(driver_check(context, found));
    checks.push(counters_check(context));
    checks
}

fn why_none(context: &DoctorContext<'_>) -> String {
    context.gpus.why_none.as_ref().map_or_else(|| "it was not looked for".to_owned(), NoGpus::to_string)
}

/// What it is, who uses it, and who times on it.
fn gpu_checks(surveyed: &Surveyed) -> Vec<Check> {
    let Surveyed { gpu, usage, lease } = surveyed;
    let device = gpu.device();
    vec![
        Check::found("gpu", format!("{device}: {}", facts(gpu))),
        usage_check(&device, usage),
        lease_check(&device, lease),
    ]
}

fn facts(gpu: &Gpu) -> String {
    const KIB: f64 = 1024.0;
    const GIB: f64 = KIB * KIB * KIB;
    let gib = |bytes: u64| bytes as f64 / GIB;
    let mut facts = vec![gpu.name.clone()];
    facts.extend(gpu.is_mig.then(|| "a MIG instance".to_owned()));
    facts.extend(gpu.total_bytes.map(|total| match gpu.free_bytes {
        Some(free) => format!("{:.0} GiB, {:.1} free", gib(total), gib(free)),
        None => format!("{:.0} GiB", gib(total)),
    }));
    facts.extend(gpu.capability.map(|(major, minor)| format!("compute capability {major}.{minor}")));
    facts.extend(gpu.sm_count.map(|count| format!("{count} SMs")));
    facts.extend(gpu.l2_bytes.map(|bytes| format!("{:.0} MiB L2", bytes as f64 / (KIB * KIB))));
    let shared = gpu.shared_bytes_per_block;
    facts.extend(shared.map(|bytes| format!("{:.0} KiB shared memory a block", bytes as f64 / KIB)));
    facts.push(gpu.uuid.clone());
    facts.join(", ")
}

fn usage_check(device: &str, usage: &Result<Usage, String>) -> Check {
    let name = "gpu processes";
    let remedy = "without it, times that others disturbed cannot be told; see what `nvidia-smi` says";
    let usage = match usage {
        Ok(usage) => usage,
        Err(error) => return Check::warning(name, format!("{device}: {error}"), remedy),
    };
    match usage.other_processes.as_deref() {
        None => Check::warning(name, format!("{device}: the driver does not list them"), remedy),
        Some([]) => Check::found(name, format!("{device}: none")),
        Some(others) => {
            let others = others.iter().map(|process| match process.used_bytes {
                Some(bytes) => format!("{}, {} MiB", process.described(), bytes >> 20),
                None => process.described(),
            });
            let others = others.collect::<Vec<_>>().join("; ");
            let remedy = "no time is taken on a GPU while others use it: end them, or use another GPU";
            Check::warning(name, format!("{device}: {others}"), remedy)
        }
    }
}

fn lease_check(device: &str, lease: &Result<Option<Owner>, String>) -> Check {
    let name = "gpu lease";
    match lease {
        Ok(None) => Check::found(name, format!("{device}: free")),
        Ok(Some(owner)) => Check::found(name, format!("{device}: {owner} times {}", owner.what)),
        Err(error) => {
            Check::warning(name, format!("{device}: {error}"), "until then nothing is timed on this GPU")
        }
    }
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
    let Some(version) = &found.driver else {
        return Check::warning("driver", "its version is unknown", "see what `nvidia-smi` says");
    };
    let driver = &match found.cuda {
        Some((major, minor)) => format!("{version} (CUDA {major}.{minor})"),
        None => version.clone(),
    };
    let torch = context.search.chosen.as_ref().and_then(|chosen| chosen.torch.as_ref());
    let needed = torch.and_then(|torch| torch.cuda.as_deref()).and_then(|cuda| {
        let oldest = oldest_driver(Release::parse(cuda)?)?;
        Some((cuda, oldest))
    });
    match (needed, Release::parse(version)) {
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
