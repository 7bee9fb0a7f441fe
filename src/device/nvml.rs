//! NVML, loaded from the driver at run time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, cuda_driver_version_major, cuda_driver_version_minor};

use super::facts::{Card, Gpu, Management, NoGpus};
use super::usage::{CardProcess, Readings, ThrottleReason};

#[derive(Debug)]
pub(super) struct Nvml(nvml_wrapper::Nvml);

/// The library comes with the driver: without one there is no driver.
fn why_not(error: &NvmlError) -> NoGpus {
    match error {
        NvmlError::LibloadingError(_) if std::path::Path::new("/dev/kfd").exists() => NoGpus::Amd,
        NvmlError::LibloadingError(_) => NoGpus::NoDriver,
        NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch => NoGpus::NotLoaded(error.to_string()),
        NvmlError::NotFound => NoGpus::NoGpu,
        _ => NoGpus::NoAnswer(error.to_string()),
    }
}

impl Nvml {
    pub(super) fn open() -> Result<Self, NoGpus> {
        nvml_wrapper::Nvml::init().map(Self).map_err(|error| why_not(&error))
    }

    fn card(&self, device: &Device<'_>) -> Result<Card, NvmlError> {
        let gpu = self.gpu(device, None)?;
        let is_mig_enabled = device.mig_mode().is_ok_and(|mode| mode.current == 1);
        let at_most = if is_mig_enabled { device.mig_device_count().unwrap_or(0) } else { 0 };
        // The numbers of instances have holes.
        let instances = (0..at_most).filter_map(|number| device.mig_device_by_index(number).ok());
        let instances = instances.filter_map(|instance| self.gpu(&instance, Some(&gpu)).ok()).collect();
        Ok(Card { gpu, is_mig_enabled, instances })
    }

    /// An instance has the capability and the slot of its card.
    fn gpu(&self, device: &Device<'_>, card: Option<&Gpu>) -> Result<Gpu, NvmlError> {
        let memory = device.memory_info().ok();
        let capability = device.cuda_compute_capability().ok().and_then(|capability| {
            Some((capability.major.try_into().ok()?, capability.minor.try_into().ok()?))
        });
        let cuda = self.0.sys_cuda_driver_version().ok().and_then(|version| {
            let major = u32::try_from(cuda_driver_version_major(version)).ok()?;
            Some((major, u32::try_from(cuda_driver_version_minor(version)).ok()?))
        });
        let bus = device.pci_info().ok().map(|pci| pci.bus_id);
        Ok(Gpu {
            index: 0,
            uuid: device.uuid()?,
            name: device.name().unwrap_or_else(|_| "unknown GPU".to_owned()),
            capability: capability.or_else(|| card?.capability),
            total_bytes: memory.as_ref().map(|memory| memory.total),
            free_bytes: memory.as_ref().map(|memory| memory.free),
            driver_version: self.0.sys_driver_version().ok(),
            cuda_version: cuda,
            // Said of instances; of whole cards only by some drivers.
            sm_count: device.attributes().ok().map(|of| of.multiprocessor_count).filter(|count| *count > 0),
            l2_bytes: None,
            shared_bytes_per_block: None,
            is_mig: card.is_some(),
            pci_bus_id: bus.or_else(|| card?.pci_bus_id.clone()),
        })
    }
}

impl Management for Nvml {
    fn cards(&self) -> Result<Vec<Card>, NoGpus> {
        let count = self.0.device_count().map_err(|error| why_not(&error))?;
        let cards = (0..count).map(|index| self.card(&self.0.device_by_index(index)?));
        // NVML counts cards that this group of processes may not open; CUDA does not. Leaving out any other would
        // give those after it a wrong number.
        let cards = cards.filter(|card| !matches!(card, Err(NvmlError::NoPermission)));
        let cards: Vec<Card> = cards.collect::<Result<_, _>>().map_err(|error| why_not(&error))?;
        if cards.is_empty() && count > 0 { Err(NoGpus::NotPermitted) } else { Ok(cards) }
    }

    fn readings(&self, uuid: &str) -> Result<Readings, String> {
        let device = self.0.device_by_uuid(uuid).map_err(|error| error.to_string())?;
        // An instance has no clock and no temperature of its own.
        let card = device.mig_parent_device().ok();
        let card = card.as_ref().unwrap_or(&device);
        let utilization_percent = device.utilization_rates().ok().map(|rates| rates.gpu);
        Ok(Readings {
            processes: processes(&device, utilization_percent),
            utilization_percent,
            temperature_c: card.temperature(TemperatureSensor::Gpu).ok(),
            sm_clock_mhz: card.clock_info(Clock::SM).ok(),
            max_sm_clock_mhz: card.max_clock_info(Clock::SM).ok(),
            throttle: card.current_throttle_reasons().ok().map(throttle_reasons),
        })
    }
}

/// Those with a context, and those that go through MPS. `None` when NVML does not list them.
fn processes(device: &Device<'_>, utilization_percent: Option<u32>) -> Option<Vec<CardProcess>> {
    // A list that grew between its count and its reading is asked for once more.
    let ask = || device.running_compute_processes();
    let mut listed: Vec<ProcessInfo> = ask().or_else(|_| ask()).ok()?;
    listed.extend(device.mps_running_compute_processes().unwrap_or_default());
    listed.sort_by_key(|process| process.pid);
    listed.dedup_by_key(|process| process.pid);
    // That nobody ran anything on a GPU that was busy means that the driver does not tell.
    let shares = shares(device).filter(|shares| !shares.is_empty() || utilization_percent == Some(0));
    let processes = listed.into_iter().map(|process| CardProcess {
        pid: process.pid,
        used_bytes: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
        sm_percent: shares.as_ref().map(|shares| {
            let own = shares.iter().filter(|(pid, _)| *pid == process.pid);
            own.map(|(_, percent)| *percent).max().unwrap_or(0)
        }),
    });
    let processes: Vec<CardProcess> = processes.collect();
    // Shares of processes that are not listed are under other numbers: nothing is known of those listed then.
    let fit = shares.iter().flatten().all(|(pid, _)| processes.iter().any(|process| process.pid == *pid));
    let unknown = |process| CardProcess { sm_percent: None, ..process };
    Some(if fit { processes } else { processes.into_iter().map(unknown).collect() })
}

/// Processes that ran something in the last second, with their share of it in percent.
fn shares(device: &Device<'_>) -> Option<Vec<(u32, u32)>> {
    let since = SystemTime::now().checked_sub(Duration::from_secs(1))?.duration_since(UNIX_EPOCH).ok()?;
    match device.process_utilization_stats(u64::try_from(since.as_micros()).ok()?) {
        Ok(samples) => Some(samples.iter().map(|sample| (sample.pid, sample.sm_util)).collect()),
        Err(NvmlError::NotFound) => Some(Vec::new()),
        Err(_) => None,
    }
}

fn throttle_reasons(bits: ThrottleReasons) -> Vec<ThrottleReason> {
    let names = [
        (ThrottleReasons::GPU_IDLE, ThrottleReason::Idle),
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, ThrottleReason::ApplicationsClocks),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, ThrottleReason::DisplayClocks),
        (ThrottleReasons::SW_POWER_CAP, ThrottleReason::PowerCap),
        (ThrottleReasons::SYNC_BOOST, ThrottleReason::SyncBoost),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, ThrottleReason::SoftwareThermal),
        (ThrottleReasons::HW_SLOWDOWN, ThrottleReason::HardwareSlowdown),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, ThrottleReason::HardwareThermal),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, ThrottleReason::PowerBrake),
    ];
    names.into_iter().filter(|(bit, _)| bits.contains(*bit)).map(|(_, reason)| reason).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_names() {
        assert_eq!(throttle_reasons(ThrottleReasons::empty()), []);
        assert_eq!(throttle_reasons(ThrottleReasons::all()).len(), 9);
        let bits = ThrottleReasons::GPU_IDLE | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN;
        assert_eq!(throttle_reasons(bits), [ThrottleReason::Idle, ThrottleReason::PowerBrake]);
    }

    #[test]
    fn errors_of_the_library_are_told_apart() {
        assert!(matches!(why_not(&NvmlError::DriverNotLoaded), NoGpus::NotLoaded(_)));
        assert!(matches!(why_not(&NvmlError::LibRmVersionMismatch), NoGpus::NotLoaded(_)));
        assert!(matches!(why_not(&NvmlError::Unknown), NoGpus::NoAnswer(_)));
    }

    /// On a machine with a driver this reads its cards, elsewhere it says why there are none; nothing panics.
    #[test]
    fn the_library_of_this_machine_answers_or_is_absent() {
        match Nvml::open() {
            Err(why) => assert!(!why.to_string().is_empty()),
            Ok(nvml) => {
                for card in nvml.cards().unwrap_or_default() {
                    assert!(card.gpu.uuid.starts_with("GPU-"), "{card:?}");
                    assert!(nvml.readings(&card.gpu.uuid).is_ok());
                }
            }
        }
    }
}
