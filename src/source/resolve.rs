//! What names stand for: dotted paths of imports, kernels behind aliases.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::module::{FunctionId, ScopeId, Scopes};
use super::scopes::{Bound, BoundTo};
use super::syntax::{Node, children};

/// How often one question may follow a name or step into an expression; aliases can be cyclic.
const MAX_STEPS: u32 = 400;
const MAX_DEPTH: u32 = 40;

/// The decorators that we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decorator {
    Jit,
    Autotune,
    Heuristics,
}

/// What an expression gives that has to do with a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Kernel,
    /// `kernel[grid]`, waiting for its arguments.
    Launcher,
    /// A list, tuple or dictionary of kernels.
    Container,
}

/// Follows names; knows which functions are kernels once [`Resolver::find_kernels`] told it.
pub(super) struct Resolver<'a, 'tree, 'text> {
    pub(super) scopes: &'a Scopes<'tree, 'text>,
    kernels: HashSet<FunctionId>,
    /// Kernels passed to functions of this file, by function and parameter: `launch(kernel, grid, …)`.
    passed: HashMap<(FunctionId, String), Vec<FunctionId>>,
    /// What callees are, by scope and text: the same few are called again and again.
    known_callees: RefCell<HashMap<(ScopeId, &'text str), Callee>>,
}

#[derive(Clone, Copy)]
struct Callee {
    decorator: Option<Decorator>,
    /// `functools.partial`: it is what its first argument is.
    partial: bool,
}

/// One question, with the steps it may still take.
struct Budget {
    steps: u32,
    depth: u32,
}

impl Budget {
    fn new() -> Self {
        Self { steps: MAX_STEPS, depth: MAX_DEPTH }
    }

    fn deeper<T: Default>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        if self.steps == 0 || self.depth == 0 {
            return T::default();
        }
        self.steps -= 1;
        self.depth -= 1;
        let result = work(self);
        self.depth += 1;
        result
    }
}

impl<'a, 'tree, 'text> Resolver<'a, 'tree, 'text> {
    pub(super) fn new(scopes: &'a Scopes<'tree, 'text>) -> Self {
        let mut resolver = Self {
            scopes,
            kernels: HashSet::new(),
            passed: HashMap::new(),
            known_callees: RefCell::default(),
        };
        resolver.find_kernels();
        resolver.passed = resolver.find_passed();
        resolver
    }

    fn find_passed(&self) -> HashMap<(FunctionId, String), Vec<FunctionId>> {
        let mut passed: HashMap<(FunctionId, String), Vec<FunctionId>> = HashMap::new();
        for (scope, call) in &self.scopes.calls {
            for function in self.callees(*scope, *call) {
                let Some(parameters) = self.scopes.function(function).map(|own| &own.parameters) else {
                    continue;
                };
                let arguments = call.child_by_field_name("arguments").map(children).unwrap_or_default();
                for (position, argument) in arguments.into_iter().enumerate() {
                    let (name, value) = match argument.kind() {
                        "keyword_argument" => (
                            argument.child_by_field_name("name").map(|name| self.scopes.text_of(name)),
                            argument.child_by_field_name("value"),
                        ),
                        _ => (parameters.get(position).map(|own| own.name.as_str()), Some(argument)),
                    };
                    let (Some(name), Some(value)) = (name, value) else { continue };
                    let kernels = self.kernels_as(Form::Kernel, *scope, value);
                    if !kernels.is_empty() {
                        passed.entry((function, name.to_owned())).or_default().extend(kernels);
                    }
                }
            }
        }
        passed
    }

    /// The functions of this file, other than kernels, that a call by plain name may call.
    pub(super) fn callees(&self, scope: ScopeId, call: Node<'tree>) -> Vec<FunctionId> {
        let function = call.child_by_field_name("function").filter(|node| node.kind() == "identifier");
        let Some(function) = function else { return Vec::new() };
        let name = self.scopes.text_of(function);
        let functions = self.scopes.bounds(scope, name).into_iter().filter_map(function_of);
        functions.filter(|id| !self.is_kernel(*id)).collect()
    }

    pub(super) fn is_kernel(&self, function: FunctionId) -> bool {
        self.kernels.contains(&function)
    }

    fn find_kernels(&mut self) {
        for (id, function) in self.scopes.functions() {
            let mut decorators = self.scopes.nodes(id.piece, &function.decorators);
            let defined_in = self.scopes.defined_in(id);
            if decorators.any(|decorator| self.decorator(defined_in, decorator) == Some(Decorator::Jit)) {
                self.kernels.insert(id);
            }
        }
        // `kernel = triton.jit(function)`
        for (scope, call) in &self.scopes.calls {
            if self.called(*scope, *call) != Some(Decorator::Jit) {
                continue;
            }
            let arguments = call.child_by_field_name("arguments").map(children).unwrap_or_default();
            let Some(argument) = arguments.first().filter(|argument| argument.kind() == "identifier") else {
                continue;
            };
            let name = self.scopes.text_of(*argument);
            self.kernels.extend(self.scopes.bounds(*scope, name).into_iter().filter_map(function_of));
        }
    }

    /// What a `decorator` node is: `@jit`, `@triton.jit(…)`, `@functools.partial(triton.jit, …)`.
    pub(super) fn decorator(&self, scope: ScopeId, decorator: Node<'tree>) -> Option<Decorator> {
        let expression = children(decorator).into_iter().next()?;
        match expression.kind() {
            "call" => self.called(scope, expression),
            _ => self.classify(scope, expression),
        }
    }

    /// What the callee of a call is; for `partial(f, …)`, what `f` is.
    pub(super) fn called(&self, scope: ScopeId, call: Node<'tree>) -> Option<Decorator> {
        let function = call.child_by_field_name("function")?;
        if !matches!(function.kind(), "identifier" | "attribute") {
            return None;
        }
        let key = (scope, self.scopes.text_of(function));
        let known = self.known_callees.borrow().get(&key).copied();
        let callee = known.unwrap_or_else(|| {
            let paths = self.paths(scope, function);
            let decorator = paths.iter().find_map(|path| known_path(path));
            let partial = paths.iter().any(|path| path == "functools.partial");
            Callee { decorator, partial }
        });
        self.known_callees.borrow_mut().insert(key, callee);
        if callee.decorator.is_some() || !callee.partial {
            return callee.decorator;
        }
        let first = children(call.child_by_field_name("arguments")?).into_iter().next()?;
        self.classify(scope, first)
    }

    fn classify(&self, scope: ScopeId, expression: Node<'tree>) -> Option<Decorator> {
        self.paths(scope, expression).iter().find_map(|path| known_path(path))
    }

    /// The dotted paths that an expression may stand for: `tr.jit` after `import triton as tr` is
    /// `triton.jit`. Names bound nowhere stand for themselves.
    pub(super) fn paths(&self, scope: ScopeId, expression: Node<'tree>) -> Vec<String> {
        self.paths_within(&mut Budget::new(), scope, expression)
    }

    fn paths_within(&self, budget: &mut Budget, scope: ScopeId, expression: Node<'tree>) -> Vec<String> {
        budget.deeper(|budget| match expression.kind() {
            "identifier" => {
                let name = self.scopes.text_of(expression);
                let Some((found_in, bound)) = self.scopes.lookup(scope, name) else {
                    return vec![name.to_owned()];
                };
                bound.into_iter().flat_map(|bound| self.bound_paths(budget, found_in, bound)).collect()
            }
            "attribute" => {
                let (Some(object), Some(attribute)) =
                    (expression.child_by_field_name("object"), expression.child_by_field_name("attribute"))
                else {
                    return Vec::new();
                };
                let attribute = self.scopes.text_of(attribute);
                let objects = self.paths_within(budget, scope, object);
                objects.into_iter().map(|object| format!("{object}.{attribute}")).collect()
            }
            "parenthesized_expression" | "conditional_expression" => {
                let parts = children(expression);
                parts.into_iter().flat_map(|part| self.paths_within(budget, scope, part)).collect()
            }
            _ => Vec::new(),
        })
    }

    fn bound_paths(
        &self,
        budget: &mut Budget,
        scope: ScopeId,
        (piece, bound): (u32, &'tree Bound),
    ) -> Vec<String> {
        match &bound.to {
            BoundTo::Import(path) => vec![path.clone()],
            BoundTo::Value(value) => self.paths_within(budget, scope, self.scopes.node(piece, *value)),
            _ => Vec::new(),
        }
    }

    /// The kernels that an expression stands for, each once.
    pub(super) fn kernels(&self, scope: ScopeId, expression: Node<'tree>) -> Vec<(FunctionId, Form)> {
        let mut found = self.kernels_within(&mut Budget::new(), scope, expression);
        found.sort_unstable_by_key(|(id, form)| (*id, *form as u8));
        found.dedup();
        found
    }

    /// As [`Self::kernels`], only those of one form.
    pub(super) fn kernels_as(&self, form: Form, scope: ScopeId, expression: Node<'tree>) -> Vec<FunctionId> {
        let found = self.kernels(scope, expression).into_iter();
        found.filter(|(_, found)| *found == form).map(|(id, _)| id).collect()
    }

    fn kernels_within(
        &self,
        budget: &mut Budget,
        scope: ScopeId,
        expression: Node<'tree>,
    ) -> Vec<(FunctionId, Form)> {
        budget.deeper(|budget| match expression.kind() {
            "identifier" => {
                let name = self.scopes.text_of(expression);
                let Some((found_in, bound)) = self.scopes.lookup(scope, name) else { return Vec::new() };
                bound
                    .into_iter()
                    .flat_map(|bound| self.bound_kernels(budget, found_in, bound, name))
                    .collect()
            }
            "attribute" => self.attribute_kernels(budget, scope, expression),
            "parenthesized_expression" | "conditional_expression" | "boolean_operator" => {
                self.of_all(budget, scope, children(expression))
            }
            "assignment" => self.of_all(budget, scope, expression.child_by_field_name("right")),
            "named_expression" => self.of_all(budget, scope, expression.child_by_field_name("value")),
            "list" | "tuple" | "set" | "expression_list" => {
                let elements = self.of_all(budget, scope, children(expression));
                elements.into_iter().map(|(id, _)| (id, Form::Container)).collect()
            }
            "dictionary" => {
                let pairs = children(expression).into_iter();
                let values = pairs.filter_map(|pair| pair.child_by_field_name("value"));
                let elements = self.of_all(budget, scope, values);
                elements.into_iter().map(|(id, _)| (id, Form::Container)).collect()
            }
            "subscript" => {
                let value = self.of_all(budget, scope, expression.child_by_field_name("value"));
                value
                    .into_iter()
                    .filter_map(|(id, form)| match form {
                        Form::Kernel => Some((id, Form::Launcher)),
                        Form::Container => Some((id, Form::Kernel)),
                        Form::Launcher => None,
                    })
                    .collect()
            }
            "call" => self.call_kernels(budget, scope, expression),
            _ => Vec::new(),
        })
    }

    fn of_all(
        &self,
        budget: &mut Budget,
        scope: ScopeId,
        expressions: impl IntoIterator<Item = Node<'tree>>,
    ) -> Vec<(FunctionId, Form)> {
        let expressions = expressions.into_iter();
        expressions.flat_map(|expression| self.kernels_within(budget, scope, expression)).collect()
    }

    fn bound_kernels(
        &self,
        budget: &mut Budget,
        scope: ScopeId,
        (piece, bound): (u32, &'tree Bound),
        name: &str,
    ) -> Vec<(FunctionId, Form)> {
        match bound.to {
            BoundTo::Parameter => {
                let Some(function) = self.scopes.function_of(scope) else { return Vec::new() };
                let kernels = self.passed.get(&(function, name.to_owned())).into_iter().flatten();
                kernels.map(|id| (*id, Form::Kernel)).collect()
            }
            BoundTo::Function(local) => {
                let id = FunctionId { piece, local };
                if self.is_kernel(id) { vec![(id, Form::Kernel)] } else { Vec::new() }
            }
            BoundTo::Value(value) => self.kernels_within(budget, scope, self.scopes.node(piece, value)),
            BoundTo::Element(values) => {
                let values = self.scopes.node(piece, values);
                let found = self.kernels_within(budget, scope, values).into_iter();
                found.filter(|(_, form)| *form == Form::Container).map(|(id, _)| (id, Form::Kernel)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// `self.kernel`, `Class.kernel`, `kernel.fn`.
    fn attribute_kernels(
        &self,
        budget: &mut Budget,
        scope: ScopeId,
        expression: Node<'tree>,
    ) -> Vec<(FunctionId, Form)> {
        let (Some(object), Some(attribute)) =
            (expression.child_by_field_name("object"), expression.child_by_field_name("attribute"))
        else {
            return Vec::new();
        };
        let name = self.scopes.text_of(attribute);
        let mut found = Vec::new();
        for class in self.classes(scope, object) {
            let Some(class_scope) = self.scopes.scope(class) else { continue };
            for bound in class_scope.names.get(name).into_iter().flatten() {
                found.extend(self.bound_kernels(budget, class, (class.piece, bound), name));
            }
            for (assigned_in, value) in class_scope.attributes.get(name).into_iter().flatten() {
                let assigned_in = ScopeId { local: *assigned_in, ..class };
                found.extend(self.kernels_within(budget, assigned_in, self.scopes.node(class.piece, *value)));
            }
        }
        if name == "fn" {
            found.extend(self.kernels_within(budget, scope, object));
        }
        found
    }

    /// The classes of this file that the object of an attribute stands for.
    fn classes(&self, scope: ScopeId, object: Node<'tree>) -> Vec<ScopeId> {
        match self.scopes.text_of(object) {
            "self" | "cls" | "type(self)" | "self.__class__" => {
                self.scopes.enclosing_class(scope).into_iter().collect()
            }
            name => {
                let class = |(piece, bound): (u32, &Bound)| match bound.to {
                    BoundTo::Class(class) => Some(self.scopes.class(piece, class)),
                    _ => None,
                };
                self.scopes.bounds(scope, name).into_iter().filter_map(class).collect()
            }
        }
    }

    /// A wrapper passes its kernel on (`triton.autotune(…)(kernel)`, `partial(kernel[grid], x)`), a
    /// factory of this file returns one, a dictionary is asked with `.get`.
    fn call_kernels(
        &self,
        budget: &mut Budget,
        scope: ScopeId,
        call: Node<'tree>,
    ) -> Vec<(FunctionId, Form)> {
        let Some(function) = call.child_by_field_name("function") else { return Vec::new() };
        let mut found = Vec::new();
        match function.kind() {
            // A launch gives no kernel.
            "subscript" => return found,
            "identifier" => {
                let name = self.scopes.text_of(function);
                let functions = self.scopes.bounds(scope, name).into_iter().filter_map(function_of);
                for id in functions.filter(|id| !self.is_kernel(*id)) {
                    let Some(factory) = self.scopes.function(id) else { continue };
                    let returns = self.scopes.nodes(id.piece, &factory.returns);
                    found.extend(self.of_all(budget, self.scopes.scope_of(id), returns));
                }
                if !found.is_empty() {
                    return found;
                }
            }
            "attribute" => {
                let attribute =
                    function.child_by_field_name("attribute").map(|node| self.scopes.text_of(node));
                let object = function.child_by_field_name("object");
                match attribute {
                    Some("get") => {
                        let values = self.of_all(budget, scope, object).into_iter();
                        found.extend(
                            values
                                .filter(|(_, form)| *form == Form::Container)
                                .map(|(id, _)| (id, Form::Kernel)),
                        );
                    }
                    Some("values") => found.extend(self.of_all(budget, scope, object)),
                    _ => {}
                }
            }
            _ => {}
        }
        if let Some(arguments) = call.child_by_field_name("arguments") {
            found.extend(self.of_all(budget, scope, children(arguments)));
        }
        found
    }

    /// The function that runs when a scope's code runs: its own, or that around a class body.
    pub(super) fn enclosing_function(&self, scope: ScopeId) -> Option<FunctionId> {
        self.scopes.chain(scope).find_map(|(id, _)| self.scopes.function_of(id))
    }
}

fn function_of((piece, bound): (u32, &Bound)) -> Option<FunctionId> {
    match bound.to {
        BoundTo::Function(local) => Some(FunctionId { piece, local }),
        _ => None,
    }
}

fn known_path(path: &str) -> Option<Decorator> {
    // A project may re-export the module: `from ._compat import triton`.
    let inside = path.rsplit_once("triton.").filter(|(before, _)| before.is_empty() || before.ends_with('.'));
    match inside?.1 {
        "jit" | "runtime.jit" | "runtime.jit.jit" => Some(Decorator::Jit),
        "autotune" | "runtime.autotune" | "runtime.autotuner.autotune" => Some(Decorator::Autotune),
        "heuristics" | "runtime.heuristics" | "runtime.autotuner.heuristics" => Some(Decorator::Heuristics),
        _ => None,
    }
}
