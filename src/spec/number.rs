//! Numbers that survive JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A float64 that survives JSON: non-finite values travel as the strings `"NaN"`, `"Infinity"` and
/// `"-Infinity"`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Number(pub f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match &value {
            Value::Number(number) => Ok(Self(number.as_f64().unwrap_or(f64::NAN))),
            Value::String(text) if text == "NaN" => Ok(Self(f64::NAN)),
            Value::String(text) if text == "Infinity" => Ok(Self(f64::INFINITY)),
            Value::String(text) if text == "-Infinity" => Ok(Self(f64::NEG_INFINITY)),
            _ => Err(serde::de::Error::custom(format!("expected a number, got {value}"))),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            value => serializer.serialize_f64(value),
        }
    }
}

/// The value of a Python scalar in a Workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    Bool(bool),
    Integer(i64),
    Float(Number),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_keep_their_kind() {
        for text in ["true", "7", "-7", "7.0", "1e-6", "\"Infinity\"", "\"-Infinity\""] {
            let scalar: Scalar = serde_json::from_str(text).expect("a scalar");
            let written = serde_json::to_string(&scalar).expect("serializes");
            let again: Scalar = serde_json::from_str(&written).expect("a scalar");
            assert_eq!(scalar, again, "{text} → {written}");
        }
        assert_eq!(serde_json::from_str::<Scalar>("7").ok(), Some(Scalar::Integer(7)));
        assert_eq!(serde_json::from_str::<Scalar>("7.0").ok(), Some(Scalar::Float(Number(7.0))));
        assert!(serde_json::from_str::<Scalar>("\"7\"").is_err());
        assert!(serde_json::from_str::<Scalar>("null").is_err());
    }
}
