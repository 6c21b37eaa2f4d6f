//! Paged lists of runs, evaluations and sessions. A page begins after the last row of its
//! predecessor, so new rows neither repeat nor hide others.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Row, params_from_iter};
use serde::Serialize;
use strum::{EnumString, VariantNames};

use super::filter::{SqlCondition, StoreFilter};
use super::list::{COLUMNS, EvaluationRow, ROWS};
use super::row::stored_row;
use super::run::{RUN_COLUMNS, RunRow, SESSION_COLUMNS, SessionRow, add_runs, add_verdicts};
use super::{StoreQueryError, StoreReader};

/// Limit at which counting stops.
const COUNT_MAX: i64 = 10_000;
/// Runs with all referenced rows.
pub(super) const RUNS: &str = "trajectories t CROSS JOIN sources s ON s.id = t.source
    LEFT JOIN sessions n ON n.seq = t.session";
/// Test of a run's called tools.
pub(super) const CALLED: &str = "EXISTS (SELECT 1 FROM calls c JOIN tools l ON l.id = c.tool
    WHERE c.trajectory = t.seq AND l.name {})";
/// Order of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RunOrder {
    /// Last started first.
    #[default]
    Newest,
    /// Last stored first.
    Arrived,
    /// By the worst matching evaluation: fails before passes, low scores before high ones.
    Worst,
    /// Longest first.
    Slowest,
    /// Most expensive first.
    Costliest,
}

/// Place after which a page begins: the sort value and the row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PagePlace {
    /// Sort value.
    pub rank: f64,
    /// Row.
    pub seq: i64,
}

/// Count up to 10,000.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CappedCount {
    /// Count.
    pub count: i64,
    /// True if the count stopped at the limit.
    pub capped: bool,
}

/// Page of a list.
#[derive(Clone, Debug, Serialize)]
pub struct StoredPage<T> {
    /// Rows.
    pub items: Vec<T>,
    /// Place of the last row, if more rows follow.
    #[serde(skip)]
    pub next: Option<PagePlace>,
    /// Rows of all pages, only on the first.
    pub count: Option<CappedCount>,
}

/// Page of runs.
pub type RunPage = StoredPage<RunRow>;
/// Page of sessions.
pub type SessionPage = StoredPage<SessionRow>;

impl StoreReader {
    /// Lists runs, page by page.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn runs(
        &self,
        filter: &StoreFilter,
        order: RunOrder,
        after: Option<PagePlace>,
        limit: usize,
    ) -> Result<RunPage, StoreQueryError> {
        let connection = self.begin();
        let filter = filter.within(connection)?;
        let condition = filter.of_runs(CALLED);
        let count = first_count(connection, RUNS, &condition, after)?;
        let (rank, rank_values) = rank(&filter, order);
        let (condition, values) = condition;
        let page =
            Page { columns: RUN_COLUMNS, rank: &rank, seq: "t.seq", from: RUNS, order: None };
        let values = rank_values.into_iter().chain(values);
        let mut page =
            page.read(connection, (condition, values.collect()), after, limit, RunRow::read)?;
        add_verdicts(connection, &mut page.items)?;
        Ok(StoredPage { count, ..page })
    }
}

/// Returns the sort value of runs, highest first.
fn rank(filter: &StoreFilter, order: RunOrder) -> SqlCondition {
    match order {
        // As in the index: SQLite recognises no other wording.
        RunOrder::Newest => ("t.time * 1000 - t.duration_us".to_owned(), Vec::new()),
        RunOrder::Arrived => ("t.seq".to_owned(), Vec::new()),
        RunOrder::Slowest => ("t.duration_us".to_owned(), Vec::new()),
        RunOrder::Costliest => ("ifnull(t.cost, -1)".to_owned(), Vec::new()),
        RunOrder::Worst => {
            let (condition, values) = filter.of_verdicts();
            let rank = format!(
                "-ifnull((SELECT min(e.score + CASE e.outcome WHEN 0 THEN 2 ELSE 0 END)
                 FROM evaluations e JOIN evaluators v ON v.id = e.evaluator
                 WHERE e.trajectory = t.seq AND e.outcome < 2 AND {condition}), 9)"
            );
            (rank, values)
        }
    }
}

impl StoreReader {
    /// Lists evaluations page by page, newest first.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn evaluation_page(
        &self,
        filter: &StoreFilter,
        after: Option<PagePlace>,
        limit: usize,
    ) -> Result<StoredPage<EvaluationRow>, StoreQueryError> {
        let connection = self.begin();
        let condition = filter.within(connection)?.of_rows();
        if !filter.is_failing() {
            let count = first_count(connection, ROWS, &condition, after)?;
            let page =
                Page { columns: COLUMNS, rank: "e.seq", seq: "e.seq", from: ROWS, order: None };
            let page = page.read(connection, condition, after, limit, EvaluationRow::read)?;
            return Ok(StoredPage { count, ..page });
        }
        // Fails are rare, and have an index by storing time, which grows with the number.
        let rows =
            ROWS.replacen("evaluations e", "evaluations e INDEXED BY evaluations_failing", 1);
        let count = first_count(connection, &rows, &condition, after)?;
        let order = Some("e.stored DESC, e.seq DESC");
        let page = Page { columns: COLUMNS, rank: "e.seq", seq: "e.seq", from: &rows, order };
        let page = page.read(connection, condition, after, limit, EvaluationRow::read)?;
        Ok(StoredPage { count, ..page })
    }

    /// Lists sessions with a matching run page by page, the most recently active first.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn sessions(
        &self,
        filter: &StoreFilter,
        after: Option<PagePlace>,
        limit: usize,
    ) -> Result<SessionPage, StoreQueryError> {
        let connection = self.begin();
        let (condition, values) = filter.within(connection)?.of_runs(CALLED);
        let from = "sessions o JOIN sources p ON p.id = o.source";
        let condition =
            format!("EXISTS (SELECT 1 FROM {RUNS} WHERE t.session = o.seq AND {condition})");
        let condition = (condition, values);
        let count = first_count(connection, from, &condition, after)?;
        let columns = SESSION_COLUMNS;
        let page = Page { columns, rank: "o.last", seq: "o.seq", from, order: None };
        let mut page = page.read(connection, condition, after, limit, SessionRow::read)?;
        for session in &mut page.items {
            add_runs(connection, session)?;
        }
        Ok(StoredPage { count, ..page })
    }
}

stored_row! {
    /// Tool call of a list.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub struct CallRow: CALL_COLUMNS {
        /// Start, RFC 3339.
        pub time: String = "strftime('%Y-%m-%dT%H:%M:%fZ', k.time / 1000.0, 'unixepoch')";
        /// Trace, 32 digits.
        pub trace_id: String = "lower(hex(t.trace_id))";
        /// Index in the run, from 1.
        pub place: i64 = "k.position + 1";
        /// Span.
        pub span_id: String = "lower(hex(k.span_id))";
        /// Tool.
        pub tool: String = "m.name";
        /// `service.name`.
        pub service: String = "s.service";
        /// Agent of the run.
        pub agent: String = "s.agent";
        /// `service.version`.
        pub version: String = "s.version";
        /// Duration; `None` if the start or the end is unknown.
        pub duration_s: Option<f64> = "k.duration_us / 1e6";
        /// `ok`, `error` or `unknown`.
        pub status: String = "k.status";
        /// True if the tool was not among those offered.
        pub undeclared: bool = "k.undeclared";
        /// True if only the history of a request records it.
        pub repeated: bool = "k.repeated";
    }
}

/// Limit on the calls of one run, for a call's global number.
const CALLS_PER_RUN: usize = crate::record::CALLS_MAX;

impl StoreReader {
    /// Lists calls of matching runs page by page, those of the last stored run first; `tool`
    /// filters the calls.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn call_page(
        &self,
        filter: &StoreFilter,
        after: Option<PagePlace>,
        limit: usize,
    ) -> Result<StoredPage<CallRow>, StoreQueryError> {
        let connection = self.begin();
        let from = format!(
            "{RUNS} CROSS JOIN calls k ON k.trajectory = t.seq JOIN tools m ON m.id = k.tool"
        );
        let condition = filter.within(connection)?.of_runs("m.name {}");
        let count = first_count(connection, &from, &condition, after)?;
        let seq = format!("(t.seq * {CALLS_PER_RUN} + k.position)");
        let (condition, mut values) = condition;
        let condition = match after {
            None => condition,
            // Runs are found by their number, so that a page does not read earlier ones.
            Some(place) => {
                values.push(SqlValue::Integer(place.seq / CALLS_PER_RUN as i64));
                format!("{condition} AND t.seq <= ?")
            }
        };
        let order = "t.seq DESC, k.position DESC";
        let page =
            Page { columns: CALL_COLUMNS, rank: &seq, seq: &seq, from: &from, order: Some(order) };
        let page = page.read(connection, (condition, values), after, limit, CallRow::read)?;
        Ok(StoredPage { count, ..page })
    }
}

/// Counts the rows of all pages, on the first page.
pub(super) fn first_count(
    connection: &Connection,
    from: &str,
    condition: &SqlCondition,
    after: Option<PagePlace>,
) -> rusqlite::Result<Option<CappedCount>> {
    if after.is_some() { Ok(None) } else { count(connection, from, condition).map(Some) }
}

/// Counts rows up to a limit.
pub(super) fn count(
    connection: &Connection,
    from: &str,
    (condition, values): &SqlCondition,
) -> rusqlite::Result<CappedCount> {
    let more = COUNT_MAX + 1;
    let query =
        format!("SELECT count(*) FROM (SELECT 1 FROM {from} WHERE {condition} LIMIT {more})");
    let values = params_from_iter(values);
    let count: i64 = connection.query_row(&query, values, |row| row.get(0))?;
    Ok(CappedCount { count: count.min(COUNT_MAX), capped: count > COUNT_MAX })
}

/// Query for a page.
pub(super) struct Page<'a> {
    pub(super) columns: &'a str,
    /// Sort value, highest first. Its parameters precede the condition's.
    pub(super) rank: &'a str,
    /// Row number.
    pub(super) seq: &'a str,
    pub(super) from: &'a str,
    /// Order of rows by columns of the tables; by default by row number.
    pub(super) order: Option<&'a str>,
}

impl Page<'_> {
    pub(super) fn read<T>(
        &self,
        connection: &Connection,
        (condition, mut values): SqlCondition,
        after: Option<PagePlace>,
        limit: usize,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<StoredPage<T>> {
        let Self { columns, rank, seq, from, order } = *self;
        // Rows sorted by number come in that order from the table itself.
        let is_plain = rank == seq;
        let of_rows =
            || if is_plain { format!("{seq} DESC") } else { "rank DESC, row DESC".to_owned() };
        let order = order.map_or_else(of_rows, str::to_owned);
        let place = match after {
            None => "1".to_owned(),
            Some(place) if is_plain => {
                values.push(SqlValue::Integer(place.seq));
                format!("{seq} < ?")
            }
            Some(place) => {
                let ranks = [SqlValue::Real(place.rank), SqlValue::Real(place.rank)];
                values.extend(ranks.into_iter().chain([SqlValue::Integer(place.seq)]));
                // The first test begins in an index, which the second alone would not.
                "rank <= ? AND (rank, row) < (?, ?)".to_owned()
            }
        };
        values.push(SqlValue::Integer(limit as i64 + 1));
        let query = format!(
            "SELECT {columns}, {rank} AS rank, {seq} AS row FROM {from}
             WHERE {condition} AND {place} ORDER BY {order} LIMIT ?"
        );
        let mut query = connection.prepare(&query)?;
        let rows = query.query_map(params_from_iter(values), |row| {
            let place = PagePlace { rank: row.get("rank")?, seq: row.get("row")? };
            Ok((place, read(row)?))
        })?;
        let mut rows: Vec<(PagePlace, T)> = rows.collect::<rusqlite::Result<_>>()?;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().map(|(place, _)| *place).filter(|_| has_more);
        let items = rows.into_iter().map(|(_, item)| item).collect();
        Ok(StoredPage { items, next, count: None })
    }
}
