//! What a check runs its cases with: Triton's interpreter on a CPU, or a GPU.

use serde::{Deserialize, Serialize};

use crate::runner::protocol::Transport;

/// The GPU that a verdict was reached on, or a time was taken on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnGpu {
    /// As torch numbers it: `cuda:0`.
    pub device: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// As NVML writes it.
    pub uuid: String,
    /// Version of the driver.
    pub driver: String,
    /// CUDA version that torch was built for.
    pub torch_cuda: String,
    /// How tensors cross between the judge and a candidate.
    pub transport: Transport,
    /// Memory that was free when the check began, in bytes. Larger sizes are planned for more.
    #[serde(skip)]
    pub free_bytes: u64,
}

impl OnGpu {
    /// `on cuda:0, NVIDIA H200`, and what had to be done without.
    pub fn words(&self) -> String {
        let place = format!("on {}, {}", self.device, self.name);
        match self.transport {
            Transport::Ipc => place,
            Transport::Host => format!("{place}, tensors copied through the host (no CUDA IPC here)"),
        }
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Means {
    #[default]
    Interpreter,
    Gpu(OnGpu),
}

/// Wall clock of one case in the interpreter, in seconds.
const INTERPRETER_WALL_S: f64 = 20.0;
/// The same on a GPU: the first call of a case compiles, and tunes over every configuration.
const GPU_WALL_S: f64 = 60.0;
/// Of the free memory of a GPU a candidate may allocate this share: the judge needs the rest for float64 values.
const CANDIDATE_SHARE: f64 = 0.4;

impl Means {
    pub(super) fn gpu(&self) -> Option<&OnGpu> {
        match self {
            Self::Interpreter => None,
            Self::Gpu(gpu) => Some(gpu),
        }
    }

    /// The word of the records' `method`.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Interpreter => "triton-interpreter",
            Self::Gpu(_) => "gpu",
        }
    }

    /// Wall clock of one case, in seconds.
    pub(super) fn case_wall_s(&self) -> f64 {
        match self {
            Self::Interpreter => INTERPRETER_WALL_S,
            Self::Gpu(_) => GPU_WALL_S,
        }
    }

    /// Memory of the GPU that a candidate may allocate, in bytes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a number of bytes, which need not be exact"
    )]
    pub(super) fn device_bytes(&self) -> u64 {
        self.gpu().map_or(0, |gpu| (gpu.free_bytes as f64 * CANDIDATE_SHARE) as u64)
    }
}
