//! Puts the model of a source text together.

use std::collections::{BTreeSet, HashMap, HashSet};

use tree_sitter::Node;

use super::functions::{parameter_names, parameters};
use super::hash::Hasher;
use super::launches;
use super::resolve::{Decorator, Form, Resolver};
use super::scopes::{BoundTo, Function, FunctionId, MODULE, Scopes};
use super::syntax::{Walk, children, first_error, parse_tree, text_of, walk};
use super::{Binding, Kernel, KernelId, ModuleFunction, SourceModel, StringConstant, strings};

/// Finds kernels, launches and module-level names. Broken code gives what tree-sitter could save.
pub fn parse(text: &str) -> SourceModel {
    let Some(tree) = parse_tree(text) else { return SourceModel::default() };
    let root = tree.root_node();
    let scopes = Scopes::scan(root, text);
    let resolver = Resolver::new(&scopes);
    let hasher = Hasher::new(&scopes, root);
    let names = name_kernels(&resolver);

    let mut kernels: Vec<Kernel> = Vec::new();
    let mut positions: HashMap<FunctionId, usize> = HashMap::new();
    for (id, kernel_id) in &names {
        positions.insert(*id, kernels.len());
        kernels.push(kernel(&resolver, &hasher, &names, *id, kernel_id.clone()));
    }
    let launches = launches::find(&resolver);
    for launch in &launches {
        for position in launch.kernels.iter().filter_map(|id| positions.get(id)) {
            kernels[*position].launches.push(launch.site.clone());
        }
    }
    note_wrappers(&resolver, &positions, &mut kernels);
    let import_launches = launches::on_import(&resolver, &launches)
        .into_iter()
        .map(|(mut launch, functions)| {
            launch.kernels = functions.iter().filter_map(|id| id_of(&names, *id)).collect();
            launch
        })
        .collect();
    SourceModel {
        kernels,
        string_constants: string_constants(&scopes),
        functions: module_functions(&resolver, &launches, &names),
        bindings: bindings(&scopes),
        imports: imports(root, text),
        import_launches,
        first_error: first_error(root),
    }
}

/// Kernels in document order with their names; a repeated name gets `#2`, `#3` …
fn name_kernels(resolver: &Resolver<'_, '_, '_>) -> Vec<(FunctionId, KernelId)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut names = Vec::new();
    for (id, function) in resolver.scopes.functions.iter().enumerate() {
        if !resolver.is_kernel(id) {
            continue;
        }
        let count = counts.entry(&function.qualified).or_default();
        *count += 1;
        let name = match *count {
            1 => function.qualified.clone(),
            repeated => format!("{}#{repeated}", function.qualified),
        };
        names.push((id, KernelId(name)));
    }
    names
}

fn id_of(names: &[(FunctionId, KernelId)], function: FunctionId) -> Option<KernelId> {
    names.iter().find(|(id, _)| *id == function).map(|(_, name)| name.clone())
}

fn kernel(
    resolver: &Resolver<'_, '_, '_>,
    hasher: &Hasher<'_, '_, '_>,
    names: &[(FunctionId, KernelId)],
    id: FunctionId,
    kernel_id: KernelId,
) -> Kernel {
    let scopes = resolver.scopes;
    let function = &scopes.functions[id];
    let mut kernel = Kernel {
        id: kernel_id,
        name: function.name.clone(),
        name_range: function.name_node.byte_range(),
        range: function.whole.byte_range(),
        parameters: parameters(function.node, scopes.text),
        autotuned: false,
        heuristics: false,
        other_decorators: Vec::new(),
        launches: Vec::new(),
        helpers: Vec::new(),
        content_hash: hasher.hash(id),
    };
    for decorator in &function.decorators {
        match resolver.decorator(function.defined_in, *decorator) {
            Some(Decorator::Jit) => {}
            Some(Decorator::Autotune) => kernel.autotuned = true,
            Some(Decorator::Heuristics) => kernel.heuristics = true,
            None => kernel.other_decorators.extend(decorator_name(scopes, *decorator)),
        }
    }
    let helpers = helpers(resolver, function, id);
    kernel.helpers = helpers.into_iter().filter_map(|helper| id_of(names, helper)).collect();
    kernel
}

/// The decorator as written, without its arguments.
fn decorator_name(scopes: &Scopes<'_, '_>, decorator: Node<'_>) -> Option<String> {
    let expression = children(decorator).into_iter().next()?;
    let callee = expression.child_by_field_name("function").filter(|_| expression.kind() == "call");
    let name = scopes.text_of(callee.unwrap_or(expression)).split_whitespace().collect::<String>();
    Some(name)
}

/// Kernels that the body names: called, or passed as a function to combine with.
fn helpers(resolver: &Resolver<'_, '_, '_>, function: &Function<'_>, id: FunctionId) -> BTreeSet<FunctionId> {
    let mut helpers = BTreeSet::new();
    let mut skipped = HashSet::new();
    let mut asked: HashSet<&str> = HashSet::new();
    walk(function.node, |node| {
        match node.kind() {
            "keyword_argument" => skipped.extend(node.child_by_field_name("name").map(|name| name.id())),
            "attribute" => {
                skipped.extend(node.child_by_field_name("attribute").map(|name| name.id()));
            }
            _ => {}
        }
        let is_name =
            node.kind() == "attribute" || node.kind() == "identifier" && !skipped.contains(&node.id());
        if is_name && asked.insert(resolver.scopes.text_of(node)) {
            helpers.extend(resolver.kernels_as(Form::Kernel, function.scope, node));
        }
        Walk::Into
    });
    helpers.remove(&id);
    helpers
}

/// `kernel = triton.autotune(…)(kernel)` tunes as the decorator does.
fn note_wrappers(
    resolver: &Resolver<'_, '_, '_>,
    positions: &HashMap<FunctionId, usize>,
    kernels: &mut [Kernel],
) {
    for (scope, call) in &resolver.scopes.calls {
        let Some(inner) = call.child_by_field_name("function").filter(|node| node.kind() == "call") else {
            continue;
        };
        let Some(wrapper) = resolver.called(*scope, inner) else { continue };
        let arguments = call.child_by_field_name("arguments").map(children).unwrap_or_default();
        for argument in arguments {
            for id in resolver.kernels_as(Form::Kernel, *scope, argument) {
                let Some(kernel) = positions.get(&id).and_then(|position| kernels.get_mut(*position)) else {
                    continue;
                };
                kernel.autotuned |= wrapper == Decorator::Autotune;
                kernel.heuristics |= wrapper == Decorator::Heuristics;
            }
        }
    }
}

/// Module-level bindings that exist after an import, in document order, with their names.
fn module_bindings<'a, 'tree>(
    scopes: &'a Scopes<'tree, '_>,
) -> Vec<(&'a str, &'a super::scopes::Bound<'tree>)> {
    let Some(module) = scopes.all.get(MODULE) else { return Vec::new() };
    let mut bound: Vec<_> = module
        .names
        .iter()
        .flat_map(|(name, bound)| bound.iter().map(move |bound| (name.as_str(), bound)))
        .filter(|(_, bound)| !scopes.in_main(bound.name_range.start))
        .collect();
    bound.sort_by_key(|(_, bound)| bound.name_range.start);
    bound
}

fn string_constants(scopes: &Scopes<'_, '_>) -> Vec<StringConstant> {
    let mut constants = Vec::new();
    for (name, bound) in module_bindings(scopes) {
        let BoundTo::Value(node) = bound.to else { continue };
        if let Some(value) = strings::value(node, scopes.text) {
            constants.push(StringConstant { name: name.to_owned(), value, range: node.byte_range() });
        }
    }
    constants
}

fn module_functions(
    resolver: &Resolver<'_, '_, '_>,
    launches: &[launches::Launch],
    names: &[(FunctionId, KernelId)],
) -> Vec<ModuleFunction> {
    let scopes = resolver.scopes;
    let reach = launches::Reach::new(resolver, launches);
    let launched = |id| reach.kernels(id).into_iter().filter_map(|kernel| id_of(names, kernel)).collect();
    let functions =
        scopes.functions.iter().enumerate().filter(|(_, function)| {
            function.defined_in == MODULE && !scopes.in_main(function.node.start_byte())
        });
    functions
        .map(|(id, function)| ModuleFunction {
            launches: launched(id),
            name: function.name.clone(),
            name_range: function.name_node.byte_range(),
            parameters: parameter_names(function.node, scopes.text),
        })
        .collect()
}

fn imports(root: Node<'_>, text: &str) -> Vec<String> {
    let mut imports = BTreeSet::new();
    let top_level = |module: Node<'_>| match text_of(module, text).split('.').next().unwrap_or_default() {
        "" => ".".to_owned(),
        name => name.trim().to_owned(),
    };
    walk(root, |node| match node.kind() {
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
    imports.into_iter().collect()
}

fn bindings(scopes: &Scopes<'_, '_>) -> Vec<Binding> {
    let bound = module_bindings(scopes).into_iter();
    bound
        .filter(|(_, bound)| !matches!(bound.to, BoundTo::Function(_)))
        .map(|(name, bound)| Binding { name: name.to_owned(), range: bound.name_range.clone() })
        .collect()
}
