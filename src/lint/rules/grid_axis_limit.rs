//! A batch dimension on an axis of the grid that ends at 65,535.

use crate::lint::expressions::operands;
use crate::lint::facts::File;
use crate::lint::launches::{Launch, launches};
use crate::lint::{Check, Lint, Rule, Severity};
use crate::source::syntax::{Node, Walk, children, text_of, walk};

pub(super) static RULE: Rule = Rule {
    name: "grid-axis-limit",
    severity: Severity::Information,
    summary: "a batch dimension is axis 1 or 2 of the grid, which CUDA ends at 65,535",
    page: include_str!("grid_axis_limit.md"),
    check: Check::File(check),
};

/// How batch dimensions are called.
const BATCH: &[&str] = &[
    "B",
    "BATCH",
    "BATCH_SIZE",
    "N_BATCH",
    "batch",
    "batch_size",
    "batchsize",
    "bsz",
    "n_batch",
    "num_batches",
];

fn check(file: &File<'_, '_>, found: &mut Vec<Lint>) {
    // The limit is CUDA's; Ascend has another.
    if file.tree.any_piece(|text| ForAscend(is_for_ascend(text)), |is| is.0) {
        return;
    }
    let mut told = Vec::new();
    for kernel in &file.kernels {
        for launch in launches(file, kernel) {
            for dimensions in grids(&launch, file.text) {
                for (axis, dimension) in dimensions.iter().enumerate().skip(1) {
                    if !is_batch(*dimension, file.text) || told.contains(&dimension.id()) {
                        continue;
                    }
                    told.push(dimension.id());
                    let message = format!(
                        "`{}` is axis {axis} of the grid, and CUDA refuses more than 65,535 programs there; axis 0 \
                         takes 2,147,483,647",
                        text_of(*dimension, file.text)
                    );
                    found.push(RULE.at(dimension.byte_range(), message));
                }
            }
        }
    }
}

struct ForAscend(bool);

fn is_for_ascend(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| word.eq_ignore_ascii_case("npu") || word.eq_ignore_ascii_case("ascend"))
}

/// The dimensions that a grid may have: written in the launch, bound to a name, or returned by a function of the
/// configuration.
fn grids<'tree>(launch: &Launch<'_, 'tree>, text: &str) -> Vec<Vec<Node<'tree>>> {
    let [grid] = launch.grid[..] else { return vec![launch.grid.clone()] };
    let values = match grid.kind() {
        "identifier" => launch.bound(text_of(grid, text)).unwrap_or_default(),
        _ => vec![grid],
    };
    let mut tuples = Vec::new();
    for value in values {
        match value.kind() {
            "tuple" => tuples.push(value),
            "lambda" => {
                tuples.extend(value.child_by_field_name("body").filter(|body| body.kind() == "tuple"));
            }
            "function_definition" => walk(value, |node| {
                if node.kind() == "return_statement" {
                    // `return a, b` is a tuple too.
                    let returned = node.named_child(0);
                    tuples
                        .extend(returned.filter(|value| matches!(value.kind(), "tuple" | "expression_list")));
                }
                Walk::Into
            }),
            _ => {}
        }
    }
    tuples.into_iter().map(children).collect()
}

/// The dimension is a batch, or a product with one.
fn is_batch(dimension: Node<'_>, text: &str) -> bool {
    operands(dimension, "*", text)
        .iter()
        .any(|factor| factor.kind() == "identifier" && BATCH.contains(&text_of(*factor, text)))
}
