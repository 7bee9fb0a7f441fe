//! What of a piece must be asked of the whole file: most calls and names have nothing to do with a kernel,
//! whatever stands elsewhere.

use std::collections::{HashMap, HashSet};

use super::scopes::{Bound, BoundTo, Call, Local, LocalScope, Needs, NodeIndex, Scope};
use super::syntax::{Node, Walk, text_of, walk};

/// Attributes that make a call matter by themselves: what decorates, what launches, what is wrapped.
const TELLING: [&str; 7] = ["jit", "autotune", "heuristics", "partial", "run", "warmup", "fn"];
/// How a method names its class.
const OWN_CLASS: [&str; 4] = ["self", "cls", "type(self)", "self.__class__"];

/// Notes the calls that may have to do with a kernel.
pub(super) fn sort_calls(calls: &[(LocalScope, Node<'_>)], text: &str, local: &mut Local) {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    for (scope, call) in calls {
        let Some(function) = call.child_by_field_name("function") else { continue };
        let found = match function.kind() {
            "identifier" => of_name(text_of(function, text), *scope, local),
            "attribute" => of_attribute(function, text, *scope, local),
            _ => Some(Wanted::Nothing),
        };
        let mut number = |name| {
            *numbers.entry(name).or_insert_with(|| {
                local.needed.push(name.to_owned());
                u32::try_from(local.needed.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let needs = match found {
            None => continue,
            Some(Wanted::Nothing) => Needs::Nothing,
            Some(Wanted::Bound(name)) => Needs::Bound(number(name)),
            Some(Wanted::Class(name)) => Needs::Class(number(name)),
        };
        local.calls.push(Call { scope: *scope, node: call.index(), needs });
    }
}

/// As [`Needs`], with names.
enum Wanted<'text> {
    Nothing,
    Bound(&'text str),
    Class(&'text str),
}

fn of_name<'text>(name: &'text str, scope: LocalScope, local: &Local) -> Option<Wanted<'text>> {
    match local.lookup(scope, name) {
        Some((_, bound)) => bound.iter().any(may_be_called).then_some(Wanted::Nothing),
        None => Some(Wanted::Bound(name)),
    }
}

fn of_attribute<'text>(
    callee: Node<'_>,
    text: &'text str,
    scope: LocalScope,
    local: &Local,
) -> Option<Wanted<'text>> {
    let object = callee.child_by_field_name("object")?;
    let attribute = text_of(callee.child_by_field_name("attribute")?, text);
    if TELLING.contains(&attribute) {
        return Some(Wanted::Nothing);
    }
    let name = text_of(object, text);
    if OWN_CLASS.contains(&name) {
        return local.enclosing_class(scope).map(|_| Wanted::Nothing);
    }
    if object.kind() != "identifier" {
        return None;
    }
    match local.lookup(scope, name) {
        Some((_, bound)) => bound.iter().any(is_class).then_some(Wanted::Nothing),
        None => Some(Wanted::Class(name)),
    }
}

/// Whether a call of what is bound may make, tune or launch a kernel, or call a function of the file.
pub(super) fn may_be_called(bound: &Bound) -> bool {
    match &bound.to {
        BoundTo::Import(path) => path.rsplit('.').next().is_some_and(|last| TELLING.contains(&last)),
        BoundTo::Function(_) | BoundTo::Value(_) | BoundTo::Element(_) => true,
        BoundTo::Class(_) | BoundTo::Parameter | BoundTo::Other => false,
    }
}

pub(super) fn is_class(bound: &Bound) -> bool {
    matches!(bound.to, BoundTo::Class(_))
}

/// Expressions of a function that may stand for another kernel: called, or passed as a function to combine
/// with. What the function binds itself comes from others of them.
pub(super) fn of_function(function: Node<'_>, text: &str, own: &Scope) -> Vec<NodeIndex> {
    let mut questions = Vec::new();
    let mut skipped = HashSet::new();
    let mut asked: HashSet<&str> = HashSet::new();
    let is_own = |name: &str| {
        let bound = own.names.get(name).into_iter().flatten();
        bound.clone().next().is_some()
            && !bound.into_iter().any(|bound| {
                matches!(bound.to, BoundTo::Function(_) | BoundTo::Class(_) | BoundTo::Import(_))
            })
    };
    walk(function, |node| {
        let is_question = match node.kind() {
            "keyword_argument" => {
                skipped.extend(node.child_by_field_name("name").map(|name| name.id()));
                false
            }
            "attribute" => {
                let attribute = node.child_by_field_name("attribute");
                skipped.extend(attribute.map(|name| name.id()));
                let object = node.child_by_field_name("object");
                attribute.is_some_and(|attribute| text_of(attribute, text) == "fn")
                    || object.is_some_and(|object| {
                        let name = text_of(object, text);
                        OWN_CLASS.contains(&name) || object.kind() == "identifier" && !is_own(name)
                    })
            }
            "identifier" => !skipped.contains(&node.id()) && !is_own(text_of(node, text)),
            _ => false,
        };
        if is_question && asked.insert(text_of(node, text)) {
            questions.push(node.index());
        }
        Walk::Into
    });
    questions
}
