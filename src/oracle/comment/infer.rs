//! What the code of a function shows of its inputs, as the comment that would say it. Stricter than a draft, which a
//! person corrects: what is not shown is an error, and whole numbers are never made up.
//!
//! It still is a guess, and whoever uses it must see the function run on such inputs without a fault.

use std::collections::BTreeSet;

use super::draft::{Uses, passed};
use super::evidence::{Evidence, holds_whole_numbers};
use super::grammar::{Comment, Dim, Item, Literal, Tensor, Value};
use super::parse::{Parsed, RESERVED};
use crate::source::syntax::{Node, Walk, children, parse_tree, text_of, walk};
use crate::source::{Kernel, LaunchContext, SourceModel};
use crate::spec::Dtype;

/// Names for dimensions that the code gives none.
const AXES: [&str; 8] = ["M", "N", "K", "L", "P", "Q", "R", "S"];
/// More axes than this would be more cases than anyone waits for.
const MOST_AXES: usize = 6;
const DTYPES: [Dtype; 2] = [Dtype::Float32, Dtype::Float16];
/// Words in the name of a tensor of whole numbers or truth values.
const WHOLE_WORDS: [&str; 24] = [
    "id",
    "ids",
    "idx",
    "index",
    "indexes",
    "indices",
    "label",
    "labels",
    "len",
    "length",
    "lengths",
    "lens",
    "mask",
    "offset",
    "offsets",
    "perm",
    "pos",
    "positions",
    "seqlens",
    "slots",
    "table",
    "target",
    "targets",
    "tokens",
];

/// A tensor parameter while its dimensions are looked for.
struct Sketch {
    name: String,
    out: bool,
    /// `None`: only its memory is passed on, so that its dimensions do not matter.
    dims: Option<Vec<Option<String>>>,
}

/// The comment, without a reference.
///
/// # Errors
/// What the code does not show, one sentence each.
pub(super) fn infer(text: &str, model: &SourceModel, entry: &str) -> Result<Parsed, Vec<String>> {
    let nothing = || vec!["it cannot be read".to_owned()];
    let tree = parse_tree(text);
    let known = model.function(entry).ok_or_else(nothing)?;
    let function = function_named_at(tree.root_node(), &known.name_range).ok_or_else(nothing)?;
    let evidence = Evidence::of(function, text);
    let kernels: Vec<Launched> = model
        .kernels
        .iter()
        .filter(|kernel| launches(kernel, entry))
        .filter_map(|kernel| Launched::new(kernel, tree.root_node(), function, text))
        .collect();
    let mut unknown = Vec::new();
    let mut tensors: Vec<Sketch> = Vec::new();
    let parameters = function.child_by_field_name("parameters").map(children).unwrap_or_default();
    for (node, name) in parameters.into_iter().zip(&known.parameters) {
        // What has a default keeps it, on both sides.
        if name.starts_with('*') || node.child_by_field_name("value").is_some() {
            continue;
        }
        let annotation = node.child_by_field_name("type").map_or("", |annotation| text_of(annotation, text));
        let pointers: Vec<(&Launched, &str)> = kernels
            .iter()
            .flat_map(|kernel| kernel.pointers(name).map(move |pointer| (kernel, pointer)))
            .collect();
        if pointers.is_empty() && !evidence.is_tensor(name) && !annotation.contains("Tensor") {
            unknown.push(format!("`{name}` has no default, and which value it takes is not known"));
            continue;
        }
        let is_whole = evidence.is_whole(name)
            || name.split('_').any(|word| WHOLE_WORDS.contains(&word.to_ascii_lowercase().as_str()))
            || pointers.iter().any(|(kernel, pointer)| kernel.whole.contains(*pointer));
        if is_whole {
            unknown.push(format!(
                "`{name}` seems to hold whole numbers, whose range is not known; none are made up"
            ));
            continue;
        }
        let out =
            !pointers.is_empty() && pointers.iter().all(|(kernel, pointer)| kernel.only_stores(pointer));
        let dims = evidence.dims(name);
        if dims.is_none() && pointers.is_empty() {
            unknown.push(format!("how many dimensions `{name}` has is not known"));
            continue;
        }
        tensors.push(Sketch { name: name.clone(), out, dims });
    }
    evidence
        .equate(tensors.iter_mut().filter_map(|sketch| Some((sketch.name.as_str(), sketch.dims.as_mut()?))));
    unknown.extend(complete(&mut tensors, &known.parameters));
    if unknown.is_empty() && !tensors.iter().any(|tensor| !tensor.out) {
        unknown.push("it takes no tensor".to_owned());
    }
    let items = items(&tensors).map_err(|why| vec![why]);
    if unknown.is_empty() { items.map(parsed) } else { Err(unknown) }
}

fn parsed(items: Vec<Item>) -> Parsed {
    Parsed { ranges: vec![0..0; items.len()], comment: Comment { items }, range: 0..0 }
}

/// Whether two comments ask for the same tensors, whatever their axes are called.
pub(super) fn same_inputs(one: &Parsed, other: &Parsed) -> bool {
    let form = |parsed: &Parsed| -> Vec<(String, bool, Vec<usize>)> {
        let mut axes: Vec<Dim> = Vec::new();
        let mut number = |dim: &Dim| {
            axes.iter().position(|known| known == dim).unwrap_or_else(|| {
                axes.push(dim.clone());
                axes.len() - 1
            })
        };
        let tensors = parsed.comment.items.iter().filter_map(|item| match &item.value {
            Value::Tensor(tensor) => Some((&item.key, tensor)),
            _ => None,
        });
        tensors
            .map(|(key, tensor)| (key.clone(), tensor.out, tensor.dims.iter().map(&mut number).collect()))
            .collect()
    };
    form(one) == form(other)
}

fn launches(kernel: &Kernel, entry: &str) -> bool {
    kernel.launches.iter().any(|site| site.context == LaunchContext::Function && site.function == entry)
}

fn function_named_at<'tree>(root: Node<'tree>, name: &std::ops::Range<usize>) -> Option<Node<'tree>> {
    let mut found = None;
    walk(root, |node| {
        if node.kind() == "function_definition"
            && node.child_by_field_name("name").is_some_and(|node| node.byte_range() == *name)
        {
            found = Some(node);
        }
        Walk::Into
    });
    found
}

/// A kernel that the function launches, and what the launch passes it.
struct Launched {
    uses: Uses,
    passed: Vec<(String, String)>,
    /// Pointers of whose values addresses are made.
    whole: BTreeSet<String>,
}

impl Launched {
    fn new(kernel: &Kernel, root: Node<'_>, function: Node<'_>, text: &str) -> Option<Self> {
        let body = function_named_at(root, &kernel.name_range)?;
        Some(Self {
            uses: Uses::of(body, text),
            passed: passed(text, function, kernel),
            whole: holds_whole_numbers(body, text),
        })
    }

    /// Parameters of the kernel that are pointers and take this argument.
    fn pointers<'a>(&'a self, argument: &'a str) -> impl Iterator<Item = &'a str> {
        let taking = self.passed.iter().filter(move |(_, passed)| passed == argument);
        taking.map(|(parameter, _)| parameter.as_str()).filter(|parameter| self.uses.is_pointer(parameter))
    }

    fn only_stores(&self, pointer: &str) -> bool {
        self.uses.stored.contains(pointer) && !self.uses.loaded.contains(pointer)
    }
}

/// Names the dimensions that the code leaves open; what may not be guessed is returned.
fn complete(tensors: &mut [Sketch], parameters: &[String]) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut used: BTreeSet<String> =
        tensors.iter().flat_map(|tensor| tensor.dims.iter().flatten().flatten()).cloned().collect();
    let mut fresh = || {
        let free =
            AXES.iter().find(|name| !used.contains(**name) && parameters.iter().all(|known| known != *name));
        let name = free.map_or_else(|| format!("A{}", used.len()), |name| (*name).to_owned());
        used.insert(name.clone());
        name
    };
    let mut complete: Vec<Vec<String>> = Vec::new();
    for tensor in tensors.iter_mut() {
        let Some(dims) = &mut tensor.dims else { continue };
        let is_open = |dim: &Option<String>| dim.is_none();
        if complete.is_empty() {
            // The first one sets the lengths.
            dims.iter_mut().filter(|dim| dim.is_none()).for_each(|dim| *dim = Some(fresh()));
        } else if !dims.is_empty() && dims.iter().all(is_open) {
            // The shape of another one, or of fewer dimensions its last ones: weights, biases.
            let alike = complete.iter().find(|known| known.len() == dims.len());
            match alike.or_else(|| complete.iter().find(|known| known.len() > dims.len())) {
                Some(known) => {
                    *dims = known[known.len() - dims.len()..].iter().cloned().map(Some).collect();
                }
                None => unknown.push(format!("the lengths of `{}` are not known", tensor.name)),
            }
        } else if let Some(at) = dims.iter().position(is_open) {
            unknown.push(format!("the length of dimension {at} of `{}` is not known", tensor.name));
        }
        complete.push(dims.iter().flatten().cloned().collect());
    }
    // Of what is only memory there is enough when it is as large as the largest: HEAD's own run must show it.
    let largest = complete.into_iter().max_by_key(Vec::len).unwrap_or_else(|| vec!["N".to_owned()]);
    for tensor in tensors.iter_mut().filter(|tensor| tensor.dims.is_none()) {
        tensor.dims = Some(largest.iter().cloned().map(Some).collect());
    }
    unknown
}

fn items(tensors: &[Sketch]) -> Result<Vec<Item>, String> {
    let keys: BTreeSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    // A name of ours, or of a parameter, cannot name an axis.
    let axis = |name: &String| {
        let is_taken =
            RESERVED.contains(&name.as_str()) || keys.contains(name.as_str()) || name.starts_with('_');
        if is_taken { format!("axis_{name}") } else { name.clone() }
    };
    let mut axes: Vec<String> = Vec::new();
    let mut items = Vec::new();
    for tensor in tensors {
        let dims: Vec<String> = tensor.dims.iter().flatten().flatten().map(axis).collect();
        for dim in &dims {
            if !axes.contains(dim) {
                axes.push(dim.clone());
            }
        }
        let dims = dims.into_iter().map(Dim::Axis).collect();
        let value = Value::Tensor(Tensor { out: tensor.out, dtypes: DTYPES.to_vec(), dims, profile: None });
        items.push(Item { key: tensor.name.clone(), value });
    }
    if axes.len() > MOST_AXES {
        return Err(format!("its tensors have {} different axes, more than are tried", axes.len()));
    }
    // The last axis of the first tensor is the one that kernels go along.
    let inner = tensors.first().and_then(|tensor| tensor.dims.iter().flatten().flatten().last()).map(axis);
    let lengths = |name: &String| -> &[i64] {
        match (axes.len(), Some(name) == inner.as_ref()) {
            (..=1, _) => &[1, 255, 1000, 4099],
            (2, true) => &[64, 255, 1000],
            (2, false) => &[1, 127],
            (_, true) => &[64, 100],
            (_, false) => &[1, 33],
        }
    };
    let of_axes = axes.iter().map(|name| {
        let lengths = lengths(name).iter().copied().map(Literal::Integer).collect();
        Item { key: name.clone(), value: Value::Scalars(lengths) }
    });
    items.extend(of_axes);
    Ok(items)
}
