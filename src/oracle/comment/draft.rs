//! Drafts the comment for a kernel from its code: a proposal for people to correct, never used by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::grammar::{Comment, Dim, Item, Literal, ReferenceName, Tensor, Value};
use super::parse::{RESERVED, is_identifier};
use super::place::functions;
use crate::source::functions::parameter_names;
use crate::source::syntax::{Node, Walk, children, parse_tree, text_of, walk};
use crate::source::{Kernel, LaunchContext, SourceModel};
use crate::spec::Dtype;

/// Functions of torch that kernels are often named after.
const COMMON: [&str; 16] = [
    "softmax",
    "log_softmax",
    "silu",
    "gelu",
    "relu",
    "leaky_relu",
    "elu",
    "mish",
    "softplus",
    "hardswish",
    "layer_norm",
    "rms_norm",
    "cross_entropy",
    "mse_loss",
    "scaled_dot_product_attention",
    "linear",
];
/// The same in `torch` itself.
const COMMON_IN_TORCH: [&str; 12] =
    ["matmul", "add", "sub", "mul", "abs", "exp", "sigmoid", "tanh", "sum", "cumsum", "addmm", "bmm"];
/// Names for the dimensions of a tensor that tells none.
const AXES: [&str; 4] = ["M", "N", "K", "L"];
const OUTER_LENGTHS: [i64; 2] = [1, 127];
const INNER_LENGTHS: [i64; 2] = [255, 1000];

/// Lines to insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Byte of the file: the start of the line of the function's first decorator or `def`.
    pub at: usize,
    /// With a line end.
    pub text: String,
}

/// The comment for the function that launches this kernel; `None` when not exactly one module-level function
/// does, or when no tensor of its parameters reaches the kernel.
pub fn draft(text: &str, model: &SourceModel, kernel: &Kernel) -> Option<Draft> {
    let tree = parse_tree(text);
    let launchers: BTreeSet<&str> = kernel
        .launches
        .iter()
        .filter(|site| site.context == LaunchContext::Function)
        .map(|site| site.function.as_str())
        .collect();
    let (Some(entry), 1) = (launchers.first(), launchers.len()) else { return None };
    model.functions.iter().find(|function| function.name == **entry)?;
    let (_, line) = functions(tree.root_node(), text).into_iter().rfind(|(name, _)| name == entry)?;
    let function = defined(tree.root_node(), text, |node, name| {
        name == *entry && !kernel.range.contains(&node.start_byte())
    })?;
    let body = defined(tree.root_node(), text, |node, _| kernel.range.contains(&node.start_byte()))?;
    let items = items(text, entry, function, &Uses::of(body, text), kernel)?;
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let at = line_start(text, line);
    Some(Draft { at, text: format!("# warpsmith: {}{newline}", Comment { items }) })
}

fn line_start(text: &str, line: u32) -> usize {
    let mut starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    starts.nth(line.saturating_sub(1) as usize).unwrap_or(0)
}

fn defined<'tree>(
    root: Node<'tree>,
    text: &str,
    is_wanted: impl Fn(Node<'tree>, &str) -> bool,
) -> Option<Node<'tree>> {
    let mut found = None;
    walk(root, |node| {
        if node.kind() == "function_definition"
            && let Some(name) = node.child_by_field_name("name")
            && is_wanted(node, text_of(name, text))
            && found.is_none()
        {
            found = Some(node);
        }
        Walk::Into
    });
    found
}

/// Which parameters of a kernel are pointers, by what is loaded from and stored to.
pub(super) struct Uses {
    pub(super) loaded: BTreeSet<String>,
    pub(super) stored: BTreeSet<String>,
}

impl Uses {
    pub(super) fn of(kernel: Node<'_>, text: &str) -> Self {
        let mut origins: BTreeMap<String, String> = BTreeMap::new();
        let mut uses = Self { loaded: BTreeSet::new(), stored: BTreeSet::new() };
        walk(kernel, |node| {
            match node.kind() {
                "assignment" => {
                    let (left, right) = (node.child_by_field_name("left"), node.child_by_field_name("right"));
                    if let (Some(left), Some(right)) = (left, right)
                        && let Some(origin) = leftmost(right, text)
                    {
                        origins.entry(text_of(left, text).to_owned()).or_insert(origin);
                    }
                }
                "call" => {
                    let function =
                        node.child_by_field_name("function").map_or("", |name| text_of(name, text));
                    let name = function.rsplit('.').next().unwrap_or_default();
                    let first = node
                        .child_by_field_name("arguments")
                        .and_then(|list| children(list).into_iter().next());
                    if let Some(pointer) = first.and_then(|first| leftmost(first, text)) {
                        match name {
                            "load" => uses.loaded.extend([pointer]),
                            "store" => uses.stored.extend([pointer]),
                            _ if name.starts_with("atomic_") => uses.stored.extend([pointer]),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
            Walk::Into
        });
        for names in [&mut uses.loaded, &mut uses.stored] {
            *names = names.iter().map(|name| origin_of(name, &origins)).collect();
        }
        uses
    }

    pub(super) fn is_pointer(&self, name: &str) -> bool {
        self.loaded.contains(name) || self.stored.contains(name)
    }
}

/// The pointer that a local one was made from.
pub(super) fn origin_of(name: &str, origins: &BTreeMap<String, String>) -> String {
    let mut name = name.to_owned();
    for _ in 0..origins.len() {
        match origins.get(&name) {
            Some(origin) if *origin != name => name.clone_from(origin),
            _ => break,
        }
    }
    name
}

/// The leftmost name of `x + offsets`, `(x + row * n) + at`.
pub(super) fn leftmost(mut node: Node<'_>, text: &str) -> Option<String> {
    loop {
        node = match node.kind() {
            "identifier" => return Some(text_of(node, text).to_owned()),
            "binary_operator" => node.child_by_field_name("left")?,
            "parenthesized_expression" => children(node).into_iter().next()?,
            _ => return None,
        };
    }
}

fn items(text: &str, entry: &str, function: Node<'_>, uses: &Uses, kernel: &Kernel) -> Option<Vec<Item>> {
    let parameters = parameter_names(function, text);
    let passed = passed(text, function, kernel);
    let shapes = Shapes::of(function, text);
    let item = |key: &str, value| Item { key: key.to_owned(), value };
    let mut items = vec![item("ref", Value::Reference(guess(entry, &kernel.name)))];
    let mut axes: Vec<String> = Vec::new();
    let mut scalars = Vec::new();
    let mut tensors = 0;
    for name in parameters.iter().filter(|name| !name.starts_with('*')) {
        let of_kernel: Vec<&String> =
            passed.iter().filter(|(_, argument)| argument == name).map(|(parameter, _)| parameter).collect();
        let has_shape = shapes.names.contains_key(name) || shapes.ranks.contains_key(name);
        if !has_shape && !of_kernel.iter().any(|parameter| uses.is_pointer(parameter)) {
            let is_tile = kernel.parameters.iter().any(|p| p.constexpr && of_kernel.contains(&&p.name));
            if is_tile || RESERVED.contains(&name.as_str()) {
                continue;
            }
            scalars
                .extend(default(function, text, name).map(|value| item(name, Value::Scalars(vec![value]))));
            continue;
        }
        let is_only_stored = !of_kernel.is_empty()
            && of_kernel
                .iter()
                .all(|parameter| uses.stored.contains(*parameter) && !uses.loaded.contains(*parameter));
        let dims = shapes.dims(name);
        tensors += usize::from(!is_only_stored);
        for axis in &dims {
            if !axes.contains(axis) && !is_only_stored {
                axes.push(axis.clone());
            }
        }
        let dims = dims.into_iter().map(Dim::Axis).collect();
        let dtypes = vec![Dtype::Float16, Dtype::Float32];
        items.push(item(name, Value::Tensor(Tensor { out: is_only_stored, dtypes, dims, profile: None })));
    }
    let last = axes.last().cloned();
    items.extend(axes.into_iter().map(|axis| {
        let lengths = if Some(&axis) == last.as_ref() { INNER_LENGTHS } else { OUTER_LENGTHS };
        item(&axis, Value::Scalars(lengths.map(Literal::Integer).to_vec()))
    }));
    items.extend(scalars);
    (tensors > 0).then_some(items)
}

/// Parameters of the kernel and the names that the launches in this function pass for them.
pub(super) fn passed(text: &str, function: Node<'_>, kernel: &Kernel) -> Vec<(String, String)> {
    let mut passed = Vec::new();
    walk(function, |node| {
        if node.kind() == "call" && kernel.launches.iter().any(|site| site.range == node.byte_range()) {
            let arguments = node.child_by_field_name("arguments").map(children).unwrap_or_default();
            for (at, argument) in arguments.into_iter().enumerate() {
                let (parameter, value) = match argument.kind() {
                    "keyword_argument" => (
                        argument.child_by_field_name("name").map(|name| text_of(name, text).to_owned()),
                        argument.child_by_field_name("value"),
                    ),
                    _ => (kernel.parameters.get(at).map(|parameter| parameter.name.clone()), Some(argument)),
                };
                if let (Some(parameter), Some(value)) = (parameter, value) {
                    passed.push((parameter, text_of(value, text).to_owned()));
                }
            }
        }
        Walk::Into
    });
    passed
}

/// What the code of the function says of the dimensions of its tensors.
struct Shapes {
    /// `rows, columns = x.shape`
    names: BTreeMap<String, Vec<String>>,
    /// From `x.shape[1]`, `x.stride(1)`, `x.size(1)`.
    ranks: BTreeMap<String, usize>,
}

impl Shapes {
    fn of(function: Node<'_>, text: &str) -> Self {
        let mut shapes = Self { names: BTreeMap::new(), ranks: BTreeMap::new() };
        walk(function, |node| {
            match node.kind() {
                "assignment" => shapes.note_names(node, text),
                "subscript" | "call" => shapes.note_rank(text_of(node, text)),
                _ => {}
            }
            Walk::Into
        });
        shapes
    }

    fn note_names(&mut self, assignment: Node<'_>, text: &str) {
        let (Some(left), Some(right)) =
            (assignment.child_by_field_name("left"), assignment.child_by_field_name("right"))
        else {
            return;
        };
        let Some(tensor) = text_of(right, text).strip_suffix(".shape").filter(|name| is_identifier(name))
        else {
            return;
        };
        let names: Vec<String> = match left.kind() {
            "pattern_list" => children(left).iter().map(|name| text_of(*name, text).to_owned()).collect(),
            _ => return,
        };
        if names.iter().all(|name| is_identifier(name) && !name.starts_with('_')) {
            self.names.insert(tensor.to_owned(), names);
        }
    }

    /// `x.shape[1]`, `x.stride(1)`, `x.size(1)`: at least two dimensions.
    fn note_rank(&mut self, expression: &str) {
        for (member, close) in [(".shape[", ']'), (".stride(", ')'), (".size(", ')')] {
            let Some((tensor, rest)) = expression.split_once(member) else { continue };
            let Some(index) = rest.strip_suffix(close).and_then(|index| index.parse::<i64>().ok()) else {
                continue;
            };
            let rank = usize::try_from(if index < 0 { -index } else { index + 1 }).unwrap_or(1);
            if is_identifier(tensor) && rank <= AXES.len() {
                let known = self.ranks.entry(tensor.to_owned()).or_default();
                *known = rank.max(*known);
            }
        }
    }

    fn dims(&self, tensor: &str) -> Vec<String> {
        if let Some(names) = self.names.get(tensor) {
            return names.clone();
        }
        let axes = AXES.map(str::to_owned);
        let named = self.names.values().next().map_or(&axes[..2], Vec::as_slice);
        // Of fewer dimensions than the others it mostly has the last ones.
        match self.ranks.get(tensor).copied().unwrap_or(named.len()) {
            rank if rank <= named.len() => named[named.len() - rank..].to_vec(),
            rank => axes[..rank.min(axes.len())].to_vec(),
        }
    }
}

/// The default of a parameter, if it is a number or a truth value.
fn default(function: Node<'_>, text: &str, name: &str) -> Option<Literal> {
    let list = function.child_by_field_name("parameters")?;
    let parameter = children(list)
        .into_iter()
        .find(|node| node.child_by_field_name("name").is_some_and(|found| text_of(found, text) == name))?;
    let value = text_of(parameter.child_by_field_name("value")?, text);
    match value {
        "True" => Some(Literal::Bool(true)),
        "False" => Some(Literal::Bool(false)),
        _ => value
            .parse()
            .map(Literal::Integer)
            .ok()
            .or_else(|| value.parse::<f64>().ok().filter(|value| value.is_finite()).map(Literal::Float)),
    }
}

/// The function of torch that the names speak of; else a name that says what to replace.
fn guess(entry: &str, kernel: &str) -> ReferenceName {
    let spoken = [entry, kernel].map(|name| name.to_ascii_lowercase());
    let named = |known: &&&str| {
        let joined = known.replace('_', "");
        spoken.iter().any(|name| name.contains(**known) || name.replace('_', "").contains(&joined))
    };
    let longest = |names: &[&'static str]| names.iter().filter(named).max_by_key(|name| name.len()).copied();
    match (longest(&COMMON), longest(&COMMON_IN_TORCH)) {
        (Some(name), _) => ReferenceName::Torch(format!("torch.nn.functional.{name}")),
        (None, Some(name)) => ReferenceName::Torch(format!("torch.{name}")),
        (None, None) => ReferenceName::SameFile("what_is_right".to_owned()),
    }
}
