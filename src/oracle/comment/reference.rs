//! The Python source of the reference that a comment names.

use super::grammar::{Dim, ReferenceName};

/// How a reference is called.
pub(super) struct Call<'a> {
    /// Parameters of `run`: the inputs of the Definition, in its order.
    pub(super) parameters: &'a [String],
    /// In the comment's order, with their dimensions.
    pub(super) tensors: &'a [(&'a str, &'a [Dim])],
    /// Always passed by name.
    pub(super) scalars: &'a [&'a str],
    /// Passed by name as a tuple of lengths.
    pub(super) sizes: &'a [(&'a str, &'a [Dim])],
}

/// Source that defines `run`. Of torch only the named function is called; a function of the user's is
/// imported by name, and is never run by the judge itself.
pub(super) fn source(reference: &ReferenceName, call: &Call<'_>) -> String {
    let parameters = call.parameters.join(", ");
    match reference {
        ReferenceName::Torch(name) => {
            match (call.tensors, call.scalars.is_empty() && call.sizes.is_empty()) {
                ([(only, _)], true) => {
                    format!(
                        "import torch\n\n_function = {name}\n\n\ndef run({parameters}):\n    return _function({only})\n"
                    )
                }
                _ => by_signature(name, call),
            }
        }
        ReferenceName::SameFile(function) => {
            format!("def run({parameters}):\n    return {function}({parameters})\n")
        }
        ReferenceName::OtherFile { path, function } => {
            let module = path.trim_end_matches(".py").trim_start_matches("./").replace('/', ".");
            format!(
                "def run({parameters}):\n    from {module} import {function}\n\n    return {function}({parameters})\n"
            )
        }
    }
}

/// Tensors named like parameters of the function go by name, the others by position: `rms_norm` wants its
/// `normalized_shape` between two tensors. Builtins tell no signature; their tensors go by position.
fn by_signature(function: &str, call: &Call<'_>) -> String {
    let parameters = call.parameters.join(", ");
    let tensors: Vec<String> = call.tensors.iter().map(|(name, _)| format!("\"{name}\": {name}")).collect();
    let scalars = call.scalars.iter().map(|name| format!("\"{name}\": {name}"));
    let sizes = call.sizes.iter().map(|(name, dims)| {
        let lengths: Vec<String> = dims.iter().map(|dim| length(dim, call.tensors)).collect();
        format!("\"{name}\": ({},)", lengths.join(", "))
    });
    let options: Vec<String> = scalars.chain(sizes).collect();
    format!(
        "import inspect

import torch

_function = {function}
try:
    _known = set(inspect.signature(_function).parameters)
except (TypeError, ValueError):
    _known = set()


def run({parameters}):
    _tensors = {{{}}}
    _options = {{{}}}
    _by_position = [value for name, value in _tensors.items() if name not in _known]
    _by_name = {{name: value for name, value in _tensors.items() if name in _known}}
    return _function(*_by_position, **_by_name, **_options)
",
        tensors.join(", "),
        options.join(", "),
    )
}

/// An axis as the shape of the first tensor that has it tells it.
fn length(dim: &Dim, tensors: &[(&str, &[Dim])]) -> String {
    let Dim::Axis(_) = dim else { return dim.to_string() };
    let place =
        tensors.iter().find_map(|(name, dims)| Some((name, dims.iter().position(|other| other == dim)?)));
    place.map_or_else(|| dim.to_string(), |(name, at)| format!("{name}.shape[{at}]"))
}
