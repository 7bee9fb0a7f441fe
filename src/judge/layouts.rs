//! The memory layouts of the edge stage: one tensor argument that is not contiguous.

use crate::spec::Definition;

/// A layout by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// The last two axes swapped in memory.
    Transposed,
    /// The two axes before the last swapped in memory, as when heads and positions change places.
    Permuted,
    /// Every second element of rows that are twice as long.
    Sliced,
    /// Rows that are longer in memory than the tensor is wide.
    Padded,
    /// The first axis repeats one slice: stride 0.
    Expanded,
    /// Contiguous, but not from the beginning of its storage on, and not aligned to 16 bytes.
    Offset,
}

/// Where the elements of a tensor lie, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) strides: Vec<u64>,
    pub(super) offset: u64,
}

/// Extra elements of a padded row. Odd, so that no row but the first is aligned.
const PADDING: u64 = 5;

impl Layout {
    pub(super) const ALL: [Self; 6] =
        [Self::Transposed, Self::Permuted, Self::Sliced, Self::Padded, Self::Expanded, Self::Offset];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Transposed => "transposed",
            Self::Permuted => "permuted",
            Self::Sliced => "sliced",
            Self::Padded => "padded",
            Self::Expanded => "expanded",
            Self::Offset => "offset",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// Whether a tensor of this rank can have the layout.
    pub(super) fn fits(self, rank: usize) -> bool {
        rank >= match self {
            Self::Permuted => 3,
            Self::Transposed | Self::Padded => 2,
            Self::Sliced | Self::Expanded | Self::Offset => 1,
        }
    }

    /// The layout of one input, as [`super::Case::layout`] names it.
    pub(super) fn of(self, input: &str) -> String {
        format!("{input} {}", self.name())
    }

    /// The layout that a case gives to this input, if any.
    pub(super) fn in_case(layout: &str, input: &str) -> Option<Self> {
        layout.strip_prefix(input)?.strip_prefix(' ').and_then(Self::named)
    }

    pub(super) fn place(self, shape: &[u64]) -> Placement {
        let rank = shape.len();
        if !self.fits(rank) {
            return Placement { strides: contiguous_strides(shape), offset: 0 };
        }
        let strides = match self {
            Self::Transposed => swapped(shape, rank - 2, rank - 1),
            Self::Permuted => swapped(shape, rank - 3, rank - 2),
            Self::Sliced => {
                let mut strides = contiguous_strides(&with_last(shape, |length| length * 2));
                strides[rank - 1] = 2;
                strides
            }
            Self::Padded => contiguous_strides(&with_last(shape, |length| length + PADDING)),
            Self::Expanded => {
                let mut strides = contiguous_strides(shape);
                strides[0] = 0;
                strides
            }
            Self::Offset => contiguous_strides(shape),
        };
        Placement { strides, offset: u64::from(self == Self::Offset) }
    }
}

/// The layouts of a Definition: those that it names, else all. Second: names of which nobody knows what
/// they mean.
pub(super) fn of(definition: &Definition) -> (Vec<Layout>, Vec<&str>) {
    let named = &definition.extras.layouts;
    let is_asked = |layout: &Layout| named.is_empty() || named.iter().any(|name| name == layout.name());
    let unknown = named.iter().map(String::as_str).filter(|name| Layout::named(name).is_none());
    (Layout::ALL.into_iter().filter(is_asked).collect(), unknown.collect())
}

/// Row-major strides. Zero-length axes count as one, as in torch.
pub(super) fn contiguous_strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    strides
}

fn swapped(shape: &[u64], one: usize, other: usize) -> Vec<u64> {
    let mut in_memory = shape.to_vec();
    in_memory.swap(one, other);
    let mut strides = contiguous_strides(&in_memory);
    strides.swap(one, other);
    strides
}

fn with_last(shape: &[u64], change: fn(u64) -> u64) -> Vec<u64> {
    let mut changed = shape.to_vec();
    if let Some(last) = changed.last_mut() {
        *last = change(*last);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_those_of_torch() {
        assert_eq!(contiguous_strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(contiguous_strides(&[5]), [1]);
        assert_eq!(contiguous_strides(&[4, 0, 3]), [3, 3, 1]);
        assert!(contiguous_strides(&[]).is_empty());
    }

    #[test]
    fn every_layout_of_a_small_tensor() {
        let strides = |layout: Layout| layout.place(&[2, 3, 4]).strides;
        assert_eq!(strides(Layout::Transposed), [12, 1, 3]);
        assert_eq!(strides(Layout::Permuted), [4, 8, 1]);
        assert_eq!(strides(Layout::Sliced), [24, 8, 2]);
        assert_eq!(strides(Layout::Padded), [27, 9, 1]);
        assert_eq!(strides(Layout::Expanded), [0, 4, 1]);
        assert_eq!(Layout::Offset.place(&[2, 3]), Placement { strides: vec![3, 1], offset: 1 });
        assert_eq!(Layout::Sliced.place(&[7]).strides, [2]);
    }

    #[test]
    fn a_layout_belongs_to_one_input() {
        let layout = Layout::Padded.of("x");
        assert_eq!(Layout::in_case(&layout, "x"), Some(Layout::Padded));
        assert_eq!(Layout::in_case(&layout, "x2"), None);
        assert_eq!(Layout::in_case("xy padded", "x"), None);
        assert_eq!(Layout::in_case("contiguous", "x"), None);
    }
}
