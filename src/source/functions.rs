//! Signatures of functions.

use super::KernelParameter;
use super::syntax::{Node, children, text_of};

/// Names of the parameters of a `function_definition`; `*args` and `**kwargs` keep their stars, bare
/// `*` and `/` are left out.
pub(crate) fn parameter_names(function: Node<'_>, text: &str) -> Vec<String> {
    parameters(function, text).into_iter().map(|parameter| parameter.name).collect()
}

/// The parameters of a `function_definition`, in order.
pub(super) fn parameters(function: Node<'_>, text: &str) -> Vec<KernelParameter> {
    let Some(list) = function.child_by_field_name("parameters") else { return Vec::new() };
    children(list).into_iter().filter_map(|node| parameter(node, text)).collect()
}

fn parameter(node: Node<'_>, text: &str) -> Option<KernelParameter> {
    let name = match node.kind() {
        "identifier" | "list_splat_pattern" | "dictionary_splat_pattern" => node,
        "typed_parameter" => children(node).into_iter().find(|child| child.kind() != "type")?,
        "default_parameter" | "typed_default_parameter" => node.child_by_field_name("name")?,
        _ => return None,
    };
    // `tl.constexpr`, `constexpr`, `"tl.constexpr"` and `Optional[tl.constexpr]` all mean it.
    let annotation = node.child_by_field_name("type").map(|annotation| text_of(annotation, text));
    Some(KernelParameter {
        name: text_of(name, text).chars().filter(|c| !c.is_whitespace()).collect(),
        constexpr: annotation.is_some_and(|annotation| annotation.contains("constexpr")),
        has_default: node.child_by_field_name("value").is_some(),
    })
}
