//! The key `warpsmith` of a Definition: what FlashInfer-Bench's schema has no word for.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::axes::{AxisExpr, AxisValues};
use super::definition::as_map;
use super::dtype::Dtype;
use super::fill::FillSpec;

/// How a Definition is judged and timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Extras {
    /// Dtypes of the first tensor input; every tensor of the same dtype follows it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dtypes: Vec<Dtype>,
    /// Values of scalar inputs, and of options of the entry that this Definition fixes (`causal`), which its
    /// reference has built in; see [`super::Definition::options`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
    /// Other values of scalar inputs, tried besides those of `args`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<Value>>,
    /// How tensors are drawn; see [`super::Definition::fill`] for those not named.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, FillSpec>,
    /// Variable axes whose length follows from the others: `{"head_dim": "2 * half_dim"}`.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub derived: Vec<(String, AxisExpr)>,
    /// Lengths of variable axes for which the operation is defined; any length for those not named.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ranges: BTreeMap<String, AxisRange>,
    /// Axes of the smoke case, where the planner's own choice would tell too little or take too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smoke: Option<AxisValues>,
    /// Names of value profiles for the stability stage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// Names of layouts for the edge stage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<String>,
    /// Named values of all variable axes, in the file's order.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub sizes: Vec<(String, AxisValues)>,
    /// Values of scalar inputs that belong to one of `sizes`, by its name, where they are not those of `args`. A
    /// size that stands here is not crossed with `vary`.
    #[serde(skip)]
    pub size_scalars: BTreeMap<String, BTreeMap<String, Value>>,
    /// Only `sizes` are judged, no others are made up: nobody says that the entry takes them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_sizes: bool,
    /// Names of the sizes that are timed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bench: Vec<String>,
    /// Over axes and `itemsize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flops: Option<AxisExpr>,
    /// Over axes and `itemsize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<AxisExpr>,
    #[serde(rename = "tol", skip_serializing_if = "ToleranceExtras::is_default")]
    pub tolerance: ToleranceExtras,
    pub precision: Precision,
    /// Repeats must be bitwise equal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deterministic: bool,
    /// Python source of a float64 reference of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_f64: Option<String>,
    /// Python source of the strongest plain PyTorch equivalent, which a Solution is timed against: `run` with the
    /// inputs in the case's dtype. The reference is that when nothing stands here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
}

impl Extras {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The values of a named size.
    pub fn size(&self, name: &str) -> Option<&AxisValues> {
        super::definition::find(&self.sizes, name)
    }
}

/// Lengths of an axis for which an operation is defined, written `[1, 256]` or `[1, null]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisRange {
    pub least: u64,
    pub most: Option<u64>,
}

impl AxisRange {
    pub fn contains(self, length: u64) -> bool {
        length >= self.least && self.most.is_none_or(|most| length <= most)
    }
}

impl Serialize for AxisRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.least, self.most).serialize(serializer)
    }
}

/// What the tolerance must know about the operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToleranceExtras {
    /// Length of the longest sum behind one element of an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduction: Option<AxisExpr>,
    /// How many intermediate results, each a factor of the terms of a sum, a kernel may round to the dtype
    /// of the inputs.
    #[serde(skip_serializing_if = "is_zero")]
    pub intermediate: u64,
}

/// As serde asks for it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ToleranceExtras {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How float32 products are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// A float32 result that only TF32 products explain is wrong.
    #[default]
    Ieee,
    /// TF32 products pass, labelled.
    Tf32,
}
