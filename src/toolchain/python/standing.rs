//! Whether the search for an interpreter would end as it did, told without starting a process: the same candidates in the
//! same order, and nothing that their answers rested on was written since.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::candidates::without_processes;
use super::probe::modified;
use super::{Package, ProbeCache, PythonEnvironment, SearchRequest};

/// What a search rested on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// In the order of the search; the last is the one that was taken.
    candidates: Vec<PathBuf>,
    /// When each file and folder was written last, in nanoseconds of Unix time; `None` for what is not there.
    written: Vec<(PathBuf, Option<u64>)>,
}

impl Standing {
    /// Of a search that just ended with `chosen`. `None` where it rests on what cannot be looked at later: another
    /// program was asked, or a package lies in a folder of sources, where nothing tells that a file of it changed.
    pub fn of(request: &SearchRequest<'_>, chosen: &PythonEnvironment, probes: &ProbeCache) -> Option<Self> {
        let packages = [&chosen.torch, &chosen.triton, &chosen.numpy];
        if packages.into_iter().flatten().any(|package| !is_installed(package)) {
            return None;
        }
        let mut standing = Self { candidates: Vec::new(), written: Vec::new() };
        for candidate in without_processes(request) {
            let (executable, origin) = candidate?;
            if standing.candidates.contains(&executable) {
                continue;
            }
            let answer = probes.rests_on(&executable);
            let paths = answer.unwrap_or_else(|| vec![executable.clone()]);
            standing.written.extend(paths.into_iter().map(written));
            standing.candidates.push(executable.clone());
            if origin == chosen.origin {
                // Which files an installer replaces is written nowhere; each replaces these.
                let versions = [
                    (&chosen.torch, "torch/version.py"),
                    (&chosen.triton, "triton/__init__.py"),
                    (&chosen.numpy, "numpy/version.py"),
                ];
                let files =
                    versions.into_iter().filter_map(|(found, file)| Some(found.as_ref()?.site.join(file)));
                standing.written.extend(files.map(written));
                return Some(standing);
            }
        }
        None
    }

    /// Whether a search now would end in the same way.
    pub fn holds(&self, request: &SearchRequest<'_>) -> bool {
        let mut seen: Vec<PathBuf> = Vec::new();
        for candidate in without_processes(request) {
            let Some((executable, _)) = candidate else { return false };
            if !seen.contains(&executable) {
                seen.push(executable);
            }
            if seen.len() == self.candidates.len() {
                break;
            }
        }
        seen == self.candidates && self.written.iter().all(|(path, then)| written(path.clone()).1 == *then)
    }
}

fn written(path: PathBuf) -> (PathBuf, Option<u64>) {
    let since = modified(&path).and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let nanoseconds = since.and_then(|since| u64::try_from(since.as_nanos()).ok());
    (path, nanoseconds)
}

/// Put there by an installer, which changes the folder when it changes the package.
fn is_installed(package: &Package) -> bool {
    let folder = package.site.file_name().unwrap_or_default();
    ["site-packages", "dist-packages"].iter().any(|name| Path::new(folder) == Path::new(name))
}
