//! `warpsmith history`: what was judged before, the newest first, and what changed from one to the next.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::table::mark;
use crate::judge::calendar::minute;
use crate::judge::history::{PastTime, PastVerdict, Retention, VerdictHistory};
use crate::judge::real_path;
use crate::toolchain::{Places, Surroundings};

/// Older ones are looked through for what a verdict is compared with.
const LOOKED_BACK: usize = 500;

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// Only this file.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many verdicts are shown.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    number: usize,
    /// JSON lines on stdout instead of a table.
    #[arg(long)]
    json: bool,
    /// Drop verdicts and times that are older than this many days, of FILE or of all.
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["keep", "json"])]
    prune: Option<u64>,
    /// Drop all but the newest N verdicts, of FILE or of all, and the times that belong to the others.
    #[arg(long, value_name = "N", conflicts_with = "json")]
    keep: Option<u64>,
}

pub(super) fn run(args: &HistoryArgs) -> Result<ExitCode> {
    let path = Places::of(&Surroundings::of_this_process())?.history();
    let file = args.file.as_deref().map(std::path::absolute).transpose().context("no current folder")?;
    // Asking alone makes no file.
    if !path.exists() {
        return nothing(args);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let history = VerdictHistory::open(&path);
    let outcome = runtime.block_on(answer(args, &history, file.as_deref()));
    if let Some(complaint) = history.complaint() {
        super::complain(&anyhow::Error::msg(complaint));
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn answer(args: &HistoryArgs, history: &VerdictHistory, file: Option<&Path>) -> Result<ExitCode> {
    if args.prune.is_some() || args.keep.is_some() {
        let retention = Retention { days: args.prune, verdicts: args.keep };
        let Some(pruned) = history.prune(file, retention).await else { bail!("nothing was dropped") };
        let (verdicts, times) = (plural(pruned.verdicts, "verdict"), plural(pruned.times, "time"));
        super::say(&format!("dropped {verdicts} and {times}, kept {}", pruned.kept))?;
        return Ok(ExitCode::SUCCESS);
    }
    let count = args.number.saturating_add(LOOKED_BACK);
    let Some(found) = history.recent(file, count).await else { bail!("the history cannot be read") };
    if found.is_empty() {
        return nothing(args);
    }
    let shown = || found.iter().take(args.number).enumerate();
    if args.json {
        for (index, past) in shown() {
            super::say(&past.json(past.before(&found[index + 1..])).to_string())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let folder = std::env::current_dir().map(|folder| real_path(&folder)).unwrap_or_default();
    let rows = shown().map(|(index, past)| {
        row(past, &past.changes(past.before(&found[index + 1..])), file.is_none().then_some(folder.as_path()))
    });
    super::say(&table(rows.collect(), file.is_none()))?;
    Ok(ExitCode::SUCCESS)
}

/// Not an error: it is the answer.
fn nothing(args: &HistoryArgs) -> Result<ExitCode> {
    // Of JSON lines there are none.
    if !args.json {
        super::say(&match &args.file {
            Some(file) => {
                format!("no verdict on {0} is kept; `warpsmith check {0}` makes one", file.display())
            }
            None => "no verdict is kept yet; `warpsmith check FILE` makes one".to_owned(),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

type Row = [String; 8];

const HEADER: [&str; 8] = ["when (UTC)", "verdict", "file", "function", "cases", "time", "commit", "changed"];
/// Of [`HEADER`]: shown only when all files are.
const FILE: usize = 2;

/// `folder`: paths are told from there.
fn row(past: &PastVerdict, changes: &[String], folder: Option<&Path>) -> Row {
    let cases = past.passed + past.wrong + past.could_not_run;
    let mut changed = changes.join("; ");
    if !past.detail.asked.is_empty() {
        let _ = write!(changed, "{}only {}", if changed.is_empty() { "" } else { "; " }, past.detail.asked);
    }
    let file =
        folder.map_or(past.file.as_path(), |folder| past.file.strip_prefix(folder).unwrap_or(&past.file));
    let is_against_head = past.oracle.as_deref().is_some_and(|label| label.starts_with("= HEAD"));
    [
        minute(past.judged_at_s),
        format!("{} {}", mark(past.verdict, is_against_head), past.verdict.words()),
        one_line(&file.display().to_string()),
        past.entry.clone().unwrap_or_else(|| "–".to_owned()),
        if cases == 0 { "–".to_owned() } else { format!("{}/{cases}", past.passed) },
        past.detail.times.first().map_or_else(|| "–".to_owned(), time),
        past.commit.as_ref().map_or_else(
            || "–".to_owned(),
            // As git describes a tree with changes on top of a commit.
            |commit| format!("{commit}{}", if past.detail.is_committed { "" } else { "-dirty" }),
        ),
        one_line(&changed),
    ]
}

/// `412 µs, 1.83× torch`, of the first shape.
fn time(time: &PastTime) -> String {
    let us = time.cold_us;
    let latency = if us < 10.0 { format!("{us:.2} µs") } else { format!("{us:.0} µs") };
    match (time.speedup, &time.baseline) {
        (Some(speedup), Some(baseline)) => format!("{latency}, {speedup:.2}× {baseline}"),
        _ => latency,
    }
}

fn table(rows: Vec<Row>, with_files: bool) -> String {
    let rows: Vec<Row> = std::iter::once(HEADER.map(str::to_owned)).chain(rows).collect();
    let columns = (0..HEADER.len()).filter(|column| with_files || *column != FILE);
    let columns: Vec<(usize, usize)> = columns
        .map(|column| (column, rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)))
        .collect();
    let line = |row: &Row| {
        let cells = columns.iter().map(|(column, width)| {
            let cell = &row[*column];
            format!("{cell}{}", " ".repeat(width - cell.chars().count()))
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;
    use crate::judge::history::{Detail, PastVersions};

    fn past(verdict: Verdict, at_s: u64) -> PastVerdict {
        PastVerdict {
            file: "/repo/ops/k.py".into(),
            entry: Some("softmax".to_owned()),
            verdict,
            passed: 10,
            wrong: u64::from(verdict == Verdict::Wrong),
            could_not_run: 0,
            codes: Vec::new(),
            oracle: Some("torch.softmax".to_owned()),
            method: "gpu".to_owned(),
            gpu: None,
            versions: PastVersions::default(),
            code_hash: format!("{at_s}"),
            commit: Some("a1b2c3d".to_owned()),
            judged_at_s: at_s,
            detail: Detail::default(),
        }
    }

    #[test]
    fn rows_stand_below_one_another() {
        let mut timed = past(Verdict::Passed, 1_796_000_000);
        timed.detail.is_committed = true;
        timed.detail.times = vec![PastTime {
            definition: "softmax".to_owned(),
            shape: "4096".to_owned(),
            dtype: "f16".to_owned(),
            baseline: Some("torch".to_owned()),
            cold_us: 412.3,
            speedup: Some(1.831),
            changes: Vec::new(),
        }];
        let mut nothing = past(Verdict::CouldNotRun, 1_795_000_000);
        (nothing.passed, nothing.entry, nothing.commit) = (0, None, None);
        nothing.detail.asked = "--stage smoke".to_owned();
        let rows = |folder: Option<&Path>| {
            vec![
                row(&timed, &["was wrong".to_owned(), "gone: race".to_owned()], folder),
                row(&past(Verdict::Wrong, 1_795_500_000), &[], folder),
                row(&nothing, &["first".to_owned()], folder),
            ]
        };
        insta::assert_snapshot!(table(rows(None), false), @r"
        when (UTC)        verdict          function  cases  time                 commit         changed
        2026-11-30 00:53  ✓ passed         softmax   10/10  412 µs, 1.83× torch  a1b2c3d        was wrong; gone: race
        2026-11-24 06:00  ✗ wrong          softmax   10/11  –                    a1b2c3d-dirty
        2026-11-18 11:06  – could not run  –         –      –                    –              first; only --stage smoke
        ");
        insta::assert_snapshot!(table(rows(Some(Path::new("/repo"))), true), @r"
        when (UTC)        verdict          file      function  cases  time                 commit         changed
        2026-11-30 00:53  ✓ passed         ops/k.py  softmax   10/10  412 µs, 1.83× torch  a1b2c3d        was wrong; gone: race
        2026-11-24 06:00  ✗ wrong          ops/k.py  softmax   10/11  –                    a1b2c3d-dirty
        2026-11-18 11:06  – could not run  ops/k.py  –         –      –                    –              first; only --stage smoke
        ");
    }

    #[test]
    fn a_pass_against_head_is_no_proof() {
        let mut same = past(Verdict::Passed, 0);
        same.oracle = Some("= HEAD a1b2c3d (no reference)".to_owned());
        assert_eq!(row(&same, &[], None)[1], "= passed");
    }
}
