//! Runs and sessions in lists, with their verdicts.

use rusqlite::Connection;
use serde::Serialize;

use super::row::stored_row;

/// Limit on evaluators shown for one run.
const VERDICTS_MAX: usize = 50;
/// Limit on runs shown for one session.
const SESSION_RUNS_MAX: usize = 50;

stored_row! {
    /// Run of a list.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub struct RunRow: RUN_COLUMNS {
        #[serde(skip)]
        seq: i64 = "t.seq";
        /// Trace, 32 digits.
        pub trace_id: String = "lower(hex(t.trace_id))";
        /// Beginning of the input.
        pub title: Option<String> = "t.title";
        /// `service.name`.
        pub service: String = "s.service";
        /// Agent.
        pub agent: String = "s.agent";
        /// `service.version`.
        pub version: String = "s.version";
        /// `deployment.environment.name`.
        pub environment: String = "s.environment";
        /// Session.
        pub session_id: Option<String> = "n.session_id";
        /// Case of a dataset.
        pub case: Option<String> = "(SELECT min(c.name) FROM cases c WHERE c.trajectory = t.seq)";
        /// End of the run, RFC 3339.
        pub time: String = "strftime('%Y-%m-%dT%H:%M:%fZ', t.time / 1000.0, 'unixepoch')";
        /// Time from first start to last end.
        pub duration_s: f64 = "t.duration_us / 1e6";
        /// Number of earlier judgements; `None` while evaluations await the run.
        pub revision: Option<i64> = "CASE WHEN t.revision >= 0 THEN t.revision END";
        /// Cause that completed the trace.
        pub completion: String = "t.completion";
        /// True if parts of the trace are missing.
        pub partial: bool = "t.partial";
        /// Spans.
        pub spans: i64 = "t.spans";
        /// Tool calls.
        pub calls: i64 = "t.calls";
        /// Failed calls.
        pub errors: i64 = "t.errors";
        /// Passes.
        pub passed: i64 = "t.passed";
        /// Fails.
        pub failed: i64 = "t.failed";
        /// Not evaluable ones.
        pub not_evaluable: i64 = "t.not_evaluable";
        /// Evaluations whose evaluator broke.
        pub broken: i64 = "t.broken";
        /// Tokens of prompts.
        pub input_tokens: Option<i64> = "t.input_tokens";
        /// Tokens of replies.
        pub output_tokens: Option<i64> = "t.output_tokens";
        /// Cost, US dollars.
        pub cost_usd: Option<f64> = "t.cost";
        /// Start of the run, RFC 3339.
        pub started: String = "strftime('%Y-%m-%dT%H:%M:%fZ',
            t.time / 1000.0 - t.duration_us / 1e6, 'unixepoch')";
        /// Models that its spans name; empty if none is known.
        pub models: Vec<String> = "t.models" => models_in;
        /// User, or a pseudonym.
        pub user_id: Option<String> = "t.user_id";
        /// State of the final output: `recorded`, `empty`, `not_recorded` or `unknown`.
        pub answer: String = "t.answer";
        /// Parts omitted because of a full queue: nothing, `content`, or `calls`.
        pub left_out: Option<&'static str> = "t.shed" => left_out;
        /// Verdicts by evaluator, the worst first.
        pub verdicts: Vec<RunVerdict> = later;
    }
}

/// Current verdicts of one evaluator on a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunVerdict {
    /// Full name of the evaluator.
    pub evaluator: String,
    /// The worst: `fail`, `failed`, `not_evaluable`, `pass`.
    pub verdict: &'static str,
    /// Lowest score.
    pub score: Option<f64>,
    /// Number.
    pub count: i64,
}

stored_row! {
    /// Session of a list.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub struct SessionRow: SESSION_COLUMNS {
        #[serde(skip)]
        seq: i64 = "o.seq";
        /// Session.
        pub session_id: String = "o.session_id";
        /// `service.name`.
        pub service: String = "p.service";
        /// Agent.
        pub agent: String = "p.agent";
        /// `service.version`.
        pub version: String = "p.version";
        /// `deployment.environment.name`.
        pub environment: String = "p.environment";
        /// End of its first run, RFC 3339.
        pub first: String = "strftime('%Y-%m-%dT%H:%M:%fZ', o.first / 1000.0, 'unixepoch')";
        /// End of its last run, RFC 3339.
        pub last: String = "strftime('%Y-%m-%dT%H:%M:%fZ', o.last / 1000.0, 'unixepoch')";
        /// Runs.
        pub turns: i64 = "o.turns";
        /// Passes.
        pub passed: i64 = later;
        /// Fails.
        pub failed: i64 = later;
        /// Not evaluable ones.
        pub not_evaluable: i64 = later;
        /// Evaluations whose evaluator broke.
        pub broken: i64 = later;
        /// Last runs, oldest first.
        pub runs: Vec<SessionRun> = later;
    }
}

/// Run of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRun {
    /// Trace, 32 digits.
    pub trace_id: String,
    /// End, RFC 3339.
    pub time: String,
    /// Worst verdict on it.
    pub verdict: Option<&'static str>,
    /// Beginning of the input.
    pub title: Option<String>,
}

/// Returns the models of a stored list.
pub(super) fn models_in(list: Option<String>) -> Vec<String> {
    list.and_then(|list| serde_json::from_str(&list).ok()).unwrap_or_default()
}

/// Returns the name of the omitted part of a run.
pub(super) fn left_out(shed: i64) -> Option<&'static str> {
    match shed {
        0 => None,
        1 => Some("content"),
        _ => Some("calls"),
    }
}

/// Adds the verdicts on runs, by evaluator.
pub(super) fn add_verdicts<'r>(
    connection: &Connection,
    runs: impl IntoIterator<Item = &'r mut RunRow>,
) -> rusqlite::Result<()> {
    // Worst first: fail, failed, not evaluable, pass.
    let mut query = connection.prepare_cached(
        "SELECT v.name, min(CASE e.outcome WHEN 1 THEN 0 WHEN 3 THEN 1 WHEN 2 THEN 2 ELSE 3 END)
         AS worst, min(e.score) AS score, count(*)
         FROM evaluations e JOIN evaluators v ON v.id = e.evaluator
         WHERE e.trajectory = ?1 AND e.current = 1
         GROUP BY v.name ORDER BY worst, score, v.name LIMIT ?2",
    )?;
    for run in runs {
        let rows = query.query_map((run.seq, VERDICTS_MAX), |row| {
            let verdict = match row.get(1)? {
                0 => "fail",
                1 => "failed",
                2 => "not_evaluable",
                _ => "pass",
            };
            let evaluator = row.get(0)?;
            Ok(RunVerdict { evaluator, verdict, score: row.get(2)?, count: row.get(3)? })
        })?;
        run.verdicts = rows.collect::<rusqlite::Result<_>>()?;
    }
    Ok(())
}

/// Adds the last runs of a session, and the sums of its verdicts.
pub(super) fn add_runs(connection: &Connection, session: &mut SessionRow) -> rusqlite::Result<()> {
    let sums = "SELECT ifnull(sum(passed), 0), ifnull(sum(failed), 0),
        ifnull(sum(not_evaluable), 0), ifnull(sum(broken), 0)
        FROM trajectories WHERE session = ?1";
    connection.prepare_cached(sums)?.query_row([session.seq], |row| {
        session.passed = row.get(0)?;
        session.failed = row.get(1)?;
        session.not_evaluable = row.get(2)?;
        session.broken = row.get(3)?;
        Ok(())
    })?;
    let mut query = connection.prepare_cached(
        "SELECT lower(hex(trace_id)), strftime('%Y-%m-%dT%H:%M:%fZ', time / 1000.0, 'unixepoch'),
         failed, broken, not_evaluable, passed, title FROM trajectories WHERE session = ?1
         ORDER BY seq DESC LIMIT ?2",
    )?;
    let rows = query.query_map((session.seq, SESSION_RUNS_MAX), |row| {
        let words = ["fail", "failed", "not_evaluable", "pass"];
        let mut verdict = None;
        for (at, word) in words.into_iter().enumerate() {
            verdict = verdict.or((row.get::<_, i64>(2 + at)? > 0).then_some(word));
        }
        let trace_id = row.get(0)?;
        Ok(SessionRun { trace_id, time: row.get(1)?, verdict, title: row.get(6)? })
    })?;
    session.runs = rows.collect::<rusqlite::Result<_>>()?;
    session.runs.reverse();
    Ok(())
}
