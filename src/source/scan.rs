//! Reads one piece of a tree.

use super::functions::parameters;
use super::hash::{Meaning, meaning};
use super::scopes::{
    Bound, BoundTo, Function, Local, LocalScope, MODULE, NodeIndex, Scope, ScopeKind, Statement, Text,
};
use super::syntax::{Node, Step, Walk, children, first_error, text_of, walk, walk_with_leave};
use super::tree::Tree;
use super::{questions, strings};

/// Reads a piece of a tree; `text` is that of the whole tree.
pub(super) fn read(tree: &Tree, place: usize, text: &str) -> Local {
    let mut scanner = Scanner {
        text,
        local: Local {
            scopes: vec![Scope::new(ScopeKind::Module, MODULE, String::new())],
            functions: Vec::new(),
            statements: Vec::new(),
            calls: Vec::new(),
            needed: Vec::new(),
            bound: Vec::new(),
            texts: Vec::new(),
            imports: Vec::new(),
            first_error: None,
            main_blocks: Vec::new(),
        },
        calls: Vec::new(),
        open: vec![(MODULE, None)],
        top: 0,
        decorated: None,
    };
    let statements: Vec<Node<'_>> = tree.statements(place).collect();
    for statement in &statements {
        scanner.top = statement.index();
        walk_with_leave(*statement, &mut |step| {
            match step {
                Step::Enter(node) => scanner.enter(node),
                Step::Leave(node) => scanner.leave(node),
            }
            Walk::Into
        });
    }
    let (calls, mut local) = (scanner.calls, scanner.local);
    local.bound.sort_by_key(|(_, bound)| bound.name);
    questions::sort_calls(&calls, text, &mut local);
    note_functions(tree, place, text, &mut local);
    note_error(tree, place, &statements, &mut local);
    for statement in statements.into_iter().filter(|node| node.kind() != "comment") {
        local.imports.extend(imports(statement, text));
        note_statement(statement, text, &mut local);
    }
    for (name, bound) in &local.bound {
        let BoundTo::Value(value) = bound.to else { continue };
        if let Some(found) = strings::value(tree.node(place, value), text) {
            local.texts.push(Text { name: name.clone(), value: found, node: value, bound_at: bound.name });
        }
    }
    local
}

fn note_functions(tree: &Tree, place: usize, text: &str, local: &mut Local) {
    let node = |index| tree.node(place, index);
    for function in &mut local.functions {
        let Some(scope) = local.scopes.get(function.scope as usize) else { continue };
        function.meaning = meaning(node(function.whole), text, Some((node(function.node), scope)));
        function.questions = questions::of_function(node(function.node), text, scope);
    }
}

fn note_error(tree: &Tree, place: usize, statements: &[Node<'_>], local: &mut Local) {
    let Some(piece) = tree.piece(place).filter(|piece| piece.has_error()) else { return };
    let start = tree.start(place);
    let in_nodes = statements.iter().find_map(|statement| first_error(*statement));
    let error = in_nodes.map(|range| range.start - start..range.end - start);
    local.first_error = error.or_else(|| Some(0..piece.text().len()));
}

fn note_statement(statement: Node<'_>, text: &str, local: &mut Local) {
    let own = local.functions.iter().find(|function| function.whole == statement.index());
    let meaning = own.map_or_else(|| meaning(statement, text, None), |function| function.meaning.clone());
    let block = statement.child_by_field_name("consequence");
    let is_main = block.is_some_and(|block| local.in_main(block.index()));
    let defines = matches!(
        statement.kind(),
        "function_definition"
            | "class_definition"
            | "decorated_definition"
            | "import_statement"
            | "import_from_statement"
    );
    let acts = !defines && !is_main;
    local.statements.push(Statement { node: statement.index(), is_main, acts, meaning });
}

fn imports(statement: Node<'_>, text: &str) -> Vec<String> {
    let mut imports = Vec::new();
    let top_level = |module: Node<'_>| match text_of(module, text).split('.').next().unwrap_or_default() {
        "" => ".".to_owned(),
        name => name.trim().to_owned(),
    };
    walk(statement, |node| match node.kind() {
        "import_statement" => {
            let modules = children(node).into_iter();
            imports.extend(modules.map(|item| top_level(item.child_by_field_name("name").unwrap_or(item))));
            Walk::Skip
        }
        "import_from_statement" => {
            imports.extend(node.child_by_field_name("module_name").map(top_level));
            Walk::Skip
        }
        _ => Walk::Into,
    });
    imports
}

struct Scanner<'tree, 'text> {
    text: &'text str,
    local: Local,
    calls: Vec<(LocalScope, Node<'tree>)>,
    /// Scopes entered and the nodes that opened them.
    open: Vec<(LocalScope, Option<NodeIndex>)>,
    top: NodeIndex,
    /// The last `decorated_definition` entered.
    decorated: Option<Node<'tree>>,
}

fn indices(nodes: Vec<Node<'_>>) -> Vec<NodeIndex> {
    nodes.into_iter().map(|node| node.index()).collect()
}

impl<'tree> Scanner<'tree, '_> {
    fn current(&self) -> LocalScope {
        self.open.last().map_or(MODULE, |(scope, _)| *scope)
    }

    /// Where `name := value` binds.
    fn around_comprehension(&self) -> LocalScope {
        let current = self.current();
        let kind = self.local.scopes.get(current as usize).map(|scope| scope.kind);
        if kind == Some(ScopeKind::Comprehension) { MODULE } else { current }
    }

    fn scope(&mut self, scope: LocalScope) -> &mut Scope {
        &mut self.local.scopes[scope as usize]
    }

    fn text(&self, node: Node<'_>) -> String {
        text_of(node, self.text).to_owned()
    }

    fn bind(&mut self, scope: LocalScope, name_node: Node<'tree>, to: BoundTo) {
        self.bind_name(scope, self.text(name_node), name_node, to);
    }

    fn bind_name(&mut self, scope: LocalScope, name: String, at: Node<'tree>, to: BoundTo) {
        let bound = Bound { to, top: self.top, name: at.index() };
        match scope {
            MODULE => self.local.bound.push((name, bound)),
            _ => self.scope(scope).names.entry(name).or_default().push(bound),
        }
    }

    fn enter(&mut self, node: Node<'tree>) {
        match node.kind() {
            "decorated_definition" => self.decorated = Some(node),
            "function_definition" => self.enter_function(node),
            "class_definition" => self.enter_class(node),
            "lambda" => self.enter_lambda(node),
            "list_comprehension"
            | "set_comprehension"
            | "dictionary_comprehension"
            | "generator_expression"
                if self.current() == MODULE =>
            {
                self.open(ScopeKind::Comprehension, "", node);
            }
            "import_statement" => self.import(node),
            "import_from_statement" => self.import_from(node),
            "assignment" => self.assignment(node),
            "augmented_assignment" => {
                self.bind_targets(node.child_by_field_name("left"), |_| BoundTo::Other);
            }
            "named_expression" => {
                if let (Some(name), Some(value)) =
                    (node.child_by_field_name("name"), node.child_by_field_name("value"))
                {
                    self.bind(self.around_comprehension(), name, BoundTo::Value(value.index()));
                }
            }
            "for_statement" | "for_in_clause" => {
                let Some(values) = node.child_by_field_name("right") else { return };
                let values = values.index();
                self.bind_targets(node.child_by_field_name("left"), |_| BoundTo::Element(values));
            }
            "as_pattern_target" => self.bind_targets(Some(node), |_| BoundTo::Other),
            "global_statement" => self.declare_global(node),
            "return_statement" => self.returned(node),
            "call" => self.calls.push((self.current(), node)),
            "if_statement" => self.note_main_block(node),
            _ => {}
        }
    }

    fn leave(&mut self, node: Node<'tree>) {
        if self.open.last().is_some_and(|(_, opener)| *opener == Some(node.index())) {
            self.open.pop();
        }
    }

    fn open(&mut self, kind: ScopeKind, name: &str, opener: Node<'tree>) -> LocalScope {
        let parent = self.current();
        let around = &self.scope(parent).qualified;
        let qualified = if around.is_empty() { name.to_owned() } else { format!("{around}.{name}") };
        let id = u32::try_from(self.local.scopes.len()).unwrap_or(u32::MAX);
        self.local.scopes.push(Scope::new(kind, parent, qualified));
        self.open.push((id, Some(opener.index())));
        id
    }

    fn enter_function(&mut self, node: Node<'tree>) {
        let Some(name_node) = node.child_by_field_name("name") else { return };
        let (name, defined_in) = (self.text(name_node), self.current());
        let id = u32::try_from(self.local.functions.len()).unwrap_or(u32::MAX);
        self.bind(defined_in, name_node, BoundTo::Function(id));
        let scope = self.open(ScopeKind::Function(id), &name, node);
        let parameters = parameters(node, self.text);
        for parameter in &parameters {
            let name = parameter.name.trim_start_matches('*').to_owned();
            self.bind_name(scope, name, node, BoundTo::Parameter);
        }
        let decorated = self.decorated.filter(|decorated| {
            decorated.child_by_field_name("definition").is_some_and(|inner| inner.id() == node.id())
        });
        let mut decorators = decorated.map(children).unwrap_or_default();
        decorators.retain(|child| child.kind() == "decorator");
        let qualified = self.scope(scope).qualified.clone();
        self.local.functions.push(Function {
            qualified,
            name,
            node: node.index(),
            whole: decorated.unwrap_or(node).index(),
            name_node: name_node.index(),
            decorators: indices(decorators),
            defined_in,
            scope,
            top: self.top,
            returns: Vec::new(),
            parameters,
            meaning: Meaning::default(),
            questions: Vec::new(),
        });
    }

    fn enter_class(&mut self, node: Node<'tree>) {
        let Some(name_node) = node.child_by_field_name("name") else { return };
        let bases = node.child_by_field_name("superclasses").map(children).unwrap_or_default();
        let name = self.text(name_node);
        let defined_in = self.current();
        let scope = self.open(ScopeKind::Class, &name, node);
        self.scope(scope).bases = indices(bases);
        self.bind(defined_in, name_node, BoundTo::Class(scope));
    }

    fn enter_lambda(&mut self, node: Node<'tree>) {
        let scope = self.open(ScopeKind::Lambda, "<lambda>", node);
        let Some(list) = node.child_by_field_name("parameters") else { return };
        for parameter in children(list) {
            let name = parameter.child_by_field_name("name").unwrap_or(parameter);
            self.bind(scope, name, BoundTo::Parameter);
        }
    }

    fn import(&mut self, node: Node<'tree>) {
        for item in children(node) {
            let alias = item.child_by_field_name("alias");
            let module = self.text(item.child_by_field_name("name").unwrap_or(item));
            match alias {
                Some(alias) => self.bind(self.current(), alias, BoundTo::Import(module)),
                None => {
                    let first = module.split('.').next().unwrap_or_default().to_owned();
                    let to = BoundTo::Import(first.clone());
                    self.bind_name(self.current(), first, item, to);
                }
            }
        }
    }

    fn import_from(&mut self, node: Node<'tree>) {
        let Some(module_node) = node.child_by_field_name("module_name") else { return };
        let module = self.text(module_node);
        for item in children(node).into_iter().filter(|item| item.id() != module_node.id()) {
            if item.kind() == "wildcard_import" {
                let names: &[&str] =
                    if module == "triton" { &["jit", "autotune", "heuristics"] } else { &[] };
                for name in names {
                    let to = BoundTo::Import(format!("{module}.{name}"));
                    self.bind_name(self.current(), (*name).to_owned(), item, to);
                }
                continue;
            }
            let name = item.child_by_field_name("name").unwrap_or(item);
            let path = format!("{module}.{}", text_of(name, self.text));
            let bound_name = item.child_by_field_name("alias").unwrap_or(name);
            self.bind(self.current(), bound_name, BoundTo::Import(path));
        }
    }

    fn assignment(&mut self, node: Node<'tree>) {
        let (left, right) = (node.child_by_field_name("left"), node.child_by_field_name("right"));
        // `NAME: type` binds nothing, but a kernel may read what it says (hash).
        let Some(value) = right else {
            return self.bind_targets(left, |_| BoundTo::Other);
        };
        let Some(left) = left else { return };
        if left.kind() == "attribute" {
            return self.assign_attribute(left, value);
        }
        let targets = children(left);
        let values = children(value);
        let pairwise = matches!(left.kind(), "pattern_list" | "tuple_pattern")
            && matches!(value.kind(), "expression_list" | "tuple")
            && targets.len() == values.len();
        if pairwise {
            for (target, value) in targets.into_iter().zip(values) {
                self.bind_targets(Some(target), |_| BoundTo::Value(value.index()));
            }
        } else if left.kind() == "identifier" {
            self.bind(self.current(), left, BoundTo::Value(value.index()));
        } else {
            self.bind_targets(Some(left), |_| BoundTo::Other);
        }
    }

    fn assign_attribute(&mut self, left: Node<'tree>, value: Node<'tree>) {
        let (Some(object), Some(attribute)) =
            (left.child_by_field_name("object"), left.child_by_field_name("attribute"))
        else {
            return;
        };
        let scope = self.current();
        if matches!(text_of(object, self.text), "self" | "cls")
            && let Some(class) = self.local.enclosing_class(scope)
        {
            let name = self.text(attribute);
            self.scope(class).attributes.entry(name).or_default().push((scope, value.index()));
        }
    }

    /// Binds every plain name of a target: `a`, `(a, b)`, `[a, *b]`.
    fn bind_targets(&mut self, target: Option<Node<'tree>>, to: impl Fn(Node<'tree>) -> BoundTo) {
        let Some(target) = target else { return };
        let mut names = Vec::new();
        walk(target, |node| match node.kind() {
            "identifier" => {
                names.push(node);
                Walk::Skip
            }
            "attribute" | "subscript" | "call" => Walk::Skip,
            _ => Walk::Into,
        });
        for name in names {
            self.bind(self.current(), name, to(name));
        }
    }

    fn declare_global(&mut self, node: Node<'tree>) {
        let names: Vec<String> = children(node).into_iter().map(|name| self.text(name)).collect();
        let scope = self.current();
        self.scope(scope).globals.extend(names);
    }

    fn returned(&mut self, node: Node<'tree>) {
        let scope = self.current();
        let ScopeKind::Function(id) = self.scope(scope).kind else { return };
        self.local.functions[id as usize].returns.extend(indices(children(node)));
    }

    fn note_main_block(&mut self, node: Node<'tree>) {
        let condition = node.child_by_field_name("condition").map(|node| text_of(node, self.text));
        let is_main = condition.is_some_and(|text| {
            text.contains("__name__") && text.contains("__main__") && text.contains("==")
        });
        if is_main && let Some(block) = node.child_by_field_name("consequence") {
            self.local.main_blocks.push(block.index()..block.after());
        }
    }
}
