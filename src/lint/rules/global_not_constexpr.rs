//! A kernel reads a module-level value that is no `tl.constexpr`.

use std::collections::{HashMap, HashSet};

use crate::lint::facts::{File, KernelFacts, Place};
use crate::lint::{Check, Edit, Fix, Lint, Rule, Severity};
use crate::source::syntax::{Node, Walk, text_of, walk};

pub(super) static RULE: Rule = Rule {
    name: "global-not-constexpr",
    severity: Severity::Warning,
    summary: "a kernel reads a module-level value that is no `tl.constexpr`, which Triton refuses to compile",
    page: include_str!("global_not_constexpr.md"),
    check: Check::File(check),
};

/// Who sets this wants what we would complain of.
const ALLOWED: &str = "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS";

fn check(file: &File<'_, '_>, found: &mut Vec<Lint>) {
    if file.text.contains(ALLOWED) {
        return;
    }
    for kernel in &file.kernels {
        for place in &kernel.remember(|| Read::of(kernel)).0 {
            let written = place.name.as_str();
            let Some((assignment, value)) =
                file.constant(written).filter(|(_, value)| is_plain(*value, file.text))
            else {
                continue;
            };
            let annotated = assignment
                .child_by_field_name("type")
                .is_some_and(|annotation| text_of(annotation, file.text).contains("constexpr"));
            let form = if annotated {
                "is only annotated as `tl.constexpr`, which newer versions of Triton do not count"
            } else {
                "is a module-level value and no `tl.constexpr`"
            };
            let message = format!("`{written}` {form}: Triton refuses to compile a kernel that reads it");
            let mut lint = RULE.at(kernel.range_of(place), message);
            lint.fixes.extend(wrap(file, written, value));
            found.push(lint);
        }
    }
}

/// Names that the body takes from outside, each where it stands first.
struct Read(Vec<Place>);

impl Read {
    fn of(kernel: &KernelFacts<'_, '_>) -> Self {
        let mut told = HashSet::new();
        let names = names_read(kernel).into_iter().map(|name| (kernel.text_of(name), name));
        let is_local = |name: &str| kernel.parameters.contains(name) || kernel.assigned().contains_key(name);
        let from_outside = names.filter(|(written, _)| !is_local(written) && told.insert(*written));
        Self(from_outside.map(|(written, name)| kernel.place(written, name)).collect())
    }
}

/// Names that the body reads, in document order: not those of attributes, keywords and annotations.
fn names_read<'tree>(kernel: &KernelFacts<'_, 'tree>) -> Vec<Node<'tree>> {
    let (mut names, mut others) = (Vec::new(), HashSet::new());
    walk(kernel.body, |node| {
        match node.kind() {
            "identifier" if !others.contains(&node.id()) => names.push(node),
            "attribute" => others.extend(node.child_by_field_name("attribute").map(|name| name.id())),
            "keyword_argument" => others.extend(node.child_by_field_name("name").map(|name| name.id())),
            // A nested function has names of its own.
            "type" | "lambda" | "function_definition" | "list_comprehension" => return Walk::Skip,
            _ => {}
        }
        Walk::Into
    });
    names
}

/// A number, text or truth value, or arithmetic of those: nothing that could be a `tl.constexpr`, a type or a
/// module.
fn is_plain(value: Node<'_>, text: &str) -> bool {
    let mut is_plain = true;
    let mut has_value = false;
    walk(value, |node| {
        match node.kind() {
            "integer" | "float" | "string" | "true" | "false" => {
                has_value = true;
                return Walk::Skip;
            }
            "call" => {
                let callee = node.child_by_field_name("function").map(|node| text_of(node, text));
                let callee = callee.unwrap_or_default();
                let is_number = matches!(callee, "float" | "int") || callee.starts_with("math.");
                (has_value, is_plain) = (has_value || is_number, is_plain && is_number);
                return Walk::Skip;
            }
            "attribute" => {
                let is_number = text_of(node, text).starts_with("math.");
                (has_value, is_plain) = (has_value || is_number, is_plain && is_number);
                return Walk::Skip;
            }
            "unary_operator" | "binary_operator" | "parenthesized_expression" => {}
            _ if node.is_named() => is_plain = false,
            _ => {}
        }
        Walk::Into
    });
    is_plain && has_value
}

/// Wraps the value where only kernels read it: what host code does with a number, it may not do with a
/// `tl.constexpr`.
fn wrap(file: &File<'_, '_>, name: &str, value: Node<'_>) -> Option<Fix> {
    let imported = file.model.bindings.iter().any(|binding| binding.name == "tl");
    let inside: usize = file.kernels.iter().map(|kernel| uses(kernel.body, name, file.text)).sum();
    let everywhere: usize =
        file.root.named_children().map(|statement| uses(statement, name, file.text)).sum();
    // The assignment itself is the one use outside.
    if !imported || everywhere != inside + 1 || file.text.contains("__all__") {
        return None;
    }
    let wrapped = |at, text: &str| Edit { range: at..at, text: text.to_owned() };
    let edits = vec![wrapped(value.start_byte(), "tl.constexpr("), wrapped(value.end_byte(), ")")];
    Some(Fix { title: format!("Make `{name}` a `tl.constexpr`"), edits })
}

/// How often each name stands in a piece of code.
struct Uses(HashMap<String, usize>);

fn uses(code: Node<'_>, name: &str, text: &str) -> usize {
    let uses = code.remember(|| {
        let mut uses: HashMap<String, usize> = HashMap::new();
        walk(code, |node| {
            if node.kind() == "identifier" {
                *uses.entry(text_of(node, text).to_owned()).or_default() += 1;
            }
            Walk::Into
        });
        Uses(uses)
    });
    uses.0.get(name).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::syntax::{children, parse_tree};

    #[test]
    fn plain_values() {
        let value_is_plain = |value: &str| {
            let text = format!("X = {value}\n");
            let tree = parse_tree(&text);
            let statement = children(tree.root_node()).into_iter().next().expect("a statement");
            let assignment = children(statement).into_iter().next().expect("an assignment");
            is_plain(assignment.child_by_field_name("right").expect("a value"), &text)
        };
        for plain in
            ["4", "-1.5", "'ieee'", "True", "1 / 3", "(2 ** 7)", "float('inf')", "math.log2(2)", "math.pi"]
        {
            assert!(value_is_plain(plain), "{plain}");
        }
        for other in [
            "tl.constexpr(4)",
            "tl.float32",
            "f(4)",
            "OTHER",
            "OTHER + 1",
            "None",
            "[1]",
            "{}",
            "torch.float32",
        ] {
            assert!(!value_is_plain(other), "{other}");
        }
    }
}
