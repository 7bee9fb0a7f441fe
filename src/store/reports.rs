//! The last report of each text of a file, whole, so that it can be shown again.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::ReportEntry;
use super::schema::spelled;

/// Texts of one file: those of a few branches.
const KEPT_OF_A_FILE: i64 = 4;
/// Of all files. A report has some ten to a hundred kilobytes.
const KEPT: i64 = 200;

pub(super) const REPORTS: &str = "
    CREATE TABLE report (
        id INTEGER PRIMARY KEY,
        file TEXT NOT NULL,
        text_hash TEXT NOT NULL,
        rests_on TEXT NOT NULL,
        judged_at_s INTEGER NOT NULL,
        record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX report_by_text ON report (file, text_hash);
";

/// In the place of an earlier one of the same text.
pub(super) fn insert(connection: &mut Connection, entry: &ReportEntry) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let file = spelled(&entry.file);
    transaction
        .execute("DELETE FROM report WHERE file = ?1 AND text_hash = ?2", params![file, entry.text_hash])?;
    let values = params![
        file,
        entry.text_hash,
        entry.rests_on,
        i64::try_from(entry.judged_at_s).unwrap_or(i64::MAX),
        entry.record
    ];
    transaction.execute(
        "INSERT INTO report (file, text_hash, rests_on, judged_at_s, record) VALUES (?1, ?2, ?3, ?4, ?5)",
        values,
    )?;
    transaction.execute(
        "DELETE FROM report WHERE id IN (SELECT id FROM report WHERE file = ?1 ORDER BY id DESC LIMIT -1 OFFSET ?2)",
        params![file, KEPT_OF_A_FILE],
    )?;
    transaction.execute(
        "DELETE FROM report WHERE id IN (SELECT id FROM report ORDER BY id DESC LIMIT -1 OFFSET ?1)",
        params![KEPT],
    )?;
    transaction.commit()
}

pub(super) fn forget(connection: &Connection, file: &Path, text_hash: &str) -> rusqlite::Result<()> {
    let statement = "DELETE FROM report WHERE file = ?1 AND text_hash = ?2";
    connection.execute(statement, params![spelled(file), text_hash]).map(|_| ())
}

pub(super) fn of_text(
    connection: &Connection,
    file: &Path,
    text_hash: &str,
) -> rusqlite::Result<Option<ReportEntry>> {
    let question = "SELECT rests_on, judged_at_s, record FROM report WHERE file = ?1 AND text_hash = ?2";
    connection
        .query_row(question, params![spelled(file), text_hash], |row| {
            Ok(ReportEntry {
                file: file.to_owned(),
                text_hash: text_hash.to_owned(),
                rests_on: row.get(0)?,
                judged_at_s: u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default(),
                record: row.get(2)?,
            })
        })
        .optional()
}
