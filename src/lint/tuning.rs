//! The decorator that tunes a kernel, and the configurations that it names.

use super::facts::{File, argument, keyword};
use crate::source::syntax::{Node, Walk, children, text_of, walk};

/// A list may be bound to a name, which may be bound to a call, and so on.
const MAX_STEPS: u32 = 6;

/// `@triton.autotune(…)`, or a wrapper of it whose name ends the same way.
pub(super) struct Tuning<'a, 'tree> {
    pub(super) call: Node<'tree>,
    /// Lists of parameter names: `key`, `reset_to_zero`, `restore_value`.
    pub(super) names: Vec<NameList<'a, 'tree>>,
    /// `triton.Config(…)` calls, also those in lists and functions of this file that the decorator names.
    pub(super) configs: Vec<Node<'tree>>,
    /// More than one configuration is tried, as far as the code shows. One alone is never measured.
    pub(super) measures: bool,
    /// A hook of the user's runs before each trial; what it resets is not known.
    pub(super) hooked: bool,
    /// Configurations are changed by code of the user's before they are used.
    pub(super) pruned: bool,
}

/// One of the lists of names of the decorator.
pub(super) struct NameList<'a, 'tree> {
    pub(super) option: &'static str,
    /// The strings in it; `None` when not all of it is literal.
    pub(super) entries: Option<Vec<NameEntry<'a, 'tree>>>,
    /// The list as written in the decorator.
    pub(super) node: Node<'tree>,
}

#[derive(Clone, Copy)]
pub(super) struct NameEntry<'a, 'tree> {
    pub(super) name: &'a str,
    pub(super) node: Node<'tree>,
}

impl<'a, 'tree> Tuning<'a, 'tree> {
    pub(super) fn list(&self, option: &str) -> Option<&NameList<'a, 'tree>> {
        self.names.iter().find(|list| list.option == option)
    }

    /// Whether a trial leaves this parameter as it found it, or nobody can tell.
    pub(super) fn protects(&self, parameter: &str, options: &[&str]) -> bool {
        self.hooked
            || options.iter().filter_map(|option| self.list(option)).any(|list| match &list.entries {
                Some(entries) => entries.iter().any(|entry| entry.name == parameter),
                None => true,
            })
    }
}

/// The tuning among the decorators of a `decorated_definition`.
pub(super) fn tuning<'a, 'tree>(file: &File<'a, 'tree>, whole: Node<'tree>) -> Option<Tuning<'a, 'tree>> {
    let mut decorators = children(whole).into_iter().filter(|node| node.kind() == "decorator");
    let call = decorators.find_map(|decorator| {
        let call = children(decorator).into_iter().next().filter(|node| node.kind() == "call")?;
        let callee = text_of(call.child_by_field_name("function")?, file.text);
        let name = callee.rsplit('.').next().unwrap_or(callee);
        name.ends_with("autotune").then_some(call)
    })?;
    let text = file.text;
    let names = ["key", "reset_to_zero", "restore_value"].into_iter();
    let names = names.filter_map(|option| {
        // `key` is the second parameter of `triton.autotune`; the others are given by name.
        let node = match option {
            "key" => argument(call, 1, option, text),
            _ => keyword(call, option, text),
        };
        let node = node.filter(|node| node.kind() != "none")?;
        Some(NameList { option, entries: entries(file, node, MAX_STEPS), node })
    });
    let configs_argument = argument(call, 0, "configs", text);
    let mut tuning = Tuning {
        call,
        names: names.collect(),
        configs: Vec::new(),
        measures: true,
        hooked: text_of(call, text).contains("pre_hook") || has_splat(call),
        pruned: keyword(call, "prune_configs_by", text).is_some(),
    };
    if let Some(configs) = configs_argument {
        collect(file, configs, &mut tuning, MAX_STEPS);
        tuning.measures = measures(file, configs, MAX_STEPS);
    }
    tuning.hooked |= tuning.configs.iter().any(|config| text_of(*config, text).contains("pre_hook"));
    Some(tuning)
}

/// `**options` may hold a hook or a list of names; of `**cache_options` everybody knows that they do not.
fn has_splat(call: Node<'_>) -> bool {
    let arguments = call.child_by_field_name("arguments").map(children).unwrap_or_default();
    arguments.iter().any(|node| node.kind() == "list_splat")
}

/// The strings of a list or tuple, also behind a name.
fn entries<'a, 'tree>(
    file: &File<'a, 'tree>,
    node: Node<'tree>,
    steps: u32,
) -> Option<Vec<NameEntry<'a, 'tree>>> {
    match node.kind() {
        "list" | "tuple" | "set" => children(node)
            .into_iter()
            .map(|entry| Some(NameEntry { name: plain_string(entry, file.text)?, node: entry }))
            .collect(),
        "identifier" if steps > 0 => {
            let (_, value) = file.constant(text_of(node, file.text))?;
            entries(file, value, steps - 1)
        }
        _ => None,
    }
}

/// The value of a string literal without prefix, escapes or parts.
pub(super) fn plain_string<'a>(node: Node<'_>, text: &'a str) -> Option<&'a str> {
    let written = Some(node).filter(|node| node.kind() == "string").map(|node| text_of(node, text))?;
    let inner = written
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .or_else(|| written.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')))?;
    (!inner.contains(['\\', '"', '\''])).then_some(inner)
}

/// Every `Config(…)` of an expression, through names and functions of this file.
fn collect<'tree>(file: &File<'_, 'tree>, node: Node<'tree>, tuning: &mut Tuning<'_, 'tree>, steps: u32) {
    walk(node, |inner| {
        if inner.kind() != "call" {
            return Walk::Into;
        }
        let callee = inner.child_by_field_name("function").map(|node| text_of(node, file.text));
        let callee = callee.unwrap_or_default();
        if matches!(callee, "triton.Config" | "Config") {
            tuning.configs.push(inner);
        } else if steps > 0
            && let Some(function) = file.function(callee)
        {
            collect(file, function, tuning, steps - 1);
        }
        Walk::Into
    });
    if node.kind() == "identifier"
        && steps > 0
        && let Some((_, value)) = file.constant(text_of(node, file.text))
    {
        collect(file, value, tuning, steps - 1);
    }
}

/// Whether more than one configuration may be tried.
fn measures<'tree>(file: &File<'_, 'tree>, node: Node<'tree>, steps: u32) -> bool {
    match node.kind() {
        "list" | "tuple" => {
            let elements = children(node);
            elements.len() > 1 || elements.iter().any(|element| element.kind() == "list_splat")
        }
        "identifier" if steps > 0 => match file.constant(text_of(node, file.text)) {
            Some((_, value)) => measures(file, value, steps - 1),
            None => true,
        },
        _ => true,
    }
}
