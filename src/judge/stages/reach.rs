//! Which sizes can be run, and how much of them, with the means there are.

use std::collections::BTreeMap;

use super::{elements, flops};
use crate::judge::Coverage;
use crate::judge::means::Means;
use crate::spec::Definition;

/// Elements and floating-point operations up to which a case is small: it is run on every dtype, and the
/// interpreter runs all its programs.
const SMALL_ELEMENTS: u64 = 500_000;
const SMALL_FLOPS: u64 = 40_000_000;
/// Elements up to which a case is made at all on the CPU: the judge draws every input and computes the
/// whole reference, whatever the candidate runs.
const INTERPRETER_ELEMENTS: u64 = 20_000_000;
/// The same for floating-point operations (the reference runs them twice, once in float64).
const INTERPRETER_FLOPS: u64 = 3_000_000_000;
/// The same on a GPU, where the reference in float64 makes some 30 TFLOP/s at least.
const GPU_ELEMENTS: u64 = 1 << 29;
const GPU_FLOPS: u64 = 2_000_000_000_000;
/// Elements up to which a save runs a size: each takes a GPU a tenth of a second and more.
const QUICK_ELEMENTS: u64 = 1 << 26;
/// Bytes of the GPU that a case takes for each element of its tensors, at most: the values, the judge's copy of
/// them, the reference in float64 and in the case's dtype, and what comparing makes on the way.
const GPU_BYTES_AN_ELEMENT: u64 = 96;
/// Of the free memory, what tensors may take that are never looked at.
const UNTOUCHED_SHARE: u64 = 3;

/// What can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::judge) struct Reach {
    most_elements: u64,
    most_flops: u64,
    /// Every program of every launch runs.
    runs_whole: bool,
    /// On a save: what takes long is left to a full check.
    is_quick: bool,
    /// Bytes for tensors that nobody looks at as a whole; `None`: they need addresses and no memory.
    untouched_bytes: Option<u64>,
}

impl Reach {
    /// On a CPU.
    pub(in crate::judge) const INTERPRETER: Self = Self {
        most_elements: INTERPRETER_ELEMENTS,
        most_flops: INTERPRETER_FLOPS,
        runs_whole: false,
        is_quick: false,
        untouched_bytes: None,
    };

    pub(in crate::judge) fn of(means: &Means) -> Self {
        match means.gpu() {
            None => Self::INTERPRETER,
            Some(gpu) => Self {
                most_elements: GPU_ELEMENTS.min(gpu.free_bytes / GPU_BYTES_AN_ELEMENT),
                most_flops: GPU_FLOPS,
                runs_whole: true,
                is_quick: false,
                untouched_bytes: Some(gpu.free_bytes / UNTOUCHED_SHARE),
            },
        }
    }

    /// The same with the patience of a save. In the interpreter such sizes are not run anyway.
    pub(in crate::judge) fn quick(self) -> Self {
        Self { is_quick: self.runs_whole, ..self }
    }

    /// Whether a size is left to a full check.
    pub(super) fn is_for_later(self, definition: &Definition, axes: &BTreeMap<String, u64>) -> bool {
        self.is_quick && elements(definition, axes) > QUICK_ELEMENTS
    }

    /// Elements of inputs and weights up to which a problem is looked at.
    pub(in crate::judge) fn most_elements(self) -> u64 {
        self.most_elements
    }

    /// Whether a case is cheap enough for every dtype.
    pub(in crate::judge) fn is_small(self, definition: &Definition, axes: &BTreeMap<String, u64>) -> bool {
        elements(definition, axes) <= SMALL_ELEMENTS.min(self.most_elements)
            && flops(definition, axes) <= SMALL_FLOPS
    }

    /// How much of a case on these axes is run; `None` when it is too large.
    pub(in crate::judge) fn coverage(
        self,
        definition: &Definition,
        axes: &BTreeMap<String, u64>,
    ) -> Option<Coverage> {
        if self.is_small(definition, axes) {
            return Some(Coverage::Full);
        }
        let fits =
            elements(definition, axes) <= self.most_elements && flops(definition, axes) <= self.most_flops;
        fits.then_some(if self.runs_whole { Coverage::Full } else { Coverage::Sampled })
    }

    /// Whether there is room for tensors of this many elements of which nothing is looked at as a whole.
    pub(super) fn has_room(
        self,
        definition: &Definition,
        axes: &BTreeMap<String, u64>,
        itemsize: u64,
    ) -> bool {
        self.untouched_bytes.is_none_or(|bytes| elements(definition, axes).saturating_mul(itemsize) <= bytes)
    }

    /// Why a size is not run.
    pub(super) fn too_large(self) -> &'static str {
        if self.runs_whole {
            "too large for the free memory of the GPU, or for a float64 reference on it"
        } else {
            "too large for the interpreter on a CPU"
        }
    }
}
