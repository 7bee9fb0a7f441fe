//! How FlashInfer-Bench calls an entry: inputs, then in destination-passing style outputs, by position.

use crate::oracle::Mapping;
use crate::source::SourceModel;
use crate::source::syntax::{Node, children, parse_tree, text_of};
use crate::spec::{Definition, TensorSpec};

/// Which parameter takes what.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::oracle) struct Call {
    pub(in crate::oracle) inputs: Vec<Mapping>,
    /// Outputs that are passed to be written into; empty when the entry returns them.
    pub(in crate::oracle) destinations: Vec<Mapping>,
}

/// One parameter that can be given by position.
struct Positional {
    name: String,
    has_default: bool,
}

/// How the entry is called. `destination_passing`: what its Solution says; `None` when nothing says it, then its
/// parameters tell.
///
/// # Errors
/// Why it cannot be called that way, and what to write.
pub(in crate::oracle) fn call(
    definition: &Definition,
    entry: &str,
    text: &str,
    model: &SourceModel,
    destination_passing: Option<bool>,
) -> Result<Call, String> {
    let inputs: Vec<&str> = definition.inputs.iter().map(|(name, _)| name.as_str()).collect();
    let outputs: Vec<&str> = definition.outputs.iter().map(|(name, _)| name.as_str()).collect();
    let function = model.functions.iter().rfind(|function| function.name == entry);
    let Some(function) = function else {
        let is_bound = model.bindings.iter().any(|binding| binding.name == entry);
        if !is_bound {
            return Err(format!(
                "there is no module-level function `{entry}`; {}",
                wanted(definition, entry, destination_passing)
            ));
        }
        // Its parameters show once it is imported.
        let destinations = if destination_passing == Some(true) { &outputs[..] } else { &[] };
        return Ok(paired(definition, &inputs, destinations, |at| {
            inputs.iter().chain(&outputs).nth(at).map(|name| (*name).to_owned())
        }));
    };
    if model.kernels.iter().any(|kernel| kernel.name_range == function.name_range) {
        return Err(format!(
            "`{entry}` is itself a `@triton.jit` function and cannot be called from Python; rename it and add a \
             function that launches it: {}",
            wanted(definition, entry, destination_passing)
        ));
    }
    let parameters = positional(text, entry).ok_or_else(|| {
        format!(
            "`{entry}` takes parameters by keyword alone or without names; FlashInfer-Bench calls it by position: {}",
            wanted(definition, entry, destination_passing)
        )
    })?;
    let passes_outputs = destination_passing
        .unwrap_or_else(|| parameters.iter().filter(|p| !p.has_default).count() > inputs.len());
    let destinations = if passes_outputs { &outputs[..] } else { &[] };
    let expected = inputs.len() + destinations.len();
    let required = parameters.iter().take_while(|parameter| !parameter.has_default).count();
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    if parameters.len() < expected || required > expected {
        let style = if passes_outputs { " (outputs are passed to be written into)" } else { "" };
        return Err(format!(
            "`{entry}({})` cannot be called with the {expected} arguments of `{}`{style}; {}",
            names.join(", "),
            definition.name,
            wanted(definition, entry, destination_passing)
        ));
    }
    // By position or by name: the one who wrote it must mean the same.
    let arguments: Vec<&str> = inputs.iter().chain(destinations).copied().collect();
    for (at, argument) in arguments.iter().enumerate() {
        if let Some(other) = names.iter().take(expected).position(|name| name == argument)
            && other != at
        {
            return Err(format!(
                "`{entry}({})` takes `{argument}` as argument {}, but FlashInfer-Bench passes it as argument {}; {}",
                names.join(", "),
                other + 1,
                at + 1,
                wanted(definition, entry, destination_passing)
            ));
        }
    }
    Ok(paired(definition, &inputs, destinations, |at| {
        parameters.get(at).map(|parameter| parameter.name.clone())
    }))
}

fn paired(
    definition: &Definition,
    inputs: &[&str],
    destinations: &[&str],
    parameter: impl Fn(usize) -> Option<String>,
) -> Call {
    let mapping = |at: usize, name: &str| Mapping {
        input: name.to_owned(),
        parameter: parameter(at).unwrap_or_else(|| name.to_owned()),
        optional: false,
    };
    let of_inputs = inputs.iter().enumerate().map(|(at, name)| Mapping {
        optional: definition.input(name).is_some_and(|spec: &TensorSpec| spec.optional),
        ..mapping(at, name)
    });
    let of_outputs = destinations.iter().enumerate().map(|(at, name)| mapping(inputs.len() + at, name));
    Call { inputs: of_inputs.collect(), destinations: of_outputs.collect() }
}

/// What to write instead.
fn wanted(definition: &Definition, entry: &str, destination_passing: Option<bool>) -> String {
    let names = |tensors: &[(String, TensorSpec)]| {
        tensors.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let returning = format!("`def {entry}({}):`", names(&definition.inputs));
    let writing = format!("`def {entry}({}, {}):`", names(&definition.inputs), names(&definition.outputs));
    match destination_passing {
        Some(true) => format!(
            "write {writing}, or say `destination_passing_style = false` and write {returning} with a `return`"
        ),
        Some(false) => format!("write {returning}"),
        None => format!("write {returning} that returns the outputs, or {writing} that writes into them"),
    }
}

/// The parameters of a module-level function that can be given by position as well as by keyword; `None` when
/// some cannot.
fn positional(text: &str, function: &str) -> Option<Vec<Positional>> {
    let tree = parse_tree(text);
    let mut definitions =
        children(tree.root_node()).into_iter().filter_map(|statement| match statement.kind() {
            "decorated_definition" => statement.child_by_field_name("definition"),
            _ => Some(statement),
        });
    let is_wanted = |node: &Node<'_>| {
        node.kind() == "function_definition"
            && node.child_by_field_name("name").is_some_and(|name| text_of(name, text) == function)
    };
    let list = definitions.rfind(is_wanted)?.child_by_field_name("parameters")?;
    let mut parameters = Vec::new();
    for node in children(list) {
        let name = match node.kind() {
            "identifier" => Some(node),
            "typed_parameter" => children(node).into_iter().find(|child| child.kind() == "identifier"),
            "default_parameter" | "typed_default_parameter" => node.child_by_field_name("name"),
            // Parameters behind a bare `*` have names only.
            "keyword_separator" => break,
            "dictionary_splat_pattern" => continue,
            _ => None,
        };
        let has_default = node.child_by_field_name("value").is_some();
        parameters.push(Positional { name: text_of(name?, text).to_owned(), has_default });
    }
    Some(parameters)
}
