//! Histograms, and figures by tool, version, reason and case.

use hashbrown::HashMap;
use rusqlite::params_from_iter;
use serde::Serialize;

use super::field::StoreField;
use super::filter::StoreFilter;
use super::list::{ROWS, ROWS_MAX, verdict_word};
use super::page::RUNS;
use super::row::{all, stored_row};
use super::{StoreQueryError, StoreReader};
use crate::histogram::{
    DURATION_BINS, SCORE_BINS, add_packed, duration_bin, duration_bound, score_bin,
};

/// Limit on tools in an answer, those with most calls.
pub const TOOLS_MAX: usize = 500;
/// Limit on reasons in an answer.
const REASONS_MAX: usize = 50;

/// Figures of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolFigures {
    /// Tool.
    pub tool: String,
    /// Calls.
    pub calls: i64,
    /// Failed calls.
    pub errors: i64,
    /// Calls of a tool that was not offered.
    pub undeclared: i64,
    bins: [i64; DURATION_BINS],
}

impl ToolFigures {
    fn new(tool: String) -> Self {
        Self { tool, calls: 0, errors: 0, undeclared: 0, bins: [0; DURATION_BINS] }
    }

    /// Returns the duration that this share of the calls does not exceed, seconds: the upper bound
    /// of its bin. `None` without durations, or beyond an hour.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let all: i64 = self.bins.iter().sum();
        let rank = (all as f64 * share).ceil().max(1.0) as i64;
        let mut below = 0;
        let bin = self.bins.iter().position(|count| {
            below += count;
            below >= rank
        });
        bin.map(duration_bound).filter(|bound| bound.is_finite())
    }
}

stored_row! {
    /// Version of an evaluator.
    #[derive(Clone, Debug, PartialEq)]
    pub struct EvaluatorVersionRow: VERSION_COLUMNS {
        /// Its kind.
        pub kind: String = "kind";
        /// `call`, `trace` or `session`.
        pub level: String = "level";
        /// Version, which changes with its settings.
        pub version: String = "lower(hex(version))";
        /// Version reported by an external evaluator.
        pub own_version: Option<String> = "own_version";
        /// Lowest score that passes.
        pub threshold: f64 = "threshold";
    }
}

stored_row! {
    /// Reason that targets were not judged.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
    pub struct ReasonCount: REASON_COLUMNS {
        /// `not_evaluable` or `failed`.
        pub outcome: &'static str = "e.outcome" => verdict_word;
        /// Reason.
        pub reason: String = "ifnull(e.reason, '')";
        /// Number.
        pub count: i64 = "count(*)";
    }
}

/// Verdicts of an evaluator on a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseFigures {
    /// Case.
    pub case: String,
    /// Full name of the evaluator.
    pub evaluator: String,
    /// Passes.
    pub passed: i64,
    /// Fails.
    pub failed: i64,
    /// Newest failing run.
    pub failed_trace: Option<String>,
}

impl StoreReader {
    /// Returns the histogram of scores.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn score_bins(&self, filter: &StoreFilter) -> Result<[i64; SCORE_BINS], StoreQueryError> {
        let connection = self.begin();
        let mut bins = [0; SCORE_BINS];
        if filter.fits_sums() {
            let (sums, (condition, values)) = filter.of_sums();
            let mut query = connection.prepare(&format!(
                "SELECT r.histogram FROM {sums} LEFT JOIN evaluators v ON v.id = r.evaluator
                 LEFT JOIN sources s ON s.id = r.source WHERE {condition}"
            ))?;
            let mut rows = query.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                add_packed(row.get_ref(0)?.as_blob().unwrap_or_default(), &mut bins);
            }
            return Ok(bins);
        }
        let (condition, values) = filter.within(connection)?.of_rows();
        let query = format!("SELECT e.score FROM {ROWS} WHERE {condition} AND e.outcome < 2");
        let mut query = connection.prepare(&query)?;
        let mut rows = query.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            if let Some(score) = row.get::<_, Option<f64>>(0)? {
                bins[score_bin(score)] += 1;
            }
        }
        Ok(bins)
    }

    /// Returns the figures of tools, most calls first.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn tools(&self, filter: &StoreFilter) -> Result<Vec<ToolFigures>, StoreQueryError> {
        let connection = self.begin();
        let mut tools: HashMap<String, ToolFigures> = HashMap::new();
        if filter.fits_tool_sums() {
            let (sums, (condition, values)) = filter.of_tool_sums();
            let mut query = connection.prepare(&format!(
                "SELECT l.name, r.calls, r.errors, r.undeclared, r.histogram FROM {sums}
                 JOIN tools l ON l.id = r.tool JOIN sources s ON s.id = r.source WHERE {condition}"
            ))?;
            let mut rows = query.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                let tool = found(&mut tools, row.get_ref(0)?.as_str().unwrap_or_default());
                tool.calls += row.get::<_, i64>(1)?;
                tool.errors += row.get::<_, i64>(2)?;
                tool.undeclared += row.get::<_, i64>(3)?;
                add_packed(row.get_ref(4)?.as_blob().unwrap_or_default(), &mut tool.bins);
            }
        } else {
            let (condition, values) = filter.within(connection)?.of_runs("l.name {}");
            let mut query = connection.prepare(&format!(
                "SELECT l.name, c.status = 'error', c.undeclared, c.duration_us
                 FROM {RUNS} JOIN calls c ON c.trajectory = t.seq JOIN tools l ON l.id = c.tool
                 WHERE {condition}"
            ))?;
            let mut rows = query.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                let tool = found(&mut tools, row.get_ref(0)?.as_str().unwrap_or_default());
                tool.calls += 1;
                tool.errors += row.get::<_, i64>(1)?;
                tool.undeclared += row.get::<_, i64>(2)?;
                if let Some(micros) = row.get::<_, Option<i64>>(3)? {
                    tool.bins[duration_bin(micros)] += 1;
                }
            }
        }
        let mut tools: Vec<_> = tools.into_values().filter(|tool| tool.calls > 0).collect();
        tools.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.tool.cmp(&b.tool)));
        tools.truncate(TOOLS_MAX);
        Ok(tools)
    }

    /// Counts tool calls, and failed ones.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn count_calls(&self, filter: &StoreFilter) -> Result<(i64, i64), StoreQueryError> {
        let connection = self.begin();
        let (query, values) = if filter.fits_tool_sums() {
            let (sums, (condition, values)) = filter.of_tool_sums();
            let query = format!(
                "SELECT ifnull(sum(r.calls), 0), ifnull(sum(r.errors), 0) FROM {sums}
                 LEFT JOIN tools l ON l.id = r.tool LEFT JOIN sources s ON s.id = r.source
                 WHERE {condition}"
            );
            (query, values)
        } else {
            let (condition, values) = filter.within(connection)?.of_runs("l.name {}");
            let query = format!(
                "SELECT count(*), ifnull(sum(c.status = 'error'), 0)
                 FROM {RUNS} JOIN calls c ON c.trajectory = t.seq JOIN tools l ON l.id = c.tool
                 WHERE {condition}"
            );
            (query, values)
        };
        Ok(connection
            .query_row(&query, params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))?)
    }
}

fn found<'t>(tools: &'t mut HashMap<String, ToolFigures>, name: &str) -> &'t mut ToolFigures {
    tools.entry_ref(name).or_insert_with(|| ToolFigures::new(name.to_owned()))
}

impl StoreReader {
    /// Returns the known versions of an evaluator, the newest last.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn evaluator_versions(
        &self,
        name: &str,
    ) -> Result<Vec<EvaluatorVersionRow>, StoreQueryError> {
        let connection = self.begin();
        let query = format!("SELECT {VERSION_COLUMNS} FROM evaluators WHERE name = ?1 ORDER BY id");
        Ok(all(connection, &query, [name], EvaluatorVersionRow::read)?)
    }

    /// Counts the reasons that targets were not judged, the most frequent first.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn reasons(&self, filter: &StoreFilter) -> Result<Vec<ReasonCount>, StoreQueryError> {
        let connection = self.begin();
        let (condition, values) = filter.within(connection)?.of_rows();
        let query = format!(
            "SELECT {REASON_COLUMNS} FROM {ROWS} WHERE {condition} AND e.outcome > 1
             GROUP BY e.outcome, ifnull(e.reason, '')
             ORDER BY count(*) DESC, ifnull(e.reason, '') LIMIT {REASONS_MAX}"
        );
        Ok(all(connection, &query, params_from_iter(values), ReasonCount::read)?)
    }

    /// Returns the figures of each case and evaluator; the keys are both names.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn cases(&self, filter: &StoreFilter) -> Result<Vec<CaseFigures>, StoreQueryError> {
        let connection = self.begin();
        let (condition, values) = filter.within(connection)?.of_rows();
        let case = StoreField::Case.column();
        // Runs with a case are few, so they lead the join. With max() the trace is that of the row
        // with the maximum.
        let mut query = connection.prepare(&format!(
            "SELECT {case}, v.name, sum(e.outcome = 0), sum(e.outcome = 1), lower(hex(t.trace_id)),
             max(CASE e.outcome WHEN 1 THEN e.seq END) FROM {ROWS}
             WHERE e.trajectory IN (SELECT trajectory FROM cases) AND e.outcome < 2 AND {condition}
             GROUP BY 1, 2 ORDER BY 1, 2 LIMIT {ROWS_MAX}"
        ))?;
        let rows = query.query_map(params_from_iter(values), |row| {
            let failed = row.get(3)?;
            let failed_trace: Option<String> = row.get(4)?;
            Ok(CaseFigures {
                case: row.get(0)?,
                evaluator: row.get(1)?,
                passed: row.get(2)?,
                failed,
                failed_trace: failed_trace.filter(|_| failed > 0),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
