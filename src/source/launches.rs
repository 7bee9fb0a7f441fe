//! Where kernels are launched, and what is launched by importing the file.

use std::collections::{BTreeMap, BTreeSet};

use super::module::{FunctionId, ScopeId};
use super::resolve::{Form, Resolver};
use super::scopes::ScopeKind;
use super::syntax::Node;
use super::{ImportLaunch, LaunchContext, LaunchSite};

/// One launch, before kernels have names.
pub(super) struct Launch {
    pub(super) kernels: Vec<FunctionId>,
    pub(super) site: LaunchSite,
    /// The function whose call launches; `None` on import.
    in_function: Option<FunctionId>,
}

/// All launches, in document order of the calls.
pub(super) fn find(resolver: &Resolver<'_, '_, '_>) -> Vec<Launch> {
    let mut launches = Vec::new();
    for (scope, call) in &resolver.scopes.calls {
        let in_function = resolver.enclosing_function(*scope);
        // A kernel cannot launch; a call there that looks like one is a call of a helper.
        if in_function.is_some_and(|id| resolver.is_kernel(id)) {
            continue;
        }
        let kernels = launched(resolver, *scope, *call);
        if kernels.is_empty() {
            continue;
        }
        let function = function_name(resolver, *scope);
        let context = context(resolver, *scope, *call);
        let site = LaunchSite { range: call.byte_range(), context, function };
        launches.push(Launch { kernels, site, in_function });
    }
    launches
}

/// The kernels that a call launches: `kernel[grid](…)`, `launcher(…)`, `kernel.run(…)`.
fn launched<'tree>(resolver: &Resolver<'_, 'tree, '_>, scope: ScopeId, call: Node<'tree>) -> Vec<FunctionId> {
    let Some(function) = call.child_by_field_name("function") else { return Vec::new() };
    if function.kind() == "attribute" {
        let attribute = function.child_by_field_name("attribute");
        if attribute.is_some_and(|node| matches!(resolver.scopes.text_of(node), "run" | "warmup")) {
            let object = function.child_by_field_name("object");
            return object.map(|object| resolver.kernels_as(Form::Kernel, scope, object)).unwrap_or_default();
        }
    }
    resolver.kernels_as(Form::Launcher, scope, function)
}

fn function_name(resolver: &Resolver<'_, '_, '_>, scope: ScopeId) -> String {
    let mut chain = resolver.scopes.chain(scope);
    let function = chain.find(|(_, scope)| matches!(scope.kind, ScopeKind::Function(_) | ScopeKind::Lambda));
    function.map(|(_, scope)| scope.qualified.clone()).unwrap_or_default()
}

fn context(resolver: &Resolver<'_, '_, '_>, scope: ScopeId, call: Node<'_>) -> LaunchContext {
    let mut in_function = false;
    for (id, scope) in resolver.scopes.chain(scope) {
        match scope.kind {
            ScopeKind::Function(_) | ScopeKind::Lambda => in_function = true,
            ScopeKind::Class if in_function => {
                let is_autograd = resolver.scopes.is_autograd(id);
                return if is_autograd { LaunchContext::AutogradFunction } else { LaunchContext::Method };
            }
            _ => {}
        }
    }
    if in_function {
        LaunchContext::Function
    } else if resolver.scopes.in_main(call) {
        LaunchContext::Main
    } else {
        LaunchContext::ModuleLevel
    }
}

/// What importing the file launches: launches at module level, and calls there of functions of this
/// file that launch, directly or through others.
pub(super) fn on_import(
    resolver: &Resolver<'_, '_, '_>,
    launches: &[Launch],
) -> Vec<(ImportLaunch, Vec<FunctionId>)> {
    let mut found: Vec<(ImportLaunch, Vec<FunctionId>)> = launches
        .iter()
        .filter(|launch| launch.site.context == LaunchContext::ModuleLevel)
        .map(|launch| (import_launch(launch.site.range.clone(), None), launch.kernels.clone()))
        .collect();
    let reach = Reach::new(resolver, launches);
    for (scope, call) in &resolver.scopes.calls {
        if context(resolver, *scope, *call) != LaunchContext::ModuleLevel {
            continue;
        }
        for function in resolver.callees(*scope, *call) {
            let kernels = reach.kernels(function);
            if !kernels.is_empty() {
                let name = resolver.scopes.function(function).map(|function| function.qualified.clone());
                found.push((import_launch(call.byte_range(), name), kernels));
            }
        }
    }
    found.sort_by_key(|(launch, _)| launch.range.start);
    found
}

fn import_launch(range: std::ops::Range<usize>, through: Option<String>) -> ImportLaunch {
    ImportLaunch { range, kernels: Vec::new(), through }
}

/// Which functions call which, and which kernels each launches itself.
pub(super) struct Reach {
    calls: BTreeMap<FunctionId, BTreeSet<FunctionId>>,
    launches: BTreeMap<FunctionId, BTreeSet<FunctionId>>,
}

impl Reach {
    pub(super) fn new(resolver: &Resolver<'_, '_, '_>, launches: &[Launch]) -> Self {
        let mut reach = Self { calls: BTreeMap::new(), launches: BTreeMap::new() };
        for launch in launches {
            if let Some(function) = launch.in_function {
                reach.launches.entry(function).or_default().extend(&launch.kernels);
            }
        }
        for (scope, call) in &resolver.scopes.calls {
            if let Some(caller) = resolver.enclosing_function(*scope) {
                reach.calls.entry(caller).or_default().extend(resolver.callees(*scope, *call));
            }
        }
        reach
    }

    /// Kernels launched when this function is called.
    pub(super) fn kernels(&self, function: FunctionId) -> Vec<FunctionId> {
        let (mut seen, mut waiting) = (BTreeSet::from([function]), vec![function]);
        let mut kernels = BTreeSet::new();
        while let Some(function) = waiting.pop() {
            kernels.extend(self.launches.get(&function).into_iter().flatten());
            for callee in self.calls.get(&function).into_iter().flatten() {
                if seen.insert(*callee) {
                    waiting.push(*callee);
                }
            }
        }
        kernels.into_iter().collect()
    }
}
