//! One case: the axes, dtype, layout and values on which a Solution is judged once.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::spec::Dtype;

/// The stages of a check, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// One small case for each dtype: the first verdict.
    Smoke,
    /// The Definition's shapes, odd and prime ones, empty ones, hidden neighbours, sampled large ones.
    Sweep,
    Stability,
    Determinism,
    Edge,
}

impl Stage {
    /// In the order in which they run.
    pub const ALL: [Self; 5] = [Self::Smoke, Self::Sweep, Self::Stability, Self::Determinism, Self::Edge];

    /// The word of `--stage` and of the records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Sweep => "sweep",
            Self::Stability => "stability",
            Self::Determinism => "determinism",
            Self::Edge => "edge",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no stage.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown stage `{0}`; expected smoke, sweep, stability, determinism or edge")]
pub struct UnknownStage(pub String);

impl FromStr for Stage {
    type Err = UnknownStage;

    fn from_str(text: &str) -> Result<Self, UnknownStage> {
        Self::ALL.into_iter().find(|stage| stage.name() == text).ok_or_else(|| UnknownStage(text.to_owned()))
    }
}

/// How much of a case is run and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coverage {
    /// Every program runs, every element is compared.
    Full,
    /// Some programs of each launch run; what they wrote is compared.
    Sampled,
    /// Some programs run on tensors larger than memory; only bounds and offsets are checked.
    Offsets,
}

/// The layout of tensors that nobody transposed, sliced or expanded.
pub const CONTIGUOUS: &str = "contiguous";
/// Values as the Definition draws them.
pub const DEFAULT_PROFILE: &str = "default";
/// The same, once more with other values: what was kept from the call before is wrong now.
pub const AGAIN_PROFILE: &str = "again";
/// Values as small as the square root of the Definition's epsilon, so that it matters where it is added.
pub const NEAR_EPSILON_PROFILE: &str = "near-eps";
/// Parameters that a constructor makes with one value, such as the ones and zeros of a norm, get others.
pub const RANDOM_AFFINE_PROFILE: &str = "random affine";

/// `M=4 N=8`; strings without their quotes.
fn words<V: fmt::Display>(values: &BTreeMap<String, V>) -> String {
    let word = |(name, value): (&String, &V)| format!("{name}={}", value.to_string().trim_matches('"'));
    values.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// One case, before it is run. The seed belongs to the run and is told only with the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub stage: Stage,
    /// The Definition's name: an entry may implement several (`flash_attention_causal` and the full one).
    pub definition: String,
    /// Values of the Definition's variable axes, by name.
    pub axes: BTreeMap<String, u64>,
    /// The dtype of the Definition's first input; every spec of the same dtype follows it.
    pub dtype: Dtype,
    /// `contiguous`; other names come with the edge stage.
    pub layout: String,
    /// Name of the value profile: [`DEFAULT_PROFILE`] or one of the others here.
    pub profile: String,
    /// Scalar inputs with another value than the Definition's default, by name.
    pub scalars: BTreeMap<String, Value>,
    /// Options that chose the Definition, by parameter of the entry (`causal`).
    pub options: BTreeMap<String, Value>,
    pub coverage: Coverage,
}

impl Case {
    /// `M=127 N=1000 · causal=true · transposed · f16`, as people read it in tables and messages: axes, then
    /// what differs from the plain case, then the dtype. Two cases of one check never share stage and label.
    pub fn label(&self) -> String {
        match self.shape_label() {
            shape if shape.is_empty() => self.dtype.short().to_owned(),
            shape => format!("{shape} · {}", self.dtype.short()),
        }
    }

    /// [`Self::label`] without the dtype.
    pub fn shape_label(&self) -> String {
        let mut parts = vec![words(&self.axes)];
        parts.extend((!self.options.is_empty()).then(|| words(&self.options)));
        parts.extend((!self.scalars.is_empty()).then(|| words(&self.scalars)));
        parts.extend((self.layout != CONTIGUOUS).then(|| self.layout.clone()));
        parts.extend((self.profile != DEFAULT_PROFILE).then(|| self.profile.clone()));
        parts.retain(|part| !part.is_empty());
        parts.join(" · ")
    }
}
