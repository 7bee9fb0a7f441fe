//! Verdicts in the file: adding one, the newest ones, and what is dropped when.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::schema::spelled;
use super::{Pruned, Retention, VerdictEntry};

const DAY_S: u64 = 24 * 60 * 60;
const COLUMNS: &str = "file, entry, code_hash, verdict, passed, wrong, could_not_run, codes, oracle, method, gpu, \
                       versions, git_commit, judged_at_s, detail";

pub(super) fn insert(connection: &Connection, entry: &VerdictEntry) -> rusqlite::Result<()> {
    let marks = (1..=15).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ");
    let values = params![
        spelled(&entry.file),
        entry.entry,
        entry.code_hash,
        entry.verdict,
        signed(entry.passed),
        signed(entry.wrong),
        signed(entry.could_not_run),
        entry.codes,
        entry.oracle,
        entry.method,
        entry.gpu,
        entry.versions,
        entry.commit,
        signed(entry.judged_at_s),
        entry.detail,
    ];
    connection.execute(&format!("INSERT INTO verdict ({COLUMNS}) VALUES ({marks})"), values).map(|_| ())
}

/// The newest, of one file or of all; by the order of insertion and not by the clock, which may be set back.
pub(super) fn newest(
    connection: &Connection,
    file: Option<&Path>,
    count: usize,
) -> rusqlite::Result<Vec<VerdictEntry>> {
    let question =
        format!("SELECT {COLUMNS} FROM verdict WHERE ?1 IS NULL OR file = ?1 ORDER BY id DESC LIMIT ?2");
    let mut statement = connection.prepare(&question)?;
    let limit = i64::try_from(count).unwrap_or(i64::MAX);
    statement.query_map(params![file.map(spelled), limit], read)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<VerdictEntry> {
    let count =
        |column: usize| row.get::<_, i64>(column).map(|found| u64::try_from(found).unwrap_or_default());
    Ok(VerdictEntry {
        file: row.get::<_, String>(0)?.into(),
        entry: row.get(1)?,
        code_hash: row.get(2)?,
        verdict: row.get(3)?,
        passed: count(4)?,
        wrong: count(5)?,
        could_not_run: count(6)?,
        codes: row.get(7)?,
        oracle: row.get(8)?,
        method: row.get(9)?,
        gpu: row.get(10)?,
        versions: row.get(11)?,
        commit: row.get(12)?,
        judged_at_s: count(13)?,
        detail: row.get(14)?,
    })
}

/// Drops what is too much, of one file or of all. Times go with the verdicts of their age.
pub(super) fn prune(
    connection: &mut Connection,
    file: Option<&Path>,
    retention: Retention,
    now_s: u64,
) -> rusqlite::Result<Pruned> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let pruned = drop_rows(&transaction, file, retention, now_s)?;
    transaction.commit()?;
    Ok(pruned)
}

/// [`prune`] with the default, unless any server did it within a day.
pub(super) fn prune_daily(connection: &mut Connection, now_s: u64) -> rusqlite::Result<()> {
    let is_due = |connection: &Connection| -> rusqlite::Result<bool> {
        let question = "SELECT done_at_s FROM upkeep WHERE what = 'prune'";
        let done: Option<i64> = connection.query_row(question, [], |row| row.get(0)).optional()?;
        // Done in the future is a clock that was set back.
        Ok(done.is_none_or(|done| signed(now_s) < done || signed(now_s) - done >= signed(DAY_S)))
    };
    if !is_due(connection)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if is_due(&transaction)? {
        drop_rows(&transaction, None, Retention::default(), now_s)?;
        let statement = "INSERT OR REPLACE INTO upkeep (what, done_at_s) VALUES ('prune', ?1)";
        transaction.execute(statement, params![signed(now_s)])?;
    }
    transaction.commit()
}

fn drop_rows(
    transaction: &Transaction<'_>,
    file: Option<&Path>,
    retention: Retention,
    now_s: u64,
) -> rusqlite::Result<Pruned> {
    let file = file.map(spelled);
    let mut pruned = Pruned::default();
    if let Some(days) = retention.days {
        let before = signed(now_s.saturating_sub(days.saturating_mul(DAY_S)));
        let drop_old = |table: &str, column: &str| {
            let statement = format!("DELETE FROM {table} WHERE (?1 IS NULL OR file = ?1) AND {column} <= ?2");
            transaction.execute(&statement, params![file, before])
        };
        pruned.verdicts += drop_old("verdict", "judged_at_s")?;
        pruned.times += drop_old("timing", "taken_at_s")?;
        drop_old("report", "judged_at_s")?;
    }
    if let Some(rows) = retention.verdicts {
        let is_extra =
            "SELECT id FROM verdict WHERE ?1 IS NULL OR file = ?1 ORDER BY id DESC LIMIT -1 OFFSET ?2";
        let values = params![file, signed(rows)];
        let newest_dropped = format!("SELECT max(judged_at_s) FROM verdict WHERE id IN ({is_extra})");
        let newest_dropped: Option<i64> = transaction.query_row(&newest_dropped, values, |row| row.get(0))?;
        pruned.verdicts +=
            transaction.execute(&format!("DELETE FROM verdict WHERE id IN ({is_extra})"), values)?;
        if let Some(at_s) = newest_dropped {
            let statement = "DELETE FROM timing WHERE (?1 IS NULL OR file = ?1) AND taken_at_s <= ?2";
            pruned.times += transaction.execute(statement, params![file, at_s])?;
            let statement = "DELETE FROM report WHERE (?1 IS NULL OR file = ?1) AND judged_at_s <= ?2";
            transaction.execute(statement, params![file, at_s])?;
        }
    }
    let question = "SELECT count(*) FROM verdict WHERE ?1 IS NULL OR file = ?1";
    let kept: i64 = transaction.query_row(question, params![file], |row| row.get(0))?;
    pruned.kept = u64::try_from(kept).unwrap_or_default();
    Ok(pruned)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
