//! Retention: deletes the oldest runs beyond the limits of age and size.

use rusqlite::{Connection, params};

use super::statements;
use super::sums::compact;
use crate::counters::{StoreCount, StoreCounters};
use crate::settings::RetentionSettings;

/// Runs deleted in one transaction.
const RUNS_MAX: usize = 500;
/// Rows of sums merged in one transaction.
const SUMS_MAX: usize = 5_000;
/// Approximate bytes of a row of sums.
const SUMS_ROW_BYTES: u64 = 128;
/// Inverse of the sums' share of the size limit.
const SUMS_SHARE: u64 = 4;
/// Hours of sums deleted in one transaction.
const SUMS_HOURS_MAX: i64 = 24;
/// Age up to which sums have minute resolution, milliseconds: 48 hours.
pub(super) const MINUTES_KEPT_MS: i64 = 48 * 3_600_000;
/// The same while the file is too large: an hour.
const MINUTES_LARGE_MS: i64 = 3_600_000;
/// Pages released to the system at once.
const VACUUM_PAGES: usize = 10_000;

/// Limits in the units of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetentionLimits {
    age_ms: i64,
    size: u64,
    rollups_ms: i64,
}

impl RetentionLimits {
    pub(crate) fn new(settings: &RetentionSettings, size_max_mib: u32) -> Self {
        let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        Self {
            age_ms: ms(settings.age.as_ms()),
            size: u64::from(settings.size_mib.clamp(4, size_max_mib.max(4))) << 20,
            rollups_ms: ms(settings.rollups.as_ms()),
        }
    }

    /// Returns the limit on bytes of runs retained by people: half of the size.
    pub(crate) fn pinned(&self) -> i64 {
        i64::try_from(self.size / 2).unwrap_or(i64::MAX)
    }
}

/// Deletes some data beyond the limits; returns true if more may remain.
pub(super) fn retain(
    connection: &mut Connection,
    limits: &RetentionLimits,
    now_ms: i64,
    counters: &StoreCounters,
) -> rusqlite::Result<bool> {
    let is_large = used_bytes(connection)? > limits.size;
    // In a file that is too large only the last minutes keep minute resolution.
    let minutes_ms = if is_large { MINUTES_LARGE_MS } else { MINUTES_KEPT_MS };
    let before = now_ms.saturating_sub(limits.age_ms);
    let transaction = connection.transaction()?;
    let aged = delete_runs(&transaction, before)?;
    let merged = compact(&transaction, now_ms.saturating_sub(minutes_ms), SUMS_MAX)?;
    let hour = now_ms.saturating_sub(limits.rollups_ms).div_euclid(3_600_000);
    for table in ["rollups", "tool_rollups"] {
        let query = format!("DELETE FROM {table} WHERE span = 3600 AND bucket < ?1");
        transaction.execute(&query, [hour])?;
    }
    let cut = if is_large { cut_sums(&transaction, limits.size / SUMS_SHARE)? } else { 0 };
    let is_run_due = is_large && aged + merged + cut == 0;
    let large = if is_run_due { delete_runs(&transaction, i64::MAX)? } else { 0 };
    transaction.commit()?;
    let freed = aged + merged + cut + large;
    // Deleted even if the vacuum fails.
    counters.add(StoreCount::DeletedForAge, aged);
    counters.add(StoreCount::DeletedForSize, large);
    if freed > 0 {
        vacuum(connection)?;
    }
    Ok(aged == RUNS_MAX || merged >= SUMS_MAX || (is_large && freed > 0))
}

/// Deletes the oldest runs stored before a time, with all their rows.
fn delete_runs(connection: &Connection, before: i64) -> rusqlite::Result<usize> {
    let mut oldest = connection.prepare_cached(
        "SELECT seq, session FROM trajectories WHERE stored < ?1 AND pinned = 0
         ORDER BY stored LIMIT ?2",
    )?;
    let runs = oldest.query_map(params![before, RUNS_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let runs: Vec<(i64, Option<i64>)> = runs.collect::<Result<_, _>>()?;
    for (run, session) in &runs {
        for query in [
            "DELETE FROM evaluation_details WHERE seq IN
             (SELECT seq FROM evaluations WHERE trajectory = ?1)",
            "DELETE FROM evaluations WHERE trajectory = ?1",
            "DELETE FROM calls WHERE trajectory = ?1",
            "DELETE FROM cases WHERE trajectory = ?1",
            "DELETE FROM trajectory_contents WHERE seq = ?1",
            "DELETE FROM trajectories WHERE seq = ?1",
        ] {
            statements::run(connection, query, [run])?;
        }
        let Some(session) = session else { continue };
        let query = "DELETE FROM sessions WHERE seq = ?1 AND NOT EXISTS
            (SELECT 1 FROM trajectories WHERE session = ?1)";
        statements::run(connection, query, [session])?;
    }
    if !runs.is_empty() {
        let query = "DELETE FROM definitions WHERE NOT EXISTS
            (SELECT 1 FROM trajectories t WHERE t.definitions = definitions.id)";
        statements::run(connection, query, [])?;
    }
    Ok(runs.len())
}

/// Deletes the oldest hours of sums if they take more than `bytes_max`; returns the rows.
fn cut_sums(connection: &Connection, bytes_max: u64) -> rusqlite::Result<usize> {
    let rows_max = bytes_max / SUMS_ROW_BYTES;
    let mut deleted = 0;
    for table in ["rollups", "tool_rollups"] {
        let query = format!("SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT ?1)");
        let rows: u64 = connection.query_row(&query, [rows_max + 1], |row| row.get(0))?;
        if rows > rows_max {
            let query = format!(
                "DELETE FROM {table} WHERE span = 3600 AND bucket <
                 (SELECT min(bucket) FROM {table} WHERE span = 3600) + ?1"
            );
            deleted += connection.execute(&query, [SUMS_HOURS_MAX])?;
        }
    }
    Ok(deleted)
}

/// Releases free pages to the system, one for each step of the statement.
fn vacuum(connection: &Connection) -> rusqlite::Result<()> {
    let mut pages = connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
    let mut pages = pages.query([])?;
    while pages.next()?.is_some() {}
    Ok(())
}

/// Returns the used bytes of the file.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let read = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let free: u64 = read("freelist_count")?;
    Ok(read("page_count")?.saturating_sub(free).saturating_mul(read("page_size")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::OpenStore;
    use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

    #[test]
    fn sums_past_a_quarter_of_the_size_go_the_oldest_first_and_give_their_pages_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = OpenStore::open(&folder.path().join("scores.db")).unwrap().connection;
        connection
            .execute_batch(
                "WITH RECURSIVE n (at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM n
                 WHERE at < 59999) INSERT INTO rollups SELECT 60, at, 1, 1, 1, 0, 0, 0, 0, 0, 0,
                 zeroblob(100) FROM n;
                 INSERT INTO rollups SELECT 60, bucket, 2, 1, 1, 0, 0, 0, 0, 0, 0, zeroblob(100)
                 FROM rollups;",
            )
            .unwrap();
        let now_ms = 60_000 * 60_000;
        let limits = RetentionLimits { age_ms: now_ms, size: 4 << 20, rollups_ms: now_ms };
        let counters = StoreCounters::default();
        while retain(&mut connection, &limits, now_ms, &counters).unwrap() {}
        assert!(used_bytes(&connection).unwrap() <= limits.size);
        let read = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
        let pages = read("page_count").unwrap();
        assert!(pages * 4096 <= limits.size, "{pages}");
        let passed: i64 =
            connection.query_row("SELECT sum(passed) FROM rollups", [], |row| row.get(0)).unwrap();
        assert!(passed > 0);
    }

    #[test]
    fn runs_that_went_are_counted_although_their_pages_cannot_be_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = OpenStore::open(&folder.path().join("scores.db")).unwrap().connection;
        let add = "INSERT INTO trajectories (trace_id, client_group, span_id, source, time, stored,
            duration_us, revision, completion, partial, spans, calls, errors, passed, failed,
            not_evaluable, broken) VALUES (x'01', x'02', x'03', 1, 1, 1, 1, 0, '', 0, 1, 0, 0, 0, 0,
            0, 0)";
        connection.execute(add, []).unwrap();
        let hook = |context: AuthContext<'_>| match context.action {
            AuthAction::Pragma { pragma_name: "incremental_vacuum", .. } => Authorization::Deny,
            _ => Authorization::Allow,
        };
        connection.authorizer(Some(hook)).unwrap();
        let limits = RetentionLimits { age_ms: 1, size: 4 << 20, rollups_ms: 1 };
        let counters = StoreCounters::default();
        retain(&mut connection, &limits, 1_000, &counters).unwrap_err();
        assert_eq!(counters.get(StoreCount::DeletedForAge), 1);
    }
}
