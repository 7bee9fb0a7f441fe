//! How much memory there is and how much of it may still be taken.

use std::path::Path;

/// What the kernel says, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub total_bytes: u64,
    /// Free, or freed without harm to anybody.
    pub available_bytes: u64,
    /// What this group of processes (a container) may use, where that is less than all.
    pub group_limit_bytes: Option<u64>,
}

impl Memory {
    /// Reads `proc/meminfo` and the control group's limit below `root`; `None` where they do not exist.
    pub fn read(root: &Path) -> Option<Self> {
        let meminfo = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
        let field = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            let kibibytes = line.split_whitespace().next()?.parse::<u64>().ok()?;
            kibibytes.checked_mul(1024)
        };
        let (total_bytes, available_bytes) = (field("MemTotal")?, field("MemAvailable")?);
        let limit = std::fs::read_to_string(root.join("sys/fs/cgroup/memory.max")).ok();
        let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
        let group_limit_bytes = limit.filter(|limit| *limit < total_bytes);
        Some(Self { total_bytes, available_bytes, group_limit_bytes })
    }

    /// What a program may count on.
    pub fn usable_bytes(&self) -> u64 {
        self.group_limit_bytes.map_or(self.available_bytes, |limit| self.available_bytes.min(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_may_have_less_than_its_host() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Memory::read(root.path()), None);
        std::fs::create_dir_all(root.path().join("proc")).unwrap();
        std::fs::create_dir_all(root.path().join("sys/fs/cgroup")).unwrap();
        let meminfo = "MemTotal:  4000 kB\nMemFree: 1 kB\nMemAvailable:  3000 kB\n";
        std::fs::write(root.path().join("proc/meminfo"), meminfo).unwrap();
        let usable = || Memory::read(root.path()).map(|memory| memory.usable_bytes());
        assert_eq!(usable(), Some(3000 * 1024));
        for (limit, expected) in [("max", 3000 * 1024), ("2048000", 2_048_000), ("999999999", 3000 * 1024)] {
            std::fs::write(root.path().join("sys/fs/cgroup/memory.max"), format!("{limit}\n")).unwrap();
            assert_eq!(usable(), Some(expected), "{limit}");
        }
    }
}
