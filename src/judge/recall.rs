//! Verdicts answered from the store: what the last whole check of exactly this text said, while nothing that it rests on
//! has changed. Where anything of that is not surely known, nothing is answered.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::check::{CheckRequest, Earlier};
use super::engine::Engine;
use super::foundation::{Foundation, is_plain};
use super::timing::NoTimingCode;
use super::verdict::real_path;
use super::{NotRun, Report, Verdict, assess, beside};
use crate::source::{self, SourceModel};
use crate::store::ReportEntry;
use crate::toolchain::Places;

/// What a report rests on, as it is kept beside it.
#[derive(Serialize, Deserialize)]
struct Rests {
    foundation: Foundation,
    described_as: String,
}

impl Report {
    /// A verdict that another check of the same text would not be wanted for: nothing kept part of it from running that
    /// may have passed by now.
    pub fn may_stand(&self) -> bool {
        self.verdict != Verdict::CouldNotRun
            // Whatever was compared with HEAD: there may be another by now.
            && !self.compares_with_head()
            // The interpreter may be able to look now, and the memory may be there.
            && !self.judgements().iter().flat_map(|part| &part.not_run).any(is_passing)
            // Nobody else may be using the GPU any more.
            && !self.all_not_timed().any(|missing| missing.code == NoTimingCode::GpuBusy)
    }

    fn is_whole(&self) -> bool {
        let could_not = |verdict: Verdict| verdict == Verdict::CouldNotRun;
        let of_cases = self.all_cases().flat_map(|record| &record.findings);
        !self.judgements().iter().any(|part| could_not(part.verdict))
            && !self.all_cases().any(|record| could_not(record.verdict))
            && !self.all_findings().chain(of_cases).any(|finding| could_not(finding.code.verdict()))
    }
}

/// Whether what was not run may be run the next time.
fn is_passing(line: &NotRun) -> bool {
    line.what == beside::WHAT || line.why == assess::NO_ROOM
}

impl Engine {
    /// Keeps the report for [`Self::recall`], or what stood there is forgotten: the last word of a check counts.
    pub(super) async fn keep_report(&self, request: &CheckRequest, report: &Report) {
        if report.is_cancelled() || !request.path.is_file() {
            return;
        }
        let Some(history) = self.history() else { return };
        let (file, text_hash) = (real_path(&request.path), hash(&request.text));
        match entry(request, report) {
            Some(entry) => {
                history.keep_report(entry).await;
            }
            // A check of a part that passed says nothing against the whole.
            None if report.verdict == Verdict::Passed && !is_plain(&request.options) => {}
            None => {
                history.forget_report(file, text_hash).await;
            }
        }
    }

    /// See [`super::check::Checker::recall`].
    pub(super) async fn recalled(&self, request: &CheckRequest) -> Option<Earlier> {
        // Whoever opens a file makes no history.
        Places::of(&self.surroundings).ok().filter(|places| places.history().is_file())?;
        let model = source::parse(&request.text);
        if !is_alone(request, &model) {
            return None;
        }
        let kept = self.history()?.report(real_path(&request.path), hash(&request.text)).await?;
        let rests: Rests = serde_json::from_str(&kept.rests_on).ok()?;
        let mut report: Report = serde_json::from_str(&kept.record).ok()?;
        report.provenance.described_as = Some(rests.described_as);
        report.provenance.foundation = Some(Arc::new(rests.foundation));
        let is_of_text = report.provenance.source_hash == hash(&request.text);
        if !is_of_text || !report.may_stand() || !report.is_whole() {
            return None;
        }
        let (report, stands) = self.described_as_before(request, model, report).await?;
        (stands && self.stands(request, &report).await)
            .then_some(Earlier { report, judged_at_s: kept.judged_at_s })
    }

    /// Reads files, so not on a task.
    async fn described_as_before(
        &self,
        request: &CheckRequest,
        model: SourceModel,
        report: Report,
    ) -> Option<(Report, bool)> {
        let request = request.clone();
        let described = tokio::task::spawn_blocking(move || {
            let stands = report.provenance.is_still_described(&request.path, &request.text, &model);
            (report, stands)
        });
        described.await.ok()
    }

    /// See [`super::check::Checker::still_stands`].
    pub(super) async fn stands(&self, request: &CheckRequest, report: &Report) -> bool {
        match &report.provenance.foundation {
            Some(foundation) => self.rests_on_the_same(request, foundation).await,
            // What it rests on could not be looked at.
            None => false,
        }
    }
}

/// `None` for what must not be answered from the store.
fn entry(request: &CheckRequest, report: &Report) -> Option<ReportEntry> {
    let provenance = &report.provenance;
    let foundation = provenance.foundation.as_deref()?;
    let is_where_it_was_meant = provenance.gpu.is_some() || foundation.is_without_gpu();
    let is_sure = report.may_stand()
        && report.is_whole()
        && is_plain(&request.options)
        && is_where_it_was_meant
        && is_alone(request, &source::parse(&request.text));
    let rests = Rests { foundation: foundation.clone(), described_as: provenance.described_as.clone()? };
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).ok()?;
    is_sure.then_some(ReportEntry {
        file: real_path(&request.path),
        text_hash: hash(&request.text),
        rests_on: serde_json::to_string(&rests).ok()?,
        judged_at_s: since.as_secs(),
        record: serde_json::to_string(report).ok()?,
    })
}

/// What the text does depends on nothing that nobody looks at: no module of the user's, no file, no variable.
fn is_alone(request: &CheckRequest, model: &SourceModel) -> bool {
    let folder = request.path.parent();
    let root = super::environment::project_root(&request.path);
    // A file of that name beside the kernel may be the one that is imported.
    let is_hidden = |module: &String| {
        [folder, root.as_deref()]
            .into_iter()
            .flatten()
            .any(|place| place.join(module).is_dir() || place.join(format!("{module}.py")).exists())
    };
    source::rests_on_itself(&request.text, model) && !model.imports.iter().any(is_hidden)
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
