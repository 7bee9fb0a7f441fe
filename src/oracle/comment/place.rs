//! Where comments for warpsmith stand in a Python file, and which function each describes.

use std::ops::Range;

use super::parse::CommentError;
use crate::source::syntax::{Node, Walk, children, line_of, parse_tree, text_of, walk};
use crate::source::{LaunchContext, SourceModel};

/// Lines with the prefix that follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// What follows the prefix on each line, as bytes of the file.
    pub(super) lines: Vec<Range<usize>>,
    /// Bytes from the first prefix to the end of the last line.
    pub(super) range: Range<usize>,
    /// The module-level function whose `def` (or first decorator) follows directly.
    pub(super) function: Option<String>,
    /// The module-level class that follows directly.
    pub(super) class: Option<String>,
}

impl Block {
    /// The function to call: the one below, or when that is a kernel, the one that launches it.
    pub(super) fn entry(&self, model: &SourceModel) -> Result<String, CommentError> {
        let fail = |message: String| Err(CommentError::new(message, self.range.clone()));
        let Some(function) = &self.function else {
            return fail(
                "this comment stands above no function; put it directly above the module-level function that \
                 launches the kernel, or above the kernel"
                    .to_owned(),
            );
        };
        let defined = model.functions.iter().rfind(|known| known.name == *function);
        let kernel = defined.and_then(|function| {
            model.kernels.iter().find(|kernel| kernel.name_range == function.name_range)
        });
        let Some(kernel) = kernel else { return Ok(function.clone()) };
        let mut launchers: Vec<&str> = kernel
            .launches
            .iter()
            .filter(|site| site.context == LaunchContext::Function)
            .map(|site| site.function.as_str())
            .filter(|name| model.functions.iter().any(|function| function.name == *name))
            .collect();
        launchers.sort_unstable();
        launchers.dedup();
        match launchers.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => fail(format!(
                "no module-level function of this file launches `{function}`; put the comment above a function that \
                 takes the tensors and launches it"
            )),
            several => fail(format!(
                "`{function}` is launched by {}; put the comment above the one that is meant",
                several.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
            )),
        }
    }
}

/// All comments for us, in order. A comment behind code on its line is an error: it describes nothing.
pub(super) fn blocks(text: &str) -> Result<Vec<Block>, CommentError> {
    if !text.contains("warpsmith:") {
        return Ok(Vec::new());
    }
    let tree = parse_tree(text);
    let mut comments: Vec<Range<usize>> = Vec::new();
    walk(tree.root_node(), |node| {
        if node.kind() == "comment" {
            comments.push(node.byte_range());
        }
        Walk::Into
    });
    let functions = functions(tree.root_node(), text);
    let classes = named(tree.root_node(), text, "class_definition");
    let mut blocks: Vec<Block> = Vec::new();
    // The line after the comments that were read without a gap.
    let mut next_line = 0;
    for range in comments {
        let line = line_of(text, range.start);
        let is_alone = text[..range.start].rsplit(['\n', '\r']).next().is_none_or(|s| s.trim().is_empty());
        let content = content(text, &range);
        match (content, is_alone) {
            (Some(_), false) => {
                let message =
                    "a comment for warpsmith stands on lines of its own, directly above the function";
                return Err(CommentError::new(message, range));
            }
            (Some(content), true) if line == next_line && !blocks.is_empty() => {
                if let Some(block) = blocks.last_mut() {
                    block.range.end = range.end;
                    block.lines.push(content);
                }
            }
            (Some(content), true) => {
                let range = range.clone();
                blocks.push(Block { lines: vec![content], range, function: None, class: None });
            }
            // Other comments may stand between ours and the function.
            (None, true) if line == next_line => {}
            (None, _) => continue,
        }
        next_line = line + 1;
        if let Some(block) = blocks.last_mut() {
            let below = |known: &[(String, u32)]| {
                known.iter().find(|(_, line)| *line == next_line).map(|(name, _)| name.clone())
            };
            block.function = below(&functions);
            block.class = below(&classes);
        }
    }
    Ok(blocks)
}

/// What follows our prefix; spaces around the `#` and before the colon's word do not matter.
fn content(text: &str, range: &Range<usize>) -> Option<Range<usize>> {
    let comment = text.get(range.clone())?;
    let rest = comment.strip_prefix('#')?.trim_start().strip_prefix("warpsmith:")?;
    // `allow(rule) reason` speaks of a static finding and describes nothing.
    if rest.trim_start().strip_prefix("allow").is_some_and(|rest| rest.trim_start().starts_with('(')) {
        return None;
    }
    Some(range.end - rest.len()..range.end)
}

/// Module-level functions with the 1-based line of their first decorator or `def`.
pub(super) fn functions(root: Node<'_>, text: &str) -> Vec<(String, u32)> {
    named(root, text, "function_definition")
}

/// Module-level definitions of one kind.
fn named(root: Node<'_>, text: &str, kind: &str) -> Vec<(String, u32)> {
    let named = |statement: Node<'_>| {
        let defined = match statement.kind() {
            "decorated_definition" => statement.child_by_field_name("definition")?,
            _ => statement,
        };
        let name = defined.child_by_field_name("name").filter(|_| defined.kind() == kind)?;
        Some((text_of(name, text).to_owned(), line_of(text, statement.start_byte())))
    };
    children(root).into_iter().filter_map(named).collect()
}
