//! How the values of a tensor are drawn.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::axes::{AxisError, AxisExpr, AxisValues};

/// How the values of one tensor are drawn. Element `i` of the *logical* tensor (row-major over `shape`)
/// depends on the seed, the tensor's position among the inputs and `i` alone, never on the layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Bell-shaped: the sum of four 16-bit uniforms, scaled to this mean and standard deviation
    /// (exact integer arithmetic up to one float64 multiply-add, so every implementation agrees).
    Normal { mean: f64, std: f64 },
    /// Uniform in `[low, high)`.
    Uniform { low: f64, high: f64 },
    /// Whole numbers, uniform in `[low, high)`.
    Integers { low: i64, high: i64 },
    /// What a plain fill draws, changed by a value profile; see [`Profile`] for the formulas.
    Profiled {
        /// Any other fill but this and [`Self::Untouched`].
        base: Box<Fill>,
        profile: Profile,
        /// Length of the tensor's last dimension, at least 1.
        row_length: u64,
    },
    /// Nothing is written: the pages of the memfd stay untouched and read as zero. Only for cases that
    /// check offsets and compare no values (tensors larger than memory).
    Untouched,
}

/// What becomes of the values of a plain fill, in float64, exactly.
///
/// For element `i` let `r = i / row_length` be its row and `c = i % row_length` its column, `b` what the
/// base fill draws, `m` and `s` the base's mean and standard deviation (of a range: its middle and half its
/// width). `w` is a 32-bit word of its own: word `i % 4` of the Philox block `i / 4` of the tensor's
/// stream with 1 as the fourth counter word. `h = ⌊row_length · w_r / 2³²⌋` is the hot column of the row,
/// where `w_r` is the first word of block `r` with 2 as the fourth counter word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// `b · 2^min(t, 8)`, `t` the number of trailing zero bits of `w`: half of the elements keep their
    /// size, each doubling is half as frequent.
    HeavyTails,
    /// `b · 2¹⁰` in even rows, `b · 2⁻¹⁰` in odd ones.
    MixedScale,
    /// `b · 2^exponent`: large magnitudes and subnormal ones.
    Scaled { exponent: i32 },
    /// 0 where `r % 4 = 3` or `w` is odd, negative where bit 1 of `w` is set; `b` elsewhere.
    SignedZeros,
    /// `m + s · (⌊3 w / 2³²⌋ − 1)`: three values.
    Ties,
    /// 16 in the hot column, 0 elsewhere.
    OneHot,
    /// `m + 1.5 s` everywhere.
    Equal,
    /// `b + 1024`: a mean that is large beside the spread.
    Offset,
    /// `⌊5 w / 2³²⌋ − 2`: whole numbers from −2 to 2.
    ExactIntegers,
    /// −∞ in even rows.
    NegativeInfinityRows,
    /// ∞ in the hot column of even rows.
    Infinity,
    /// NaN in the hot column of row 0.
    Nan,
}

/// A [`Fill`] as a Definition states it: `{"normal": [mean, std]}`, `{"uniform": [low, high]}`, or
/// `{"int": [low, high]}` whose bounds may name axes.
#[derive(Clone, Debug, PartialEq)]
pub enum FillSpec {
    Normal { mean: f64, std: f64 },
    Uniform { low: f64, high: f64 },
    Integers { low: AxisExpr, high: AxisExpr },
}

impl FillSpec {
    /// The fill for these axes.
    ///
    /// # Errors
    /// A bound that has no value for these axes.
    pub fn resolve(&self, axes: &AxisValues) -> Result<Fill, AxisError> {
        Ok(match self {
            Self::Normal { mean, std } => Fill::Normal { mean: *mean, std: *std },
            Self::Uniform { low, high } => Fill::Uniform { low: *low, high: *high },
            Self::Integers { low, high } => {
                Fill::Integers { low: low.evaluate_signed(axes)?, high: high.evaluate_signed(axes)? }
            }
        })
    }
}

impl Serialize for FillSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::Normal { mean, std } => map.serialize_entry("normal", &[mean, std])?,
            Self::Uniform { low, high } => map.serialize_entry("uniform", &[low, high])?,
            Self::Integers { low, high } => map.serialize_entry("int", &[low, high])?,
        }
        map.end()
    }
}
