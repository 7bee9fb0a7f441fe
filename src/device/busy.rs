//! What is done when somebody else uses the GPU.

use std::fmt;
use std::str::FromStr;

use super::lease::Owner;
use super::usage::Usage;

/// The setting `gpu.whenBusy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenBusy {
    /// Nothing is run on the GPU.
    Skip,
    /// All stages are run, no time is taken.
    #[default]
    Correctness,
}

impl FromStr for WhenBusy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "skip" => Ok(Self::Skip),
            "correctness" => Ok(Self::Correctness),
            _ => Err(format!("{text:?} is not skip or correctness")),
        }
    }
}

impl WhenBusy {
    /// What is left to be done on a GPU that is busy, or is not.
    pub fn decide(self, busy: Option<Busy>) -> Plan {
        match (busy, self) {
            (None, _) => Plan::Everything,
            (Some(busy), Self::Skip) => Plan::Nothing { why: busy.why },
            (Some(busy), Self::Correctness) => Plan::NoTiming { why: busy.why },
        }
    }
}

/// What is done on the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    Everything,
    /// All stages.
    NoTiming {
        why: String,
    },
    Nothing {
        why: String,
    },
}

/// Somebody else uses the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// `python3 (process 1234) uses the GPU`.
    pub why: String,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Whether another process runs something there (see [`Usage::active_others`]) or another warpsmith has the lease.
/// Which processes are there but unknown is no sign that there are any.
pub fn is_busy(usage: &Usage, lease_owner: Option<&Owner>) -> Option<Busy> {
    if let Some(owner) = lease_owner {
        return Some(Busy { why: format!("{owner} times on the GPU") });
    }
    let active: Vec<String> = usage.active_others().map(|process| process.described()).collect();
    let (first, more) = active.split_first()?;
    let why = match more.len() {
        0 => format!("{first} uses the GPU"),
        1 => format!("{first} and another process use the GPU"),
        count => format!("{first} and {count} other processes use the GPU"),
    };
    Some(Busy { why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::OtherProcess;

    fn usage(others: &[(u32, Option<u32>)], utilization_percent: Option<u32>) -> Usage {
        let others = others.iter().map(|&(pid, sm_percent)| OtherProcess {
            pid,
            name: Some("python3".to_owned()),
            used_bytes: None,
            sm_percent,
        });
        Usage { other_processes: Some(others.collect()), utilization_percent, ..Usage::default() }
    }

    #[test]
    fn a_process_that_only_holds_memory_does_not_count() {
        for (others, utilization, expected) in [
            (&[][..], Some(90), None),
            (&[(1, Some(0))], Some(0), None),
            (&[(1, Some(0))], Some(3), Some("python3 (process 1) uses the GPU")),
            (&[(1, Some(0))], None, Some("python3 (process 1) uses the GPU")),
            (&[(1, None)], Some(0), Some("python3 (process 1) uses the GPU")),
            (
                &[(1, Some(5)), (2, None)],
                Some(5),
                Some("python3 (process 1) and another process use the GPU"),
            ),
            (
                &[(1, None), (2, None), (3, None)],
                None,
                Some("python3 (process 1) and 2 other processes use the GPU"),
            ),
        ] {
            let why = is_busy(&usage(others, utilization), None).map(|busy| busy.why);
            assert_eq!(why.as_deref(), expected, "{others:?} {utilization:?}");
        }
        assert_eq!(is_busy(&Usage::default(), None), None);
    }

    #[test]
    fn the_lease_of_another_counts_first() {
        let owner = Owner::example();
        let busy = is_busy(&usage(&[(1, None)], None), Some(&owner)).unwrap();
        insta::assert_snapshot!(busy, @"ada (process 4321) times on the GPU");
        let why = busy.why.clone();
        assert_eq!(WhenBusy::Skip.decide(Some(busy.clone())), Plan::Nothing { why: why.clone() });
        assert_eq!(WhenBusy::Correctness.decide(Some(busy)), Plan::NoTiming { why });
        assert_eq!(WhenBusy::Skip.decide(None), Plan::Everything);
    }

    #[test]
    fn the_setting_is_read() {
        assert_eq!("skip".parse(), Ok(WhenBusy::Skip));
        assert_eq!("correctness".parse(), Ok(WhenBusy::Correctness));
        assert!("Skip".parse::<WhenBusy>().is_err());
    }
}
