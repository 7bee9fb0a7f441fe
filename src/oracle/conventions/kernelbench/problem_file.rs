//! The file of a reference, as its text tells it: classes, functions, and the module-level numbers that decide
//! over sizes. Pure.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use crate::source::syntax::{Node, Walk, children, parse_tree, text_of, walk};
use crate::spec::AxisValues;

const MAKERS: [&str; 2] = ["get_inputs", "get_init_inputs"];

/// A file with `Model`, `get_inputs` and `get_init_inputs`, or some of them.
pub(super) struct ProblemFile {
    pub(super) path: PathBuf,
    text: String,
    classes: Vec<String>,
    functions: Vec<String>,
    /// Module-level names bound in another way: imports, assignments.
    others: BTreeSet<String>,
    /// `NAME = 16`, each time that it stands there.
    constants: Vec<Constant>,
    /// Names that the functions which make inputs depend on.
    used: BTreeSet<String>,
}

struct Constant {
    name: String,
    value: u64,
    /// Bytes of the number.
    range: Range<usize>,
}

impl ProblemFile {
    pub(super) fn new(path: PathBuf, text: String) -> Self {
        let mut file = Self {
            path,
            text: String::new(),
            classes: Vec::new(),
            functions: Vec::new(),
            others: BTreeSet::new(),
            constants: Vec::new(),
            used: BTreeSet::new(),
        };
        file.read(parse_tree(&text).root_node(), &text);
        file.text = text;
        file
    }

    fn read(&mut self, root: Node<'_>, text: &str) {
        // What each module-level name depends on.
        let mut behind: Vec<(String, BTreeSet<String>)> = Vec::new();
        for statement in children(root) {
            let defined = match statement.kind() {
                "decorated_definition" => statement.child_by_field_name("definition").unwrap_or(statement),
                _ => statement,
            };
            let name = defined.child_by_field_name("name").map(|name| text_of(name, text).to_owned());
            match (defined.kind(), name) {
                ("class_definition", Some(name)) => self.classes.push(name),
                ("function_definition", Some(name)) => {
                    behind.push((name.clone(), identifiers(defined, text)));
                    self.functions.push(name);
                }
                _ => self.read_assignment(defined, text, &mut behind),
            }
        }
        let mut waiting: Vec<String> = MAKERS.map(str::to_owned).to_vec();
        while let Some(name) = waiting.pop() {
            let needed = behind.iter().filter(|(known, _)| *known == name).flat_map(|(_, names)| names);
            let new: Vec<String> = needed.filter(|name| !self.used.contains(*name)).cloned().collect();
            self.used.extend(new.iter().cloned());
            waiting.extend(new);
        }
    }

    fn read_assignment(
        &mut self,
        statement: Node<'_>,
        text: &str,
        behind: &mut Vec<(String, BTreeSet<String>)>,
    ) {
        let names = identifiers(statement, text);
        let assignment = children(statement).into_iter().next().filter(|node| node.kind() == "assignment");
        let left = assignment.and_then(|node| node.child_by_field_name("left"));
        let right = assignment.and_then(|node| node.child_by_field_name("right"));
        let name = left.filter(|left| left.kind() == "identifier").map(|left| text_of(left, text).to_owned());
        let number = right.filter(|right| right.kind() == "integer").and_then(|right| {
            Some((text_of(right, text).replace('_', "").parse::<u64>().ok()?, right.byte_range()))
        });
        match (name, number) {
            (Some(name), Some((value, range))) => self.constants.push(Constant { name, value, range }),
            (Some(name), None) => {
                self.others.insert(name.clone());
                behind.push((name, names));
            }
            _ if is_main(statement, text) => {}
            _ => {
                // `a, b = 1, 2`, imports, branches: each name that they bind may depend on each other one.
                let bound = bound_names(statement, text);
                behind.extend(bound.iter().map(|name| (name.clone(), names.clone())));
                self.others.extend(bound);
            }
        }
    }

    pub(super) fn has_class(&self, name: &str) -> bool {
        self.classes.iter().any(|class| class == name)
    }

    pub(super) fn has_function(&self, name: &str) -> bool {
        self.functions.iter().any(|function| function == name) || self.others.contains(name)
    }

    /// The file's name, for people.
    pub(super) fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// What keeps the file from being a problem of this class, with the remedy.
    pub(super) fn problem(&self, class: &str) -> Option<String> {
        let file = self.name();
        if !self.has_class(class) && !self.others.contains(class) {
            return Some(format!(
                "{file} has no module-level class `{class}`; name the one that says what is right"
            ));
        }
        let missing = MAKERS.into_iter().find(|name| !self.has_function(name))?;
        let what = match missing {
            "get_inputs" => "which returns the list of tensors that `forward` gets",
            _ => "which returns the list of arguments of the constructor, `[]` for none",
        };
        Some(format!("{file} has no function `{missing}`; add `def {missing}():`, {what}"))
    }

    /// Why the comment cannot give this name another value, with the remedy.
    pub(super) fn why_not_replaceable(&self, name: &str) -> Option<String> {
        let file = self.name();
        let count = self.constants.iter().filter(|constant| constant.name == name).count();
        let is_other = self.others.contains(name);
        if count == 1 && !is_other {
            return None;
        }
        if count > 1 || (count == 1 && is_other) {
            return Some(format!("`{name}` is assigned several times in {file}; keep one `{name} = …`"));
        }
        if is_other {
            return Some(format!(
                "`{name}` in {file} is no plain whole number; only `{name} = 16` on a line of its own can be changed"
            ));
        }
        let known: Vec<String> = self.sizes().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(" ") };
        Some(format!(
            "{file} has no module-level number `{name}` that the comment could change; those that get_inputs and \
             get_init_inputs use: {known}"
        ))
    }

    /// The numbers that the makers of inputs use.
    pub(super) fn sizes(&self) -> AxisValues {
        let used = self.constants.iter().filter(|constant| self.used.contains(&constant.name));
        used.map(|constant| (constant.name.clone(), constant.value)).collect()
    }

    /// The text with other numbers; lines stay where they are.
    pub(super) fn with(&self, values: &AxisValues) -> String {
        let mut text = self.text.clone();
        // From the end, so that earlier places stay right.
        for constant in self.constants.iter().rev() {
            if let Some(value) = values.get(&constant.name) {
                text.replace_range(constant.range.clone(), &value.to_string());
            }
        }
        text
    }
}

fn identifiers(node: Node<'_>, text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    walk(node, |node| {
        if node.kind() == "identifier" {
            names.insert(text_of(node, text).to_owned());
        }
        Walk::Into
    });
    names
}

/// Names that a statement binds, also within branches and loops.
fn bound_names(statement: Node<'_>, text: &str) -> BTreeSet<String> {
    if statement.kind().starts_with("import") {
        return identifiers(statement, text);
    }
    let mut names = BTreeSet::new();
    walk(statement, |node| match node.kind() {
        "assignment" | "augmented_assignment" | "for_statement" => {
            names.extend(
                node.child_by_field_name("left").into_iter().flat_map(|left| identifiers(left, text)),
            );
            Walk::Into
        }
        "import_statement" | "import_from_statement" => {
            names.extend(identifiers(node, text));
            Walk::Skip
        }
        "function_definition" | "class_definition" => {
            names.extend(node.child_by_field_name("name").map(|name| text_of(name, text).to_owned()));
            Walk::Skip
        }
        "lambda" => Walk::Skip,
        _ => Walk::Into,
    });
    names
}

/// `if __name__ == "__main__":`, which an import does not run.
fn is_main(statement: Node<'_>, text: &str) -> bool {
    let condition = statement.child_by_field_name("condition");
    statement.kind() == "if_statement"
        && condition.is_some_and(|condition| text_of(condition, text).contains("__name__"))
}
