//! `program_id · stride` in 32 bits.

use crate::lint::expressions::{Index, operands};
use crate::lint::facts::KernelFacts;
use crate::lint::{Check, Edit, Fix, Lint, Rule, Severity};
use crate::source::syntax::{Node, Walk, walk};

pub(super) static RULE: Rule = Rule {
    name: "int32-offset",
    severity: Severity::Information,
    summary: "an offset that grows with the program's index is computed in 32 bits and wraps in large tensors",
    page: include_str!("int32_offset.md"),
    check: Check::Kernel(check),
};

fn check(kernel: &KernelFacts<'_, '_>, found: &mut Vec<Lint>) {
    let products = products(kernel);
    let Some(first) = products.first() else { return };
    let more = match products.len() - 1 {
        0 => String::new(),
        1 => ", and so does one more product of this kernel".to_owned(),
        more => format!(", and so do {more} more products of this kernel"),
    };
    let message = format!(
        "`{}` is computed in 32 bits: it wraps where it reaches 2,147,483,648, in a tensor of that many \
         elements (4 GiB in 16 bits){more}",
        shortened(kernel.text_of(first.node))
    );
    let mut lint = RULE.at(first.node.byte_range(), message);
    lint.fixes.push(widen(kernel, &products));
    found.push(lint);
}

/// A product of an index and a stride.
struct Product<'tree> {
    node: Node<'tree>,
    /// The operand that grows with the program's index.
    index: Node<'tree>,
}

/// All products that are added to a pointer, in document order.
fn products<'tree>(kernel: &KernelFacts<'_, 'tree>) -> Vec<Product<'tree>> {
    let mut products = Vec::new();
    let mut inner = Vec::new();
    let pointers = pointers(kernel);
    let is_pointer = |node: Node<'tree>| {
        let roots = kernel.roots(node);
        !roots.is_empty() && roots.iter().all(|root| pointers.contains(root))
    };
    walk(kernel.body, |node| {
        let operator = node.child_by_field_name("operator").map(|operator| kernel.text_of(operator));
        match (node.kind(), operator) {
            ("binary_operator", Some("+")) => {
                let terms = operands(node, "+", kernel.text);
                // `a + b` of `a + b + c` is part of the same sum.
                inner.extend(node.child_by_field_name("left").map(|left| left.id()));
                if inner.contains(&node.id()) || !terms.first().is_some_and(|first| is_pointer(*first)) {
                    return Walk::Into;
                }
                products.extend(terms.iter().skip(1).flat_map(|term| of_sum(kernel, *term)));
            }
            ("augmented_assignment", Some("+=")) => {
                let (left, right) = (node.child_by_field_name("left"), node.child_by_field_name("right"));
                if let (Some(left), Some(right)) = (left, right)
                    && is_pointer(left)
                {
                    products.extend(of_sum(kernel, right));
                }
            }
            _ => {}
        }
        Walk::Into
    });
    products
}

/// The products among the terms of a sum, in parentheses too.
fn of_sum<'tree>(kernel: &KernelFacts<'_, 'tree>, sum: Node<'tree>) -> Vec<Product<'tree>> {
    let mut products = Vec::new();
    let mut waiting = vec![sum];
    while let Some(node) = waiting.pop() {
        match node.kind() {
            "parenthesized_expression" => waiting.extend(node.named_child(0)),
            "binary_operator" => {
                let terms = operands(node, "+", kernel.text);
                match terms[..] {
                    [only] => products.extend(product(kernel, only)),
                    _ => waiting.extend(terms.into_iter().rev()),
                }
            }
            _ => {}
        }
    }
    products
}

fn product<'tree>(kernel: &KernelFacts<'_, 'tree>, node: Node<'tree>) -> Option<Product<'tree>> {
    let factors = operands(node, "*", kernel.text);
    if factors.len() < 2 || kernel.index(node) != Index::Program {
        return None;
    }
    let is_stride = |factor: &Node<'tree>| {
        let name = kernel.text_of(*factor);
        factor.kind() == "identifier"
            && kernel.parameters.contains(name)
            && !kernel.assigned().contains_key(name)
            && strides_far(name)
    };
    factors.iter().find(|factor| is_stride(factor))?;
    let index = factors.into_iter().find(|factor| kernel.index(*factor) == Index::Program)?;
    Some(Product { node, index })
}

/// Whether a parameter is the distance between rows or batches of a large tensor, by its name. The distance
/// between heads or columns, and that of one value or one partial sum for each program, spans too little.
fn strides_far(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let of_batch =
        ["stride_b", "_stride_batch", "stride_z", "b_stride"].iter().any(|end| name.ends_with(end));
    has(&["stride"])
        && (has(&["row", "batch"]) || of_batch)
        && !has(&["dw", "db_", "partial", "loss", "lse", "ind"])
}

/// Parameters that memory is read or written through.
fn pointers<'a>(kernel: &KernelFacts<'a, '_>) -> Vec<&'a str> {
    let memory = kernel.calls().iter().filter(|call| {
        call.function.is_some_and(|name| {
            matches!(name, "load" | "store" | "make_block_ptr") || name.starts_with("atomic_")
        })
    });
    memory
        .filter_map(|call| {
            call.argument(0, "pointer", kernel.text).or_else(|| call.argument(0, "base", kernel.text))
        })
        .flat_map(|pointer| kernel.roots(pointer))
        .collect()
}

/// Widens the index of every product of the kernel.
fn widen(kernel: &KernelFacts<'_, '_>, products: &[Product<'_>]) -> Fix {
    let mut edits = Vec::new();
    for product in products {
        let range = product.index.byte_range();
        let is_whole = matches!(
            product.index.kind(),
            "identifier" | "call" | "subscript" | "parenthesized_expression" | "attribute"
        );
        let at = |at: usize, text: &str| Edit { range: at..at, text: text.to_owned() };
        if is_whole {
            edits.push(at(range.end, ".to(tl.int64)"));
        } else {
            edits.extend([at(range.start, "("), at(range.end, ").to(tl.int64)")]);
        }
    }
    edits.dedup();
    let title = match products {
        [only] => format!("Compute `{}` in 64 bits", shortened(kernel.text_of(only.node))),
        several => format!("Compute these {} products in 64 bits", several.len()),
    };
    Fix { title, edits }
}

/// On one line, and no longer than a message can bear.
fn shortened(code: &str) -> String {
    const LONGEST: usize = 60;
    let words = code.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}
