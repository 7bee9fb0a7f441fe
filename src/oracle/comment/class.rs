//! Comments that link a class to the class that says what is right.
//!
//! ```python
//! # warpsmith: ref=./model.py::Model batch_size=4 dim=128,1000
//! class ModelNew(nn.Module): ...
//! ```

use std::ops::Range;

use super::grammar::{Literal, ReferenceName, Value};
use super::parse::{CommentError, Line, Parsed, parse};
use super::place::{Block, blocks};
use super::reference_range;
use crate::spec::{AxisExpr, Precision};

/// What such a comment says.
#[derive(Clone, Debug)]
pub(in crate::oracle) struct ClassLink {
    /// The class that is judged.
    pub(in crate::oracle) entry: String,
    /// `None`: the comment only changes sizes, and the reference is searched for.
    pub(in crate::oracle) reference: Option<ReferenceName>,
    /// Numbers to put in the place of module-level ones of the reference's file, with their bytes.
    pub(in crate::oracle) constants: Vec<(String, Vec<u64>, Range<usize>)>,
    pub(in crate::oracle) eval: bool,
    pub(in crate::oracle) reduction: Option<AxisExpr>,
    pub(in crate::oracle) precision: Precision,
    /// Bytes of the file where the reference is named, or the whole comment.
    pub(in crate::oracle) range: Range<usize>,
}

/// The comment above a class, or above a kernel or function when it names `Model`. `usual` is the class that is
/// judged then.
pub(in crate::oracle) fn class_link(
    text: &str,
    usual: Option<&str>,
) -> Result<Option<ClassLink>, CommentError> {
    let mut found: Option<ClassLink> = None;
    for block in blocks(text)? {
        let Some((entry, parsed)) = described(text, &block, usual)? else { continue };
        if found.is_some() {
            let message = "two comments describe classes; one class of a file can be judged: keep one";
            return Err(CommentError::new(message, block.range));
        }
        found = Some(link(entry, &parsed)?);
    }
    Ok(found)
}

/// Whether [`class_link`] reads this comment, so that it describes no function.
pub(super) fn is_of_class(text: &str, block: &Block, usual: Option<&str>) -> bool {
    block.class.is_some() || described(text, block, usual).is_ok_and(|found| found.is_some())
}

fn described(
    text: &str,
    block: &Block,
    usual: Option<&str>,
) -> Result<Option<(String, Parsed)>, CommentError> {
    let lines: Vec<Line<'_>> =
        block.lines.iter().map(|line| (line.start, text.get(line.clone()).unwrap_or_default())).collect();
    if let Some(class) = &block.class {
        return Ok(Some((class.clone(), parse(&lines, block.range.clone())?)));
    }
    // What cannot be read here is told by whoever reads comments above functions.
    let (Some(usual), Ok(parsed)) = (usual, parse(&lines, block.range.clone())) else { return Ok(None) };
    let names_model = parsed.comment.items.iter().any(|item| {
        matches!(&item.value, Value::Reference(ReferenceName::OtherFile { function: name, .. } | ReferenceName::SameFile(name)) if name == "Model")
    });
    Ok(names_model.then(|| (usual.to_owned(), parsed)))
}

fn link(entry: String, parsed: &Parsed) -> Result<ClassLink, CommentError> {
    let mut link = ClassLink {
        entry,
        reference: None,
        constants: Vec::new(),
        eval: false,
        reduction: None,
        precision: Precision::Ieee,
        range: reference_range(parsed),
    };
    for (item, range) in parsed.comment.items.iter().zip(&parsed.ranges) {
        let unusable = |why: &str| {
            Err(CommentError::new(format!("`{}={}`: {why}", item.key, item.value), range.clone()))
        };
        match &item.value {
            Value::Reference(ReferenceName::Torch(_)) => {
                return unusable(
                    "a class is held against a class, such as `ref=./model.py::Model`; a function of torch belongs above \
                     the function that launches the kernel",
                );
            }
            Value::Reference(reference) => link.reference = Some(reference.clone()),
            Value::Sum(length) => link.reduction = Some(length.clone()),
            Value::Precision(precision) => link.precision = *precision,
            Value::Scalars(values) if item.key == "eval" => match values.as_slice() {
                [Literal::Bool(eval)] => link.eval = *eval,
                _ => return unusable("write `eval=true` or `eval=false`"),
            },
            Value::Scalars(values) => {
                let lengths: Option<Vec<u64>> = values.iter().map(length).collect();
                let Some(lengths) = lengths else {
                    return unusable(
                        "only whole numbers from 0 can be put in the place of constants of the reference's file",
                    );
                };
                link.constants.push((item.key.clone(), lengths, range.clone()));
            }
            Value::Tensor(_) | Value::Sizes(_) | Value::Typed(_) => {
                return unusable("the inputs of a class are those that get_inputs() makes; remove it");
            }
            _ => return unusable("means nothing above a class; remove it"),
        }
    }
    Ok(link)
}

fn length(literal: &Literal) -> Option<u64> {
    match literal {
        Literal::Integer(value) => u64::try_from(*value).ok(),
        _ => None,
    }
}
