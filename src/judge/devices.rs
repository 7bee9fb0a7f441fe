//! On which device a check runs, and whether it may.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::bench::BenchGpu;
use super::check::CheckOptions;
use super::{Code, Finding};
use crate::device::busy::Plan;
use crate::device::{
    self, Chosen, DeviceChoice, Gpu, Gpus, LeaseFolder, Management, Usage, Visible, is_busy,
};
use crate::toolchain::{Places, Surroundings};

/// How long the driver may take to tell of its GPUs: one that must first be woken takes seconds, and one whose GPU fell
/// off the bus never answers.
const LOOK_LIMIT: Duration = Duration::from_secs(30);

/// The [`Devices::signature`] of the interpreter.
pub(super) const NO_GPU: &str = "no GPU";

/// The GPUs as this process sees them. NVML is loaded once, when a check first asks.
pub(super) struct Devices {
    management: Arc<OnceLock<Arc<dyn Management>>>,
    visible: Visible,
    leases: LeaseFolder,
}

/// Where a check runs.
pub(super) enum Place {
    Interpreter {
        /// Why no GPU, for the line that says that nothing is timed.
        why: String,
        /// Whether none is there, which is something else than one that is not used.
        is_none: bool,
    },
    Gpu {
        gpu: Box<Gpu>,
        management: Arc<dyn Management>,
        /// Why nothing is timed although everything is judged there.
        no_timing: Option<String>,
    },
}

impl Devices {
    pub(super) fn new(surroundings: &Surroundings) -> Self {
        let variable = |name: &str| surroundings.variable(name);
        Self {
            management: Arc::default(),
            visible: Visible::of_variable(surroundings.variable_as_set("CUDA_VISIBLE_DEVICES")),
            leases: LeaseFolder::of_variable(variable(device::lease::FOLDER_VARIABLE)),
        }
    }

    /// Decides by what was asked for, by what is there, and by who uses it.
    ///
    /// # Errors
    /// A GPU was named that is not there, or one is used and the settings say that it is left alone then.
    pub(super) async fn place(&self, options: &CheckOptions) -> Result<Place, Box<Finding>> {
        if options.device == DeviceChoice::Cpu {
            return Ok(Place::Interpreter { why: "the CPU was asked for".to_owned(), is_none: false });
        }
        let (management, visible, asked) =
            (Arc::clone(&self.management), self.visible.clone(), options.clone());
        // Where the driver must first be woken this takes seconds.
        let decided = tokio::task::spawn_blocking(move || {
            let management = Arc::clone(management.get_or_init(device::facts::open));
            place_now(&management, &visible, &asked)
        });
        let failed = |why: String| {
            Err(Box::new(Finding::plain(
                Code::DeviceUnusable,
                format!("the GPUs cannot be looked at: {why}"),
            )))
        };
        match tokio::time::timeout(LOOK_LIMIT, decided).await {
            Ok(decided) => decided.unwrap_or_else(|error| failed(error.to_string())),
            Err(_) if options.device == DeviceChoice::Auto => {
                let why = "the NVIDIA driver does not answer".to_owned();
                Ok(Place::Interpreter { why, is_none: false })
            }
            Err(_) => failed("the NVIDIA driver does not answer".to_owned()),
        }
    }

    /// The device that these options choose now, whoever uses it; `None` when the driver does not say.
    pub(super) async fn signature(&self, options: &CheckOptions) -> Option<String> {
        if options.device == DeviceChoice::Cpu {
            return Some(NO_GPU.to_owned());
        }
        let (management, visible, device) =
            (Arc::clone(&self.management), self.visible.clone(), options.device);
        let read = tokio::task::spawn_blocking(move || {
            let management = Arc::clone(management.get_or_init(device::facts::open));
            match device::choose(device, &Gpus::read(&*management, &visible)).ok()? {
                Chosen::Interpreter { .. } => Some(NO_GPU.to_owned()),
                Chosen::Gpu(gpu) => Some(format!("{} {} driver {}", gpu.name, gpu.uuid, gpu.driver_version?)),
            }
        });
        tokio::time::timeout(LOOK_LIMIT, read).await.ok()?.ok()?
    }

    /// What timing on this GPU needs.
    pub(super) fn bench_gpu(
        &self,
        (gpu, management): (Gpu, Arc<dyn Management>),
        places: &Places,
        file: &Path,
        patience: Duration,
    ) -> BenchGpu {
        BenchGpu {
            gpu,
            management,
            leases: self.leases.clone(),
            ceilings_folder: places.ceilings(),
            patience,
            what: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

fn place_now(
    management: &Arc<dyn Management>,
    visible: &Visible,
    options: &CheckOptions,
) -> Result<Place, Box<Finding>> {
    let gpus = Gpus::read(&**management, visible);
    let gpu = match device::choose(options.device, &gpus) {
        Ok(Chosen::Gpu(gpu)) => gpu,
        Ok(Chosen::Interpreter { why }) => return Ok(Place::Interpreter { why, is_none: true }),
        Err(error) => {
            let message = format!("{error}; `--device auto` takes what there is");
            return Err(Box::new(Finding::plain(Code::NoDevice, message)));
        }
    };
    let ours = BTreeSet::from([std::process::id()]);
    let busy = Usage::read(&**management, &gpu.uuid, &ours).ok().and_then(|usage| is_busy(&usage, None));
    let no_timing = match options.when_busy.decide(busy) {
        Plan::Everything => None,
        Plan::NoTiming { why } => Some(why),
        Plan::Nothing { why } => {
            let message =
                format!("{why}, and `gpu.whenBusy` says that it is left alone then; check again later");
            return Err(Box::new(Finding::plain(Code::DeviceBusy, message)));
        }
    };
    Ok(Place::Gpu { gpu, management: Arc::clone(management), no_timing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::Fake;

    /// "no GPU here" must not stand where there is one.
    #[tokio::test]
    async fn a_gpu_that_is_not_asked_for_is_not_missing() {
        let devices = Devices::new(&Surroundings::of_this_process());
        let cpu = CheckOptions { device: DeviceChoice::Cpu, ..CheckOptions::default() };
        assert!(matches!(devices.place(&cpu).await, Ok(Place::Interpreter { is_none: false, .. })));
        let none: Arc<dyn Management> = Arc::new(Fake::default());
        let place = place_now(&none, &Visible::of_variable(None), &CheckOptions::default());
        assert!(matches!(place, Ok(Place::Interpreter { is_none: true, .. })));
    }
}
