//! Where the kernels of a file stand in the current text, also while that text does not parse.

use std::ops::Range;

use crate::source::{Kernel, KernelId, SourceModel};
use crate::text::Splice;

/// One kernel in the current text. Ranges are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelAnchor {
    pub(crate) id: KernelId,
    pub(crate) name: String,
    pub(crate) name_range: Range<usize>,
    /// From the first decorator to the end of the body.
    pub(crate) range: Range<usize>,
    pub(crate) launched: bool,
    /// Nothing in this file launches or calls it; another file may.
    pub(crate) lonely: bool,
}

impl KernelAnchor {
    fn new(kernel: &Kernel, model: &SourceModel) -> Self {
        Self {
            id: kernel.id.clone(),
            name: kernel.name.clone(),
            name_range: kernel.name_range.clone(),
            range: kernel.range.clone(),
            launched: kernel.is_launched(),
            lonely: model.is_lonely(kernel),
        }
    }
}

/// In order of appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernels(Vec<KernelAnchor>);

impl Kernels {
    pub(crate) fn new(model: &SourceModel) -> Self {
        Self(model.kernels.iter().map(|kernel| KernelAnchor::new(kernel, model)).collect())
    }

    /// Follows an edit, until the next [`Self::update`].
    pub(crate) fn shift(&mut self, splice: &Splice) {
        for kernel in &mut self.0 {
            kernel.range = shift_range(&kernel.range, splice);
            kernel.name_range = shift_range(&kernel.name_range, splice);
        }
    }

    /// Takes the parse of the current text. Where it met an error, kernels and launches that it no longer
    /// finds are kept where the edits moved them: a half-typed line must not make findings vanish.
    pub(crate) fn update(&mut self, model: &SourceModel) {
        let mut updated = Self::new(model);
        if model.first_error.is_some() {
            for old in std::mem::take(&mut self.0) {
                match updated.0.iter_mut().find(|kernel| kernel.id == old.id) {
                    Some(kernel) => {
                        kernel.launched |= old.launched;
                        kernel.lonely &= old.lonely;
                    }
                    None => updated.0.push(old),
                }
            }
            updated.0.sort_by_key(|kernel| kernel.range.start);
        }
        *self = updated;
    }

    pub(crate) fn launched(&self) -> impl Iterator<Item = &KernelAnchor> {
        self.0.iter().filter(|kernel| kernel.launched)
    }

    /// Those above which a lens stands.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &KernelAnchor> {
        self.0.iter().filter(|kernel| kernel.launched || kernel.lonely)
    }

    pub(crate) fn find(&self, id: &KernelId) -> Option<&KernelAnchor> {
        self.0.iter().find(|kernel| kernel.id == *id)
    }

    /// The kernel that a launch record names; of several with one name the launched one.
    pub(crate) fn named(&self, name: &str) -> Option<&KernelAnchor> {
        let mut same_name = self.0.iter().filter(|kernel| kernel.name == name);
        let first = same_name.next()?;
        if first.launched { Some(first) } else { same_name.find(|kernel| kernel.launched).or(Some(first)) }
    }

    /// The innermost kernel whose text holds byte `offset`.
    pub(crate) fn at(&self, offset: usize) -> Option<&KernelAnchor> {
        let holds = |kernel: &&KernelAnchor| kernel.range.start <= offset && offset <= kernel.range.end;
        self.0.iter().filter(holds).min_by_key(|kernel| kernel.range.len())
    }
}

fn shift_range(range: &Range<usize>, splice: &Splice) -> Range<usize> {
    let start = splice.shift(range.start).unwrap_or(splice.start);
    let end =
        if range.end <= splice.start { range.end } else { splice.shift(range.end).unwrap_or(splice.new_end) };
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{LaunchContext, LaunchSite};

    fn kernel(name: &str, range: Range<usize>, launched: bool) -> Kernel {
        let launch =
            LaunchSite { range: 100..110, context: LaunchContext::Function, function: "run".to_owned() };
        Kernel {
            id: KernelId(name.to_owned()),
            name: name.to_owned(),
            name_range: range.start + 4..range.start + 5,
            range,
            parameters: Vec::new(),
            autotuned: false,
            heuristics: false,
            other_decorators: Vec::new(),
            launches: launched.then_some(launch).into_iter().collect(),
            helpers: Vec::new(),
            content_hash: String::new(),
        }
    }

    fn model(kernels: Vec<Kernel>, broken: bool) -> SourceModel {
        SourceModel { kernels, first_error: broken.then_some(0..1), ..SourceModel::default() }
    }

    #[test]
    fn a_broken_parse_keeps_the_last_good_kernels_moved_by_the_edits() {
        let mut kernels =
            Kernels::new(&model(vec![kernel("a", 10..30, true), kernel("b", 40..60, true)], false));
        kernels.shift(&Splice { start: 35, old_end: 35, new_end: 40 });
        kernels.update(&model(vec![kernel("a", 10..30, false)], true));
        assert_eq!(kernels.launched().count(), 2);
        assert_eq!(kernels.find(&KernelId("b".to_owned())).expect("kept").range, 45..65);
        assert_eq!(kernels.at(50).expect("inside b").name, "b");
        kernels.update(&model(vec![kernel("a", 10..30, true)], false));
        assert_eq!(kernels.find(&KernelId("b".to_owned())), None);
    }

    #[test]
    fn of_kernels_with_one_name_the_launched_one_is_meant() {
        let mut twin = kernel("k", 40..60, true);
        twin.id = KernelId("k#2".to_owned());
        let kernels = Kernels::new(&model(vec![kernel("k", 10..30, false), twin], false));
        assert_eq!(kernels.named("k").expect("there").id.0, "k#2");
        assert_eq!(kernels.named("other"), None);
    }
}
