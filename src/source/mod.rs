//! Kernels, launches and conventions found in a source text by tree-sitter.
//!
//! **Invariant:** nothing here fails on broken code, does I/O, or depends on a successful import.

mod code_hash;
mod discover;
mod encoding;
pub(crate) mod functions;
mod hash;
mod itself;
mod launches;
mod memo;
mod module;
mod questions;
mod resolve;
mod scan;
mod scopes;
mod split;
mod strings;
pub(crate) mod syntax;
#[cfg(test)]
mod tests;
mod tree;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use code_hash::{code_hash, is_same_code};
pub use discover::parse;
pub use encoding::{EncodingError, as_utf8, decode};
pub use itself::rests_on_itself;
pub use syntax::line_of;
pub use tree::Tree;

/// Names a kernel within one file, stable while its text changes: `softmax_kernel`, `Outer.method.kernel`.
/// A second kernel of the same qualified name in one file is `name#2`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KernelId(pub String);

impl KernelId {
    /// The function's own name, which is all that a launch record tells: `kernel` of `Outer.method.kernel#2`.
    pub fn bare_name(&self) -> &str {
        let qualified = self.0.split('#').next().unwrap_or(&self.0);
        qualified.rsplit('.').next().unwrap_or(qualified)
    }
}

/// A `@triton.jit` function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub id: KernelId,
    /// The bare function name, as a launch record of the interpreter spells it.
    pub name: String,
    /// Bytes of the function's name in its `def`.
    pub name_range: Range<usize>,
    /// Bytes from the first decorator to the end of the body.
    pub range: Range<usize>,
    pub parameters: Vec<KernelParameter>,
    pub autotuned: bool,
    pub heuristics: bool,
    /// Decorators stacked on `jit` that we do not know (`libentry` …), outermost first.
    pub other_decorators: Vec<String>,
    pub launches: Vec<LaunchSite>,
    /// Other `@triton.jit` functions of this file that it calls.
    pub helpers: Vec<KernelId>,
    /// blake3 over the kernel's text, its helpers' texts and the module-level constants they read,
    /// comments and blank lines left out: unchanged hash, unchanged behaviour.
    pub content_hash: String,
}

impl Kernel {
    /// A kernel that only other kernels call.
    pub fn is_launched(&self) -> bool {
        !self.launches.is_empty()
    }
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParameter {
    pub name: String,
    pub constexpr: bool,
    pub has_default: bool,
}

/// One `kernel[grid](…)`, `kernel.run(…)` or `kernel.warmup(…)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchSite {
    pub range: Range<usize>,
    pub context: LaunchContext,
    /// Qualified name of the enclosing function; empty at module level.
    pub function: String,
}

/// What kind of code a launch stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchContext {
    Function,
    Method,
    /// A method of a `torch.autograd.Function`.
    AutogradFunction,
    /// Runs on import: the file is not imported automatically.
    ModuleLevel,
    /// Under `if __name__ == "__main__":`.
    Main,
}

/// Modules that change only with the environment. Whatever else is imported may be a file of the user's.
const STEADY_MODULES: [&str; 17] = [
    "abc",
    "collections",
    "contextlib",
    "dataclasses",
    "enum",
    "functools",
    "itertools",
    "math",
    "numpy",
    "operator",
    "os",
    "sys",
    "torch",
    "triton",
    "typing",
    "typing_extensions",
    "warnings",
];

/// All that is known of one Python source text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceModel {
    /// In order of appearance.
    pub kernels: Vec<Kernel>,
    /// Module-level `NAME = "string"` assignments (for `KERNEL_TYPE`).
    pub string_constants: Vec<StringConstant>,
    /// Module-level functions, in order.
    pub functions: Vec<ModuleFunction>,
    /// Module-level names bound other than by `def`: assignments, imports, classes. A name bound twice is
    /// there twice.
    pub bindings: Vec<Binding>,
    /// Top-level names of the modules that the file imports anywhere, sorted; `.` for relative imports.
    pub imports: Vec<String>,
    /// What importing the file launches.
    pub import_launches: Vec<ImportLaunch>,
    /// The first syntax error that tree-sitter recovered from, if any.
    pub first_error: Option<Range<usize>>,
}

/// A module-level name bound to a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringConstant {
    pub name: String,
    pub value: String,
    /// Bytes of the value.
    pub range: Range<usize>,
}

/// A function of the module itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleFunction {
    pub name: String,
    pub name_range: Range<usize>,
    /// Names in order; `*args` and `**kwargs` keep their stars.
    pub parameters: Vec<String>,
    /// What a call of it launches, directly or through other functions of this file, as far as the code shows.
    pub launches: Vec<KernelId>,
}

/// A module-level name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub name: String,
    /// Bytes of the name where it is bound.
    pub range: Range<usize>,
}

/// Something at module level that launches kernels when the file is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportLaunch {
    /// Bytes of the launch, or of the call that leads to it.
    pub range: Range<usize>,
    pub kernels: Vec<KernelId>,
    /// The function of this file that is called; `None` for a launch itself. Whether the function
    /// really launches may depend on its arguments.
    pub through: Option<String>,
}

impl SourceModel {
    /// The module-level function of this name that a call would find.
    pub fn function(&self, name: &str) -> Option<&ModuleFunction> {
        self.functions.iter().rfind(|function| function.name == name)
    }

    /// Imports that may be files of the user's, as [`Self::imports`] has them.
    pub fn unsteady_imports(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().map(String::as_str).filter(|module| !STEADY_MODULES.contains(module))
    }

    /// Kernels of this name or [`KernelId`].
    pub fn kernels_named(&self, name: &str) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter().filter(move |kernel| kernel.name == name || kernel.id.0 == name)
    }

    /// No launch of it was found in this file, and no other kernel of it calls it.
    pub fn is_lonely(&self, kernel: &Kernel) -> bool {
        !kernel.is_launched() && !self.kernels.iter().any(|other| other.helpers.contains(&kernel.id))
    }
}

/// What importing the file launches, in order of appearance.
pub fn module_level_launches(model: &SourceModel) -> &[ImportLaunch] {
    &model.import_launches
}
