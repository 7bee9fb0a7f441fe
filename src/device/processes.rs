//! Which processes are ours: read from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The processes that can be seen from here, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    proc: PathBuf,
    parents: BTreeMap<u32, u32>,
}

impl Processes {
    /// Those of this machine (in a container: of the container).
    pub fn read() -> Self {
        Self::below(Path::new("/proc"))
    }

    /// Those of a folder that looks like `/proc`.
    pub fn below(proc: &Path) -> Self {
        let entries = std::fs::read_dir(proc).into_iter().flatten().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let parents = pids.filter_map(|pid| {
            let stat = std::fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
            // `pid (name) state ppid …`; the name may hold anything, brackets included.
            let (_, after_name) = stat.rsplit_once(')')?;
            Some((pid, after_name.split_whitespace().nth(1)?.parse().ok()?))
        });
        let parents = parents.collect();
        Self { proc: proc.to_owned(), parents }
    }

    pub(super) fn is_known(&self, pid: u32) -> bool {
        self.parents.contains_key(&pid)
    }

    /// These and all that descend from them.
    pub fn descendants(&self, roots: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut family = roots.clone();
        loop {
            let before = family.len();
            let children = self.parents.iter().filter(|(_, parent)| family.contains(parent));
            let children: Vec<u32> = children.map(|(child, _)| *child).collect();
            family.extend(children);
            if family.len() == before {
                return family;
            }
        }
    }

    /// The short name of a process: `python3`.
    pub(super) fn name(&self, pid: u32) -> Option<String> {
        let name = std::fs::read_to_string(self.proc.join(pid.to_string()).join("comm")).ok()?;
        let name = name.trim_end().chars().filter(|c| !c.is_control()).collect::<String>();
        (!name.is_empty()).then_some(name)
    }

    /// Whether a process has started CUDA: it has the driver's memory manager open, which NVML never opens.
    pub(super) fn has_cuda(&self, pid: u32) -> bool {
        let open = std::fs::read_dir(self.proc.join(pid.to_string()).join("fd"));
        let mut targets =
            open.into_iter().flatten().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        targets.any(|target| target == Path::new("/dev/nvidia-uvm"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_children_are_ours_whatever_they_are_called() {
        let folder = tempfile::tempdir().unwrap();
        for (pid, parent, name) in
            [(10, 1, "server"), (11, 10, "a) S 7 (b"), (12, 11, "judge"), (20, 1, "other")]
        {
            let process = folder.path().join(pid.to_string());
            std::fs::create_dir_all(process.join("fd")).unwrap();
            std::fs::write(process.join("stat"), format!("{pid} ({name}) S {parent} 1 1")).unwrap();
            std::fs::write(process.join("comm"), format!("{name}\n")).unwrap();
        }
        std::fs::create_dir(folder.path().join("self")).unwrap();
        std::os::unix::fs::symlink("/dev/nvidia-uvm", folder.path().join("12/fd/9")).unwrap();
        std::os::unix::fs::symlink("/dev/nvidia0", folder.path().join("10/fd/9")).unwrap();
        let processes = Processes::below(folder.path());
        assert_eq!(processes.descendants(&BTreeSet::from([10])), BTreeSet::from([10, 11, 12]));
        assert_eq!(processes.name(20).as_deref(), Some("other"));
        assert_eq!(processes.name(21), None);
        assert_eq!([10, 11, 12, 99].map(|pid| processes.has_cuda(pid)), [false, false, true, false]);
    }

    #[test]
    fn this_process_is_among_the_real_ones() {
        let processes = Processes::read();
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        let family = processes.descendants(&BTreeSet::from([parent.unwrap()]));
        assert!(family.contains(&std::process::id()));
    }
}
