//! The findings of one report, gathered over its cases and tied to places that move with the text.

use std::ops::Range;
use std::path::Path;

use super::kernels::{KernelAnchor, Kernels};
use super::numbers::show;
use crate::judge::{BadElement, Case, Code, Finding, Report, Verdict};
use crate::runner::protocol::{Launch, Place};
use crate::source::{KernelId, SourceModel};
use crate::text::{Document, Splice};

/// Failing cases that are named one by one, beside the first.
const NAMED_CASES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Error,
    Warning,
    Information,
}

/// The same finding in all the cases that have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FindingGroup {
    pub(crate) code: Code,
    pub(crate) severity: Severity,
    /// The kernel it speaks of. While that kernel is not in the text, the finding is not shown.
    pub(crate) kernel: Option<KernelId>,
    pub(crate) anchor: Anchor,
    pub(crate) message: String,
    pub(crate) related: Vec<Related>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Related {
    pub(crate) location: RelatedLocation,
    pub(crate) message: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RelatedLocation {
    Here(Anchor),
    Elsewhere(Place),
}

/// A place in the current text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Anchor {
    FirstLine,
    /// The name of a kernel.
    Kernel(KernelId),
    Line(LineAnchor),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LineAnchor {
    /// Start of the line; `None` after an edit replaced it, until [`Anchor::relocate`].
    start: Option<usize>,
    /// Where that edit was.
    near: usize,
    /// The kernel around the line, and the lines between its start and the line.
    kernel: Option<(KernelId, usize)>,
}

impl Anchor {
    pub(crate) fn shift(&mut self, splice: &Splice) {
        if let Self::Line(line) = self {
            match line.start.and_then(|start| splice.shift(start)) {
                Some(start) => line.start = Some(start),
                None => {
                    line.start = None;
                    line.near = splice.start;
                }
            }
        }
    }

    /// Puts a line back into its kernel when an edit replaced it or tore it out; where there is no kernel,
    /// it stays where that edit was. While the kernel is not in the text there is nothing to do.
    fn relocate(&mut self, kernels: &Kernels, document: &Document) {
        let Self::Line(line) = self else { return };
        let found = match &line.kernel {
            Some((id, offset)) => {
                let Some(kernel) = kernels.find(id) else { return };
                let inside = |start: usize| kernel.range.start <= start && start <= kernel.range.end;
                if line.start.is_some_and(inside) {
                    return;
                }
                let last = document.line_of(kernel.range.end);
                (document.line_of(kernel.range.start) + offset).min(last)
            }
            None if line.start.is_some() => return,
            None => document.line_of(line.near),
        };
        line.start = Some(document.trimmed_line(found).start);
    }

    /// Bytes to underline; `None` when the kernel is not in the text.
    pub(crate) fn resolve(&self, kernels: &Kernels, document: &Document) -> Option<Range<usize>> {
        match self {
            Self::FirstLine => Some(document.trimmed_line(0)),
            Self::Kernel(id) => kernels.find(id).map(|kernel| kernel.name_range.clone()),
            Self::Line(line) => {
                Some(document.trimmed_line(document.line_of(line.start.unwrap_or(line.near))))
            }
        }
    }
}

impl FindingGroup {
    pub(crate) fn shift(&mut self, splice: &Splice) {
        self.anchors().for_each(|anchor| anchor.shift(splice));
    }

    pub(crate) fn relocate(&mut self, kernels: &Kernels, document: &Document) {
        self.anchors().for_each(|anchor| anchor.relocate(kernels, document));
    }

    fn anchors(&mut self) -> impl Iterator<Item = &mut Anchor> {
        let related = self.related.iter_mut().filter_map(|related| match &mut related.location {
            RelatedLocation::Here(anchor) => Some(anchor),
            RelatedLocation::Elsewhere(_) => None,
        });
        std::iter::once(&mut self.anchor).chain(related)
    }
}

/// The text that was judged, to turn the report's line numbers into anchors.
pub(crate) struct Judged<'a> {
    pub(crate) path: &'a Path,
    pub(crate) document: Document,
    pub(crate) kernels: Kernels,
    pub(crate) model: &'a SourceModel,
}

/// Everything in `report` that stands in the text, in order of first appearance. What concerns neither a
/// line nor the user's environment stays out: the lens and the log tell it.
pub(crate) fn gather(report: &Report, judged: &Judged<'_>) -> Vec<FindingGroup> {
    let of_no_case = report.all_findings().map(|finding| Occurrence { finding, case: None, launches: &[] });
    let of_cases = report.all_cases().flat_map(|record| {
        record.findings.iter().map(|finding| Occurrence {
            finding,
            case: Some(&record.case),
            launches: &record.launches,
        })
    });
    let mut groups: Vec<Vec<Occurrence<'_>>> = Vec::new();
    for occurrence in of_no_case.chain(of_cases) {
        if severity(occurrence.finding.code).is_none() {
            continue;
        }
        match groups.iter_mut().find(|group| group[0].same_as(&occurrence)) {
            // A case may tell the same thing twice; it counts once.
            Some(group) if group.iter().any(|known| known.is_of_case(occurrence.case)) => {}
            Some(group) => group.push(occurrence),
            None => groups.push(vec![occurrence]),
        }
    }
    groups.iter().filter_map(|group| judged.group(group)).collect()
}

/// The code speaks of this machine, not of the text: no edit makes it old or repairs it.
pub(crate) fn is_of_environment(code: Code) -> bool {
    matches!(code, Code::NoPython | Code::NoTorch | Code::TritonTooOld | Code::UnusablePython)
}

/// How loud a finding is in the text; `None` when it does not stand there.
fn severity(code: Code) -> Option<Severity> {
    match code {
        Code::SyntaxError => Some(Severity::Error),
        Code::ImportError | Code::CrashedAtImport | Code::BadDescription => Some(Severity::Information),
        code if is_of_environment(code) => Some(Severity::Information),
        _ => match code.verdict() {
            Verdict::Wrong => Some(Severity::Error),
            Verdict::Passed => Some(Severity::Warning),
            Verdict::CouldNotRun => None,
        },
    }
}

#[derive(Clone, Copy)]
struct Occurrence<'a> {
    finding: &'a Finding,
    case: Option<&'a Case>,
    launches: &'a [Launch],
}

impl Occurrence<'_> {
    fn is_of_case(&self, case: Option<&Case>) -> bool {
        match (self.case, case) {
            (Some(own), Some(other)) => std::ptr::eq(own, other),
            (None, None) => true,
            _ => false,
        }
    }

    fn same_as(&self, other: &Occurrence<'_>) -> bool {
        let output = |finding: &Finding| finding.element.as_ref().map(|element| element.output.clone());
        self.finding.code == other.finding.code
            && self.finding.kernel == other.finding.kernel
            && self.finding.place == other.finding.place
            && output(self.finding) == output(other.finding)
    }
}

impl Judged<'_> {
    fn group(&self, occurrences: &[Occurrence<'_>]) -> Option<FindingGroup> {
        let first = occurrences.first()?;
        let (anchor, kernel) = self.stand(first);
        let severity = severity(first.finding.code)?;
        Some(FindingGroup {
            code: first.finding.code,
            severity,
            message: message(first, occurrences.len()),
            related: self.related(occurrences, &anchor),
            kernel: kernel.map(|kernel| kernel.id.clone()),
            anchor,
        })
    }

    /// Where the diagnostic stands, and the kernel it belongs to.
    fn stand(&self, occurrence: &Occurrence<'_>) -> (Anchor, Option<&KernelAnchor>) {
        let finding = occurrence.finding;
        match finding.code {
            Code::SyntaxError => {
                let line = self
                    .own_line(finding.place.as_ref())
                    .or_else(|| Some(self.document.line_of(self.model.first_error.as_ref()?.start)));
                return (line.map_or(Anchor::FirstLine, |line| self.line(line)), None);
            }
            code if code.verdict() == Verdict::CouldNotRun => return (Anchor::FirstLine, None),
            _ => {}
        }
        let own_lines = finding.place.iter().chain(&finding.called_from);
        let line = own_lines.filter_map(|place| self.own_line(Some(place))).next();
        let kernel = finding
            .kernel
            .as_deref()
            .and_then(|name| self.kernels.named(name))
            .or_else(|| self.kernels.at(self.document.trimmed_line(line?).start));
        match (line, kernel.or_else(|| self.last_launched(occurrence.launches))) {
            (Some(line), _) => (self.line(line), kernel),
            (None, Some(kernel)) => (Anchor::Kernel(kernel.id.clone()), Some(kernel)),
            (None, None) => (Anchor::FirstLine, None),
        }
    }

    /// Where a wrong value most likely came from when nobody knows the line: the last launch of the case.
    fn last_launched(&self, launches: &[Launch]) -> Option<&KernelAnchor> {
        launches
            .iter()
            .rev()
            .find_map(|launch| self.kernels.named(&launch.kernel))
            .or_else(|| self.kernels.launched().next())
    }

    /// Zero-based line of a place in the judged file.
    fn own_line(&self, place: Option<&Place>) -> Option<usize> {
        let place = place.filter(|place| Path::new(&place.file) == self.path)?;
        Some(usize::try_from(place.line).ok()?.saturating_sub(1))
    }

    fn line(&self, line: usize) -> Anchor {
        let start = self.document.trimmed_line(line).start;
        let kernel = self.kernels.at(start).map(|kernel| {
            (kernel.id.clone(), self.document.line_of(start) - self.document.line_of(kernel.range.start))
        });
        Anchor::Line(LineAnchor { start: Some(start), near: start, kernel })
    }

    fn related(&self, occurrences: &[Occurrence<'_>], anchor: &Anchor) -> Vec<Related> {
        let Some(first) = occurrences.first() else { return Vec::new() };
        let place = |place: &Place, message: &str| Related {
            location: match self.own_line(Some(place)) {
                Some(line) => RelatedLocation::Here(self.line(line)),
                None => RelatedLocation::Elsewhere(place.clone()),
            },
            message: message.to_owned(),
        };
        let elsewhere = first.finding.place.iter().filter(|place| self.own_line(Some(place)).is_none());
        let called_from = first.finding.called_from.iter().map(|at| place(at, "called from here"));
        let others = occurrences[1..].iter().filter_map(|occurrence| occurrence.case).take(NAMED_CASES);
        elsewhere
            .map(|at| place(at, "it happened here"))
            .chain(called_from)
            .chain(others.map(|case| Related {
                location: RelatedLocation::Here(anchor.clone()),
                message: format!("also in {} case {}", case.stage, case.label()),
            }))
            .collect()
    }
}

/// The finding's own words, the case and element it was first seen in, and how often it was seen again.
fn message(first: &Occurrence<'_>, cases: usize) -> String {
    let mut lines = vec![first.finding.message.clone()];
    let element =
        first.finding.element.as_ref().and_then(|element| in_words(element, &first.finding.message));
    let place: Vec<String> = first.case.map(Case::label).into_iter().chain(element).collect();
    if !place.is_empty() {
        lines.push(place.join(" · "));
    }
    match cases - 1 {
        0 => {}
        1 => lines.push("and 1 more case".to_owned()),
        more => lines.push(format!("and {more} more cases")),
    }
    lines.join("\n")
}

/// The first bad element, unless the message names it already.
fn in_words(element: &BadElement, message: &str) -> Option<String> {
    let index: Vec<String> = element.index.iter().map(u64::to_string).collect();
    let index = format!("[{}]", index.join(", "));
    (!message.contains(&index)).then(|| {
        format!(
            "{}{index}: expected {}, got {}, allowed error {}",
            element.output,
            show(element.expected),
            show(element.got),
            show(element.allowed)
        )
    })
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
