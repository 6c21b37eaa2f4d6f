//! Statements of the writer: one function for each inserted or changed row.

use rusqlite::{Connection, OptionalExtension, Params, params};

use spanscore_base::model::{ClientGroup, Completion, Evaluation, Level};

use super::content::ContentPolicy;
use super::sums::CallFigures;
use super::traces::KnownTrace;
use crate::record::{CallRecord, TrajectoryRecord};
use crate::rollup::EvaluationFigures;

/// Level of zstd: the lowest, which packs JSON to a third in a tenth of the default's time.
const ZSTD_LEVEL: i32 = 1;

/// Runs a cached statement; returns the number of changed rows.
pub(super) fn run(
    connection: &Connection,
    query: &str,
    values: impl Params,
) -> rusqlite::Result<usize> {
    connection.prepare_cached(query)?.execute(values)
}

/// Inserts a row by a cached statement; returns its number.
pub(super) fn insert(
    connection: &Connection,
    query: &str,
    values: impl Params,
) -> rusqlite::Result<i64> {
    connection.prepare_cached(query)?.insert(values)
}

/// Returns the first number found by a cached query.
pub(super) fn find(
    connection: &Connection,
    query: &str,
    values: impl Params,
) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(query)?.query_row(values, |row| row.get(0)).optional()
}

pub(super) fn add_turn(
    connection: &Connection,
    (session_id, source, group): (&str, i64, ClientGroup),
    time_ms: i64,
) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO sessions (session_id, source, client_group, first, last, turns)
             VALUES (?1, ?2, ?3, ?4, ?4, 1)
             ON CONFLICT (session_id, source, client_group) DO UPDATE SET
             first = min(first, ?4), last = max(last, ?4), turns = turns + 1 RETURNING seq",
        )?
        .query_row(params![session_id, source, group.to_bytes(), time_ms], |row| row.get(0))
}

/// Moves a run's evaluations and annotations from its old session to the new one. A session is
/// deleted with its last run.
pub(super) fn leave_session(
    connection: &Connection,
    trajectory: i64,
    old: i64,
    new: i64,
) -> rusqlite::Result<()> {
    for table in ["evaluations", "annotations"] {
        let query =
            format!("UPDATE {table} SET session = ?3 WHERE trajectory = ?1 AND session = ?2");
        run(connection, &query, [trajectory, old, new])?;
    }
    run(connection, "UPDATE sessions SET turns = turns - 1 WHERE seq = ?1", [old])?;
    let query = "DELETE FROM sessions WHERE seq = ?1 AND NOT EXISTS
        (SELECT 1 FROM trajectories WHERE session = ?1 AND seq <> ?2)";
    run(connection, query, [old, trajectory])?;
    Ok(())
}

pub(super) fn update_trajectory(
    connection: &Connection,
    record: &TrajectoryRecord,
    trace: &KnownTrace,
    duration_us: i64,
    (title, definitions, user): (Option<&str>, Option<i64>, Option<&str>),
) -> rusqlite::Result<()> {
    let judgement = &record.judgement;
    let tokens = |count: Option<u64>| count.and_then(|count| i64::try_from(count).ok());
    connection
        .prepare_cached(
            "UPDATE trajectories SET span_id = ?2, time = ?3, duration_us = ?4, revision = ?5,
             completion = ?6, partial = ?7, spans = ?8, calls = ?9, errors = ?10,
             input_tokens = ?11, output_tokens = ?12, cost = ?13, shed = ?14, title = ?15,
             source = ?16, session = ?17, definitions = ?18, models = ?19, user_id = ?20,
             answer = ?21 WHERE seq = ?1",
        )?
        .execute(params![
            trace.seq,
            record.span_id.0,
            trace.size.2,
            duration_us,
            trace.revision,
            judgement.completion.as_str(),
            judgement.is_partial,
            trace.size.0,
            trace.size.1,
            record.error_count,
            tokens(record.usage.input_tokens),
            tokens(record.usage.output_tokens),
            record.cost,
            trace.shed,
            title,
            trace.source,
            trace.session,
            definitions,
            record.models,
            user,
            record.answer.as_str()
        ])?;
    Ok(())
}

/// Replaces the content of a run: that of an earlier revision belongs to other calls.
pub(super) fn replace_content(
    connection: &Connection,
    seq: i64,
    content: Option<&str>,
) -> rusqlite::Result<()> {
    let Some(content) = content else {
        run(connection, "DELETE FROM trajectory_contents WHERE seq = ?1", [seq])?;
        return Ok(());
    };
    let query = "INSERT OR REPLACE INTO trajectory_contents VALUES (?1, ?2)";
    run(connection, query, params![seq, packed(content)?])?;
    Ok(())
}

/// Compresses a text.
pub(super) fn packed(text: &str) -> rusqlite::Result<Vec<u8>> {
    zstd::bulk::compress(text.as_bytes(), ZSTD_LEVEL)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

pub(super) fn insert_call(
    connection: &Connection,
    trajectory: i64,
    position: usize,
    call: &CallRecord,
    figures: &CallFigures,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            trajectory,
            position,
            call.span_id.0,
            figures.tool,
            figures.source,
            figures.time_ms,
            figures.duration_us,
            call.status.as_str(),
            call.is_undeclared,
            call.is_repeated
        ])?;
    Ok(())
}

/// Place of an evaluation among rows.
pub(super) struct EvaluationPlace<'a> {
    pub(super) trace: &'a KnownTrace,
    pub(super) evaluator: i64,
    pub(super) source: i64,
    /// Tool of the judged call.
    pub(super) tool: Option<i64>,
    pub(super) is_current: bool,
    pub(super) stored: i64,
    /// Client whose process judged.
    pub(super) client: Option<&'a str>,
}

pub(super) fn insert_evaluation(
    connection: &Connection,
    policy: &ContentPolicy,
    it: &Evaluation,
    figures: &EvaluationFigures,
    place: &EvaluationPlace<'_>,
) -> rusqlite::Result<i64> {
    let EvaluationPlace { trace, evaluator, source, tool, is_current, stored, client } = place;
    let texts = policy.texts(it, figures);
    let level = it.evaluator.level;
    let session = trace.session.filter(|_| level == Level::Session);
    let is_early = it.target.completion == Completion::Open;
    let seq = connection
        .prepare_cached(
            "INSERT INTO evaluations (id, trajectory, session, span_id, evaluator, source, tool,
             time, stored, revision, revises, current, early, outcome, score, reason, completion,
             partial, cost, judge, explanation, error, client)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
             ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)",
        )?
        .insert(params![
            it.id.0,
            trace.seq,
            session,
            it.span_id.0,
            evaluator,
            source,
            tool,
            figures.time_ms,
            stored,
            it.revision,
            it.revises.map(|id| id.0),
            is_current,
            is_early,
            figures.verdict as i64,
            figures.score,
            texts.reason,
            it.target.completion.as_str(),
            it.target.is_partial,
            figures.cost,
            it.judge.as_ref().map(|judge| judge.model.as_str()),
            texts.explanation,
            texts.error,
            client
        ])?;
    if let Some(details) = texts.details {
        let query = "INSERT INTO evaluation_details VALUES (?1, ?2)";
        run(connection, query, params![seq, details])?;
    }
    Ok(seq)
}

pub(super) fn micros(ns: u64) -> i64 {
    i64::try_from(ns / 1_000).unwrap_or(i64::MAX)
}
