//! The little that must be known of the Python inside a Definition.

use crate::source::functions::parameter_names;
use crate::source::syntax::{Node, Walk, children, first_error, line_of, parse_tree, text_of, walk};

/// The 1-based line of the first syntax error.
pub(super) fn first_error_line(source: &str) -> Option<u32> {
    let tree = parse_tree(source);
    first_error(tree.root_node()).map(|range| line_of(source, range.start))
}

/// Parameters of the top-level function of this name; of the last one, as in Python. `*args` and
/// `**kwargs` keep their stars.
pub(super) fn parameters_of(source: &str, function: &str) -> Option<Vec<String>> {
    let tree = parse_tree(source);
    let mut definitions =
        children(tree.root_node()).into_iter().filter_map(|statement| match statement.kind() {
            "decorated_definition" => statement.child_by_field_name("definition"),
            _ => Some(statement),
        });
    let is_wanted = |node: &Node<'_>| {
        node.kind() == "function_definition"
            && node.child_by_field_name("name").is_some_and(|name| text_of(name, source) == function)
    };
    definitions.rfind(is_wanted).map(|node| parameter_names(node, source))
}

/// Whether the text is one expression.
pub(super) fn is_expression(text: &str) -> bool {
    let tree = parse_tree(text);
    let root = tree.root_node();
    let statements = children(root);
    let [statement] = statements.as_slice() else { return false };
    !root.has_error()
        && statement.kind() == "expression_statement"
        && matches!(children(*statement).as_slice(), [inner] if !inner.kind().ends_with("assignment"))
}

/// All identifiers of the text.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let tree = parse_tree(text);
    walk(tree.root_node(), |node| {
        if node.kind() == "identifier" {
            names.push(text_of(node, text).to_owned());
        }
        Walk::Into
    });
    names
}
