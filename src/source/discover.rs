//! Puts the model of a source text together.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::hash::Hasher;
use super::launches;
use super::module::{FunctionId, Scopes};
use super::resolve::{Decorator, Form, Resolver};
use super::scopes::{Bound, BoundTo, Function, Local, MODULE};
use super::syntax::{Node, children};
use super::tree::Tree;
use super::{Binding, ImportLaunch, Kernel, KernelId, ModuleFunction, SourceModel, StringConstant};

/// Finds kernels, launches and module-level names. Broken code gives what tree-sitter could save.
pub fn parse(text: &str) -> SourceModel {
    Tree::new(text).model(text)
}

impl Tree {
    /// [`parse`] of its text.
    pub fn model(&self, text: &str) -> SourceModel {
        let scopes = Scopes::new(self, text);
        let resolver = Resolver::new(&scopes);
        let kernels = name_kernels(&resolver);
        let names: Names = kernels.iter().cloned().collect();
        let launches = launches::find(&resolver);
        let on_import = launches::on_import(&resolver, &launches).into_iter().map(|(launch, functions)| {
            let kernels = functions.iter().filter_map(|id| names.get(id).cloned()).collect();
            ImportLaunch { kernels, ..launch }
        });
        SourceModel {
            kernels: find_kernels(&resolver, &kernels, &names, &launches),
            string_constants: string_constants(&scopes),
            functions: module_functions(&resolver, &launches, &names),
            bindings: bindings(&scopes),
            imports: imports(&scopes),
            import_launches: on_import.collect(),
            first_error: first_error(self, &scopes),
        }
    }
}

type Names = HashMap<FunctionId, KernelId>;

fn find_kernels(
    resolver: &Resolver<'_, '_, '_>,
    ids: &[(FunctionId, KernelId)],
    names: &Names,
    launches: &[launches::Launch],
) -> Vec<Kernel> {
    let hasher = Hasher::new(resolver.scopes);
    let mut kernels: Vec<Kernel> =
        ids.iter().filter_map(|(id, name)| kernel(resolver, &hasher, names, (*id, name))).collect();
    let positions: HashMap<FunctionId, usize> =
        ids.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
    for launch in launches {
        for position in launch.kernels.iter().filter_map(|id| positions.get(id)) {
            kernels[*position].launches.push(launch.site.clone());
        }
    }
    note_wrappers(resolver, &positions, &mut kernels);
    kernels
}

/// Kernels in document order with their names; a repeated name gets `#2`, `#3` …
fn name_kernels(resolver: &Resolver<'_, '_, '_>) -> Vec<(FunctionId, KernelId)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut names = Vec::new();
    for (id, function) in resolver.scopes.functions().filter(|(id, _)| resolver.is_kernel(*id)) {
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

fn kernel(
    resolver: &Resolver<'_, '_, '_>,
    hasher: &Hasher<'_, '_, '_>,
    names: &Names,
    (id, kernel_id): (FunctionId, &KernelId),
) -> Option<Kernel> {
    let scopes = resolver.scopes;
    let function = scopes.function(id)?;
    let mut kernel = Kernel {
        id: kernel_id.clone(),
        name: function.name.clone(),
        name_range: scopes.node(id.piece, function.name_node).byte_range(),
        range: scopes.node(id.piece, function.whole).byte_range(),
        parameters: function.parameters.clone(),
        autotuned: false,
        heuristics: false,
        other_decorators: Vec::new(),
        launches: Vec::new(),
        helpers: Vec::new(),
        content_hash: hasher.hash(id),
    };
    for decorator in scopes.nodes(id.piece, &function.decorators) {
        match resolver.decorator(scopes.defined_in(id), decorator) {
            Some(Decorator::Jit) => {}
            Some(Decorator::Autotune) => kernel.autotuned = true,
            Some(Decorator::Heuristics) => kernel.heuristics = true,
            None => kernel.other_decorators.extend(decorator_name(scopes, decorator)),
        }
    }
    let helpers = helpers(resolver, function, id);
    kernel.helpers = helpers.iter().filter_map(|helper| names.get(helper).cloned()).collect();
    Some(kernel)
}

/// The decorator as written, without its arguments.
fn decorator_name(scopes: &Scopes<'_, '_>, decorator: Node<'_>) -> Option<String> {
    let expression = children(decorator).into_iter().next()?;
    let callee = expression.child_by_field_name("function").filter(|_| expression.kind() == "call");
    let name = scopes.text_of(callee.unwrap_or(expression)).split_whitespace().collect::<String>();
    Some(name)
}

/// Kernels that the body names: called, or passed as a function to combine with.
fn helpers(resolver: &Resolver<'_, '_, '_>, function: &Function, id: FunctionId) -> BTreeSet<FunctionId> {
    let scope = resolver.scopes.scope_of(id);
    let questions = resolver.scopes.nodes(id.piece, &function.questions);
    let mut helpers: BTreeSet<FunctionId> =
        questions.flat_map(|node| resolver.kernels_as(Form::Kernel, scope, node)).collect();
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
fn module_bindings<'tree>(
    scopes: &Scopes<'tree, '_>,
) -> impl Iterator<Item = (u32, &'tree str, &'tree Bound)> {
    let of_piece = |(piece, local): (u32, &&'tree Local)| {
        let local = *local;
        let bound = local.bound.iter().filter(|(_, bound)| !local.in_main(bound.name));
        bound.map(move |(name, bound)| (piece, name.as_str(), bound))
    };
    (0..).zip(&scopes.pieces).flat_map(of_piece)
}

fn string_constants(scopes: &Scopes<'_, '_>) -> Vec<StringConstant> {
    let mut constants = Vec::new();
    for (piece, local) in (0..).zip(&scopes.pieces) {
        for text in local.texts.iter().filter(|text| !local.in_main(text.bound_at)) {
            let range = scopes.node(piece, text.node).byte_range();
            constants.push(StringConstant { name: text.name.clone(), value: text.value.clone(), range });
        }
    }
    constants
}

fn module_functions(
    resolver: &Resolver<'_, '_, '_>,
    launches: &[launches::Launch],
    names: &Names,
) -> Vec<ModuleFunction> {
    let scopes = resolver.scopes;
    let reach = launches::Reach::new(resolver, launches);
    let launched = |id| reach.kernels(id).iter().filter_map(|kernel| names.get(kernel).cloned()).collect();
    let is_of_module = |(id, function): &(FunctionId, &Function)| {
        function.defined_in == MODULE && !scopes.in_main(scopes.node(id.piece, function.node))
    };
    let functions = scopes.functions().filter(is_of_module);
    functions
        .map(|(id, function)| ModuleFunction {
            launches: launched(id),
            name: function.name.clone(),
            name_range: scopes.node(id.piece, function.name_node).byte_range(),
            parameters: function.parameters.iter().map(|parameter| parameter.name.clone()).collect(),
        })
        .collect()
}

fn imports(scopes: &Scopes<'_, '_>) -> Vec<String> {
    let imports: BTreeSet<&String> = scopes.pieces.iter().flat_map(|local| &local.imports).collect();
    imports.into_iter().cloned().collect()
}

fn bindings(scopes: &Scopes<'_, '_>) -> Vec<Binding> {
    let bound = module_bindings(scopes).filter(|(_, _, bound)| !matches!(bound.to, BoundTo::Function(_)));
    bound
        .map(|(piece, name, bound)| Binding {
            name: name.to_owned(),
            range: scopes.node(piece, bound.name).byte_range(),
        })
        .collect()
}

fn first_error(tree: &Tree, scopes: &Scopes<'_, '_>) -> Option<Range<usize>> {
    scopes.pieces.iter().enumerate().find_map(|(place, local)| {
        let (error, start) = (local.first_error.as_ref()?, tree.start(place));
        Some(start + error.start..start + error.end)
    })
}
