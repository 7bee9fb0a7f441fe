//! Every verdict of this machine's user, kept when a check ends, and read again.
//!
//! Nothing here fails a check: where there is no history, none is kept and the log says why.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::check::{CheckOptions, CheckRequest};
use super::timing::{Against, Change};
use super::verdict::real_path;
use super::{Engine, Finding, Report, Verdict};
use crate::source;
use crate::store::{History, VerdictEntry};
use crate::toolchain::{AtHead, Places};

pub use crate::store::{Pruned, Retention};

/// The `schema` of [`PastVerdict::json`].
pub const SCHEMA: &str = "warpsmith.history/1";

/// One verdict that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct PastVerdict {
    pub file: PathBuf,
    /// The judged function; `None` when none was found.
    pub entry: Option<String>,
    pub verdict: Verdict,
    pub passed: u64,
    pub wrong: u64,
    pub could_not_run: u64,
    /// Names of the codes of all findings, each once.
    pub codes: Vec<String>,
    /// The label of who said what is right.
    pub oracle: Option<String>,
    /// `triton-interpreter` or `gpu`.
    pub method: String,
    pub gpu: Option<String>,
    pub versions: PastVersions,
    /// [`source::code_hash`] of the text, in hexadecimal.
    pub code_hash: String,
    /// The commit that was checked out.
    pub commit: Option<String>,
    /// Unix time of the end of the check, in seconds.
    pub judged_at_s: u64,
    pub detail: Detail,
}

/// What of a verdict is asked for by nobody but people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// blake3 of the text.
    pub source_hash: String,
    /// What the check was narrowed to, as on the command line: `--stage smoke`; empty is everything.
    pub asked: String,
    /// `--seed` replays it.
    pub seed: Option<String>,
    /// How long checking took.
    pub elapsed_ms: Option<f64>,
    /// The code is that of `commit`.
    pub is_committed: bool,
    /// Times that were published.
    pub times: Vec<PastTime>,
}

/// Versions that a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PastVersions {
    pub warpsmith: String,
    pub python: Option<String>,
    pub torch: Option<String>,
    pub triton: Option<String>,
    pub driver: Option<String>,
}

/// A time that was published with a verdict; the whole of it is kept for comparing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastTime {
    pub definition: String,
    pub shape: String,
    pub dtype: String,
    pub baseline: Option<String>,
    /// Median of a call after a flush of L2, in µs.
    pub cold_us: f64,
    /// How many times faster than the baseline.
    pub speedup: Option<f64>,
    pub changes: Vec<Change>,
}

impl Engine {
    /// Opens the history while the check runs.
    pub(super) fn history(&self) -> Option<&History> {
        let places = Places::of(&self.surroundings).ok()?;
        Some(self.history.get_or_init(|| History::open(&places.history())))
    }

    /// Keeps what a check said. Not of one that was cancelled, which says nothing, nor of a text that is no file.
    pub(super) async fn keep(&self, request: &CheckRequest, report: &Report, head: Option<AtHead>) {
        if report.is_cancelled() || !request.path.is_file() {
            return;
        }
        let Some(history) = self.history() else { return };
        for entry in entries(request, report, head.as_ref()) {
            if !history.keep(entry).await {
                let complaint = history.complaint().unwrap_or_else(|| "it took too long".to_owned());
                tracing::warn!("a verdict was not kept: {complaint}");
                return;
            }
        }
    }
}

/// A row for each function that was judged.
fn entries(request: &CheckRequest, report: &Report, head: Option<&AtHead>) -> Vec<VerdictEntry> {
    let code_hash = source::code_hash(&request.text);
    let is_committed = head.is_some_and(|head| source::code_hash(&head.text) == code_hash);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    report
        .judgements()
        .iter()
        .map(|part| {
            let count = |verdict| part.cases.iter().filter(|record| record.verdict == verdict).count() as u64;
            let rests = &part.provenance;
            let versions = PastVersions {
                warpsmith: rests.warpsmith.clone(),
                python: rests.python.clone(),
                torch: rests.torch.clone(),
                triton: rests.triton.clone(),
                driver: rests.gpu.as_ref().map(|gpu| gpu.driver.clone()),
            };
            let detail = Detail {
                source_hash: blake3::hash(request.text.as_bytes()).to_hex().to_string(),
                asked: asked(&request.options),
                seed: part.cases.first().map(|record| record.seed.to_string()),
                elapsed_ms: part.timeline.end,
                is_committed,
                times: times(part),
            };
            VerdictEntry {
                file: real_path(&request.path),
                entry: part.entry.clone().unwrap_or_default(),
                code_hash: code_hash.to_hex().to_string(),
                verdict: name(part.verdict),
                passed: count(Verdict::Passed),
                wrong: count(Verdict::Wrong),
                could_not_run: count(Verdict::CouldNotRun),
                codes: json!(codes(part)).to_string(),
                oracle: part.oracle.as_ref().map(|oracle| oracle.label.clone()),
                method: rests.method.clone(),
                gpu: rests.gpu.as_ref().map(|gpu| format!("{} {}", gpu.name, gpu.uuid)),
                versions: json!(versions).to_string(),
                commit: head.map(|head| head.commit.clone()),
                judged_at_s: since.as_secs(),
                detail: json!(detail).to_string(),
            }
        })
        .collect()
}

/// Each code once, the worst first.
fn codes(report: &Report) -> Vec<String> {
    let of_cases = report.cases.iter().flat_map(|record| &record.findings);
    let mut found: Vec<&Finding> = report.findings.iter().chain(of_cases).collect();
    found.sort_by_key(|finding| (std::cmp::Reverse(finding.code.verdict()), finding.code));
    let mut names: Vec<String> = found.into_iter().map(|finding| finding.code.name()).collect();
    names.dedup();
    names
}

fn times(report: &Report) -> Vec<PastTime> {
    let past = |timing: &super::Timing| PastTime {
        definition: timing.subject.definition.clone(),
        shape: timing.subject.shape.clone(),
        dtype: timing.subject.dtype.map_or("", crate::spec::Dtype::short).to_owned(),
        baseline: timing.baseline.clone(),
        cold_us: timing.latency.cold_us.median,
        speedup: timing.speedup.as_ref().map(|speedup| speedup.cold.median),
        changes: timing.changes.clone(),
    };
    report.published().map(past).collect()
}

fn asked(options: &CheckOptions) -> String {
    let dtypes: Vec<&str> = options.dtypes.iter().map(|dtype| dtype.short()).collect();
    let stages: Vec<&str> = options.stages.iter().map(|stage| stage.name()).collect();
    let kernel: Vec<&str> = options.kernel.as_deref().into_iter().collect();
    [("--kernel", kernel), ("--dtype", dtypes), ("--stage", stages)]
        .into_iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(option, values)| format!("{option} {}", values.join(",")))
        .collect::<Vec<_>>()
        .join(" ")
}

/// As records spell it.
fn name(verdict: Verdict) -> String {
    json!(verdict).as_str().unwrap_or_default().to_owned()
}

fn named(name_read: &str) -> Option<Verdict> {
    [Verdict::Passed, Verdict::CouldNotRun, Verdict::Wrong]
        .into_iter()
        .find(|verdict| name(*verdict) == name_read)
}

/// What a row of the store says. `None` for one that this version cannot read.
fn read(row: VerdictEntry) -> Option<PastVerdict> {
    Some(PastVerdict {
        verdict: named(&row.verdict)?,
        file: row.file,
        entry: Some(row.entry).filter(|entry| !entry.is_empty()),
        passed: row.passed,
        wrong: row.wrong,
        could_not_run: row.could_not_run,
        codes: serde_json::from_str(&row.codes).unwrap_or_default(),
        oracle: row.oracle,
        method: row.method,
        gpu: row.gpu,
        versions: serde_json::from_str(&row.versions).unwrap_or_default(),
        code_hash: row.code_hash,
        commit: row.commit,
        judged_at_s: row.judged_at_s,
        detail: serde_json::from_str(&row.detail).unwrap_or_default(),
    })
}

/// The history as people ask for it.
pub struct VerdictHistory {
    store: History,
}

impl VerdictHistory {
    /// See [`History::open`]: no I/O yet.
    pub fn open(path: &Path) -> Self {
        Self { store: History::open(path) }
    }

    /// See [`History::complaint`].
    pub fn complaint(&self) -> Option<String> {
        self.store.complaint()
    }

    /// The newest verdicts of a file, or of all, the newest first. `None` when there is no history; then there is a
    /// complaint.
    pub async fn recent(&self, file: Option<&Path>, count: usize) -> Option<Vec<PastVerdict>> {
        let rows = self.store.verdicts(file.map(real_path), count).await?;
        Some(rows.into_iter().filter_map(read).collect())
    }

    /// See [`History::prune`].
    pub async fn prune(&self, file: Option<&Path>, retention: Retention) -> Option<Pruned> {
        self.store.prune(file.map(real_path), retention).await
    }
}

impl PastVerdict {
    /// The one before it in a list with the newest first: of the same function, asked for the same.
    pub fn before<'a>(&self, older: &'a [Self]) -> Option<&'a Self> {
        older.iter().find(|other| {
            other.file == self.file && other.entry == self.entry && other.detail.asked == self.detail.asked
        })
    }

    /// What is another than in the one before, in a few words each; `first` without one.
    pub fn changes(&self, before: Option<&Self>) -> Vec<String> {
        let Some(before) = before else { return vec!["first".to_owned()] };
        let mut told = Vec::new();
        if before.verdict != self.verdict {
            told.push(format!("was {}", before.verdict.words()));
        }
        let less = |these: &[String], those: &[String]| -> Vec<String> {
            these.iter().filter(|code| !those.contains(code)).cloned().collect()
        };
        for (word, codes) in
            [("new", less(&self.codes, &before.codes)), ("gone", less(&before.codes, &self.codes))]
        {
            if !codes.is_empty() {
                told.push(format!("{word}: {}", codes.join(", ")));
            }
        }
        told.extend(self.slower_or_faster());
        if before.code_hash == self.code_hash {
            told.push("same code".to_owned());
        }
        let (then, now) = (&before.versions, &self.versions);
        let unknown = || "?".to_owned();
        let words = |value: &Option<String>| value.clone().unwrap_or_else(unknown);
        for (what, then, now) in [
            ("judged by", words(&before.oracle), words(&self.oracle)),
            ("on", before.place(), self.place()),
            ("warpsmith", then.warpsmith.clone(), now.warpsmith.clone()),
            ("python", words(&then.python), words(&now.python)),
            ("torch", words(&then.torch), words(&now.torch)),
            ("triton", words(&then.triton), words(&now.triton)),
            ("driver", words(&then.driver), words(&now.driver)),
        ] {
            // What a check did not come to has not changed.
            if then != now && then != unknown() && now != unknown() {
                told.push(format!("{what} {then} → {now}"));
            }
        }
        told
    }

    fn place(&self) -> String {
        self.gpu.clone().unwrap_or_else(|| self.method.clone())
    }

    /// Sure changes of times against the last save that was timed.
    fn slower_or_faster(&self) -> Vec<String> {
        let mut told = Vec::new();
        for time in &self.detail.times {
            for change in time.changes.iter().filter(|change| change.against == Against::LastSave) {
                let (factor, word) = if change.ratio > 1.0 {
                    (change.ratio, "slower")
                } else {
                    (1.0 / change.ratio, "faster")
                };
                let words = format!("{factor:.2}× {word} ({} {})", time.dtype, time.shape);
                if !told.contains(&words) {
                    told.push(words);
                }
            }
        }
        told
    }

    /// The record, documented in `docs/records.md`.
    pub fn json(&self, before: Option<&Self>) -> Value {
        json!({
            "schema": SCHEMA,
            "file": self.file,
            "entry": self.entry,
            "judged_at_s": self.judged_at_s,
            "verdict": self.verdict,
            "cases": {"passed": self.passed, "wrong": self.wrong, "could_not_run": self.could_not_run},
            "codes": self.codes,
            "oracle": self.oracle,
            "asked": self.detail.asked,
            "seed": self.detail.seed,
            "method": self.method,
            "gpu": self.gpu,
            "versions": self.versions,
            "times": self.detail.times,
            "elapsed_ms": self.detail.elapsed_ms,
            "source_hash": self.detail.source_hash,
            "code_hash": self.code_hash,
            "commit": self.commit,
            "is_committed": self.detail.is_committed,
            "changed": self.changes(before),
        })
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
