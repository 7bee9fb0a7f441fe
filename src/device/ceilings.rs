//! What a GPU can do at most, as measured on it, kept on disk.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::runner::protocol::{BandwidthPoint, MeasuredCeilings};

const SCHEMA: &str = "warpsmith.ceilings/1";

/// The ceilings of one GPU under one driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    schema: String,
    pub uuid: String,
    /// `NVIDIA H200`.
    pub name: String,
    pub driver: String,
    /// Seconds since 1970.
    pub measured_unix_s: u64,
    pub measured: MeasuredCeilings,
}

/// What the matrix units of a GPU multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixKind {
    Float16,
    Bfloat16,
    /// float32 inputs, rounded to 10 bits.
    Tf32,
    Float32,
    Float64,
}

impl MatrixKind {
    /// The kind for inputs of a dtype; `None` for one whose peak is not measured.
    pub fn of(dtype: &str, allows_tf32: bool) -> Option<Self> {
        match dtype {
            "float16" => Some(Self::Float16),
            "bfloat16" => Some(Self::Bfloat16),
            "float32" if allows_tf32 => Some(Self::Tf32),
            "float32" => Some(Self::Float32),
            "float64" => Some(Self::Float64),
            _ => None,
        }
    }

    /// As the worker writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Tf32 => "tf32",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }
}

impl Ceilings {
    pub fn new(
        uuid: impl Into<String>,
        name: impl Into<String>,
        driver: impl Into<String>,
        measured_unix_s: u64,
        measured: MeasuredCeilings,
    ) -> Self {
        let (uuid, name, driver) = (uuid.into(), name.into(), driver.into());
        Self { schema: SCHEMA.to_owned(), uuid, name, driver, measured_unix_s, measured }
    }

    /// Time of a copy that moves so many bytes, read and written together, in µs. `None` when none was measured.
    pub fn copy_time_us(&self, bytes: u64) -> Option<f64> {
        time_us(&self.measured.copy, self.measured.launch_floor_us, bytes)
    }

    /// Time of a sum that reads so many bytes, in µs. `None` when none was measured.
    pub fn read_time_us(&self, bytes: u64) -> Option<f64> {
        time_us(&self.measured.read, self.measured.launch_floor_us, bytes)
    }

    /// Floating-point operations in a second. `None` when it was not measured.
    pub fn matrix_rate(&self, kind: MatrixKind) -> Option<f64> {
        let of_kind = self.measured.matrix.iter().filter(|rate| rate.kind == kind.as_str());
        let rates = of_kind.map(|rate| rate.flops_per_s).filter(|rate| is_positive(*rate));
        rates.max_by(f64::total_cmp)
    }

    /// Device time of a kernel that does nothing, in µs. `None` when it was not measured.
    pub fn launch_floor_us(&self) -> Option<f64> {
        self.measured.launch_floor_us.filter(|floor_us| is_positive(*floor_us))
    }

    /// What is on disk for this GPU and driver. A file that cannot be read, or is of another GPU, is as none: they
    /// are measured anew then.
    pub fn load(folder: &Path, uuid: &str, driver: &str) -> Option<Self> {
        let text = std::fs::read(file(folder, uuid, driver)).ok()?;
        let found: Self = serde_json::from_slice(&text).ok()?;
        let fits = found.schema == SCHEMA && found.uuid == uuid && found.driver == driver;
        fits.then_some(found)
    }

    /// Writes them below `folder`, which is made. Another process sees the old file or the new one, never a part.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn store(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let path = file(folder, &self.uuid, &self.driver);
        let unfinished = path.with_extension(format!("{}.new", std::process::id()));
        let text = serde_json::to_vec_pretty(self)?;
        let stored = std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, &path));
        if stored.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        stored
    }
}

fn file(folder: &Path, uuid: &str, driver: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
    let name: String = format!("{uuid}-{driver}").chars().map(plain).collect();
    folder.join(format!("{name}.json"))
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// The least time for so many bytes that the points allow. It never falls as bytes grow.
///
/// Between two points it is a straight line in the logarithms of both. Above the largest the bandwidth stays that of
/// the largest. Below the smallest the time falls in proportion, which is less than it can really be, but not below
/// that of a kernel that does nothing: a limit may be too low there, never too high.
fn time_us(points: &[BandwidthPoint], floor_us: Option<f64>, bytes: u64) -> Option<f64> {
    let points = monotone(points);
    let (first, last) = (points.first()?, points.last()?);
    if bytes <= first.bytes {
        let scaled = first.time_us * (bytes as f64 / first.bytes as f64);
        let floor_us = floor_us.filter(|floor_us| is_positive(*floor_us)).unwrap_or(0.0);
        return Some(scaled.max(floor_us.min(first.time_us)));
    }
    let after = points.iter().position(|point| bytes <= point.bytes);
    let Some(after) = after else { return Some(last.time_us * (bytes as f64 / last.bytes as f64)) };
    let (low, high) = (points[after - 1], points[after]);
    let log = |point: BandwidthPoint| ((point.bytes as f64).ln(), point.time_us.ln());
    let ((x0, y0), (x1, y1)) = (log(low), log(high));
    let share = ((bytes as f64).ln() - x0) / (x1 - x0);
    // Rounding must not lead past a point.
    Some((y0 + share * (y1 - y0)).exp().clamp(low.time_us, high.time_us))
}

/// The usable points in the order of their bytes, none slower than a larger one: moving less takes no longer, so
/// where noise says so, the larger one shows what was possible.
fn monotone(points: &[BandwidthPoint]) -> Vec<BandwidthPoint> {
    let usable = points.iter().filter(|point| point.bytes > 0 && is_positive(point.time_us));
    let mut points: Vec<BandwidthPoint> = usable.copied().collect();
    points.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(a.time_us.total_cmp(&b.time_us)));
    points.dedup_by_key(|point| point.bytes);
    let mut least = f64::INFINITY;
    for point in points.iter_mut().rev() {
        least = least.min(point.time_us);
        point.time_us = least;
    }
    points
}

#[cfg(test)]
#[path = "ceilings_tests.rs"]
pub(super) mod tests;
