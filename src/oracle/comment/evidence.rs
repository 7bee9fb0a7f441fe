//! What the code of a function says of its tensors, read off its text.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{leftmost, origin_of};
use super::parse::is_identifier;
use crate::source::syntax::{Node, Walk, children, text_of, walk};

/// Members that only tensors have.
const OF_TENSORS: [&str; 22] = [
    "clone",
    "contiguous",
    "data_ptr",
    "device",
    "dim",
    "dtype",
    "element_size",
    "flatten",
    "is_contiguous",
    "is_cuda",
    "ndim",
    "new_empty",
    "numel",
    "reshape",
    "shape",
    "size",
    "squeeze",
    "stride",
    "to",
    "transpose",
    "unsqueeze",
    "view",
];
/// Functions of torch that make a tensor like their argument.
const LIKE: [&str; 4] = ["torch.empty_like", "torch.zeros_like", "torch.ones_like", "torch.full_like"];

/// A dimension of a tensor; from behind when negative.
type Slot = (String, i64);

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Evidence {
    /// `rows, _ = x.shape`
    unpacked: BTreeMap<String, Vec<Option<String>>>,
    /// `rows = x.shape[0]`
    named: BTreeMap<Slot, String>,
    /// `x.shape[1]`, `x.stride(-1)`: that they exist.
    indexed: BTreeSet<Slot>,
    /// `x.dim() == 2`
    ranks: BTreeMap<String, usize>,
    /// `x.numel()`, and what is made like it: any shape will do.
    flat: BTreeSet<String>,
    tensors: BTreeSet<String>,
    /// `ids.long()`, `ids.dtype == torch.int32`
    whole: BTreeSet<String>,
    /// `a.shape[1] == b.shape[0]`
    equal: Vec<(Slot, Slot)>,
    /// `x.shape == y.shape`
    same_shape: Vec<(String, String)>,
}

impl Evidence {
    pub(super) fn of(function: Node<'_>, text: &str) -> Self {
        let mut evidence = Self::default();
        walk(function, |node| {
            match node.kind() {
                "assignment" => evidence.note_assignment(node, text),
                "comparison_operator" => evidence.note_comparison(node, text),
                "attribute" => evidence.note_member(node, text),
                "call" => evidence.note_call(node, text),
                "subscript" => evidence.indexed.extend(slot(text_of(node, text))),
                _ => {}
            }
            Walk::Into
        });
        evidence
    }

    pub(super) fn is_tensor(&self, name: &str) -> bool {
        self.tensors.contains(name) || self.flat.contains(name)
    }

    pub(super) fn is_whole(&self, name: &str) -> bool {
        self.whole.contains(name)
    }

    /// Its dimensions, each with its name where it has one; `None` when nothing tells how many there are.
    pub(super) fn dims(&self, name: &str) -> Option<Vec<Option<String>>> {
        let of_tensor = self.indexed.iter().filter(|(tensor, _)| tensor == name).map(|(_, at)| *at);
        let from_front = of_tensor.clone().filter(|at| *at >= 0).max().map(|at| at + 1);
        // Where only the last ones are looked at, there may be any number before them: one is.
        let from_behind = of_tensor.filter(|at| *at < 0).min().map(|at| (-at).max(2));
        let told = self.ranks.get(name).copied().or(self.unpacked.get(name).map(Vec::len));
        let indexed = from_front.max(from_behind).and_then(|rank| usize::try_from(rank).ok());
        let flat = self.flat.contains(name).then_some(1);
        let of_same = || {
            let pairs = self.same_shape.iter().flat_map(|(one, other)| [(one, other), (other, one)]);
            pairs
                .filter(|(one, _)| *one == name)
                .find_map(|(_, other)| self.unpacked.get(other).map(Vec::len))
        };
        let rank = told.or(indexed).or_else(of_same).or(flat)?;
        let mut dims = vec![None; rank];
        for (at, dim) in dims.iter_mut().enumerate() {
            let unpacked = self.unpacked.get(name).and_then(|names| names.get(at)).cloned().flatten();
            let (from_front, from_behind) =
                (i64::try_from(at).ok()?, i64::try_from(at).ok()? - i64::try_from(rank).ok()?);
            let named = |at| self.named.get(&(name.to_owned(), at)).cloned();
            *dim = unpacked.or_else(|| named(from_front)).or_else(|| named(from_behind));
        }
        Some(dims)
    }

    /// Gives dimensions that the code compares one name.
    pub(super) fn equate<'a>(&self, tensors: impl Iterator<Item = (&'a str, &'a mut Vec<Option<String>>)>) {
        let mut tensors: Vec<_> = tensors.collect();
        let whole_shapes = self
            .same_shape
            .iter()
            .flat_map(|(one, other)| (0..16).map(move |at| ((one.clone(), at), (other.clone(), at))));
        let pairs: Vec<(Slot, Slot)> = self.equal.iter().cloned().chain(whole_shapes).collect();
        // A name may have to travel along as many pairs as there are.
        for (one, other) in std::iter::repeat_n(&pairs, pairs.len().min(8)).flatten() {
            let place = |slot: &Slot, tensors: &[(&str, &mut Vec<Option<String>>)]| {
                let tensor = tensors.iter().position(|(name, _)| *name == slot.0)?;
                let rank = i64::try_from(tensors[tensor].1.len()).ok()?;
                let at = usize::try_from(if slot.1 < 0 { slot.1 + rank } else { slot.1 }).ok()?;
                (at < tensors[tensor].1.len()).then_some((tensor, at))
            };
            let (Some(one), Some(other)) = (place(one, &tensors), place(other, &tensors)) else { continue };
            let names = [one, other].map(|(tensor, at)| tensors[tensor].1[at].clone());
            match names {
                [Some(name), None] => tensors[other.0].1[other.1] = Some(name),
                [None, Some(name)] => tensors[one.0].1[one.1] = Some(name),
                [Some(kept), Some(renamed)] if kept != renamed => {
                    let dims = tensors.iter_mut().flat_map(|(_, dims)| dims.iter_mut());
                    dims.filter(|dim| dim.as_ref() == Some(&renamed))
                        .for_each(|dim| *dim = Some(kept.clone()));
                }
                _ => {}
            }
        }
    }

    fn note_assignment(&mut self, node: Node<'_>, text: &str) {
        let (Some(left), Some(right)) = (node.child_by_field_name("left"), node.child_by_field_name("right"))
        else {
            return;
        };
        let lefts = if left.kind() == "pattern_list" { children(left) } else { vec![left] };
        if let Some(tensor) = whole_shape(text_of(right, text)) {
            let has_star = lefts.iter().any(|name| name.kind() != "identifier");
            if left.kind() == "pattern_list" && !has_star {
                let names = lefts.iter().map(|name| text_of(*name, text));
                let names = names.map(|name| (!name.starts_with('_')).then(|| name.to_owned())).collect();
                self.unpacked.insert(tensor.to_owned(), names);
            }
            return;
        }
        let rights = if right.kind() == "expression_list" { children(right) } else { vec![right] };
        if lefts.len() != rights.len() {
            return;
        }
        for (name, value) in lefts.into_iter().zip(rights) {
            let name = text_of(name, text);
            if let Some(slot) =
                slot(text_of(value, text)).filter(|_| is_identifier(name) && !name.starts_with('_'))
            {
                self.named.entry(slot).or_insert_with(|| name.to_owned());
            }
        }
    }

    fn note_comparison(&mut self, node: Node<'_>, text: &str) {
        let sides = children(node);
        let [left, right] = sides.as_slice() else { return };
        let (left, right) = (text_of(*left, text), text_of(*right, text));
        if !text_of(node, text).contains("==") {
            return;
        }
        for (one, other) in [(left, right), (right, left)] {
            let rank = one.strip_suffix(".dim()").or_else(|| one.strip_suffix(".ndim"));
            let rank = rank.or_else(|| one.strip_prefix("len(")?.strip_suffix(".shape)"));
            if let (Some(tensor), Ok(rank)) = (rank, other.parse()) {
                self.ranks.insert(tensor.to_owned(), rank);
            }
            if let Some(tensor) = one.strip_suffix(".dtype")
                && ["int", "long", "bool"].iter().any(|word| other.contains(word))
            {
                self.whole.insert(tensor.to_owned());
            }
        }
        if let (Some(one), Some(other)) = (slot(left), slot(right)) {
            self.equal.push((one, other));
        }
        if let (Some(one), Some(other)) = (whole_shape(left), whole_shape(right)) {
            self.same_shape.push((one.to_owned(), other.to_owned()));
        }
    }

    fn note_member(&mut self, node: Node<'_>, text: &str) {
        let Some((tensor, member)) = text_of(node, text).rsplit_once('.') else { return };
        if OF_TENSORS.contains(&member) {
            self.tensors.insert(tensor.to_owned());
        }
        match member {
            "numel" => self.flat.insert(tensor.to_owned()),
            "long" | "int" | "bool" => self.whole.insert(tensor.to_owned()),
            _ => false,
        };
    }

    fn note_call(&mut self, node: Node<'_>, text: &str) {
        self.indexed.extend(slot(text_of(node, text)));
        let function = node.child_by_field_name("function").map_or("", |name| text_of(name, text));
        let first = node.child_by_field_name("arguments").and_then(|list| children(list).into_iter().next());
        if let Some(first) = first.filter(|_| LIKE.contains(&function)) {
            self.tensors.insert(text_of(first, text).to_owned());
        }
    }
}

/// `x` of `x.shape` and `x.size()`.
fn whole_shape(expression: &str) -> Option<&str> {
    let tensor = expression.strip_suffix(".shape").or_else(|| expression.strip_suffix(".size()"))?;
    is_identifier(tensor).then_some(tensor)
}

/// `x.shape[1]`, `x.stride(-1)`, `x.size(0)`.
fn slot(expression: &str) -> Option<Slot> {
    for (member, close) in [(".shape[", ']'), (".stride(", ')'), (".size(", ')')] {
        let Some((tensor, rest)) = expression.split_once(member) else { continue };
        let index = rest.strip_suffix(close)?.trim().parse::<i64>().ok()?;
        return (is_identifier(tensor) && (-8..8).contains(&index)).then(|| (tensor.to_owned(), index));
    }
    None
}

/// Pointers of a kernel from whose values addresses are made: they hold whole numbers.
pub(super) fn holds_whole_numbers(kernel: Node<'_>, text: &str) -> BTreeSet<String> {
    // What the value of a name was made from: names of pointers that were loaded from.
    let mut made_from: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut pointers: BTreeMap<String, String> = BTreeMap::new();
    let mut whole: BTreeSet<String> = BTreeSet::new();
    // Twice, for what a loop carries from its end to its beginning.
    for _ in 0..2 {
        walk(kernel, |node| {
            match node.kind() {
                "assignment" | "augmented_assignment" => {
                    let (left, right) = (node.child_by_field_name("left"), node.child_by_field_name("right"));
                    if let (Some(left), Some(right)) = (left, right) {
                        let origins = origins(right, text, &made_from);
                        if let Some(pointer) = leftmost(right, text) {
                            pointers.entry(text_of(left, text).to_owned()).or_insert(pointer);
                        }
                        made_from.entry(text_of(left, text).to_owned()).or_default().extend(origins);
                    }
                }
                "call" => {
                    if let Some((_, address)) = access(node, text) {
                        whole.extend(origins(address, text, &made_from));
                    }
                }
                _ => {}
            }
            Walk::Into
        });
    }
    whole.iter().map(|name| origin_of(name, &pointers)).collect()
}

/// What the value of an expression was loaded from.
fn origins(
    expression: Node<'_>,
    text: &str,
    made_from: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(expression, |node| {
        match node.kind() {
            "identifier" => found.extend(made_from.get(text_of(node, text)).into_iter().flatten().cloned()),
            "call" => {
                if let Some(("load", address)) = access(node, text) {
                    found.extend(leftmost(address, text));
                    // Its address is not its value.
                    return Walk::Skip;
                }
            }
            _ => {}
        }
        Walk::Into
    });
    found
}

/// A call that reads or writes memory, and its address.
fn access<'tree, 'text>(call: Node<'tree>, text: &'text str) -> Option<(&'text str, Node<'tree>)> {
    let function = call.child_by_field_name("function").map(|name| text_of(name, text))?;
    let name = function.rsplit('.').next()?;
    let is_access = matches!(name, "load" | "store") || name.starts_with("atomic_");
    let arguments = call.child_by_field_name("arguments").filter(|_| is_access)?;
    Some((name, children(arguments).into_iter().next()?))
}
