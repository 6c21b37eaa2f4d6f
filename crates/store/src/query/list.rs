//! Lists of evaluations, newest first or the worst of each run, and figures by group.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params_from_iter};
use serde::Serialize;

use spanscore_base::model::GivenVerdict;

use super::field::{MODELS, StoreField};
use super::filter::{SqlCondition, StoreFilter};
use super::row::{all, stored_row};
use super::{StoreQueryError, StoreReader};

/// Limit on rows in an answer.
pub const ROWS_MAX: usize = 10_000;

/// Limit on groups: 300 time buckets, a hundred times.
const GROUPS_MAX: usize = 30_000;

/// Rows of evaluations with all referenced rows.
pub(super) const ROWS: &str = "evaluations e JOIN trajectories t ON t.seq = e.trajectory
    JOIN evaluators v ON v.id = e.evaluator JOIN sources s ON s.id = e.source
    LEFT JOIN sessions n ON n.seq = t.session LEFT JOIN tools l ON l.id = e.tool";

/// Returns the verdict for a number in the file.
pub(super) fn verdict_of(number: usize) -> GivenVerdict {
    GivenVerdict::numbered(number).unwrap_or(GivenVerdict::Failed)
}

/// Returns the verdict's name for a number in the file.
pub(super) fn verdict_word(number: usize) -> &'static str {
    verdict_of(number).as_str()
}

fn outcome_of(number: usize) -> &'static str {
    if label_of(number).is_some() { "scored" } else { verdict_word(number) }
}

fn label_of(number: usize) -> Option<&'static str> {
    let verdict = verdict_of(number);
    matches!(verdict, GivenVerdict::Pass | GivenVerdict::Fail).then(|| verdict.as_str())
}

fn parsed(details: Option<String>) -> Option<serde_json::Value> {
    serde_json::from_str(&details?).ok()
}

/// Order of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StoreOrder {
    /// Last stored first.
    #[default]
    Newest,
    /// The worst evaluation of each run, the worst run first: fails before passes, low scores
    /// before high ones. Unjudged ones are left out.
    Worst,
}

stored_row! {
    /// Stored evaluation.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub struct EvaluationRow: COLUMNS {
        /// End of the judged target, RFC 3339.
        pub time: String = "strftime('%Y-%m-%dT%H:%M:%fZ', e.time / 1000.0, 'unixepoch')";
        /// Trace, 32 digits.
        pub trace_id: String = "lower(hex(t.trace_id))";
        /// Span with the evaluation.
        pub span_id: String = "lower(hex(e.span_id))";
        /// Session of the trace.
        pub session_id: Option<String> = "n.session_id";
        /// Case of a dataset.
        pub case: Option<String> =
            "(SELECT min(c.name) FROM cases c WHERE c.trajectory = e.trajectory)";
        /// Full name of the evaluator.
        pub evaluator: String = "v.name";
        /// Its kind.
        pub kind: String = "v.kind";
        /// `call`, `trace` or `session`.
        pub level: String = "v.level";
        /// Version of the evaluator.
        pub evaluator_version: String = "lower(hex(v.version))";
        /// `service.name`.
        pub service: String = "s.service";
        /// Agent.
        pub agent: String = "s.agent";
        /// `service.version`.
        pub version: String = "s.version";
        /// `deployment.environment.name`.
        pub environment: String = "s.environment";
        /// Tool of a judged call.
        pub tool: Option<String> = "l.name";
        /// `scored`, `not_evaluable` or `failed`.
        pub outcome: &'static str = "e.outcome" => outcome_of;
        /// `pass` or `fail`.
        pub label: Option<&'static str> = "e.outcome" => label_of;
        /// 0 to 1.
        pub score: Option<f64> = "e.score";
        /// Lowest score that passes.
        pub threshold: f64 = "v.threshold";
        /// Reason that it is not evaluable, or type of the error.
        pub reason: Option<String> = "e.reason";
        /// Cause that completed the trace.
        pub completion: String = "e.completion";
        /// True if parts of the trace are missing.
        pub partial: bool = "e.partial";
        /// 0 for the first verdict on the target.
        pub revision: i64 = "e.revision";
        /// True without a later revision.
        pub current: bool = "e.current";
        /// True for a verdict on an open trace.
        pub early: bool = "e.early";
        /// Cost of judges, US dollars.
        pub cost_usd: Option<f64> = "e.cost";
        /// Model whose answer counted.
        pub judge: Option<String> = "e.judge";
        /// Explanation for a person.
        pub explanation: Option<String> = "e.explanation";
        /// Error of a broken evaluator.
        pub error: Option<String> = "e.error";
        /// Identity.
        pub evaluation_id: String = "lower(hex(e.id))";
        /// Evidence, if it is stored.
        pub details: Option<serde_json::Value> =
            "(SELECT d.details FROM evaluation_details d WHERE d.seq = e.seq)" => parsed;
        /// Client whose process judged; `None` for this process.
        pub client: Option<String> = "e.client";
    }
}

impl StoreReader {
    /// Lists evaluations, at most `limit` and [`ROWS_MAX`].
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn evaluations(
        &self,
        filter: &StoreFilter,
        order: StoreOrder,
        limit: usize,
    ) -> Result<Vec<EvaluationRow>, StoreQueryError> {
        let connection = self.begin();
        let (condition, mut values) = filter.within(connection)?.of_rows();
        let query = match order {
            StoreOrder::Newest => {
                format!(
                    "SELECT {COLUMNS} FROM {ROWS} WHERE {condition} ORDER BY e.seq DESC LIMIT ?"
                )
            }
            // With min() the other columns are those of the row with the minimum.
            StoreOrder::Worst => format!(
                "SELECT {COLUMNS} FROM (SELECT e.seq AS row,
                 min(e.score + CASE e.outcome WHEN 0 THEN 2 ELSE 0 END) AS rank
                 FROM {ROWS} WHERE {condition} AND e.outcome < 2 AND e.score IS NOT NULL
                 GROUP BY e.trajectory ORDER BY rank, row DESC LIMIT ?) w
                 JOIN {ROWS} WHERE e.seq = w.row ORDER BY w.rank, e.seq DESC"
            ),
        };
        values.push(SqlValue::Integer(limit.min(ROWS_MAX) as i64));
        Ok(all(connection, &query, params_from_iter(values), EvaluationRow::read)?)
    }
}

/// Lists all revisions of one trajectory's evaluations, in storing order.
pub(super) fn of_trajectory(
    connection: &Connection,
    trajectory: i64,
) -> rusqlite::Result<Vec<EvaluationRow>> {
    let query = format!("SELECT {COLUMNS} FROM {ROWS} WHERE e.trajectory = ?1 ORDER BY e.seq");
    all(connection, &query, [trajectory], EvaluationRow::read)
}

/// Figures of evaluations with common field values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredGroup {
    /// Values of the grouped fields, in order.
    pub keys: Vec<String>,
    /// Passes.
    pub passed: i64,
    /// Fails.
    pub failed: i64,
    /// Not evaluable ones.
    pub not_evaluable: i64,
    /// Evaluations whose evaluator broke.
    pub broken: i64,
    /// Mean of the scores.
    pub mean: Option<f64>,
    /// Sum of the squares of the scores.
    pub squares: f64,
    /// Cost of judges, US dollars.
    pub cost_usd: f64,
}

impl StoredGroup {
    /// Adds up groups, without their keys.
    pub fn merged(groups: &[Self]) -> Option<Self> {
        let mut all = Self { keys: Vec::new(), mean: None, ..groups.first()?.clone() };
        for group in &groups[1..] {
            all.passed += group.passed;
            all.failed += group.failed;
            all.not_evaluable += group.not_evaluable;
            all.broken += group.broken;
            all.squares += group.squares;
            all.cost_usd += group.cost_usd;
        }
        let judged = |group: &Self| (group.passed + group.failed) as f64;
        let sum: f64 = groups.iter().filter_map(|it| Some(it.mean? * judged(it))).sum();
        all.mean = (judged(&all) > 0.0).then(|| sum / judged(&all));
        Some(all)
    }

    /// Returns the number of evaluations.
    pub fn count(&self) -> i64 {
        self.passed + self.failed + self.not_evaluable + self.broken
    }

    /// Returns the share of passes among passes and fails.
    pub fn pass_rate(&self) -> Option<f64> {
        let judged = self.passed + self.failed;
        (judged > 0).then(|| self.passed as f64 / judged as f64)
    }
}

/// Time buckets of figures: start and width, milliseconds.
pub(super) type TimeBuckets = Option<(i64, i64)>;

/// Returns figures by group, with the bucket as the last key; from sums, which are complete, if
/// they contain all fields.
pub(super) fn groups(
    connection: &Connection,
    filter: &StoreFilter,
    by: &[StoreField],
    buckets: TimeBuckets,
) -> rusqlite::Result<Vec<StoredGroup>> {
    let sums: Option<Vec<_>> = by.iter().map(|field| field.sums_column()).collect();
    match sums.filter(|_| filter.fits_sums()) {
        Some(columns) => {
            let columns = with_bucket(columns, "r.bucket * r.span * 1000", buckets);
            let (sums, condition) = filter.of_sums();
            // Left joins, so that unused tables are not read.
            let source = format!(
                "{sums} LEFT JOIN evaluators v ON v.id = r.evaluator
                 LEFT JOIN sources s ON s.id = r.source"
            );
            let figures = "sum(r.passed), sum(r.failed), sum(r.not_evaluable), sum(r.broken),
                 sum(r.sum) / 1e9 / nullif(sum(r.passed + r.failed), 0),
                 sum(r.squares) / 1e9, sum(r.cost) / 1e9";
            grouped(connection, (&columns, figures, &source), condition)
        }
        None => {
            let columns = by.iter().map(|field| field.group_column()).collect();
            let is_by_model = by.contains(&StoreField::Model);
            let models = if is_by_model { format!(" CROSS JOIN {MODELS}") } else { String::new() };
            let source = format!("{ROWS}{models}");
            let columns = with_bucket(columns, "e.time", buckets);
            let figures = "sum(e.outcome = 0), sum(e.outcome = 1), sum(e.outcome = 2),
                 sum(e.outcome = 3), avg(CASE WHEN e.outcome < 2 THEN e.score END),
                 ifnull(sum(CASE WHEN e.outcome < 2 THEN e.score * e.score END), 0.0),
                 ifnull(sum(e.cost), 0.0)";
            let (mut condition, mut values) = filter.within(connection)?.of_rows();
            if is_by_model {
                // A run of several models counts only for those that are asked for.
                let (of_model, models) = filter.of_field(StoreField::Model, "model.value");
                condition = format!("{condition} AND {of_model}");
                values.extend(models);
            }
            grouped(connection, (&columns, figures, &source), (condition, values))
        }
    }
}

/// Adds the bucket of a time to the columns.
fn with_bucket(columns: Vec<&str>, time: &str, buckets: TimeBuckets) -> Vec<String> {
    let bucket =
        buckets.map(|(start, width)| format!("CAST(({time} - {start}) / {width} AS TEXT)"));
    columns.into_iter().map(str::to_owned).chain(bucket).collect()
}

fn grouped(
    connection: &Connection,
    (columns, figures, source): (&[String], &str, &str),
    (condition, values): SqlCondition,
) -> rusqlite::Result<Vec<StoredGroup>> {
    let keys: String = columns.iter().map(|column| format!("{column}, ")).collect();
    let places: Vec<String> = (1..=columns.len()).map(|place| place.to_string()).collect();
    // Without columns there is one group, or none; without GROUP BY, SQLite need not sort for it.
    let by = places.join(", ");
    let by = if places.is_empty() {
        "HAVING count(*) > 0".to_owned()
    } else {
        format!("GROUP BY {by} ORDER BY {by}")
    };
    let query =
        format!("SELECT {keys}{figures} FROM {source} WHERE {condition} {by} LIMIT {GROUPS_MAX}");
    let width = columns.len();
    let mut query = connection.prepare(&query)?;
    let rows = query.query_map(params_from_iter(values), |row| {
        Ok(StoredGroup {
            keys: (0..width).map(|at| row.get(at)).collect::<rusqlite::Result<_>>()?,
            passed: row.get(width)?,
            failed: row.get(width + 1)?,
            not_evaluable: row.get(width + 2)?,
            broken: row.get(width + 3)?,
            mean: row.get(width + 4)?,
            squares: row.get(width + 5)?,
            cost_usd: row.get(width + 6)?,
        })
    })?;
    let groups = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(groups.into_iter().filter(|group| group.count() > 0).collect())
}
