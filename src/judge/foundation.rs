//! What a verdict rests on besides the text and what describes it: this program, the settings, the environment and the
//! device. A verdict is answered from the store only while all of it is the same, and none of it is looked at by
//! starting a process: an opened file runs nothing.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::check::{CheckOptions, CheckRequest};
use super::engine::Engine;
use super::environment::{Search, standing, still_stands};
use crate::runner::{self, WorkerVersions};
use crate::toolchain::python::{PythonEnvironment, Standing};
use crate::toolchain::{Places, Surroundings};

/// Beginnings of the variables that change what Python, torch, Triton, CUDA or we do.
const VARIABLES: [&str; 29] = [
    "ATEN_",
    "CC",
    "CONDA_",
    "CUBLAS",
    "CUDA",
    "CUDNN",
    "CXX",
    "DISABLE_",
    "DNNL_",
    "FIB_",
    "FLASHINFER_",
    "GOMP_",
    "KMP_",
    "LD_",
    "LLVM_",
    "MKL_",
    "MLIR_",
    "NVIDIA_",
    "NVPTX_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PTXAS_",
    "PYTHON",
    "PYTORCH_",
    "TORCH",
    "TRITON",
    "USE_IR_LOC",
    "VIRTUAL_ENV",
];

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foundation {
    /// This very program, with its worker.
    engine: String,
    settings: String,
    /// A hash of [`VARIABLES`] and their values.
    variables: String,
    /// The device that the settings choose.
    device: String,
    python: Standing,
}

impl Foundation {
    /// The device is the interpreter, and no GPU was left aside for it.
    pub(super) fn is_without_gpu(&self) -> bool {
        self.device == super::devices::NO_GPU
    }
}

impl Engine {
    /// What a check with these settings rests on, once its interpreter is found and its worker runs. `None` where that
    /// cannot all be looked at again, or the worker has other packages than those that are there now.
    pub(super) async fn foundation(
        &self,
        request: &CheckRequest,
        python: &PythonEnvironment,
        worker: &WorkerVersions,
    ) -> Option<Arc<Foundation>> {
        if !is_plain(&request.options) || !has_versions_of(worker, python) {
            return None;
        }
        let device = self.devices.signature(&request.options).await?;
        let (search, surroundings, probes) =
            (self.search(request), self.surroundings.clone(), Arc::clone(&self.probes));
        let (settings, python) = (settings(&request.options), python.clone());
        let found = tokio::task::spawn_blocking(move || {
            let places = Places::of(&surroundings).ok()?;
            let python = standing(&search, (&surroundings, &places), &probes, &python)?;
            Some(Foundation {
                engine: engine()?,
                settings,
                variables: variables(&surroundings),
                device,
                python,
            })
        });
        found.await.ok()?.map(Arc::new)
    }

    /// Whether all of it is the same now.
    pub(super) async fn rests_on_the_same(&self, request: &CheckRequest, then: &Arc<Foundation>) -> bool {
        let is_same = then.settings == settings(&request.options)
            && then.variables == variables(&self.surroundings)
            && engine().is_some_and(|engine| engine == then.engine);
        if !is_same {
            return false;
        }
        let (search, surroundings, python) =
            (self.search(request), self.surroundings.clone(), Arc::clone(then));
        let stands = tokio::task::spawn_blocking(move || {
            Places::of(&surroundings)
                .is_ok_and(|places| still_stands(&search, (&surroundings, &places), &python.python))
        });
        // The device last: the driver is asked only when all else says yes.
        stands.await.unwrap_or(false)
            && self.devices.signature(&request.options).await.is_some_and(|device| device == then.device)
    }

    pub(super) fn search(&self, request: &CheckRequest) -> Search {
        Search {
            file: request.path.clone(),
            named: self.options.python.clone(),
            setting: request.python.clone(),
            policy: self.options.environment,
        }
    }
}

/// All stages on values that nobody knew before.
pub(super) fn is_plain(options: &CheckOptions) -> bool {
    let CheckOptions { device, when_busy, timing, baseline, .. } = *options;
    *options == CheckOptions { device, when_busy, timing, baseline, ..CheckOptions::default() }
}

fn settings(options: &CheckOptions) -> String {
    format!("{options:?}")
}

/// The version, the worker's contents, and when this program was written: one that is being worked on keeps its version.
fn engine() -> Option<String> {
    static ENGINE: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let own = Path::new("/proc/self/exe");
        let own = if own.exists() { own.to_owned() } else { std::env::current_exe().ok()? };
        let found = std::fs::metadata(own).ok()?;
        let written = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        Some(format!("{} {} {} {written}", env!("CARGO_PKG_VERSION"), runner::content_hash(), found.len()))
    };
    ENGINE.get_or_init(read).clone()
}

fn variables(surroundings: &Surroundings) -> String {
    let mut hasher = blake3::Hasher::new();
    for (name, value) in surroundings.beginning_with(&VARIABLES) {
        for part in [name, value] {
            hasher.update(&part.len().to_le_bytes()).update(part.as_encoded_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

/// A worker that was started before a package was replaced still has the old one.
fn has_versions_of(worker: &WorkerVersions, python: &PythonEnvironment) -> bool {
    let is_one = |of_worker: &str, of_folder: &str| {
        of_worker.starts_with(of_folder) || of_folder.starts_with(of_worker)
    };
    let packages =
        [(&worker.torch, &python.torch), (&worker.triton, &python.triton), (&worker.numpy, &python.numpy)];
    is_one(&worker.python, &python.python)
        && packages.into_iter().all(|(of_worker, of_folder)| match (of_worker, of_folder) {
            (Some(of_worker), Some(of_folder)) => is_one(of_worker, &of_folder.version),
            (None, None) => true,
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::judge::Stage;

    #[test]
    fn a_narrowed_or_replayed_check_is_not_a_plain_one() {
        assert!(is_plain(&CheckOptions::default()));
        let narrowed = [
            CheckOptions { stages: vec![Stage::Smoke], ..CheckOptions::default() },
            CheckOptions { kernel: Some("k".to_owned()), ..CheckOptions::default() },
            CheckOptions { dtypes: vec![crate::spec::Dtype::Float16], ..CheckOptions::default() },
            CheckOptions { seed: Some(7), ..CheckOptions::default() },
        ];
        assert!(narrowed.iter().all(|options| !is_plain(options)));
    }

    #[test]
    fn variables_that_change_what_runs_count_and_others_do_not() {
        let with = |name: &str, value: &str| -> String {
            let one: (OsString, OsString) = (name.into(), value.into());
            variables(&[one].into_iter().collect())
        };
        assert_ne!(with("TRITON_INTERPRET", "1"), with("TRITON_INTERPRET", "0"));
        assert_ne!(with("NVIDIA_TF32_OVERRIDE", "1"), with("CUDA_VISIBLE_DEVICES", "1"));
        for name in
            ["PTXAS_OPTIONS", "DISABLE_PTXAS_OPT", "LLVM_IR_ENABLE_DUMP", "MLIR_ENABLE_DUMP", "USE_IR_LOC"]
        {
            assert_ne!(with(name, "1"), with(name, "0"), "{name}");
        }
        assert_eq!(with("COLUMNS", "80"), with("TERM", "xterm"));
    }
}
