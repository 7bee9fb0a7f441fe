//! Reads from pip's or uv's lines how far an installation is.

use std::time::Duration;

/// What the installer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Makes the empty virtual environment.
    Preparing,
    /// Finds out what is needed and fetches it; the package's name when it was said.
    Downloading {
        package: Option<String>,
    },
    Unpacking,
}

/// How far a setup is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub phase: Phase,
    pub elapsed: Duration,
    /// On the disk so far.
    pub folder_bytes: u64,
    /// 0 to 1, never falling; `None` when sizes are not known beforehand.
    pub fraction: Option<f64>,
}

/// Part of the whole time that downloads are given.
const DOWNLOAD_SHARE: f64 = 0.7;

/// Measured in the partial environment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OnDisk {
    pub(super) downloads_bytes: u64,
    pub(super) unpacked_bytes: u64,
}

impl OnDisk {
    pub(super) fn total_bytes(self) -> u64 {
        self.downloads_bytes + self.unpacked_bytes
    }
}

#[derive(Debug)]
pub(super) struct InstallerOutput {
    phase: Phase,
    /// Sizes of the files that were begun, without the last one.
    finished_bytes: u64,
    /// Of the file that was begun last.
    current_bytes: u64,
    current_total_bytes: u64,
    fraction: f64,
}

impl InstallerOutput {
    pub(super) fn new() -> Self {
        let phase = Phase::Downloading { package: None };
        Self { phase, finished_bytes: 0, current_bytes: 0, current_total_bytes: 0, fraction: 0.0 }
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Takes a line of either installer; a line that says nothing to us changes nothing.
    pub(super) fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["Progress", done, "of", total] => {
                if let (Ok(done), Ok(total)) = (done.parse(), total.parse()) {
                    (self.current_bytes, self.current_total_bytes) = (done, total);
                }
            }
            ["Downloading", file, ref size @ ..] => self.begin(file, bytes_in(size), false),
            ["Using", "cached", file, ref size @ ..] => self.begin(file, bytes_in(size), true),
            ["Collecting", requirement, ..] => self.name(requirement),
            ["Installing", "collected", ..] | ["Prepared", _, "packages" | "package", ..] => {
                self.phase = Phase::Unpacking;
            }
            _ => {}
        }
    }

    fn begin(&mut self, file: &str, size_bytes: u64, is_here: bool) {
        self.finished_bytes += self.current_total_bytes;
        self.current_total_bytes = size_bytes;
        self.current_bytes = if is_here { size_bytes } else { 0 };
        self.name(file);
    }

    /// `torch==2.15.0`, `torch-2.15.0-cp311-….whl` and `torch` all are torch.
    fn name(&mut self, text: &str) {
        let file = text.rsplit('/').next().unwrap_or(text);
        let end = if file.ends_with(".whl") {
            file.find('-')
        } else {
            file.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c))
        };
        let package = file[..end.unwrap_or(file.len())].to_owned();
        if !package.is_empty() && self.phase != Phase::Unpacking {
            self.phase = Phase::Downloading { package: Some(package) };
        }
    }

    /// From what was said and what lies on the disk, whichever is further.
    pub(super) fn fraction(&mut self, disk: OnDisk, download_bytes: u64, installed_bytes: u64) -> f64 {
        let part = |bytes: u64, of: u64| (bytes as f64 / of.max(1) as f64).clamp(0.0, 1.0);
        let fraction = match self.phase {
            Phase::Preparing => 0.0,
            Phase::Downloading { .. } => {
                let said_bytes = self.finished_bytes + self.current_bytes;
                DOWNLOAD_SHARE * part(said_bytes.max(disk.downloads_bytes), download_bytes)
            }
            Phase::Unpacking => {
                DOWNLOAD_SHARE + (1.0 - DOWNLOAD_SHARE) * part(disk.unpacked_bytes, installed_bytes)
            }
        };
        self.fraction = self.fraction.max(fraction.min(0.99));
        self.fraction
    }
}

/// `(812.5 MB)`, `(850.2MiB)`, `(12`, `kB)`; 0 when it is something else.
fn bytes_in(words: &[&str]) -> u64 {
    let text = words.concat();
    let text = text.trim_matches(['(', ')']);
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (amount, unit) = text.split_at(split);
    let unit_bytes = match unit {
        "bytes" | "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return 0,
    };
    (amount.parse::<f64>().unwrap_or(0.0) * unit_bytes) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &[&str]) -> InstallerOutput {
        let mut output = InstallerOutput::new();
        lines.iter().for_each(|line| output.line(line));
        output
    }

    fn downloading(package: &str) -> Phase {
        Phase::Downloading { package: Some(package.to_owned()) }
    }

    #[test]
    fn pips_lines() {
        let mut output = after(&[
            "Collecting torch==2.15.0",
            "  Downloading torch-2.15.0-cp311-cp311-manylinux_2_28_x86_64.whl (800.0 MB)",
            "Progress 400000000 of 800000000",
        ]);
        assert_eq!(*output.phase(), downloading("torch"));
        assert_eq!(output.finished_bytes + output.current_bytes, 400_000_000);
        output.line("Collecting nvidia-cublas (from torch==2.15.0)");
        assert_eq!(*output.phase(), downloading("nvidia-cublas"));
        output.line("  Using cached nvidia_cublas-13.1-py3-none-any.whl (200.0 MB)");
        assert_eq!(output.finished_bytes + output.current_bytes, 1_000_000_000);
        output.line("Installing collected packages: mpmath, nvidia-cublas, torch");
        assert_eq!(*output.phase(), Phase::Unpacking);
        output.line("Progress nonsense of 3");
        output.line("Collecting late");
        assert_eq!(*output.phase(), Phase::Unpacking);
    }

    #[test]
    fn uvs_lines() {
        let mut output = after(&["Resolved 31 packages in 1.20s", "Downloading torch (1.5MiB)"]);
        assert_eq!(*output.phase(), downloading("torch"));
        assert_eq!(output.current_total_bytes, 1_572_864);
        output.line("Prepared 31 packages in 20.1s");
        assert_eq!(*output.phase(), Phase::Unpacking);
    }

    #[test]
    fn the_fraction_never_falls_nor_says_done() {
        let mut output = after(&["Downloading torch-2.15.0-x.whl (50 MB)", "Progress 50000000 of 50000000"]);
        let half = output.fraction(OnDisk::default(), 100_000_000, 200_000_000);
        assert!((half - 0.35).abs() < 1e-9, "{half}");
        output.line("Downloading other-1-x.whl (50 MB)");
        assert!(output.fraction(OnDisk::default(), 100_000_000, 200_000_000) >= half);
        output.line("Installing collected packages: torch");
        let full = OnDisk { downloads_bytes: 0, unpacked_bytes: u64::MAX };
        assert!(output.fraction(full, 100_000_000, 200_000_000) < 1.0);
    }

    #[test]
    fn sizes() {
        let sizes = [&["(12", "kB)"][..], &["(850.2MiB)"], &["(1.5", "GB)"], &["what"], &[]].map(bytes_in);
        assert_eq!(sizes, [12_000, 891_499_315, 1_500_000_000, 0, 0]);
    }
}
