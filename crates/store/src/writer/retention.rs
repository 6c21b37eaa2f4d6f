//! Retention: the oldest runs go when they are too old, or the file too large.

use rusqlite::{Connection, params};

use super::sums::compact;
use crate::counters::{StoreCount, StoreCounters};
use crate::settings::RetentionSettings;

/// Runs that are deleted in one transaction.
const RUNS_MAX: usize = 500;
/// Rows of sums that are merged in one transaction.
const SUMS_MAX: usize = 5_000;
/// Time for which sums are held by the minute, milliseconds: 48 hours.
const MINUTES_KEPT_MS: i64 = 48 * 3_600_000;

/// Limits in the units of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetentionLimits {
    pub(super) age_ms: i64,
    pub(super) size: u64,
    pub(super) rollups_ms: i64,
}

impl RetentionLimits {
    pub(super) fn new(settings: &RetentionSettings, size_max_mib: u32) -> Self {
        let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        Self {
            age_ms: ms(settings.age.as_ms()),
            size: u64::from(settings.size_mib.clamp(4, size_max_mib.max(4))) << 20,
            rollups_ms: ms(settings.rollups.as_ms()),
        }
    }
}

/// Deletes some of what is past the limits; returns true if there may be more.
pub(super) fn retain(
    connection: &mut Connection,
    limits: &RetentionLimits,
    now_ms: i64,
    counters: &StoreCounters,
) -> rusqlite::Result<bool> {
    let size = used_bytes(connection)?;
    let before = now_ms.saturating_sub(limits.age_ms);
    let transaction = connection.transaction()?;
    let aged = delete_runs(&transaction, before)?;
    let mut large = 0;
    if size > limits.size && aged == 0 {
        large = delete_runs(&transaction, i64::MAX)?;
    }
    let merged = compact(&transaction, now_ms.saturating_sub(MINUTES_KEPT_MS), SUMS_MAX)?;
    let hour = now_ms.saturating_sub(limits.rollups_ms).div_euclid(3_600_000);
    for table in ["rollups", "tool_rollups"] {
        let query = format!("DELETE FROM {table} WHERE span = 3600 AND bucket < ?1");
        transaction.execute(&query, [hour])?;
    }
    transaction.commit()?;
    if aged + large > 0 {
        connection.execute_batch("PRAGMA incremental_vacuum(10000)")?;
    }
    counters.add(StoreCount::DeletedForAge, aged);
    counters.add(StoreCount::DeletedForSize, large);
    Ok(aged == RUNS_MAX || large > 0 || merged >= SUMS_MAX)
}

/// Deletes the oldest runs stored before a time, with all that hangs on them.
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
            connection.prepare_cached(query)?.execute([run])?;
        }
        let Some(session) = session else { continue };
        connection
            .prepare_cached(
                "DELETE FROM sessions WHERE seq = ?1 AND NOT EXISTS
                 (SELECT 1 FROM trajectories WHERE session = ?1)",
            )?
            .execute([session])?;
    }
    Ok(runs.len())
}

/// Returns the bytes of the file that hold something.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let read = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let free: u64 = read("freelist_count")?;
    Ok(read("page_count")?.saturating_sub(free).saturating_mul(read("page_size")?))
}
