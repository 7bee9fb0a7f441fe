//! Definition: what an operation is.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::axes::{AxisError, AxisValues};
use super::dtype::Dtype;
use super::extras::Extras;
use super::fill::{Fill, FillSpec};
use super::problem::Problem;

/// The name that stands for the bytes of one element of the case's dtype in `flops` and `bytes`.
pub const ITEMSIZE: &str = "itemsize";

/// What an operation is: axes, inputs, outputs and the reference. Read by [`Definition::from_json`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Definition {
    pub name: String,
    pub op_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(serialize_with = "as_map")]
    pub axes: Vec<(String, Axis)>,
    /// In the order of positional arguments.
    #[serde(serialize_with = "as_map")]
    pub inputs: Vec<(String, TensorSpec)>,
    /// In the order of the returned tuple and of arguments in destination-passing style. Empty only in a
    /// Definition made on the fly whose outputs the reference itself tells, case by case.
    #[serde(serialize_with = "as_map")]
    pub outputs: Vec<(String, TensorSpec)>,
    /// Python expressions over axes and inputs; see [`Self::constraint_holds`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    /// Python source with a top-level `run`.
    pub reference: String,
    /// Names of the parameters of the reference's `run`, in its own order.
    #[serde(skip)]
    pub run_parameters: Vec<String>,
    /// Our one key beyond FlashInfer-Bench's schema; all defaults when absent.
    #[serde(rename = "warpsmith", skip_serializing_if = "Extras::is_default")]
    pub extras: Extras,
    /// What deserves a look but does not make the Definition unusable.
    #[serde(skip)]
    pub warnings: Vec<Problem>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Axis {
    #[serde(flatten)]
    pub kind: AxisKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Whether a Definition or a Workload gives the value of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum AxisKind {
    Const { value: u64 },
    Var,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorSpec {
    /// Names of axes; `None` for a Python scalar.
    pub shape: Option<Vec<String>>,
    pub dtype: Dtype,
    /// The argument may be left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl TensorSpec {
    /// A Python scalar, not a tensor.
    pub fn is_scalar(&self) -> bool {
        self.shape.is_none()
    }
}

/// Shapes that fit no values of the axes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InferError {
    #[error("`{0}` names no input of the Definition")]
    UnknownInput(String),
    #[error("`{input}` has {found} dimensions; the Definition says {expected}")]
    Rank { input: String, expected: usize, found: usize },
    #[error("axis `{axis}` is {first} in `{first_input}` but {second} in `{second_input}`")]
    Conflict { axis: String, first: u64, first_input: String, second: u64, second_input: String },
    #[error("axis `{axis}` is {expected} in every case of this Definition, but {found} in `{input}`")]
    Constant { axis: String, expected: u64, found: u64, input: String },
    #[error("axis `{axis}` is {found}; it must be `{expression}`, here {expected}")]
    Derived { axis: String, expression: String, expected: u64, found: u64 },
    #[error("no shape tells axis `{0}`")]
    Missing(String),
}

impl Definition {
    /// The input of this name.
    pub fn input(&self, name: &str) -> Option<&TensorSpec> {
        find(&self.inputs, name)
    }

    /// The output of this name.
    pub fn output(&self, name: &str) -> Option<&TensorSpec> {
        find(&self.outputs, name)
    }

    /// The axis of this name.
    pub fn axis(&self, name: &str) -> Option<&Axis> {
        find(&self.axes, name)
    }

    /// Axes whose values a case chooses, in the Definition's order: the variable ones that do not follow
    /// from others.
    pub fn var_axes(&self) -> Vec<&str> {
        let vars = self.axes.iter().filter(|(_, axis)| axis.kind == AxisKind::Var);
        let vars = vars.map(|(name, _)| name.as_str());
        vars.filter(|name| find(&self.extras.derived, name).is_none()).collect()
    }

    /// The given values of variable axes and those that follow from them. What has no value for these
    /// axes (it overflows, or one is missing) is left out.
    pub fn with_derived(&self, axes: &AxisValues) -> AxisValues {
        let given = self.with_constants(axes);
        let mut completed = axes.clone();
        for (name, expression) in &self.extras.derived {
            if let Ok(value) = expression.evaluate(&given) {
                completed.insert(name.clone(), value);
            }
        }
        completed
    }

    /// The first axis whose length the operation is not defined for, with that length.
    pub fn axis_out_of_range(&self, axes: &AxisValues) -> Option<(&str, u64)> {
        let axes = self.with_derived(axes);
        self.extras.ranges.iter().find_map(|(name, range)| {
            let length = *axes.get(name)?;
            (!range.contains(length)).then_some((name.as_str(), length))
        })
    }

    /// The given axes together with the constant ones and those that follow from them.
    pub fn all_axes(&self, axes: &AxisValues) -> AxisValues {
        self.with_constants(&self.with_derived(axes))
    }

    fn with_constants(&self, axes: &AxisValues) -> AxisValues {
        let mut all = axes.clone();
        for (name, axis) in &self.axes {
            if let AxisKind::Const { value } = axis.kind {
                all.insert(name.clone(), value);
            }
        }
        all
    }

    /// Sizes of the dimensions of an input or output for these values of the variable axes; empty for
    /// scalars.
    ///
    /// # Errors
    /// An axis without a value.
    pub fn resolve_shape(&self, spec: &TensorSpec, axes: &AxisValues) -> Result<Vec<u64>, AxisError> {
        let names = spec.shape.as_deref().unwrap_or_default();
        names.iter().map(|name| self.axis_value(name, axes)).collect()
    }

    /// As [`Self::resolve_shape`], for an input named.
    ///
    /// # Errors
    /// An unknown name, an axis without a value.
    pub fn input_shape(&self, name: &str, axes: &AxisValues) -> Result<Vec<u64>, AxisError> {
        let spec = self.input(name).ok_or_else(|| AxisError::UnknownTensor(name.to_owned()))?;
        self.resolve_shape(spec, axes)
    }

    /// As [`Self::resolve_shape`], for an output named.
    ///
    /// # Errors
    /// An unknown name, an axis without a value.
    pub fn output_shape(&self, name: &str, axes: &AxisValues) -> Result<Vec<u64>, AxisError> {
        let spec = self.output(name).ok_or_else(|| AxisError::UnknownTensor(name.to_owned()))?;
        self.resolve_shape(spec, axes)
    }

    fn axis_value(&self, name: &str, axes: &AxisValues) -> Result<u64, AxisError> {
        let constant = match self.axis(name).map(|axis| axis.kind) {
            Some(AxisKind::Const { value }) => Some(value),
            _ => None,
        };
        if let Some(value) = constant.or_else(|| axes.get(name).copied()) {
            return Ok(value);
        }
        match find(&self.extras.derived, name) {
            Some(expression) => expression.evaluate(&self.with_constants(axes)),
            None => Err(AxisError::Unknown { name: name.to_owned(), column: 1, expression: name.to_owned() }),
        }
    }

    /// Reads the variable axes off the shapes of inputs, `(name, shape)`. Scalars may be left out.
    ///
    /// # Errors
    /// Shapes that contradict the Definition or one another, or leave an axis open.
    pub fn infer_axes(&self, shapes: &[(&str, &[u64])]) -> Result<AxisValues, InferError> {
        let mut values = AxisValues::new();
        let mut told_by: Vec<(&str, &str)> = Vec::new();
        for &(input, sizes) in shapes {
            let spec = self.input(input).ok_or_else(|| InferError::UnknownInput(input.to_owned()))?;
            let names = spec.shape.as_deref().unwrap_or_default();
            if names.len() != sizes.len() {
                return Err(InferError::Rank {
                    input: input.to_owned(),
                    expected: names.len(),
                    found: sizes.len(),
                });
            }
            for (axis, &found) in names.iter().zip(sizes) {
                if let Some(AxisKind::Const { value }) = self.axis(axis).map(|axis| axis.kind) {
                    if value != found {
                        let (axis, input) = (axis.clone(), input.to_owned());
                        return Err(InferError::Constant { axis, expected: value, found, input });
                    }
                    continue;
                }
                let first = *values.entry(axis.clone()).or_insert(found);
                if first == found {
                    told_by.push((axis, input));
                    continue;
                }
                let first_input = told_by.iter().find(|(told, _)| told == axis).map_or(input, |(_, by)| by);
                return Err(InferError::Conflict {
                    axis: axis.clone(),
                    first,
                    first_input: first_input.to_owned(),
                    second: found,
                    second_input: input.to_owned(),
                });
            }
        }
        match self.var_axes().into_iter().find(|axis| !values.contains_key(*axis)) {
            Some(axis) => Err(InferError::Missing(axis.to_owned())),
            None => self.check_derived(values),
        }
    }

    fn check_derived(&self, found: AxisValues) -> Result<AxisValues, InferError> {
        let expected = self.with_derived(&found);
        for (axis, expression) in &self.extras.derived {
            if let (Some(&expected), Some(&found)) = (expected.get(axis), found.get(axis))
                && expected != found
            {
                let (axis, expression) = (axis.clone(), expression.source().to_owned());
                return Err(InferError::Derived { axis, expression, expected, found });
            }
        }
        Ok(expected)
    }

    /// The dtype that the first tensor input has in the file.
    pub fn file_dtype(&self) -> Option<Dtype> {
        self.inputs.iter().find(|(_, spec)| !spec.is_scalar()).map(|(_, spec)| spec.dtype)
    }

    /// The dtypes to judge, for the first tensor input; its own when the Definition names no others.
    pub fn dtypes(&self) -> Vec<Dtype> {
        if self.extras.dtypes.is_empty() {
            return self.file_dtype().into_iter().collect();
        }
        self.extras.dtypes.clone()
    }

    /// The dtype of an input or output in a case of the given dtype: tensors whose dtype in the file is
    /// that of the first tensor input follow the case, all else stays.
    pub fn dtype_in_case(&self, spec: &TensorSpec, case: Dtype) -> Dtype {
        if !spec.is_scalar() && Some(spec.dtype) == self.file_dtype() { case } else { spec.dtype }
    }

    /// The default value of a scalar input. `None` for tensors, and for scalars without one.
    pub fn scalar_default(&self, name: &str) -> Option<&Value> {
        self.input(name).filter(|spec| spec.is_scalar())?;
        self.extras.args.get(name)
    }

    /// Options of the entry that this Definition fixes: `causal` of a causal attention.
    pub fn options(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.extras.args.iter().filter(|(name, _)| self.input(name).is_none())
    }

    /// The default of the scalar option `eps`: what is added so that nothing is divided by zero.
    pub fn epsilon(&self) -> Option<f64> {
        self.scalar_default("eps")?.as_f64().filter(|&epsilon| epsilon > 0.0)
    }

    /// How the values of a tensor input are drawn. Floats without a rule are drawn from the standard
    /// normal distribution, booleans from both values. `None` for integers without a rule (random
    /// indices would read anywhere), scalars and unknown names.
    ///
    /// # Errors
    /// A bound that has no value for these axes.
    pub fn fill(&self, name: &str, axes: &AxisValues) -> Result<Option<Fill>, AxisError> {
        let Some(spec) = self.input(name).filter(|spec| !spec.is_scalar()) else { return Ok(None) };
        match self.extras.inputs.get(name) {
            Some(rule) => rule.resolve(&self.all_axes(axes)).map(Some),
            None if spec.dtype.is_float() => Ok(Some(Fill::Normal { mean: 0.0, std: 1.0 })),
            None if spec.dtype == Dtype::Bool => Ok(Some(Fill::Integers { low: 0, high: 2 })),
            None => Ok(None),
        }
    }

    /// The rule of [`Self::fill`] as the file states it, if it does.
    pub fn fill_spec(&self, name: &str) -> Option<&FillSpec> {
        self.extras.inputs.get(name)
    }

    /// Length of the longest sum behind one element of an output; 1 when the Definition says nothing.
    ///
    /// # Errors
    /// An expression that has no value for these axes.
    pub fn reduction_length(&self, axes: &AxisValues) -> Result<u64, AxisError> {
        let expression = self.extras.tolerance.reduction.as_ref();
        expression.map_or(Ok(1), |expression| expression.evaluate(&self.all_axes(axes)))
    }

    /// Floating-point operations of one call; `None` when the Definition says nothing.
    ///
    /// # Errors
    /// An expression that has no value for these axes.
    pub fn flops(&self, axes: &AxisValues, case: Dtype) -> Result<Option<u64>, AxisError> {
        let expression = self.extras.flops.as_ref();
        expression.map(|expression| expression.evaluate(&self.cost_axes(axes, case))).transpose()
    }

    /// Bytes that one call must move; `None` when the Definition says nothing.
    ///
    /// # Errors
    /// An expression that has no value for these axes.
    pub fn bytes(&self, axes: &AxisValues, case: Dtype) -> Result<Option<u64>, AxisError> {
        let expression = self.extras.bytes.as_ref();
        expression.map(|expression| expression.evaluate(&self.cost_axes(axes, case))).transpose()
    }

    fn cost_axes(&self, axes: &AxisValues, case: Dtype) -> AxisValues {
        let mut all = self.all_axes(axes);
        all.insert(ITEMSIZE.to_owned(), case.bytes(1));
        all
    }
}

/// The value of a name in a list of pairs.
pub(super) fn find<'a, T>(pairs: &'a [(String, T)], name: &str) -> Option<&'a T> {
    pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value)
}

/// Serializes pairs as a JSON object in their order.
pub(super) fn as_map<T: Serialize, S: Serializer>(
    pairs: &[(String, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (name, value) in pairs {
        map.serialize_entry(name, value)?;
    }
    map.end()
}
