//! Tables, their versions, and the questions asked of them.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::reports::REPORTS;
use super::{Entry, Key};

/// Steps from one version to the next; `PRAGMA user_version` counts those that were taken. A step never changes once it
/// was released.
const MIGRATIONS: [&str; 3] = [TIMES, VERDICTS, REPORTS];

pub(super) const TIMES: &str = "
    CREATE TABLE timing (
        id INTEGER PRIMARY KEY,
        file TEXT NOT NULL,
        entry TEXT NOT NULL,
        definition TEXT NOT NULL,
        axes TEXT NOT NULL,
        dtype TEXT NOT NULL,
        gpu_uuid TEXT NOT NULL,
        code_hash TEXT NOT NULL,
        git_commit TEXT,
        taken_at_s INTEGER NOT NULL,
        record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX timing_by_key ON timing (file, entry, definition, axes, dtype, gpu_uuid, id);
    CREATE INDEX timing_by_file ON timing (file, id);
";

const VERDICTS: &str = "
    CREATE TABLE verdict (
        id INTEGER PRIMARY KEY,
        file TEXT NOT NULL,
        entry TEXT NOT NULL,
        code_hash TEXT NOT NULL,
        verdict TEXT NOT NULL,
        passed INTEGER NOT NULL,
        wrong INTEGER NOT NULL,
        could_not_run INTEGER NOT NULL,
        codes TEXT NOT NULL,
        oracle TEXT,
        method TEXT NOT NULL,
        gpu TEXT,
        versions TEXT NOT NULL,
        git_commit TEXT,
        judged_at_s INTEGER NOT NULL,
        detail TEXT NOT NULL
    ) STRICT;
    CREATE INDEX verdict_by_file ON verdict (file, id);
    CREATE TABLE upkeep (what TEXT PRIMARY KEY, done_at_s INTEGER NOT NULL) STRICT;
";

/// Entries that are kept of one key: a year of work on one kernel, below 2 MB.
pub(super) const KEPT: usize = 1_000;

/// The version that this program writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

const COLUMNS: &str =
    "file, entry, definition, axes, dtype, gpu_uuid, code_hash, git_commit, taken_at_s, record";
const IS_KEY: &str =
    "file = ?1 AND entry = ?2 AND definition = ?3 AND axes = ?4 AND dtype = ?5 AND gpu_uuid = ?6";

/// The version of a file: 0 is an empty one.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Takes the steps that are missing, all or none. Another server that does the same is waited for.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    if version(connection)? >= VERSION {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Read again: it may have been migrated while we waited for the lock.
    let taken = usize::try_from(version(&transaction)?).unwrap_or_default();
    for step in MIGRATIONS.iter().skip(taken) {
        transaction.execute_batch(step)?;
    }
    if taken < MIGRATIONS.len() {
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// Adds an entry and drops what is too old of its key.
pub(super) fn insert(connection: &mut Connection, entry: &Entry) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let key = &entry.key;
    let file = spelled(&key.file);
    transaction.execute(
        &format!("INSERT INTO timing ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"),
        params![
            file,
            key.entry,
            key.definition,
            key.axes,
            key.dtype,
            key.gpu_uuid,
            entry.code_hash,
            entry.commit,
            i64::try_from(entry.taken_at_s).unwrap_or(i64::MAX),
            entry.record,
        ],
    )?;
    transaction.execute(
        &format!(
            "DELETE FROM timing WHERE id IN (SELECT id FROM timing WHERE {IS_KEY} ORDER BY id DESC LIMIT -1 OFFSET ?7)"
        ),
        params![file, key.entry, key.definition, key.axes, key.dtype, key.gpu_uuid, KEPT as i64],
    )?;
    transaction.commit()
}

pub(super) fn last_of_other_code(
    connection: &Connection,
    key: &Key,
    code_hash: &str,
) -> rusqlite::Result<Option<Entry>> {
    newest(connection, key, "code_hash <> ?7", code_hash)
}

pub(super) fn of_code(
    connection: &Connection,
    key: &Key,
    code_hash: &str,
) -> rusqlite::Result<Option<Entry>> {
    newest(connection, key, "code_hash = ?7", code_hash)
}

/// By the order of insertion and not by the clock, which may be set back.
fn newest(
    connection: &Connection,
    key: &Key,
    condition: &str,
    code_hash: &str,
) -> rusqlite::Result<Option<Entry>> {
    let question =
        format!("SELECT {COLUMNS} FROM timing WHERE {IS_KEY} AND {condition} ORDER BY id DESC LIMIT 1");
    let values =
        params![spelled(&key.file), key.entry, key.definition, key.axes, key.dtype, key.gpu_uuid, code_hash];
    let found = connection.query_row(&question, values, entry).optional()?;
    Ok(found.map(|found| Entry { key: key.clone(), ..found }))
}

pub(super) fn recent(connection: &Connection, file: &Path, count: usize) -> rusqlite::Result<Vec<Entry>> {
    let question = format!("SELECT {COLUMNS} FROM timing WHERE file = ?1 ORDER BY id DESC LIMIT ?2");
    let mut statement = connection.prepare(&question)?;
    let limit = i64::try_from(count).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![spelled(file), limit], entry)?;
    let of_file = |found: rusqlite::Result<Entry>| {
        found.map(|found| Entry { key: Key { file: file.to_owned(), ..found.key }, ..found })
    };
    rows.map(of_file).collect()
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let key = Key {
        file: row.get::<_, String>(0)?.into(),
        entry: row.get(1)?,
        definition: row.get(2)?,
        axes: row.get(3)?,
        dtype: row.get(4)?,
        gpu_uuid: row.get(5)?,
    };
    Ok(Entry {
        key,
        code_hash: row.get(6)?,
        commit: row.get(7)?,
        taken_at_s: u64::try_from(row.get::<_, i64>(8)?).unwrap_or_default(),
        record: row.get(9)?,
    })
}

/// A path that is no UTF-8 is escaped, so that two paths are never one.
pub(super) fn spelled(path: &Path) -> String {
    path.to_str().map_or_else(|| format!("{path:?}"), str::to_owned)
}
