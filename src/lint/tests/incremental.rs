//! What is shared between versions of a text changes nothing: the model, the findings and the hash are those of
//! a text that is read for the first time.

use proptest::prelude::*;
use proptest::sample::Index;

use super::file;
use crate::lint::{find, run};
use crate::source::{Tree, code_hash, parse};

/// More than [`every_rule.py`] has: names that other statements bind, launches behind names, twins.
const MORE: &str = r#"
LIMIT = 4
CONFIGS = [triton.Config({"BLOCK": block}) for block in (64, 128)]
CONFIGS.append(triton.Config({"BLOCKS": 32}))


@triton.jit
def helper(x):
    """Doubles. 😀 漢字"""
    return x * LIMIT


@triton.autotune(configs=CONFIGS, key=["n", "gone"])
@triton.jit
def tuned(x_ptr, row_stride, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * row_stride + tl.arange(0, 96)  # warpsmith: allow(arange-power-of-two) looked at
    x = tl.load(x_ptr + offsets)
    tl.store(x_ptr + offsets, helper(x))


def launch(kernel, x, grid):
    kernel[grid](x, x.stride(0), x.shape[1])


class Op(torch.autograd.Function):
    kernels = {"a": tuned}

    @staticmethod
    def forward(ctx, x):
        total = torch.empty(4)
        Op.kernels["a"][(x.shape[0], batch)](x, 1, 2)
        launch(adds, x, (1, 1))
        adds[(1, 1)](total)
        return total


@triton.jit
def adds(x_ptr):
    tl.atomic_add(x_ptr, 1)


def factory(scale):
    @triton.jit
    def made(x):
        tl.store(x, scale)
    return made


other = triton.autotune(configs=CONFIGS, key=[])(adds)
if __name__ == "__main__":
    factory(2)[(1,)](torch.empty(1))
elif LIMIT:
    launch(kernel=tuned, x=other, grid=1)
"#;

/// What people type and paste.
const PIECES: [&str; 28] = [
    "x",
    " ",
    "\n",
    "\r\n",
    "(",
    ")",
    "[",
    "]",
    "\"\"\"",
    "'",
    "#",
    "\\",
    ":",
    "    ",
    "😀",
    "e\u{301}",
    "@triton.jit\n",
    "\ndef helper(x):\n    return x\n",
    "\n@triton.jit\ndef tuned(x):\n    pass\n",
    "\nclass Op:\n    pass\n",
    "\nLIMIT = 5\n",
    "\nadds = helper\n",
    "\nimport triton as tl\n",
    "\nelse:\n    pass\n",
    "\nfrom x import *\n",
    "tuned[(1,)](x)\n",
    "  # npu\n",
    "# warpsmith: allow(int32-offset) known\n",
];

#[derive(Clone, Debug)]
enum Change {
    /// Replaces so many characters at a place.
    Replace(Index, usize, usize),
    /// The same at the beginning of a line.
    AtLine(Index, usize, usize),
    /// Copies or moves lines to another place.
    Copy(Index, usize, Index),
    Move(Index, usize, Index),
    /// Back to an earlier text.
    Undo(Index),
    /// Another way to end lines.
    LineEnds,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let place = any::<Index>;
    let change = prop_oneof![
        4 => (place(), 0usize..4, 0..PIECES.len()).prop_map(|(at, n, piece)| Change::Replace(at, n, piece)),
        1 => (place(), 0usize..200, 0..PIECES.len()).prop_map(|(at, n, piece)| Change::Replace(at, n, piece)),
        3 => (place(), 0usize..2, 0..PIECES.len()).prop_map(|(at, n, piece)| Change::AtLine(at, n, piece)),
        1 => (place(), 1usize..12, place()).prop_map(|(from, n, to)| Change::Copy(from, n, to)),
        1 => (place(), 1usize..12, place()).prop_map(|(from, n, to)| Change::Move(from, n, to)),
        2 => place().prop_map(Change::Undo),
        1 => Just(Change::LineEnds),
    ];
    proptest::collection::vec(change, 1..12)
}

fn changed(text: &str, change: &Change, earlier: &[String]) -> String {
    let replace = |start: usize, characters: usize, piece: usize| {
        let end = text[start..].char_indices().nth(characters).map_or(text.len(), |(at, _)| start + at);
        format!("{}{}{}", &text[..start], PIECES[piece], &text[end..])
    };
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    match change {
        Change::Replace(at, characters, piece) => {
            let mut places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            places.push(text.len());
            replace(*at.get(&places), *characters, *piece)
        }
        Change::AtLine(at, characters, piece) => {
            let mut places = vec![0];
            places.extend(text.match_indices('\n').map(|(at, _)| at + 1));
            replace(*at.get(&places), *characters, *piece)
        }
        Change::Copy(from, count, to) | Change::Move(from, count, to) => {
            if lines.is_empty() {
                return text.to_owned();
            }
            let from = from.index(lines.len());
            let end = (from + count).min(lines.len());
            let taken: Vec<&str> = match change {
                Change::Copy(..) => lines[from..end].to_vec(),
                _ => lines.drain(from..end).collect(),
            };
            let to = to.index(lines.len() + 1);
            lines.splice(to..to, taken);
            lines.concat()
        }
        Change::Undo(to) => to.get(earlier).clone(),
        Change::LineEnds if text.contains("\r\n") => text.replace("\r\n", "\n"),
        Change::LineEnds => text.replace('\n', "\r\n"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn edits_give_what_a_first_look_gives(changes in changes()) {
        let mut text = file(&format!("{}\n{MORE}", include_str!("every_rule.py")));
        let mut tree = Tree::new(&text);
        let mut earlier = vec![text.clone()];
        for change in changes {
            text = changed(&text, &change, &earlier);
            tree = tree.updated(&text);
            let model = tree.model(&text);
            prop_assert_eq!(&model, &parse(&text), "after {:?}", change);
            prop_assert_eq!(find(&model, &tree, &text), run(&model, &text), "after {:?}", change);
            prop_assert_eq!(tree.code_hash(), code_hash(&text), "after {:?}", change);
            earlier.push(text.clone());
        }
    }
}

/// An edit that changes what a statement elsewhere means.
#[test]
fn what_stands_elsewhere_is_looked_at_again() {
    let text = file(MORE);
    let tree = Tree::new(&text);
    let before = tree.model(&text);
    let edits = [
        ("LIMIT = 4", "LIMIT = tl.constexpr(4)"),
        ("\"BLOCKS\": 32", "\"BLOCK\": 32"),
        ("launch(adds, x", "launch(helper, x"),
        ("(torch.autograd.Function)", ""),
        ("def helper(x)", "def helped(x)"),
        ("import triton\n", "import triton as other\n"),
        ("torch.empty(4)", "torch.zeros(4)"),
        ("key=[\"n\", \"gone\"]", "key=[\"n\"]"),
    ];
    for (from, to) in edits {
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "{from}");
        let tree = tree.updated(&edited);
        let model = tree.model(&edited);
        assert_eq!(model, parse(&edited), "{from}");
        assert_eq!(find(&model, &tree, &edited), run(&model, &edited), "{from}");
        let findings = |text: &str| run(&parse(text), text).into_iter().map(|lint| lint.message);
        assert!(model != before || !findings(&edited).eq(findings(&text)), "{from} changes nothing");
    }
}
