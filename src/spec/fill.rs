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
    /// Nothing is written: the pages of the memfd stay untouched and read as zero. Only for cases that
    /// check offsets and compare no values (tensors larger than memory).
    Untouched,
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
