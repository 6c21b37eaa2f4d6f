//! Rows as they come: those after a row, in order, for readers that follow the store.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Row, params_from_iter};

use super::filter::{SqlCondition, StoreFilter};
use super::list::{COLUMNS, EvaluationRow, ROWS};
use super::page::{CALLED, RUNS};
use super::run::{RUN_COLUMNS, RunRow, add_verdicts};

/// Last rows of the tables that grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastRows {
    /// Evaluations.
    pub evaluation: i64,
    /// Runs.
    pub run: i64,
}

pub(super) fn last(connection: &Connection) -> rusqlite::Result<LastRows> {
    connection
        .prepare_cached(
            "SELECT ifnull((SELECT max(seq) FROM evaluations), 0),
             ifnull((SELECT max(seq) FROM trajectories), 0)",
        )?
        .query_row([], |row| Ok(LastRows { evaluation: row.get(0)?, run: row.get(1)? }))
}

/// Returns the newest `limit` rows of a range in order, each with its number, and the number of
/// all that fit.
fn between<T>(
    connection: &Connection,
    (columns, seq, from): (&str, &str, &str),
    (condition, mut values): SqlCondition,
    (after, until): (i64, i64),
    limit: usize,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<(Vec<(i64, T)>, i64)> {
    let range = format!("{from} WHERE {condition} AND {seq} > ? AND {seq} <= ?");
    values.extend([SqlValue::Integer(after), SqlValue::Integer(until)]);
    let query = format!("SELECT {columns}, {seq} AS row FROM {range} ORDER BY {seq} DESC LIMIT ?");
    let all = format!("SELECT count(*) FROM {range}");
    let all: i64 = connection.query_row(&all, params_from_iter(&values), |row| row.get(0))?;
    values.push(SqlValue::Integer(limit as i64));
    let mut query = connection.prepare(&query)?;
    let rows =
        query.query_map(params_from_iter(values), |row| Ok((row.get("row")?, read(row)?)))?;
    let mut rows: Vec<(i64, T)> = rows.collect::<rusqlite::Result<_>>()?;
    rows.reverse();
    Ok((rows, all))
}

pub(super) fn runs(
    connection: &Connection,
    filter: &StoreFilter,
    range: (i64, i64),
    limit: usize,
) -> rusqlite::Result<(Vec<(i64, RunRow)>, i64)> {
    let source = (RUN_COLUMNS, "t.seq", RUNS);
    let condition = filter.of_runs(CALLED);
    let (mut rows, all) = between(connection, source, condition, range, limit, RunRow::read)?;
    add_verdicts(connection, rows.iter_mut().map(|(_, row)| row))?;
    Ok((rows, all))
}

pub(super) fn evaluations(
    connection: &Connection,
    filter: &StoreFilter,
    range: (i64, i64),
    limit: usize,
) -> rusqlite::Result<(Vec<(i64, EvaluationRow)>, i64)> {
    let source = (COLUMNS, "e.seq", ROWS);
    between(connection, source, filter.of_rows(), range, limit, EvaluationRow::read)
}
