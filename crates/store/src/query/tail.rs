//! New rows after a given one, in order, for readers that follow the store.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Row, params_from_iter};

use super::annotation::{COLUMNS as ANNOTATION_COLUMNS, StoredAnnotation};
use super::filter::{SqlCondition, StoreFilter};
use super::list::{COLUMNS, EvaluationRow, ROWS};
use super::page::{CALLED, RUNS};
use super::run::{RUN_COLUMNS, RunRow, add_verdicts};
use super::{StoreQueryError, StoreReader};

/// Last rows of the growing tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastRows {
    /// Evaluations.
    pub evaluation: i64,
    /// Runs.
    pub run: i64,
    /// Last change of an annotation, Unix milliseconds.
    pub annotation: i64,
}

impl StoreReader {
    /// Returns the last rows of runs, evaluations and annotations.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn last_rows(&self) -> Result<LastRows, StoreQueryError> {
        let connection = self.begin();
        let query = "SELECT ifnull((SELECT max(seq) FROM evaluations), 0),
             ifnull((SELECT max(seq) FROM trajectories), 0),
             ifnull((SELECT max(changed) FROM annotations), 0)";
        let read = |row: &Row<'_>| {
            Ok(LastRows { evaluation: row.get(0)?, run: row.get(1)?, annotation: row.get(2)? })
        };
        Ok(connection.prepare_cached(query)?.query_row([], read)?)
    }
}

/// Returns the newest `limit` rows of a range in order, each with its number, and the number of all
/// matching ones.
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

impl StoreReader {
    /// Returns the runs after one row up to another, the newest `limit` of them, and the number of
    /// all.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn runs_between(
        &self,
        filter: &StoreFilter,
        range: (i64, i64),
        limit: usize,
    ) -> Result<(Vec<(i64, RunRow)>, i64), StoreQueryError> {
        let connection = self.begin();
        let source = (RUN_COLUMNS, "t.seq", RUNS);
        let condition = filter.of_runs(CALLED);
        let (mut rows, all) = between(connection, source, condition, range, limit, RunRow::read)?;
        add_verdicts(connection, rows.iter_mut().map(|(_, row)| row))?;
        Ok((rows, all))
    }

    /// Returns the evaluations after one row up to another, in the same way.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn evaluations_between(
        &self,
        filter: &StoreFilter,
        range: (i64, i64),
        limit: usize,
    ) -> Result<(Vec<(i64, EvaluationRow)>, i64), StoreQueryError> {
        let connection = self.begin();
        let source = (COLUMNS, "e.seq", ROWS);
        Ok(between(connection, source, filter.of_rows(), range, limit, EvaluationRow::read)?)
    }

    /// Returns the annotations on matching runs changed after one time up to another, in the same
    /// way.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn annotations_between(
        &self,
        filter: &StoreFilter,
        range: (i64, i64),
        limit: usize,
    ) -> Result<(Vec<(i64, StoredAnnotation)>, i64), StoreQueryError> {
        let connection = self.begin();
        let from = format!("annotations a CROSS JOIN {RUNS}");
        let (fits, values) = filter.of_runs(CALLED);
        let condition = (format!("t.seq = a.trajectory AND {fits}"), values);
        let source = (ANNOTATION_COLUMNS, "a.changed", &*from);
        Ok(between(connection, source, condition, range, limit, StoredAnnotation::read)?)
    }
}
