//! How near a time comes to what the GPU can do.

use serde::Serialize;

use super::ceilings::{Ceilings, MatrixKind};

/// What one call has to do, whoever does it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// That must move between the GPU's memory and its chip: each input read once, each output written once.
    pub bytes: Option<u64>,
    /// Those of `bytes` that are written; `None` when that is not known.
    pub written_bytes: Option<u64>,
    /// Floating-point operations, a multiplication and an addition counted as two. `None` when nobody says.
    pub flops: Option<f64>,
    /// What the matrix units would do it in; `None` when no peak is known for its dtype.
    pub matrix: Option<MatrixKind>,
}

/// What holds a call back at the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    Memory,
    Compute,
    /// It does so little that starting it takes longest.
    Launch,
    Unknown,
}

/// A time beside the limits measured on the same GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roofline {
    pub bytes: Option<u64>,
    pub flops: Option<f64>,
    pub intensity_flop_per_byte: Option<f64>,
    /// The intensity above which computing takes longer than moving these bytes.
    pub ridge_flop_per_byte: Option<f64>,
    pub bound: Bound,
    /// Time of a copy (or read) of the same bytes, in µs.
    pub memory_us: Option<f64>,
    /// Time of the operations at the measured peak, in µs.
    pub compute_us: Option<f64>,
    /// The largest of them, and of the time of a kernel that does nothing. `None` when one is not known.
    pub limit_us: Option<f64>,
    /// The measured time, L2 cold.
    pub latency_us: f64,
    /// `limit_us / latency_us`: 1 is the ceiling.
    pub share_of_limit: Option<f64>,
}

/// Below this share of written bytes a call is held against reading, above it against copying.
const MOSTLY_READING: f64 = 0.1;

impl Roofline {
    /// Holds a time with cold L2 against ceilings of the same GPU, which are limits for the same bytes in the same
    /// run only.
    pub fn of(work: &Work, ceilings: &Ceilings, latency_us: f64) -> Self {
        let memory_us = work.bytes.and_then(|bytes| memory_us(bytes, work.written_bytes, ceilings));
        let flops = work.flops.filter(|flops| flops.is_finite() && *flops >= 0.0);
        let peak = work.matrix.and_then(|kind| ceilings.matrix_rate(kind));
        let compute_us = match (flops, peak) {
            (Some(0.0), _) => Some(0.0),
            (Some(flops), Some(peak)) => Some(flops / peak * 1e6),
            _ => None,
        };
        let (bound, limit_us) = limit(memory_us, compute_us, ceilings.launch_floor_us());
        let bytes = work.bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64);
        let bandwidth = bytes.zip(memory_us).map(|(bytes, us)| bytes / us * 1e6);
        let is_usable = latency_us.is_finite() && latency_us > 0.0;
        Self {
            bytes: work.bytes,
            flops,
            intensity_flop_per_byte: flops.zip(bytes).map(|(flops, bytes)| flops / bytes),
            ridge_flop_per_byte: peak.zip(bandwidth).map(|(peak, bandwidth)| peak / bandwidth),
            bound,
            memory_us,
            compute_us,
            limit_us,
            latency_us,
            share_of_limit: limit_us.filter(|_| is_usable).map(|limit_us| limit_us / latency_us),
        }
    }

    /// Whether the time is better than the limit by more than its own spread (0.02 is 2 %). No kernel is: the work
    /// was not done, was counted wrong, or was timed wrong, so such a time is not published.
    pub fn exceeds_limit(&self, relative_spread: f64) -> bool {
        // A spread that is no number excuses nothing.
        let spread = if relative_spread > 0.0 { relative_spread } else { 0.0 };
        self.share_of_limit.is_some_and(|share| share > 1.0 + spread)
    }
}

/// A copy writes half of its bytes and is slower than reading. Where it is not known what is written, the faster.
fn memory_us(bytes: u64, written_bytes: Option<u64>, ceilings: &Ceilings) -> Option<f64> {
    let (copy, read) = (ceilings.copy_time_us(bytes), ceilings.read_time_us(bytes));
    let fastest = || match (copy, read) {
        (Some(copy), Some(read)) => Some(copy.min(read)),
        (one, other) => one.or(other),
    };
    match written_bytes {
        Some(written) if written as f64 >= MOSTLY_READING * bytes as f64 => copy,
        _ => fastest(),
    }
}

/// Nothing is a limit unless everything that could be one is known.
fn limit(memory_us: Option<f64>, compute_us: Option<f64>, launch_us: Option<f64>) -> (Bound, Option<f64>) {
    let (Some(memory_us), Some(compute_us)) = (memory_us, compute_us) else { return (Bound::Unknown, None) };
    let launch_us = launch_us.unwrap_or(0.0);
    let work_us = memory_us.max(compute_us);
    let bound = match work_us <= launch_us {
        true => Bound::Launch,
        false if compute_us > memory_us => Bound::Compute,
        false => Bound::Memory,
    };
    (bound, Some(work_us.max(launch_us)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ceilings::tests::h200;

    fn work(bytes: u64, flops: f64) -> Work {
        Work {
            bytes: Some(bytes),
            written_bytes: Some(bytes / 2),
            flops: Some(flops),
            matrix: Some(MatrixKind::Float16),
        }
    }

    #[test]
    fn what_takes_longest_is_the_bound() {
        let of = |bytes, flops| Roofline::of(&work(bytes, flops), &h200(), 1000.0);
        let copy_us = h200().copy_time_us(536_870_912).unwrap();
        let memory = of(536_870_912, 1e9);
        assert_eq!((memory.bound, memory.limit_us), (Bound::Memory, Some(copy_us)));
        assert_eq!(memory.share_of_limit, Some(copy_us / 1000.0));
        let compute = of(1 << 20, 7e11);
        assert_eq!(compute.bound, Bound::Compute);
        assert!((compute.limit_us.unwrap() - 1000.0).abs() < 1e-9);
        let launch = of(64, 0.0);
        assert_eq!((launch.bound, launch.limit_us), (Bound::Launch, Some(2.0)));
        assert!(compute.intensity_flop_per_byte > compute.ridge_flop_per_byte);
        assert!(memory.intensity_flop_per_byte < memory.ridge_flop_per_byte);
    }

    #[test]
    fn what_is_not_known_gives_no_limit() {
        let known = work(1 << 28, 1e9);
        for unknown in [
            Work { bytes: None, ..known },
            Work { flops: None, ..known },
            Work { matrix: None, ..known },
            Work { matrix: Some(MatrixKind::Float64), ..known },
            Work { flops: Some(f64::NAN), ..known },
        ] {
            let roofline = Roofline::of(&unknown, &h200(), 1.0);
            assert_eq!(
                (roofline.bound, roofline.limit_us, roofline.share_of_limit),
                (Bound::Unknown, None, None)
            );
            assert!(!roofline.exceeds_limit(0.0));
        }
        assert_eq!(Roofline::of(&known, &h200(), 0.0).share_of_limit, None);
        let nothing_to_compute = Work { flops: Some(0.0), matrix: None, ..known };
        assert_eq!(Roofline::of(&nothing_to_compute, &h200(), 1.0).bound, Bound::Memory);
    }

    #[test]
    fn reading_is_held_against_reading() {
        let limit = |written| {
            Roofline::of(&Work { written_bytes: written, ..work(1 << 28, 0.0) }, &h200(), 1.0).limit_us
        };
        let (copy, read) = (h200().copy_time_us(1 << 28), h200().read_time_us(1 << 28));
        assert!(read < copy);
        assert_eq!([limit(Some(1 << 27)), limit(Some(4)), limit(None)], [copy, read, read]);
    }

    #[test]
    fn a_time_below_the_limit_by_more_than_its_spread_is_impossible() {
        let limit_us = h200().copy_time_us(1 << 28).unwrap();
        let of = |share: f64| Roofline::of(&work(1 << 28, 0.0), &h200(), limit_us / share);
        assert!(!of(0.99).exceeds_limit(0.0));
        assert!(of(1.04).exceeds_limit(0.03));
        assert!(!of(1.02).exceeds_limit(0.03));
        assert!(of(1.02).exceeds_limit(f64::NAN));
    }
}
