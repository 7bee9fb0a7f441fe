//! A sum in 16 bits.

use crate::lint::expressions::converted;
use crate::lint::facts::{Given, KernelFacts, keyword};
use crate::lint::{Check, Lint, Rule, Severity};
use crate::source::syntax::Node;

pub(super) static RULE: Rule = Rule {
    name: "narrow-sum",
    severity: Severity::Information,
    summary: "a sum over 16-bit floats is added up in 16 bits",
    page: include_str!("narrow_sum.md"),
    check: Check::Kernel(check),
};

fn check(kernel: &KernelFacts<'_, '_>, found: &mut Vec<Lint>) {
    for call in kernel.calls_of(&["sum", "cumsum"]) {
        if keyword(call.node, "dtype", kernel.text).is_some() {
            continue;
        }
        let input = call.argument(0, "input", kernel.text);
        let Some(dtype) = input.and_then(|input| narrowed(kernel, input, 6)) else { continue };
        let message = format!(
            "this adds up in {dtype}: of many terms the small ones are lost; sum in float32 and convert after"
        );
        found.push(RULE.at(call.node.byte_range(), message));
    }
}

/// The 16-bit dtype that an expression was converted to last.
fn narrowed<'a, 'tree>(
    kernel: &KernelFacts<'a, 'tree>,
    node: Node<'tree>,
    depth: u32,
) -> Option<&'static str> {
    let depth = depth.checked_sub(1)?;
    match node.kind() {
        "identifier" => match kernel.assigned().get(kernel.text_of(node)).map(Vec::as_slice) {
            Some([Given::Value(value)]) => narrowed(kernel, *value, depth),
            _ => None,
        },
        "parenthesized_expression" => narrowed(kernel, node.named_child(0)?, depth),
        "binary_operator" => {
            // 16 bits with 16 bits stay 16 bits; anything else may be wider.
            let (left, right) = (node.child_by_field_name("left")?, node.child_by_field_name("right")?);
            let dtype = narrowed(kernel, left, depth)?;
            (narrowed(kernel, right, depth) == Some(dtype)).then_some(dtype)
        }
        "call" => match converted(node, kernel.text)?.1 {
            "tl.bfloat16" => Some("bfloat16"),
            "tl.float16" => Some("float16"),
            _ => None,
        },
        _ => None,
    }
}
