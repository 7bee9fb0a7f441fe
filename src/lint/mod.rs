//! Static findings: what the text of a kernel file shows without a run.
//!
//! One file a rule in `rules/`, with its page of explanation beside it. Precision comes before recall: what a
//! rule cannot be sure of it leaves alone.
//!
//! **Invariant:** nothing here fails on broken code, does I/O, or depends on a successful import. A kernel
//! whose own text does not parse is left alone until it does.

pub mod book;
mod comments;
mod expressions;
mod facts;
mod launches;
mod rules;
#[cfg(test)]
mod tests;
mod tuning;

use std::ops::Range;

pub use self::rules::{RULES, rule};
use crate::source::{SourceModel, Tree};

/// How loud a finding is. None is an error: red in the editor is what a run has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Warning,
    Information,
}

impl Severity {
    /// As people and records read it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Information => "information",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    pub rule: &'static Rule,
    /// Bytes of the text, on one line or more.
    pub range: Range<usize>,
    pub message: String,
    /// Ways to mend it, the best first; each is complete in itself.
    pub fixes: Vec<Fix>,
}

/// A change of the text that mends a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    pub title: String,
    /// They do not overlap.
    pub edits: Vec<Edit>,
}

/// Replaces bytes of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

/// What a rule is; see [`RULES`].
#[derive(Debug)]
pub struct Rule {
    /// As diagnostics, records and suppressions spell it.
    pub name: &'static str,
    pub severity: Severity,
    /// One line.
    pub summary: &'static str,
    /// Markdown: why, what is found, what is left alone, what to do.
    pub page: &'static str,
    check: Check,
}

/// What a rule looks at.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// The text of one kernel, and nothing else: its findings stand while that text does.
    Kernel(fn(&facts::KernelFacts<'_, '_>, &mut Vec<Lint>)),
    File(fn(&facts::File<'_, '_>, &mut Vec<Lint>)),
}

impl Rule {
    /// A finding without a fix.
    fn at(&'static self, range: Range<usize>, message: String) -> Lint {
        Lint { rule: self, range, message, fixes: Vec::new() }
    }
}

impl Lint {
    /// With every place moved.
    fn at(mut self, shift: impl Fn(usize) -> usize) -> Self {
        let edits = self.fixes.iter_mut().flat_map(|fix| &mut fix.edits).map(|edit| &mut edit.range);
        for range in edits.chain([&mut self.range]) {
            *range = shift(range.start)..shift(range.end);
        }
        self
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Rule {}

/// The findings of one text in order of place, those that a comment allows left out.
/// `model` must be the model of `text`.
pub fn run(model: &SourceModel, text: &str) -> Vec<Lint> {
    find(model, &Tree::new(text), text)
}

/// As [`run`], with the tree of `text`.
pub fn find(model: &SourceModel, tree: &Tree, text: &str) -> Vec<Lint> {
    if model.kernels.is_empty() && !text.contains(comments::PREFIX) {
        return Vec::new();
    }
    let file = facts::File::new(model, text, tree);
    let mut found = Vec::new();
    for rule in RULES {
        if let Check::File(check) = rule.check {
            check(&file, &mut found);
        }
    }
    for kernel in &file.kernels {
        found.extend(of_kernel(kernel));
    }
    comments::apply(&file, &mut found);
    found.sort_by_key(|lint| (lint.range.start, lint.range.end, lint.rule.name));
    found
}

/// Findings of one kernel, with places counted from its beginning.
struct OfKernel(Vec<Lint>);

fn of_kernel(kernel: &facts::KernelFacts<'_, '_>) -> Vec<Lint> {
    let start = kernel.start();
    let known = kernel.remember(|| {
        let mut found = Vec::new();
        for rule in RULES {
            if let Check::Kernel(check) = rule.check {
                check(kernel, &mut found);
            }
        }
        OfKernel(found.into_iter().map(|lint| lint.at(|at| at - start)).collect())
    });
    known.0.iter().map(|lint| lint.clone().at(|at| at + start)).collect()
}
