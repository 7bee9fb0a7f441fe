//! All that one check of one file found. Of a file with several described functions it has a part for each.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::check::CheckOptions;
use super::run::Outcomes;
use super::timing::{NoTiming, Timing};
use super::verdict::{CaseRecord, Code, Finding, NotJudged, NotRun, Provenance, Timeline, Verdict};
use crate::oracle::OracleLabel;
use crate::runner::WorkerVersions;
use crate::source::{Kernel, KernelId, SourceModel};

/// See the module's documentation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The function that was judged; `None` when none was found, and of a file with several.
    pub entry: Option<String>,
    /// Names of the kernels that the entry launches, as far as the code shows.
    pub kernels: Vec<String>,
    /// `None` when no oracle was found, and of a file with several.
    pub oracle: Option<OracleLabel>,
    pub cases: Vec<CaseRecord>,
    /// Findings that belong to no case: no kernel, import failed, environment missing.
    pub findings: Vec<Finding>,
    /// Stages that were not run, with the reason. Never shown as passed.
    pub not_run: Vec<NotRun>,
    pub verdict: Verdict,
    /// Versions and method: what the verdict rests on.
    pub provenance: Provenance,
    pub timeline: Timeline,
    /// One report for each of several described functions; then nothing of a case stands in this one.
    pub parts: Vec<Report>,
    /// Kernels of the file that nothing launches that was judged.
    pub not_judged: Vec<NotJudged>,
    /// Times of the entry, each against one baseline. Shown through [`Self::published`].
    pub timings: Vec<Timing>,
    /// Times of the entry that may not be published, and why.
    pub not_timed: Vec<NoTiming>,
}

impl Report {
    /// A check that ended before there was anything to judge.
    pub fn ended_at_once(finding: Finding) -> Self {
        let nothing = Self {
            entry: None,
            kernels: Vec::new(),
            oracle: None,
            cases: Vec::new(),
            findings: Vec::new(),
            not_run: Vec::new(),
            verdict: Verdict::CouldNotRun,
            provenance: Provenance::default(),
            timeline: Timeline::default(),
            parts: Vec::new(),
            not_judged: Vec::new(),
            timings: Vec::new(),
            not_timed: Vec::new(),
        };
        nothing.ended_by(finding)
    }

    /// Nothing is known yet of the file with this text.
    pub(super) fn new(text: &str) -> Self {
        let mut report = Self::ended_at_once(Finding::plain(Code::JudgeFailed, "no case was run"));
        report.findings.clear();
        report.provenance = Provenance {
            warpsmith: env!("CARGO_PKG_VERSION").to_owned(),
            method: "triton-interpreter".to_owned(),
            source_hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
            ..Provenance::default()
        };
        report
    }

    /// What was judged: the parts, or without any this report itself.
    pub fn judgements(&self) -> &[Self] {
        if self.parts.is_empty() { std::slice::from_ref(self) } else { &self.parts }
    }

    /// Cases of everything that was judged.
    pub fn all_cases(&self) -> impl Iterator<Item = &CaseRecord> {
        self.judgements().iter().flat_map(|part| &part.cases)
    }

    /// Findings that belong to no case, of the file and of everything that was judged.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        let of_file = if self.parts.is_empty() { &[] } else { self.findings.as_slice() };
        of_file.iter().chain(self.judgements().iter().flat_map(|part| &part.findings))
    }

    /// The times of the entry that may be shown: none without a passed verdict on the very text that was timed.
    pub fn published(&self) -> impl Iterator<Item = &Timing> {
        let is_passed = self.verdict == Verdict::Passed;
        self.timings
            .iter()
            .filter(move |timing| is_passed && timing.source_hash == self.provenance.source_hash)
    }

    /// Times of everything that was judged that may be shown.
    pub fn all_published(&self) -> impl Iterator<Item = &Timing> {
        self.judgements().iter().flat_map(Self::published)
    }

    /// It was told to end before it had judged everything.
    pub fn is_cancelled(&self) -> bool {
        let of_cases = self.all_cases().flat_map(|record| &record.findings);
        self.all_findings().chain(of_cases).any(|finding| finding.code == Code::Cancelled)
    }

    /// Times of the file and of everything that was judged that are not published.
    pub fn all_not_timed(&self) -> impl Iterator<Item = &NoTiming> {
        let of_file = if self.parts.is_empty() { &[] } else { self.not_timed.as_slice() };
        of_file.iter().chain(self.judgements().iter().flat_map(|part| &part.not_timed))
    }

    /// What speaks for the kernel of this name: every judged function that launched it or would, had it not ended
    /// before. The one function of a file speaks for all its kernels but those that are [`Self::not_judged`].
    pub fn of_kernel(&self, kernel: &str) -> Vec<&Self> {
        if self.parts.is_empty() {
            return vec![self];
        }
        let would = |part: &Self| part.kernels.iter().any(|known| known == kernel);
        self.parts.iter().filter(|part| part.has_launched(kernel) || would(part)).collect()
    }

    /// All of it was compared with the version at HEAD only: a pass says that it is the same, not that it is right.
    pub fn is_against_head(&self) -> bool {
        let mut oracles = self.judgements().iter().map(|part| part.oracle.as_ref());
        oracles.all(|oracle| oracle.is_some_and(OracleLabel::is_head))
    }

    /// Some of it was compared with the version at HEAD.
    pub fn compares_with_head(&self) -> bool {
        self.judgements().iter().filter_map(|part| part.oracle.as_ref()).any(OracleLabel::is_head)
    }

    /// Why nothing was judged that launches the kernel of this name.
    pub fn why_not_judged(&self, kernel: &str) -> Option<&str> {
        let is_it = |left: &&NotJudged| KernelId(left.kernel.clone()).bare_name() == kernel;
        self.not_judged.iter().find(is_it).map(|left| left.why.as_str())
    }

    pub(super) fn ended_by(mut self, finding: Finding) -> Self {
        self.verdict = finding.code.verdict();
        self.findings.push(finding);
        self
    }

    /// wrong > could not run > passed; and nothing passes that ran no case or was cut short.
    pub(super) fn finish(mut self, outcomes: Outcomes, options: &CheckOptions, cancelled: bool) -> Self {
        self.cases = outcomes.cases;
        self.findings.extend(outcomes.findings);
        self.not_run.extend(outcomes.not_run);
        if let Some(asked) = &options.kernel
            && self.findings.is_empty()
            && self.entry.as_ref() != Some(asked)
            && !self.has_launched(asked)
        {
            let message = format!("`{asked}` was never launched by the entry that was judged");
            self.findings.push(Finding::plain(Code::OtherKernel, message));
        }
        if cancelled {
            self.findings.push(Finding::plain(Code::Cancelled, "cancelled before the end".to_owned()));
        } else if self.cases.is_empty() && self.findings.is_empty() {
            self.findings.push(Finding::plain(Code::JudgeFailed, "no case was run".to_owned()));
        } else if self.compared_nothing() {
            let message = "every case passed and none has a value that could be compared, so nothing is known; try \
                           lengths other than 0";
            self.findings.push(Finding::plain(Code::NotComparable, message));
        }
        let of_findings = self.findings.iter().map(|finding| finding.code.verdict());
        let of_cases = self.cases.iter().map(|record| record.verdict);
        self.verdict = of_findings.chain(of_cases).max().unwrap_or(Verdict::CouldNotRun);
        self
    }

    /// Only empty outputs, or sizes of which the bounds alone were checked: whatever the kernel computes would pass.
    fn compared_nothing(&self) -> bool {
        let compares = |record: &CaseRecord| record.errors.iter().any(|errors| errors.elements_compared > 0);
        !self.cases.is_empty()
            && self.cases.iter().all(|record| record.verdict == Verdict::Passed && !compares(record))
    }

    /// Takes what was judged in: a single one is the report of the file.
    pub(super) fn of_file(mut self, mut judged: Vec<Self>) -> Self {
        if judged.len() == 1
            && let Some(only) = judged.pop()
        {
            return only;
        }
        self.verdict = judged.iter().map(|part| part.verdict).max().unwrap_or(Verdict::CouldNotRun);
        let earliest = |pick: fn(&Timeline) -> Option<f64>| {
            judged.iter().filter_map(|part| pick(&part.timeline)).min_by(f64::total_cmp)
        };
        self.timeline.loaded = earliest(|timeline| timeline.loaded);
        self.timeline.first_verdict = earliest(|timeline| timeline.first_verdict);
        let latest = |pick: fn(&Timeline) -> Option<f64>| {
            judged.iter().filter_map(|part| pick(&part.timeline)).max_by(f64::total_cmp)
        };
        self.timeline.judged = latest(|timeline| timeline.judged);
        self.timeline.end = latest(|timeline| timeline.end).or(self.timeline.end);
        for part in &judged {
            self.provenance.described_by.extend(part.provenance.described_by.clone());
        }
        self.parts = judged;
        self
    }

    /// Lists the kernels that no judged function launched nor would launch; helpers go with those that call them.
    /// Where the code does not show what an entry launches and none of its cases did, nothing is listed.
    pub(super) fn list_not_judged(&mut self, model: &SourceModel) {
        let launches_nothing =
            |part: &Self| part.kernels.is_empty() && part.cases.iter().all(|case| case.launches.is_empty());
        if self.judgements().iter().any(launches_nothing) {
            return;
        }
        let is_reached = |kernel: &&Kernel| {
            self.judgements()
                .iter()
                .any(|part| part.has_launched(&kernel.name) || part.kernels.contains(&kernel.name))
        };
        let mut reached: BTreeSet<&KernelId> =
            model.kernels.iter().filter(is_reached).map(|k| &k.id).collect();
        let mut waiting: Vec<&KernelId> = reached.iter().copied().collect();
        while let Some(id) = waiting.pop() {
            let helpers =
                model.kernels.iter().filter(|kernel| kernel.id == *id).flat_map(|kernel| &kernel.helpers);
            waiting.extend(helpers.filter(|helper| reached.insert(helper)));
        }
        let left = model.kernels.iter().filter(|kernel| !reached.contains(&kernel.id));
        self.not_judged = left
            .map(|kernel| NotJudged { kernel: kernel.id.0.clone(), why: why_not_judged(kernel, model) })
            .collect();
    }

    /// Whether any case launched a kernel of this name or [`KernelId`].
    pub fn has_launched(&self, kernel: &str) -> bool {
        let kernel = KernelId(kernel.to_owned());
        let mut launches = self.cases.iter().flat_map(|record| &record.launches);
        launches.any(|launch| launch.kernel == kernel.bare_name())
    }
}

fn why_not_judged(kernel: &Kernel, model: &SourceModel) -> String {
    let launchers: Vec<&str> = model
        .functions
        .iter()
        .filter(|function| function.launches.contains(&kernel.id))
        .map(|function| function.name.as_str())
        .collect();
    match launchers.as_slice() {
        [] if model.is_lonely(kernel) => {
            "no launch of it was found in this file; check the file that launches it, with a comment above the \
             function that does"
                .to_owned()
        }
        [] => "no function that is judged launches it".to_owned(),
        names => format!(
            "only `{}` launches it, which nothing describes; write a `# warpsmith:` comment above it",
            names.join("`, `")
        ),
    }
}

impl Provenance {
    pub(super) fn rest_on(&mut self, versions: &WorkerVersions) {
        self.python = Some(versions.python.clone());
        self.torch.clone_from(&versions.torch);
        self.triton.clone_from(&versions.triton);
        self.numpy.clone_from(&versions.numpy);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::judge::{Case, Coverage, Stage};
    use crate::runner::protocol::Launch;
    use crate::source::parse;
    use crate::spec::Dtype;

    #[test]
    fn a_time_is_shown_only_of_the_text_that_passed() {
        let mut report = Report::ended_at_once(Finding::plain(Code::WeakTolerance, ""));
        report.provenance.source_hash = "this text".to_owned();
        report.timings = ["this text", "another text"]
            .map(|hash| Timing { source_hash: hash.to_owned(), ..crate::judge::timing::samples::timing() })
            .into();
        let shown = |report: &Report| report.all_published().count();
        assert_eq!((report.verdict, shown(&report)), (Verdict::Passed, 1));
        for verdict in [Verdict::Wrong, Verdict::CouldNotRun] {
            report.verdict = verdict;
            assert_eq!(shown(&report), 0);
        }
    }

    const FILE: &str = "\
import triton
@triton.jit
def helper(x): pass
@triton.jit
def one(x): helper(x)
@triton.jit
def two(x): pass
@triton.jit
def three(x): pass
@triton.jit
def four(x): pass
def f(x):
    one[(1,)](x)
    g(x)
def g(x): two[(1,)](x)
def h(x): three[(1,)](x)
";

    fn judged(entry: &str, verdict: Verdict) -> Report {
        let model = parse(FILE);
        let launches = model.function(entry).map(|function| function.launches.clone()).unwrap_or_default();
        let kernels = launches.iter().map(|kernel| kernel.bare_name().to_owned()).collect();
        let code = if verdict == Verdict::Wrong { Code::Mismatch } else { Code::WeakTolerance };
        let report = Report { entry: Some(entry.to_owned()), kernels, ..Report::new(FILE) };
        Report { verdict, ..report.ended_by(Finding::plain(code, entry)) }
    }

    /// A passed case that launched this kernel.
    fn launched(kernel: &str) -> CaseRecord {
        let launch = Launch {
            kernel: kernel.to_owned(),
            file: "k.py".to_owned(),
            line: 1,
            grid: [1, 1, 1],
            programs: 1,
            programs_run: 1,
            tf32_dots: Vec::new(),
            ms: 0.5,
        };
        let case = Case {
            stage: Stage::Smoke,
            definition: "f".to_owned(),
            axes: BTreeMap::new(),
            dtype: Dtype::Float32,
            layout: "contiguous".to_owned(),
            profile: "default".to_owned(),
            scalars: BTreeMap::new(),
            options: BTreeMap::new(),
            coverage: Coverage::Full,
        };
        CaseRecord {
            case,
            verdict: Verdict::Passed,
            findings: Vec::new(),
            errors: Vec::new(),
            launches: vec![launch],
            seed: 1,
            elapsed_ms: 1.0,
        }
    }

    fn entries(report: &Report, kernel: &str) -> Vec<String> {
        report.of_kernel(kernel).into_iter().filter_map(|part| part.entry.clone()).collect()
    }

    #[test]
    fn the_worst_function_decides_over_the_file_and_each_speaks_for_its_kernels() {
        let parts = vec![judged("f", Verdict::Passed), judged("h", Verdict::Wrong)];
        let report = Report::new(FILE).of_file(parts);
        assert_eq!(report.verdict, Verdict::Wrong);
        assert_eq!(report.all_findings().count(), 2);
        assert_eq!(entries(&report, "one"), ["f"]);
        assert_eq!(entries(&report, "two"), ["f"], "through another function");
        assert_eq!(entries(&report, "three"), ["h"]);
        assert_eq!(entries(&report, "four"), [] as [&str; 0]);
        let alone = Report::new(FILE).of_file(vec![judged("h", Verdict::Passed)]);
        assert_eq!((alone.entry.as_deref(), alone.parts.len()), (Some("h"), 0));
    }

    /// The function that raised before its launch speaks for the kernel beside the one that launched it.
    #[test]
    fn a_function_that_would_launch_a_kernel_is_not_hidden_by_one_that_did() {
        let mut dynamic = judged("f", Verdict::Passed);
        dynamic.cases.push(launched("three"));
        assert!(dynamic.has_launched("three") && !dynamic.kernels.contains(&"three".to_owned()));
        let report = Report::new(FILE).of_file(vec![dynamic, judged("h", Verdict::Wrong)]);
        assert_eq!(entries(&report, "three"), ["f", "h"]);
        assert_eq!(entries(&report, "one"), ["f"]);
    }

    #[test]
    fn kernels_that_nothing_judged_launches_are_listed_with_what_to_do() {
        let mut report = judged("f", Verdict::Passed);
        report.list_not_judged(&parse(FILE));
        let left: Vec<String> =
            report.not_judged.iter().map(|left| format!("{}: {}", left.kernel, left.why)).collect();
        assert_eq!(
            left,
            [
                "three: only `h` launches it, which nothing describes; write a `# warpsmith:` comment above it",
                "four: no launch of it was found in this file; check the file that launches it, with a comment above \
                 the function that does",
            ]
        );
        assert!(report.why_not_judged("three").is_some() && report.why_not_judged("one").is_none());
    }

    /// `kernel_fn = something` says nothing of what it launches before it ran.
    #[test]
    fn where_the_code_shows_no_launch_nothing_is_listed() {
        let mut report = judged("somewhere else", Verdict::CouldNotRun);
        report.list_not_judged(&parse(FILE));
        assert_eq!(report.not_judged, []);
    }
}
