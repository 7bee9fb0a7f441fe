//! Who uses a GPU, and what holds its clock back.

use std::collections::BTreeSet;

use serde::Serialize;

use super::facts::Management;
use super::processes::Processes;

/// What NVML says of one device at one moment; `None` where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Every process with a CUDA context there, ours included.
    pub processes: Option<Vec<CardProcess>>,
    pub utilization_percent: Option<u32>,
    pub temperature_c: Option<u32>,
    pub sm_clock_mhz: Option<u32>,
    pub max_sm_clock_mhz: Option<u32>,
    pub throttle: Option<Vec<ThrottleReason>>,
}

/// A process as NVML lists it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardProcess {
    pub pid: u32,
    pub used_bytes: Option<u64>,
    /// Share of the last second in which it ran something.
    pub sm_percent: Option<u32>,
}

/// Why a clock is lower than it could be (`nvmlClocksThrottleReason…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleReason {
    /// Nothing runs.
    Idle,
    /// Somebody fixed the clocks: lower, but steady.
    ApplicationsClocks,
    DisplayClocks,
    /// The usual one under load.
    PowerCap,
    SyncBoost,
    SoftwareThermal,
    HardwareSlowdown,
    HardwareThermal,
    PowerBrake,
}

impl ThrottleReason {
    /// Whether times taken meanwhile are not those of the GPU in good order.
    pub fn disturbs(self) -> bool {
        self.words().is_some()
    }

    fn words(self) -> Option<&'static str> {
        match self {
            Self::Idle
            | Self::ApplicationsClocks
            | Self::DisplayClocks
            | Self::PowerCap
            | Self::SyncBoost => None,
            Self::SoftwareThermal => Some("the driver slowed the GPU down because it was hot"),
            Self::HardwareSlowdown => Some("the hardware slowed the GPU down"),
            Self::HardwareThermal => Some("the hardware slowed the GPU down because it was hot"),
            Self::PowerBrake => Some("the power supply braked the GPU"),
        }
    }
}

/// A process on the GPU that is not ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OtherProcess {
    pub pid: u32,
    /// `None`: it cannot be seen from here (another container, say).
    pub name: Option<String>,
    pub used_bytes: Option<u64>,
    /// Share of the last second in which it ran something.
    pub sm_percent: Option<u32>,
}

impl OtherProcess {
    /// `python3 (process 1234)`.
    pub fn described(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} (process {})", self.pid),
            None => format!("process {}", self.pid),
        }
    }

    /// A sentence beside a time.
    pub fn was_there_too(&self) -> String {
        format!("{} was on the GPU too", self.described())
    }

    fn is_surely_idle(&self) -> bool {
        self.sm_percent == Some(0)
    }
}

/// The state of one GPU at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub other_processes: Option<Vec<OtherProcess>>,
    pub utilization_percent: Option<u32>,
    pub temperature_c: Option<u32>,
    pub sm_clock_mhz: Option<u32>,
    pub max_sm_clock_mhz: Option<u32>,
    pub throttle: Option<Vec<ThrottleReason>>,
}

impl Usage {
    /// Asks NVML and `/proc`; may block for as long as the driver does. `ours` and their descendants are not others.
    ///
    /// # Errors
    /// In words: NVML does not answer for this device.
    pub fn read(management: &dyn Management, uuid: &str, ours: &BTreeSet<u32>) -> Result<Self, String> {
        Ok(Self::of(management.readings(uuid)?, &Processes::read(), ours))
    }

    /// Takes our own processes out.
    ///
    /// In a container NVML may list processes under the numbers of the host, where none of them can be recognised.
    /// Then as many of the unknown ones are taken for ours as processes of ours have started CUDA and are not
    /// listed under their own number: more than those are others.
    pub fn of(readings: Readings, processes: &Processes, ours: &BTreeSet<u32>) -> Self {
        let Readings { processes: listed, .. } = readings;
        let other_processes = listed.map(|listed| {
            let family = processes.descendants(ours);
            let strangers = || listed.iter().filter(|process| !family.contains(&process.pid));
            let has_unknown = strangers().any(|process| !processes.is_known(process.pid));
            let is_listed = |pid: &u32| listed.iter().any(|process| process.pid == *pid);
            let unlisted =
                || family.iter().filter(|pid| !is_listed(pid) && processes.has_cuda(**pid)).count();
            let mut may_be_ours = if has_unknown { unlisted() } else { 0 };
            let others = strangers().filter(|process| {
                let is_taken_for_ours = may_be_ours > 0 && !processes.is_known(process.pid);
                may_be_ours -= usize::from(is_taken_for_ours);
                !is_taken_for_ours
            });
            let described = others.map(|&CardProcess { pid, used_bytes, sm_percent }| OtherProcess {
                pid,
                name: processes.name(pid),
                used_bytes,
                sm_percent,
            });
            described.collect()
        });
        Self {
            other_processes,
            utilization_percent: readings.utilization_percent,
            temperature_c: readings.temperature_c,
            sm_clock_mhz: readings.sm_clock_mhz,
            max_sm_clock_mhz: readings.max_sm_clock_mhz,
            throttle: readings.throttle,
        }
    }

    /// Others that may be running something. One that only holds memory, on a GPU that does nothing, is not.
    /// Ask it before anything of ours runs.
    pub fn active_others(&self) -> impl Iterator<Item = &OtherProcess> {
        let is_quiet = self.utilization_percent == Some(0);
        let others = self.other_processes.iter().flatten();
        others.filter(move |process| !(is_quiet && process.is_surely_idle()))
    }

    /// The same while something of ours runs, so that the GPU is not quiet whoever else is there.
    pub fn others_at_work(&self) -> impl Iterator<Item = &OtherProcess> {
        self.other_processes.iter().flatten().filter(|process| !process.is_surely_idle())
    }
}

/// The state of the GPU around a timing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conditions {
    pub before: Usage,
    pub after: Usage,
}

/// A clock may fall by this share between before and after.
const CLOCK_FALL: f64 = 0.10;

impl Conditions {
    /// Sentences on what makes the times doubtful, each once; none when nothing does.
    pub fn what_disturbs(&self) -> Vec<String> {
        let mut sentences: Vec<String> = Vec::new();
        let mut say = |sentence: String| {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        };
        for usage in [&self.before, &self.after] {
            if usage.other_processes.is_none() {
                say("whether other processes used the GPU is not known".to_owned());
            }
            for process in usage.others_at_work() {
                say(process.was_there_too());
            }
            for words in usage.throttle.iter().flatten().filter_map(|reason| reason.words()) {
                say(words.to_owned());
            }
        }
        if let Some((before, after)) = self.fallen_clock_mhz() {
            say(format!("the clock fell from {before} to {after} MHz"));
        }
        sentences
    }

    /// A clock that is low because the work is over has not fallen.
    fn fallen_clock_mhz(&self) -> Option<(u32, u32)> {
        let (before, after) = (self.before.sm_clock_mhz?, self.after.sm_clock_mhz?);
        let is_idle = self.after.throttle.iter().flatten().any(|reason| *reason == ThrottleReason::Idle);
        let has_fallen = f64::from(after) < f64::from(before) * (1.0 - CLOCK_FALL);
        (has_fallen && !is_idle).then_some((before, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `/proc` with 10 → 11 (ours, with CUDA where told) and 20 (not ours).
    fn processes(with_cuda: &[u32]) -> (tempfile::TempDir, Processes) {
        let folder = tempfile::tempdir().unwrap();
        for (pid, parent, name) in [(10, 1, "warpsmith"), (11, 10, "judge"), (20, 1, "python3")] {
            let process = folder.path().join(pid.to_string());
            std::fs::create_dir_all(process.join("fd")).unwrap();
            std::fs::write(process.join("stat"), format!("{pid} ({name}) S {parent} 1")).unwrap();
            std::fs::write(process.join("comm"), format!("{name}\n")).unwrap();
            if with_cuda.contains(&pid) {
                std::os::unix::fs::symlink("/dev/nvidia-uvm", process.join("fd/5")).unwrap();
            }
        }
        let read = Processes::below(folder.path());
        (folder, read)
    }

    fn others(with_cuda: &[u32], listed: &[u32]) -> Vec<String> {
        let (_folder, processes) = processes(with_cuda);
        let listed = listed.iter().map(|&pid| CardProcess { pid, ..CardProcess::default() }).collect();
        let readings = Readings { processes: Some(listed), ..Readings::default() };
        let usage = Usage::of(readings, &processes, &BTreeSet::from([10]));
        usage.other_processes.unwrap().iter().map(OtherProcess::described).collect()
    }

    #[test]
    fn our_descendants_are_not_others() {
        assert_eq!(others(&[11], &[11, 20]), ["python3 (process 20)"]);
        assert_eq!(others(&[11], &[11, 20, 900]), ["python3 (process 20)", "process 900"]);
        assert_eq!(others(&[], &[900]), ["process 900"]);
    }

    #[test]
    fn under_foreign_numbers_as_many_are_ours_as_have_started_cuda() {
        assert_eq!(others(&[11], &[900]), [""; 0]);
        assert_eq!(others(&[11], &[900, 901]), ["process 901"]);
        assert_eq!(others(&[10, 11], &[900, 20, 901]), ["python3 (process 20)"]);
    }

    #[test]
    fn what_nvml_does_not_say_stays_unknown() {
        let (_folder, processes) = processes(&[]);
        assert_eq!(Usage::of(Readings::default(), &processes, &BTreeSet::new()), Usage::default());
    }

    #[test]
    fn what_makes_times_doubtful_is_said_once() {
        let other = |pid, sm_percent| OtherProcess { pid, name: None, used_bytes: None, sm_percent };
        let usage = |others: &[OtherProcess], clock, throttle: &[ThrottleReason]| Usage {
            other_processes: Some(others.to_vec()),
            sm_clock_mhz: Some(clock),
            throttle: Some(throttle.to_vec()),
            ..Usage::default()
        };
        use ThrottleReason::*;
        let harmless = [Idle, ApplicationsClocks, DisplayClocks, PowerCap, SyncBoost];
        let said = |before, after| Conditions { before, after }.what_disturbs();
        assert_eq!(said(usage(&[other(1, Some(0))], 1980, &harmless), usage(&[], 1785, &harmless)), [""; 0]);
        assert_eq!(said(usage(&[], 1980, &[]), usage(&[], 345, &[Idle])), [""; 0]);
        let busy = [other(1, None), other(2, Some(7))];
        let slow = [SoftwareThermal, HardwareSlowdown, HardwareThermal, PowerBrake];
        let all = said(usage(&busy, 1980, &slow), usage(&busy, 1500, &slow));
        insta::assert_snapshot!(all.join("\n"), @r"
        process 1 was on the GPU too
        process 2 was on the GPU too
        the driver slowed the GPU down because it was hot
        the hardware slowed the GPU down
        the hardware slowed the GPU down because it was hot
        the power supply braked the GPU
        the clock fell from 1980 to 1500 MHz
        ");
        assert_eq!(
            said(Usage::default(), Usage::default()),
            ["whether other processes used the GPU is not known"]
        );
    }
}
