//! Element types: FlashInfer-Bench's names, their sizes and their rounding.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The element type of a tensor or scalar, named as in FlashInfer-Bench Definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Dtype {
    #[serde(rename = "float32")]
    Float32,
    #[serde(rename = "float16")]
    Float16,
    #[serde(rename = "bfloat16")]
    Bfloat16,
    #[serde(rename = "float8_e4m3fn")]
    Float8E4m3fn,
    #[serde(rename = "float8_e5m2")]
    Float8E5m2,
    #[serde(rename = "float4_e2m1")]
    Float4E2m1,
    #[serde(rename = "int64")]
    Int64,
    #[serde(rename = "int32")]
    Int32,
    #[serde(rename = "int16")]
    Int16,
    #[serde(rename = "int8")]
    Int8,
    #[serde(rename = "bool")]
    Bool,
}

impl Dtype {
    /// All that a Definition may name.
    pub const ALL: [Self; 11] = [
        Self::Float32,
        Self::Float16,
        Self::Bfloat16,
        Self::Float8E4m3fn,
        Self::Float8E5m2,
        Self::Float4E2m1,
        Self::Int64,
        Self::Int32,
        Self::Int16,
        Self::Int8,
        Self::Bool,
    ];

    /// The name used in files and in the worker protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Float8E4m3fn => "float8_e4m3fn",
            Self::Float8E5m2 => "float8_e5m2",
            Self::Float4E2m1 => "float4_e2m1",
            Self::Int64 => "int64",
            Self::Int32 => "int32",
            Self::Int16 => "int16",
            Self::Int8 => "int8",
            Self::Bool => "bool",
        }
    }

    /// The short name shown to people: `f16`, `bf16`, `i32`.
    pub fn short(self) -> &'static str {
        match self {
            Self::Float32 => "f32",
            Self::Float16 => "f16",
            Self::Bfloat16 => "bf16",
            Self::Float8E4m3fn => "f8e4m3",
            Self::Float8E5m2 => "f8e5m2",
            Self::Float4E2m1 => "f4e2m1",
            Self::Int64 => "i64",
            Self::Int32 => "i32",
            Self::Int16 => "i16",
            Self::Int8 => "i8",
            Self::Bool => "bool",
        }
    }

    /// Bits of one element; four-bit floats are packed two to a byte.
    pub fn bits(self) -> u64 {
        match self {
            Self::Int64 => 64,
            Self::Float32 | Self::Int32 => 32,
            Self::Float16 | Self::Bfloat16 | Self::Int16 => 16,
            Self::Float8E4m3fn | Self::Float8E5m2 | Self::Int8 | Self::Bool => 8,
            Self::Float4E2m1 => 4,
        }
    }

    /// Bytes that `elements` elements occupy.
    pub fn bytes(self, elements: u64) -> u64 {
        (elements * self.bits()).div_ceil(8)
    }

    /// Neither a whole number nor a boolean.
    pub fn is_float(self) -> bool {
        self.epsilon().is_some()
    }

    /// The distance from 1 to the next larger value (`torch.finfo(dtype).eps`); `None` for integers and bool.
    pub fn epsilon(self) -> Option<f64> {
        let fraction_bits = match self {
            Self::Float32 => 23,
            Self::Float16 => 10,
            Self::Bfloat16 => 7,
            Self::Float8E4m3fn => 3,
            Self::Float8E5m2 => 2,
            Self::Float4E2m1 => 1,
            Self::Int64 | Self::Int32 | Self::Int16 | Self::Int8 | Self::Bool => return None,
        };
        Some(f64::powi(2.0, -fraction_bits))
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no element type.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown dtype `{0}`; expected one of float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float4_e2m1 int64 int32 int16 int8 bool"
)]
pub struct UnknownDtype(pub String);

impl FromStr for Dtype {
    type Err = UnknownDtype;

    /// Accepts the long name (`float16`) and the short one (`f16`).
    fn from_str(text: &str) -> Result<Self, UnknownDtype> {
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.name() == text || dtype.short() == text)
            .ok_or_else(|| UnknownDtype(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
            assert_eq!(dtype.short().parse(), Ok(dtype));
            let json = serde_json::to_string(&dtype).expect("a unit variant serializes");
            assert_eq!(json, format!("\"{}\"", dtype.name()));
        }
        assert_eq!("half".parse::<Dtype>(), Err(UnknownDtype("half".to_owned())));
    }

    #[test]
    fn four_bit_floats_are_packed() {
        assert_eq!(Dtype::Float4E2m1.bytes(3), 2);
        assert_eq!(Dtype::Bfloat16.bytes(3), 6);
    }

    #[test]
    fn epsilons_are_those_of_torch() {
        assert_eq!(Dtype::Float32.epsilon(), Some(f64::from(f32::EPSILON)));
        assert_eq!(Dtype::Float16.epsilon(), Some(0.0009765625));
        assert_eq!(Dtype::Bfloat16.epsilon(), Some(0.0078125));
        assert_eq!(Dtype::Int8.epsilon(), None);
    }
}
