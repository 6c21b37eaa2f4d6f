//! Pending changes of sums, added to the file at the end of a transaction.

use hashbrown::HashMap;
use rusqlite::{Connection, OptionalExtension, params};

use crate::histogram::{DURATION_BINS, SCORE_BINS, add_packed, duration_bin, pack};
use crate::rollup::{EvaluationFigures, RollupSums};

/// Seconds of a bucket at minute resolution.
pub(super) const MINUTE: i64 = 60;
/// Seconds of a bucket at hour resolution.
pub(super) const HOUR: i64 = 3600;

/// Sums of the calls of one tool.
#[derive(Clone, Debug)]
pub(super) struct ToolSums {
    calls: i64,
    errors: i64,
    undeclared: i64,
    bins: [i64; DURATION_BINS],
}

impl ToolSums {
    const NONE: Self = Self { calls: 0, errors: 0, undeclared: 0, bins: [0; DURATION_BINS] };
}

/// Figures of a call for sums.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallFigures {
    pub(super) tool: i64,
    pub(super) source: i64,
    pub(super) time_ms: i64,
    pub(super) duration_us: Option<i64>,
    pub(super) is_error: bool,
    pub(super) is_undeclared: bool,
}

/// Key of sums: seconds of a bucket, bucket, evaluator or tool, source.
pub(super) type SumsPlace = (i64, i64, i64, i64);

/// Unwritten changes.
#[derive(Default)]
pub(super) struct PendingSums {
    evaluations: HashMap<SumsPlace, RollupSums>,
    tools: HashMap<SumsPlace, ToolSums>,
    /// First minute with its own sums; earlier ones are merged into hours.
    first_minute: i64,
}

impl PendingSums {
    /// Merges minutes before a time into hours from now on, only whole hours.
    pub(super) fn hours_before(&mut self, until_ms: i64) {
        self.first_minute = self.first_minute.max(first_minute(until_ms));
    }

    /// Returns resolution and bucket of a minute.
    fn bucket(&self, minute: i64) -> (i64, i64) {
        if minute < self.first_minute {
            (HOUR, minute.div_euclid(HOUR / MINUTE))
        } else {
            (MINUTE, minute)
        }
    }

    /// Counts an evaluation, or subtracts it if `sign` is -1.
    pub(super) fn count(
        &mut self,
        (evaluator, source): (i64, i64),
        figures: &EvaluationFigures,
        sign: i64,
    ) {
        let (span, bucket) = self.bucket(figures.minute());
        let place = (span, bucket, evaluator, source);
        self.evaluations.entry(place).or_default().count(figures, sign);
    }

    /// Adds sums of a minute.
    pub(super) fn add_minute(
        &mut self,
        minute: i64,
        (evaluator, source): (i64, i64),
        sums: &RollupSums,
    ) {
        let (span, bucket) = self.bucket(minute);
        self.add((span, bucket, evaluator, source), sums);
    }

    /// Adds sums of a key.
    fn add(&mut self, place: SumsPlace, sums: &RollupSums) {
        self.evaluations.entry(place).or_default().add(sums);
    }

    /// Counts a call, or subtracts it if `sign` is -1.
    pub(super) fn count_call(&mut self, call: &CallFigures, sign: i64) {
        let (span, bucket) = self.bucket(call.time_ms.div_euclid(60_000));
        let place = (span, bucket, call.tool, call.source);
        let sums = self.tools.entry(place).or_insert(ToolSums::NONE);
        sums.calls += sign;
        sums.errors += sign * i64::from(call.is_error);
        sums.undeclared += sign * i64::from(call.is_undeclared);
        if let Some(duration_us) = call.duration_us {
            sums.bins[duration_bin(duration_us)] += sign;
        }
    }

    /// Writes all changes.
    pub(super) fn flush(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for (place, sums) in self.evaluations.drain() {
            write(connection, place, &sums)?;
        }
        for (place, sums) in self.tools.drain() {
            write_tool(connection, place, &sums)?;
        }
        Ok(())
    }
}

fn write(
    connection: &Connection,
    (span, bucket, evaluator, source): SumsPlace,
    sums: &RollupSums,
) -> rusqlite::Result<()> {
    let place = params![span, bucket, evaluator, source];
    let mut bins = sums.bins;
    add_stored(
        connection,
        "SELECT histogram FROM rollups
         WHERE span = ?1 AND bucket = ?2 AND evaluator = ?3 AND source = ?4",
        place,
        &mut bins,
    )?;
    let RollupSums { passed, failed, not_evaluable, broken, sum, squares, cost, .. } = sums;
    connection
        .prepare_cached(
            "INSERT INTO rollups VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT DO UPDATE SET passed = passed + ?5, failed = failed + ?6,
             not_evaluable = not_evaluable + ?7, broken = broken + ?8, sum = sum + ?9,
             squares = squares + ?10, cost = cost + ?11, histogram = ?12",
        )?
        .execute(params![
            span,
            bucket,
            evaluator,
            source,
            passed,
            failed,
            not_evaluable,
            broken,
            sum,
            squares,
            cost,
            pack(&bins)
        ])?;
    Ok(())
}

fn write_tool(
    connection: &Connection,
    (span, bucket, tool, source): SumsPlace,
    sums: &ToolSums,
) -> rusqlite::Result<()> {
    let mut bins = sums.bins;
    add_stored(
        connection,
        "SELECT histogram FROM tool_rollups
         WHERE span = ?1 AND bucket = ?2 AND tool = ?3 AND source = ?4",
        params![span, bucket, tool, source],
        &mut bins,
    )?;
    connection
        .prepare_cached(
            "INSERT INTO tool_rollups VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT DO UPDATE SET calls = calls + ?5, errors = errors + ?6,
             undeclared = undeclared + ?7, histogram = ?8",
        )?
        .execute(params![
            span,
            bucket,
            tool,
            source,
            sums.calls,
            sums.errors,
            sums.undeclared,
            pack(&bins)
        ])?;
    Ok(())
}

fn add_stored(
    connection: &Connection,
    query: &str,
    place: &[&dyn rusqlite::ToSql],
    bins: &mut [i64],
) -> rusqlite::Result<()> {
    let stored: Option<Vec<u8>> =
        connection.prepare_cached(query)?.query_row(place, |row| row.get(0)).optional()?;
    if let Some(stored) = stored {
        add_packed(&stored, bins);
    }
    Ok(())
}

/// Returns the first minute of the hour of a time.
fn first_minute(ms: i64) -> i64 {
    ms.div_euclid(HOUR * 1000) * (HOUR / MINUTE)
}

/// Merges minutes before `until_ms` into hours, at most `rows_max` rows; returns their number.
pub(super) fn compact(
    connection: &Connection,
    until_ms: i64,
    rows_max: usize,
) -> rusqlite::Result<usize> {
    let until = first_minute(until_ms);
    let mut pending = PendingSums::default();
    let mut rows = connection.prepare_cached(
        "DELETE FROM rollups WHERE (span, bucket, evaluator, source) IN (SELECT span, bucket,
         evaluator, source FROM rollups WHERE span = 60 AND bucket < ?1 LIMIT ?2)
         RETURNING bucket, evaluator, source, passed, failed, not_evaluable, broken, sum, squares,
         cost, histogram",
    )?;
    let mut rows = rows.query(params![until, rows_max])?;
    let mut merged = 0;
    while let Some(row) = rows.next()? {
        let mut sums = RollupSums {
            passed: row.get(3)?,
            failed: row.get(4)?,
            not_evaluable: row.get(5)?,
            broken: row.get(6)?,
            sum: row.get(7)?,
            squares: row.get(8)?,
            cost: row.get(9)?,
            bins: [0; SCORE_BINS],
        };
        add_packed(&row.get::<_, Vec<u8>>(10)?, &mut sums.bins);
        let hour = row.get::<_, i64>(0)?.div_euclid(HOUR / MINUTE);
        pending.add((HOUR, hour, row.get(1)?, row.get(2)?), &sums);
        merged += 1;
    }
    drop(rows);
    merged += compact_tools(connection, until, rows_max, &mut pending)?;
    pending.flush(connection)?;
    Ok(merged)
}

fn compact_tools(
    connection: &Connection,
    until: i64,
    rows_max: usize,
    pending: &mut PendingSums,
) -> rusqlite::Result<usize> {
    let mut rows = connection.prepare_cached(
        "DELETE FROM tool_rollups WHERE (span, bucket, tool, source) IN (SELECT span, bucket,
         tool, source FROM tool_rollups WHERE span = 60 AND bucket < ?1 LIMIT ?2)
         RETURNING bucket, tool, source, calls, errors, undeclared, histogram",
    )?;
    let mut rows = rows.query(params![until, rows_max])?;
    let mut merged = 0;
    while let Some(row) = rows.next()? {
        let hour = row.get::<_, i64>(0)?.div_euclid(HOUR / MINUTE);
        let place = (HOUR, hour, row.get(1)?, row.get(2)?);
        let sums = pending.tools.entry(place).or_insert(ToolSums::NONE);
        sums.calls += row.get::<_, i64>(3)?;
        sums.errors += row.get::<_, i64>(4)?;
        sums.undeclared += row.get::<_, i64>(5)?;
        add_packed(&row.get::<_, Vec<u8>>(6)?, &mut sums.bins);
        merged += 1;
    }
    Ok(merged)
}
