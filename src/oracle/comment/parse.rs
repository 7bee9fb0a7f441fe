//! Reads the items of a comment. Pure, and never fails on any text but with an error that says where.

use std::ops::Range;

use super::grammar::{Comment, Dim, Item, Literal, Profile, ReferenceName, Tensor, Value};
use crate::spec::{AxisExpr, Dtype, Precision};

/// Where functions of torch may be named; anything else of torch is code, not mathematics.
const NAMESPACES: [&str; 6] =
    ["torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft", "torch.ops.aten"];

/// Keys with a meaning of their own.
pub(super) const RESERVED: [&str; 11] =
    ["ref", "definition", "kernel", "grid", "block", "smem", "args", "inputs", "tol", "precision", "policy"];

pub(super) const PYTHON_KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// A comment that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommentError {
    /// What is wrong and what to do about it.
    pub(crate) message: String,
    /// Bytes of the file.
    pub(crate) range: Range<usize>,
}

impl CommentError {
    pub(super) fn new(message: impl Into<String>, range: Range<usize>) -> Self {
        Self { message: message.into(), range }
    }
}

/// A comment and where its items stand in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) comment: Comment,
    /// Bytes of the file, one for each item.
    pub(crate) ranges: Vec<Range<usize>>,
    /// Bytes of the file, from the first line's prefix to the end of the last line.
    pub(crate) range: Range<usize>,
}

impl Parsed {
    /// Items that are separate already, `(key, value, bytes)` each, as a comment would have them.
    pub(crate) fn read<'a>(
        items: impl Iterator<Item = (&'a str, &'a str, Range<usize>)>,
        range: Range<usize>,
    ) -> Result<Self, CommentError> {
        let mut parsed = Self { comment: Comment::default(), ranges: Vec::new(), range };
        for (key, text, range) in items {
            parsed.add(key_and_value(key, text), &format!("{key}={text}"), range)?;
        }
        Ok(parsed)
    }

    fn add(
        &mut self,
        item: Result<Item, String>,
        word: &str,
        range: Range<usize>,
    ) -> Result<(), CommentError> {
        let item = item.map_err(|problem| {
            CommentError::new(format!("`{}`: {problem}", shortened(word)), range.clone())
        })?;
        if self.comment.items.iter().any(|known| known.key == item.key) {
            return Err(CommentError::new(format!("`{}=` is given twice; keep one", item.key), range));
        }
        self.comment.items.push(item);
        self.ranges.push(range);
        Ok(())
    }
}

/// What follows the prefix on one line, and the byte of the file where it begins.
pub(crate) type Line<'a> = (usize, &'a str);

/// Reads all lines of one comment.
pub(crate) fn parse(lines: &[Line<'_>], range: Range<usize>) -> Result<Parsed, CommentError> {
    let mut parsed = Parsed { comment: Comment::default(), ranges: Vec::new(), range };
    for &(offset, line) in lines {
        for (start, word) in words(line) {
            let range = offset + start..offset + start + word.len();
            parsed.add(item(word), word, range)?;
        }
    }
    Ok(parsed)
}

/// Words with their byte in the line.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split_whitespace().map(|word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}

fn shortened(word: &str) -> String {
    const LONGEST: usize = 60;
    match word.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}

fn item(word: &str) -> Result<Item, String> {
    let no_item =
        || "every word is `key=value` without spaces, such as `x=f16[M,N]` or `M=1,127,4096`".to_owned();
    let (key, text) = word.split_once('=').ok_or_else(no_item)?;
    if !is_identifier(key) {
        return Err(no_item());
    }
    key_and_value(key, text)
}

fn key_and_value(key: &str, text: &str) -> Result<Item, String> {
    if !is_identifier(key) {
        return Err(format!("`{}` is no name", shortened(key)));
    }
    if key.starts_with('_') || PYTHON_KEYWORDS.contains(&key) {
        return Err(format!("`{key}` is no name for a tensor, a scalar or an axis; use another"));
    }
    if text.is_empty() {
        return Err(format!("nothing follows `{key}=`"));
    }
    Ok(Item { key: key.to_owned(), value: value(key, text)? })
}

fn value(key: &str, text: &str) -> Result<Value, String> {
    Ok(match key {
        "ref" => Value::Reference(reference(text)?),
        "definition" => Value::Definition(definition(text)?),
        "kernel" => Value::Kernel(kernel(text)?),
        "grid" | "block" => Value::Extent(extent(text)?),
        "smem" => Value::Bytes(expression(text)?),
        "args" => Value::Names(names(text)?),
        "inputs" | "policy" => Value::Word(word(text)?),
        "tol" => Value::Sum(sum(text)?),
        "precision" => Value::Precision(precision(text)?),
        _ => free_value(text)?,
    })
}

/// The value of a name that is not reserved.
fn free_value(text: &str) -> Result<Value, String> {
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or("the `]` is missing")?;
        return Ok(Value::Sizes(dims(inner)?));
    }
    if text.contains('[') || text.starts_with("out:") {
        return Ok(Value::Tensor(tensor(text)?));
    }
    if let Ok(dtype) = text.parse::<Dtype>() {
        return Ok(Value::Typed(dtype));
    }
    let scalars: Option<Vec<Literal>> = text.split(',').map(literal).collect();
    scalars.map(Value::Scalars).ok_or_else(|| {
        format!(
            "`{}` is neither a tensor (`f16[M,N]`), a dtype, nor numbers separated by commas",
            shortened(text)
        )
    })
}

fn tensor(text: &str) -> Result<Tensor, String> {
    let (out, text) = text.strip_prefix("out:").map_or((false, text), |rest| (true, rest));
    let (dtypes, rest) = text.split_once('[').ok_or("the dimensions are missing; write `f16[M,N]`")?;
    let (inner, profile_text) = rest.split_once(']').ok_or("the `]` is missing")?;
    let dtypes: Vec<Dtype> = dtypes.split('|').map(dtype).collect::<Result<_, _>>()?;
    if let Some(repeated) = dtypes.iter().enumerate().find(|(at, dtype)| dtypes[..*at].contains(dtype)) {
        return Err(format!("{} is listed twice", repeated.1.short()));
    }
    let profile = match profile_text.strip_prefix(':') {
        Some(text) => Some(profile(text)?),
        None if profile_text.is_empty() => None,
        None => {
            return Err(format!(
                "`{profile_text}` after the `]` is not understood; a profile is `:int(0,N)`"
            ));
        }
    };
    if out && profile.is_some() {
        return Err("an output has no values to draw; remove what follows the `]`".to_owned());
    }
    let dims = if inner.is_empty() { Vec::new() } else { dims(inner)? };
    Ok(Tensor { out, dtypes, dims, profile })
}

fn dtype(name: &str) -> Result<Dtype, String> {
    name.parse().map_err(|_| {
        let known: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.short()).collect();
        format!("`{}` is no dtype; use one of {}", shortened(name), known.join(" "))
    })
}

fn dims(text: &str) -> Result<Vec<Dim>, String> {
    text.split(',').map(dim).collect()
}

fn dim(text: &str) -> Result<Dim, String> {
    if is_identifier(text) && !text.starts_with('_') && !PYTHON_KEYWORDS.contains(&text) {
        return Ok(Dim::Axis(text.to_owned()));
    }
    text.parse().map(Dim::Length).map_err(|_| {
        format!("`{}` is no dimension; write the name of an axis or a whole number", shortened(text))
    })
}

fn profile(text: &str) -> Result<Profile, String> {
    let unknown = || {
        format!(
            "`{}` is no way to draw values; use normal(mean,std), uniform(low,high) or int(low,high)",
            shortened(text)
        )
    };
    let (name, arguments) =
        text.strip_suffix(')').and_then(|text| text.split_once('(')).ok_or_else(unknown)?;
    let arguments = split_outside_parentheses(arguments);
    let [first, second] = arguments.as_slice() else { return Err(unknown()) };
    let number = |text: &str| match literal(text) {
        Some(Literal::Float(value)) => Ok(value),
        Some(Literal::Integer(value)) => Ok(value as f64),
        _ => Err(unknown()),
    };
    match name {
        "normal" => {
            let (mean, std) = (number(first)?, number(second)?);
            if std < 0.0 {
                return Err("a standard deviation is not negative".to_owned());
            }
            Ok(Profile::Normal { mean, std })
        }
        "uniform" => {
            let (low, high) = (number(first)?, number(second)?);
            if low > high {
                return Err("the range is empty: the lower bound comes first".to_owned());
            }
            Ok(Profile::Uniform { low, high })
        }
        "int" => Ok(Profile::Integers { low: expression(first)?, high: expression(second)? }),
        _ => Err(unknown()),
    }
}

fn reference(text: &str) -> Result<ReferenceName, String> {
    let unusable = || {
        format!(
            "`{}` is no reference; use a function of {}, a function of this file (`ref=my_ref`), or one of another \
             file (`ref=./other.py::f`)",
            shortened(text),
            NAMESPACES.join(", ")
        )
    };
    if let Some((path, function)) = text.split_once("::") {
        let relative = !path.starts_with('/') && path.ends_with(".py");
        if !relative || !is_identifier(function) {
            return Err(unusable());
        }
        return Ok(ReferenceName::OtherFile { path: path.to_owned(), function: function.to_owned() });
    }
    if is_identifier(text) && text != "torch" {
        return Ok(ReferenceName::SameFile(text.to_owned()));
    }
    let (namespace, function) = text.rsplit_once('.').ok_or_else(unusable)?;
    if !NAMESPACES.contains(&namespace) || !is_identifier(function) || function.starts_with('_') {
        return Err(unusable());
    }
    Ok(ReferenceName::Torch(text.to_owned()))
}

fn definition(text: &str) -> Result<String, String> {
    let is_file = text.ends_with(".json") && !text.starts_with('/');
    if is_file || is_identifier(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{}` is no Definition; name its file, relative to this one (`definition=./rmsnorm.json`), or one of those that \
         come with warpsmith (`definition=rmsnorm`)",
        shortened(text)
    ))
}

fn kernel(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_:<>,*&.-".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':');
    if begins_well && text.chars().all(is_name) {
        return Ok(text.to_owned());
    }
    Err("a kernel is named like `softmax` or `ns::softmax<float,4>`, without spaces".to_owned())
}

fn extent(text: &str) -> Result<Vec<AxisExpr>, String> {
    let parts = split_outside_parentheses(text);
    if parts.len() > 3 {
        return Err("a grid and a block have at most three dimensions".to_owned());
    }
    parts.into_iter().map(expression).collect()
}

fn expression(text: &str) -> Result<AxisExpr, String> {
    AxisExpr::parse(text).map_err(|error| error.to_string())
}

fn sum(text: &str) -> Result<AxisExpr, String> {
    let inner = text.strip_prefix("sum(").and_then(|rest| rest.strip_suffix(')'));
    expression(
        inner
            .ok_or("a tolerance is told by the longest sum behind one element of the result: `tol=sum(K)`")?,
    )
}

fn precision(text: &str) -> Result<Precision, String> {
    match text {
        "ieee" => Ok(Precision::Ieee),
        "tf32" => Ok(Precision::Tf32),
        _ => Err("write `precision=ieee` or `precision=tf32`".to_owned()),
    }
}

fn names(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    match names.iter().find(|name| !is_identifier(name)) {
        Some(name) => Err(format!("`{}` is no name of a parameter", shortened(name))),
        None => Ok(names),
    }
}

fn word(text: &str) -> Result<String, String> {
    if is_identifier(text) {
        return Ok(text.to_owned());
    }
    Err(format!("`{}` is no name", shortened(text)))
}

fn literal(text: &str) -> Option<Literal> {
    match text {
        "true" | "True" => return Some(Literal::Bool(true)),
        "false" | "False" => return Some(Literal::Bool(false)),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || "-+.".contains(c)) {
        return None;
    }
    if let Ok(value) = text.parse() {
        return Some(Literal::Integer(value));
    }
    text.parse().ok().filter(|value: &f64| value.is_finite()).map(Literal::Float)
}

/// Splits at the commas that no parenthesis encloses.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|c| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

pub(super) fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
