//! What a comment says, item by item, and how it is printed.
//!
//! ```text
//! comment   = item { space item }
//! item      = ref=… | definition=… | kernel=… | grid=… | block=… | smem=… | args=… | inputs=… | tol=…
//!           | precision=… | policy=… | name "=" value
//! value     = ["out:"] dtype {"|" dtype} "[" [dim {"," dim}] "]" [":" profile]      a tensor
//!           | "[" dim {"," dim} "]"                                                 a list of sizes
//!           | dtype                                                                 a scalar without a value
//!           | number {"," number} | "true" | "false"                                scalars, lengths of an axis
//! dim       = axis | whole number
//! profile   = "normal(" mean "," std ")" | "uniform(" low "," high ")" | "int(" low "," high ")"
//! ```

use std::fmt;

use crate::spec::{AxisExpr, Dtype, Precision};

/// All items of one comment, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Comment {
    pub(crate) items: Vec<Item>,
}

/// One `key=value`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) key: String,
    pub(crate) value: Value,
}

/// The right side of an item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// `ref=`
    Reference(ReferenceName),
    /// `definition=`: a FlashInfer-Bench Definition, by its file (`./rmsnorm.json`) or the name of one of ours.
    Definition(String),
    /// `kernel=`: a kernel with its template arguments, `ns::f<float,4>`.
    Kernel(String),
    /// `grid=` and `block=`: one to three expressions.
    Extent(Vec<AxisExpr>),
    /// `smem=`: bytes.
    Bytes(AxisExpr),
    /// `args=`: the order of the parameters.
    Names(Vec<String>),
    /// `inputs=` and `policy=`
    Word(String),
    /// `tol=sum(EXPR)`: the length of the longest sum behind one element of an output.
    Sum(AxisExpr),
    /// `precision=`
    Precision(Precision),
    Tensor(Tensor),
    /// `normalized_shape=[N]`: whole numbers that follow the axes.
    Sizes(Vec<Dim>),
    /// `n=i32`
    Typed(Dtype),
    /// `eps=1e-6`, `M=1,127,4096`: at least one.
    Scalars(Vec<Literal>),
}

/// What a `ref=` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceName {
    /// `torch.nn.functional.silu`
    Torch(String),
    /// `my_ref`: a function of the same file.
    SameFile(String),
    /// `./other.py::f`
    OtherFile { path: String, function: String },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) out: bool,
    /// At least one.
    pub(crate) dtypes: Vec<Dtype>,
    pub(crate) dims: Vec<Dim>,
    pub(crate) profile: Option<Profile>,
}

/// The length of one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dim {
    Axis(String),
    Length(u64),
}

/// How the values of a tensor are drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Profile {
    Normal { mean: f64, std: f64 },
    Uniform { low: f64, high: f64 },
    Integers { low: AxisExpr, high: AxisExpr },
}

/// A Python scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Literal {
    Bool(bool),
    Integer(i64),
    Float(f64),
}

impl fmt::Display for Comment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            write!(f, "{space}{}={}", item.key, item.value)?;
        }
        Ok(())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference(reference) => reference.fmt(f),
            Self::Definition(word) | Self::Kernel(word) | Self::Word(word) => f.write_str(word),
            Self::Extent(lengths) => list(f, lengths, ","),
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Names(names) => list(f, names, ","),
            Self::Sum(length) => write!(f, "sum({length})"),
            Self::Precision(Precision::Ieee) => f.write_str("ieee"),
            Self::Precision(Precision::Tf32) => f.write_str("tf32"),
            Self::Tensor(tensor) => tensor.fmt(f),
            Self::Sizes(dims) => {
                f.write_str("[")?;
                list(f, dims, ",")?;
                f.write_str("]")
            }
            Self::Typed(dtype) => f.write_str(dtype.short()),
            Self::Scalars(scalars) => list(f, scalars, ","),
        }
    }
}

impl fmt::Display for ReferenceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torch(name) | Self::SameFile(name) => f.write_str(name),
            Self::OtherFile { path, function } => write!(f, "{path}::{function}"),
        }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.out {
            f.write_str("out:")?;
        }
        let dtypes: Vec<&str> = self.dtypes.iter().map(|dtype| dtype.short()).collect();
        f.write_str(&dtypes.join("|"))?;
        f.write_str("[")?;
        list(f, &self.dims, ",")?;
        f.write_str("]")?;
        self.profile.iter().try_for_each(|profile| write!(f, ":{profile}"))
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Axis(name) => f.write_str(name),
            Self::Length(length) => length.fmt(f),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal { mean, std } => write!(f, "normal({mean:?},{std:?})"),
            Self::Uniform { low, high } => write!(f, "uniform({low:?},{high:?})"),
            Self::Integers { low, high } => write!(f, "int({low},{high})"),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            // Debug keeps the point of `1.0`, so that it stays a float.
            Self::Float(value) => write!(f, "{value:?}"),
        }
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T], separator: &str) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
