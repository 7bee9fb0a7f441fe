//! From the items of a comment to a Definition.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value as Json;

use super::grammar::{Dim, Literal, Profile, ReferenceName, Tensor, Value};
use super::parse::{CommentError, Parsed};
use super::reference;
use crate::spec::{
    Axis, AxisExpr, AxisKind, AxisValues, Definition, Dtype, Extras, FillSpec, Precision, TensorSpec,
    ToleranceExtras,
};

/// Cases that one comment may ask for.
pub(super) const MOST_CASES: u64 = 64;

/// The entry that a comment describes.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    /// `None` when the function could not be found in the file.
    pub(super) parameters: Option<&'a [String]>,
    /// What is meant when the comment names no reference.
    pub(super) reference: Option<&'a ReferenceName>,
}

/// What a comment says, before names are looked up.
struct Parts<'a> {
    reference: Option<(&'a ReferenceName, Range<usize>)>,
    tensors: Vec<(&'a str, &'a Tensor, Range<usize>)>,
    sizes: Vec<(&'a str, &'a [Dim], Range<usize>)>,
    scalars: Vec<(&'a str, &'a [Literal], Range<usize>)>,
    sum: Option<(&'a AxisExpr, Range<usize>)>,
    precision: Precision,
}

/// The Definition that a comment stands for, and the reference that it names. Without `out:` items the
/// Definition has no outputs: the judge asks the reference what it returns.
pub(super) fn define(
    parsed: &Parsed,
    entry: &Entry<'_>,
) -> Result<(Definition, ReferenceName), CommentError> {
    let parts = sort(parsed)?;
    let Some(reference) = &parts.reference.as_ref().map(|(reference, _)| *reference).or(entry.reference)
    else {
        let message = "no reference is named; add `ref=torch.nn.functional.silu`, or `ref=my_ref` for a \
                       function of this file";
        return Err(CommentError::new(message, parsed.range.clone()));
    };
    let (inputs, outputs): (Vec<_>, Vec<_>) = parts.tensors.iter().partition(|(_, tensor, _)| !tensor.out);
    if inputs.is_empty() {
        let message = "no input is described; add one such as `x=f16[M,N] M=1,127 N=1000`";
        return Err(CommentError::new(message, parsed.range.clone()));
    }
    let axes = axes(&parts)?;
    let (lengths, scalars) = split_scalars(&parts, &axes, entry)?;
    let sizes = cross(&lengths, &scalars, &axes, parsed)?;
    check_expressions(&parts, &axes)?;
    let dtypes = Dtypes::of(&inputs, &outputs)?;
    let mut tensors = inputs.clone();
    // The tensor whose dtype varies leads a Definition; the reference is called in the comment's order.
    tensors.sort_by_key(|(_, tensor, _)| tensor.dtypes.len() < 2);
    let spec = |tensor: &Tensor| TensorSpec {
        shape: Some(tensor.dims.iter().map(axis_name).collect()),
        dtype: dtypes.in_definition(tensor),
        optional: false,
        description: None,
    };
    let mut all_inputs: Vec<(String, TensorSpec)> =
        tensors.iter().map(|(name, tensor, _)| ((*name).to_owned(), spec(tensor))).collect();
    all_inputs.extend(scalars.iter().map(|(name, values)| ((*name).to_owned(), scalar_spec(values))));
    let run_parameters: Vec<String> = all_inputs.iter().map(|(name, _)| name.clone()).collect();
    let call = reference::Call {
        parameters: &run_parameters,
        tensors: &inputs.iter().map(|(name, tensor, _)| (*name, tensor.dims.as_slice())).collect::<Vec<_>>(),
        scalars: &scalars.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        sizes: &parts.sizes.iter().map(|(name, dims, _)| (*name, *dims)).collect::<Vec<_>>(),
    };
    let definition = Definition {
        name: entry.name.to_owned(),
        op_type: op_type(reference),
        description: None,
        tags: Vec::new(),
        axes: axes.iter().map(|dim| (axis_name(dim), axis(dim))).collect(),
        outputs: outputs.iter().map(|(name, tensor, _)| ((*name).to_owned(), spec(tensor))).collect(),
        constraints: Vec::new(),
        reference: reference::source(reference, &call),
        extras: Extras {
            dtypes: dtypes.varied,
            args: scalars.iter().map(|(name, values)| ((*name).to_owned(), json(values[0]))).collect(),
            vary: varied(&scalars),
            inputs: fills(&tensors)?,
            sizes,
            only_sizes: true,
            tolerance: ToleranceExtras { reduction: reduction(&parts, &axes, reference), intermediate: 0 },
            precision: parts.precision,
            ..Extras::default()
        },
        inputs: all_inputs,
        run_parameters,
        warnings: Vec::new(),
    };
    Ok((definition, (*reference).clone()))
}

fn sort(parsed: &Parsed) -> Result<Parts<'_>, CommentError> {
    let mut parts = Parts {
        reference: None,
        tensors: Vec::new(),
        sizes: Vec::new(),
        scalars: Vec::new(),
        sum: None,
        precision: Precision::Ieee,
    };
    for (item, range) in parsed.comment.items.iter().zip(&parsed.ranges) {
        let (key, range) = (item.key.as_str(), range.clone());
        let unusable =
            |why: &str| Err(CommentError::new(format!("`{key}={}`: {why}", item.value), range.clone()));
        match &item.value {
            Value::Reference(reference) => parts.reference = Some((reference, range)),
            Value::Tensor(tensor) => parts.tensors.push((key, tensor, range)),
            Value::Sizes(dims) => parts.sizes.push((key, dims, range)),
            Value::Scalars(scalars) => parts.scalars.push((key, scalars, range)),
            Value::Sum(length) => parts.sum = Some((length, range)),
            Value::Precision(precision) => parts.precision = *precision,
            Value::Typed(dtype) if dtype.is_float() => {
                return unusable(
                    "a tensor has dimensions, such as `f16[M,N]`; a scalar has a value, such as `eps=1e-6`",
                );
            }
            Value::Typed(_) => {
                return unusable(
                    "a whole number of unknown value is never made up; give it one, such as `n=5`, or several, `n=1,5`",
                );
            }
            Value::Kernel(_) | Value::Extent(_) | Value::Bytes(_) | Value::Names(_) => {
                return unusable(
                    "belongs to CUDA files; a Triton kernel is judged through the Python function that launches it: \
                     remove it",
                );
            }
            Value::Word(_) => return unusable("this version has no use for it; remove it"),
            Value::Definition(_) => {
                return unusable("name either a Definition or a reference");
            }
        }
    }
    Ok(parts)
}

fn axis_name(dim: &Dim) -> String {
    match dim {
        Dim::Axis(name) => name.clone(),
        Dim::Length(length) => format!("_{length}"),
    }
}

fn axis(dim: &Dim) -> Axis {
    let kind = match dim {
        Dim::Axis(_) => AxisKind::Var,
        Dim::Length(value) => AxisKind::Const { value: *value },
    };
    Axis { kind, description: None }
}

/// The dimensions of all tensors, each once, in order. Every axis must stand in an input: otherwise no
/// argument tells it.
fn axes(parts: &Parts<'_>) -> Result<Vec<Dim>, CommentError> {
    let mut axes: Vec<Dim> = Vec::new();
    let of_inputs = parts.tensors.iter().filter(|(_, tensor, _)| !tensor.out);
    for dim in of_inputs.flat_map(|(_, tensor, _)| &tensor.dims) {
        if !axes.contains(dim) {
            axes.push(dim.clone());
        }
    }
    let outputs = parts.tensors.iter().filter(|(_, tensor, _)| tensor.out);
    let of_outputs = outputs.map(|(name, tensor, range)| (*name, tensor.dims.as_slice(), range));
    let of_sizes = parts.sizes.iter().map(|(name, dims, range)| (*name, *dims, range));
    for (name, dims, range) in of_outputs.chain(of_sizes) {
        for dim in dims {
            match dim {
                Dim::Axis(axis) if !axes.contains(dim) => {
                    let message = format!(
                        "`{name}` has the axis `{axis}`, which no input has; use an axis of an input, or a number"
                    );
                    return Err(CommentError::new(message, range.clone()));
                }
                Dim::Length(_) if !axes.contains(dim) => axes.push(dim.clone()),
                _ => {}
            }
        }
    }
    Ok(axes)
}

type Lengths<'a> = Vec<(&'a str, Vec<u64>)>;
type Scalars<'a> = Vec<(&'a str, &'a [Literal])>;

/// Lengths of axes, and scalars of the entry or the reference.
fn split_scalars<'a>(
    parts: &Parts<'a>,
    axes: &'a [Dim],
    entry: &Entry<'_>,
) -> Result<(Lengths<'a>, Scalars<'a>), CommentError> {
    let mut lengths = Vec::new();
    for dim in axes {
        let Dim::Axis(name) = dim else { continue };
        let Some((_, values, range)) = parts.scalars.iter().find(|(key, _, _)| key == name) else {
            let range = parts.tensors.iter().find(|(_, tensor, _)| tensor.dims.contains(dim));
            let range = range.map(|(_, _, range)| range.clone()).unwrap_or_default();
            let message = format!("the axis `{name}` has no lengths; add some, such as `{name}=1,127,1000`");
            return Err(CommentError::new(message, range));
        };
        let mut of_axis = Vec::new();
        for value in *values {
            match value {
                Literal::Integer(length) if *length >= 0 => of_axis.push(length.unsigned_abs()),
                other => {
                    let message =
                        format!("`{other}` is no length of the axis `{name}`; write whole numbers from 0");
                    return Err(CommentError::new(message, range.clone()));
                }
            }
        }
        lengths.push((name.as_str(), of_axis));
    }
    let mut scalars: Scalars<'a> = Vec::new();
    for (name, values, range) in &parts.scalars {
        if lengths.iter().any(|(axis, _)| axis == name) {
            continue;
        }
        let taken = entry.parameters.is_none_or(|known| known.iter().any(|parameter| parameter == name));
        let looks_like_an_axis = values.len() > 1 || !name.chars().any(|c| c.is_ascii_lowercase());
        if !taken && looks_like_an_axis {
            let message = format!(
                "`{name}` is an axis of no tensor, and `{}` has no parameter `{name}`; use it as a dimension, \
                 or remove it",
                entry.name
            );
            return Err(CommentError::new(message, range.clone()));
        }
        let kinds: BTreeSet<u8> = values.iter().map(kind).collect();
        if kinds.len() > 1 {
            let message = format!("the values of `{name}` are of different kinds; write `1.0` for a float");
            return Err(CommentError::new(message, range.clone()));
        }
        scalars.push((name, values));
    }
    Ok((lengths, scalars))
}

fn kind(literal: &Literal) -> u8 {
    match literal {
        Literal::Bool(_) => 0,
        Literal::Integer(_) => 1,
        Literal::Float(_) => 2,
    }
}

/// Every combination of lengths; counted before any is made.
fn cross(
    lengths: &Lengths<'_>,
    scalars: &Scalars<'_>,
    axes: &[Dim],
    parsed: &Parsed,
) -> Result<Vec<(String, AxisValues)>, CommentError> {
    let counts = lengths.iter().map(|(_, values)| values.len()).chain(scalars.iter().map(|(_, v)| v.len()));
    let cases = counts.fold(1_u64, |product, count| product.saturating_mul(count as u64));
    if cases > MOST_CASES {
        let cases = if cases == u64::MAX { "far too many".to_owned() } else { cases.to_string() };
        let message = format!(
            "the lists ask for {cases} combinations; at most {MOST_CASES} are run for each dtype: shorten the lists"
        );
        return Err(CommentError::new(message, parsed.range.clone()));
    }
    if lengths.is_empty() {
        let name = if axes.is_empty() { "scalar" } else { "fixed" };
        return Ok(vec![(name.to_owned(), AxisValues::new())]);
    }
    let mut sizes = vec![AxisValues::new()];
    for (name, values) in lengths {
        let values: BTreeSet<u64> = values.iter().copied().collect();
        let with = |axes: &AxisValues, value: u64| {
            let mut axes = axes.clone();
            axes.insert((*name).to_owned(), value);
            axes
        };
        sizes = sizes.iter().flat_map(|axes| values.iter().map(move |&value| with(axes, value))).collect();
    }
    let words = |axes: &AxisValues| {
        axes.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    Ok(sizes.into_iter().map(|axes| (words(&axes), axes)).collect())
}

/// Ranges and sums may name axes of this comment only.
fn check_expressions(parts: &Parts<'_>, axes: &[Dim]) -> Result<(), CommentError> {
    let mut used: Vec<(&AxisExpr, &Range<usize>)> =
        parts.sum.iter().map(|(sum, range)| (*sum, range)).collect();
    for (_, tensor, range) in &parts.tensors {
        if let Some(Profile::Integers { low, high }) = &tensor.profile {
            used.extend([(low, range), (high, range)]);
        }
    }
    for (expression, range) in used {
        for (name, _) in expression.names() {
            if !axes.contains(&Dim::Axis(name.to_owned())) {
                let message = format!("`{expression}` names `{name}`, which is an axis of no tensor");
                return Err(CommentError::new(message, range.clone()));
            }
        }
    }
    Ok(())
}

/// The dtypes that a Definition can vary: those of its first tensor, followed by all that share it.
struct Dtypes {
    /// Empty when every tensor has one dtype.
    varied: Vec<Dtype>,
    /// The one of them that stands in the Definition: no other tensor may have it.
    written: Option<Dtype>,
}

type Named<'a> = (&'a str, &'a Tensor, Range<usize>);

impl Dtypes {
    fn of(inputs: &[&Named<'_>], outputs: &[&Named<'_>]) -> Result<Self, CommentError> {
        let all = || inputs.iter().chain(outputs);
        let Some((first, leader, _)) = all().find(|(_, tensor, _)| tensor.dtypes.len() > 1) else {
            return Ok(Self { varied: Vec::new(), written: None });
        };
        for (name, tensor, range) in all() {
            if tensor.dtypes.len() > 1 && tensor.dtypes != leader.dtypes {
                let message = format!(
                    "`{name}` and `{first}` list different dtypes; tensors with several change together: list the same"
                );
                return Err(CommentError::new(message, range.clone()));
            }
            if leader.out {
                let message =
                    format!("`{first}` has several dtypes but no input has; give the inputs the same list");
                return Err(CommentError::new(message, range.clone()));
            }
        }
        let is_free = |dtype: &Dtype| !all().any(|(_, tensor, _)| tensor.dtypes == [*dtype]);
        let Some(written) = leader.dtypes.iter().copied().find(is_free) else {
            let (_, _, range) = all().next().copied().cloned().unwrap_or((first, leader, 0..0));
            let message = format!(
                "every dtype of `{first}` is the fixed dtype of another tensor, so which ones change cannot be told; \
                 give those the same list"
            );
            return Err(CommentError::new(message, range));
        };
        Ok(Self { varied: leader.dtypes.clone(), written: Some(written) })
    }

    fn in_definition(&self, tensor: &Tensor) -> Dtype {
        match (tensor.dtypes.as_slice(), self.written) {
            ([only], _) => *only,
            (several, written) => written.or(several.first().copied()).unwrap_or(Dtype::Float32),
        }
    }
}

fn scalar_spec(values: &[Literal]) -> TensorSpec {
    let dtype = match values.first() {
        Some(Literal::Bool(_)) => Dtype::Bool,
        Some(Literal::Integer(_)) => Dtype::Int64,
        _ => Dtype::Float32,
    };
    TensorSpec { shape: None, dtype, optional: false, description: None }
}

pub(super) fn json(literal: Literal) -> Json {
    match literal {
        Literal::Bool(value) => value.into(),
        Literal::Integer(value) => value.into(),
        Literal::Float(value) => value.into(),
    }
}

fn varied(scalars: &Scalars<'_>) -> BTreeMap<String, Vec<Json>> {
    let several = scalars.iter().filter(|(_, values)| values.len() > 1);
    several
        .map(|(name, values)| ((*name).to_owned(), values.iter().skip(1).copied().map(json).collect()))
        .collect()
}

fn fills(tensors: &[&Named<'_>]) -> Result<BTreeMap<String, FillSpec>, CommentError> {
    let mut fills = BTreeMap::new();
    for (name, tensor, range) in tensors {
        if let Some(problem) = tensor.profile.as_ref().and_then(|profile| unsuitable(profile, tensor)) {
            return Err(CommentError::new(format!("`{name}={tensor}`: {problem}"), range.clone()));
        }
        let fill = match &tensor.profile {
            Some(Profile::Normal { mean, std }) => FillSpec::Normal { mean: *mean, std: *std },
            Some(Profile::Uniform { low, high }) => FillSpec::Uniform { low: *low, high: *high },
            Some(Profile::Integers { low, high }) => {
                FillSpec::Integers { low: low.clone(), high: high.clone() }
            }
            None if tensor.dtypes.iter().all(|dtype| dtype.is_float() || *dtype == Dtype::Bool) => continue,
            None => {
                let message = format!(
                    "`{name}` holds whole numbers, and made-up ones could make the kernel read anywhere, so none are \
                     made up; say their range, such as `{name}={tensor}:int(0,100)` (bounds may name axes)"
                );
                return Err(CommentError::new(message, range.clone()));
            }
        };
        fills.insert((*name).to_owned(), fill);
    }
    Ok(fills)
}

/// Why values cannot be drawn like that.
fn unsuitable(profile: &Profile, tensor: &Tensor) -> Option<&'static str> {
    let floats = tensor.dtypes.iter().all(|dtype| dtype.is_float());
    match profile {
        Profile::Normal { .. } | Profile::Uniform { .. } if !floats => {
            Some("whole numbers are drawn with int(low,high)")
        }
        Profile::Uniform { low, high } if low >= high => {
            Some("the range is empty; the upper bound is not reached")
        }
        Profile::Integers { low, high } => {
            let bound = |bound: &AxisExpr| bound.evaluate_signed(&AxisValues::new());
            let (Ok(low), Ok(high)) = (bound(low), bound(high)) else { return None };
            (low >= high).then_some("the range is empty; the upper bound is not reached")
        }
        _ => None,
    }
}

/// Functions of torch that add nothing up.
const ELEMENTWISE: [&str; 36] = [
    "abs",
    "add",
    "clamp",
    "cos",
    "div",
    "elu",
    "erf",
    "exp",
    "exp2",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log",
    "log1p",
    "log2",
    "logsigmoid",
    "maximum",
    "minimum",
    "mish",
    "mul",
    "neg",
    "relu",
    "relu6",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "sub",
    "tanh",
    "where",
];

/// The longest sum behind one element: as told; none for elementwise functions; else the sum of all axes, which
/// is more than any one of them.
fn reduction(parts: &Parts<'_>, axes: &[Dim], reference: &ReferenceName) -> Option<AxisExpr> {
    if let Some((sum, _)) = &parts.sum {
        return Some((*sum).clone());
    }
    let is_torch = matches!(reference, ReferenceName::Torch(_));
    if is_torch && ELEMENTWISE.contains(&op_type(reference).as_str()) {
        return None;
    }
    let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
    AxisExpr::parse(&axes.join(" + ")).ok()
}

fn op_type(reference: &ReferenceName) -> String {
    match reference {
        ReferenceName::Torch(name) => name.rsplit('.').next().unwrap_or(name).to_owned(),
        ReferenceName::SameFile(function) | ReferenceName::OtherFile { function, .. } => function.clone(),
    }
}
