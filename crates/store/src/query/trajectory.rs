//! One stored run: its calls with content, and all revisions of its evaluations.

use data_encoding::HEXLOWER_PERMISSIVE;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use super::StoreQueryError;
use super::annotation::{StoredAnnotation, of_run};
use super::list::{EvaluationRow, of_trajectory};
use super::offered::offered_list;
use super::page::RUNS;
use super::row::{all, stored_row};
use super::run::{left_out, models_in};
use super::unpack::{unpacked, unpacked_input};

/// Limit on candidates listed for a short id.
const CANDIDATES_MAX: usize = 5;
/// Fewest digits of a short id.
const DIGITS_MIN: usize = 4;

stored_row! {
    /// Stored run.
    #[derive(Clone, Debug, Serialize)]
    pub struct StoredTrajectory: TRAJECTORY_COLUMNS {
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
        /// Number of spans.
        pub spans: i64 = "t.spans";
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
        /// Cases of datasets.
        pub cases: Vec<String> = later;
        /// Parts omitted because of a full queue: nothing, `content`, or `calls`.
        pub left_out: Option<&'static str> = "t.shed" => left_out;
        /// User's input: an object with its `value`, or the reason that it is `absent`.
        pub input: Option<serde_json::Value> = later;
        /// Answer, in the same form.
        pub output: Option<serde_json::Value> = later;
        /// Definitions of the offered tools; `None` if unknown.
        pub offered: Option<serde_json::Value> =
            "(SELECT d.content FROM definitions d WHERE d.id = t.definitions)" => offered_in;
        /// Calls in order.
        pub calls: Vec<StoredCall> = later;
        /// Evaluations of all revisions.
        pub evaluations: Vec<EvaluationRow> = later;
        /// Verdicts of people, by creation.
        pub annotations: Vec<StoredAnnotation> = later;
    }
}

stored_row! {
    /// Stored tool call.
    #[derive(Clone, Debug, Serialize)]
    pub struct StoredCall: CALL_COLUMNS {
        /// Tool.
        pub tool: String = "l.name";
        /// Span.
        pub span_id: String = "lower(hex(c.span_id))";
        /// Start, RFC 3339.
        pub time: String = "strftime('%Y-%m-%dT%H:%M:%fZ', c.time / 1000.0, 'unixepoch')";
        /// Duration; `None` if the start or the end is unknown.
        pub duration_s: Option<f64> = "c.duration_us / 1e6";
        /// `ok`, `error` or `unknown`.
        pub status: String = "c.status";
        /// True if the tool was not offered.
        pub undeclared: bool = "c.undeclared";
        /// True if only the history of a request records it.
        pub repeated: bool = "c.repeated";
        /// Arguments, in the form of `input`.
        pub arguments: Option<serde_json::Value> = later;
        /// Result, in the same form.
        pub result: Option<serde_json::Value> = later;
        /// Error text.
        pub error: Option<serde_json::Value> = later;
    }
}

/// Finds a run by the first digits of its trace id.
pub(crate) fn find(connection: &Connection, id: &str) -> Result<StoredTrajectory, StoreQueryError> {
    let (seq, _) = row_of(connection, id)?;
    Ok(read(connection, seq)?)
}

/// Finds the row of a run and its whole trace id, by first digits.
pub(crate) fn row_of(connection: &Connection, id: &str) -> Result<(i64, String), StoreQueryError> {
    let (low, high) = bounds(id)?;
    let mut query = connection.prepare(
        "SELECT seq, lower(hex(trace_id)) FROM trajectories WHERE trace_id BETWEEN ?1 AND ?2
         ORDER BY trace_id, seq DESC LIMIT ?3",
    )?;
    let found = query
        .query_map(params![low, high, CANDIDATES_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, String)> = found.collect::<rusqlite::Result<_>>()?;
    match &found[..] {
        [] => Err(StoreQueryError::NoTrace { id: id.to_owned() }),
        // Client groups may have sent one id: the newest run is meant.
        [first, others @ ..] if others.iter().all(|(_, other)| *other == first.1) => {
            Ok(first.clone())
        }
        _ => {
            let candidates: Vec<_> = found.iter().map(|(_, id)| &id[..12]).collect();
            Err(StoreQueryError::Ambiguous { id: id.to_owned(), candidates: candidates.join(", ") })
        }
    }
}

/// Returns the bytes of a hexadecimal id; empty for an invalid one.
pub(crate) fn bytes_of(id: &str) -> Vec<u8> {
    HEXLOWER_PERMISSIVE.decode(id.as_bytes()).unwrap_or_default()
}

/// Returns the lowest and the highest id with these first digits.
fn bounds(id: &str) -> Result<([u8; 16], [u8; 16]), StoreQueryError> {
    let bad = || StoreQueryError::TraceId { id: id.to_owned() };
    let is_start = (DIGITS_MIN..=32).contains(&id.len());
    let whole = |id: String| bytes_of(&id).try_into().ok().filter(|_| is_start).ok_or_else(bad);
    Ok((whole(format!("{id:0<32}"))?, whole(format!("{id:f<32}"))?))
}

fn read(connection: &Connection, seq: i64) -> rusqlite::Result<StoredTrajectory> {
    let query = format!("SELECT {TRAJECTORY_COLUMNS} FROM {RUNS} WHERE t.seq = ?1");
    let mut run = connection.query_row(&query, [seq], StoredTrajectory::read)?;
    let cases = "SELECT name FROM cases WHERE trajectory = ?1";
    run.cases = all(connection, cases, [seq], |row| row.get(0))?;
    let calls = format!(
        "SELECT {CALL_COLUMNS} FROM calls c JOIN tools l ON l.id = c.tool
         WHERE c.trajectory = ?1 ORDER BY c.position"
    );
    run.calls = all(connection, &calls, [seq], StoredCall::read)?;
    run.evaluations = of_trajectory(connection, seq)?;
    run.annotations = of_run(connection, seq)?;
    add_content(connection, seq, &mut run)?;
    Ok(run)
}

fn offered_in(packed: Option<Vec<u8>>) -> Option<serde_json::Value> {
    offered_list(&packed?)
}

fn add_content(
    connection: &Connection,
    seq: i64,
    run: &mut StoredTrajectory,
) -> rusqlite::Result<()> {
    let Some(mut content) = content_of(connection, seq)? else { return Ok(()) };
    run.input = content.get_mut("input").map(serde_json::Value::take);
    run.output = content.get_mut("output").map(serde_json::Value::take);
    let fields = content.get_mut("calls").and_then(|calls| calls.as_array_mut());
    for (call, fields) in run.calls.iter_mut().zip(fields.into_iter().flatten()) {
        call.arguments = fields.get_mut("arguments").map(serde_json::Value::take);
        call.result = fields.get_mut("result").map(serde_json::Value::take);
        call.error = fields.get_mut("error").map(serde_json::Value::take);
    }
    Ok(())
}

/// Returns the user's input of a run: an object with its `value`, or the reason for none.
pub(super) fn input_of(
    connection: &Connection,
    seq: i64,
) -> rusqlite::Result<Option<serde_json::Value>> {
    Ok(packed_of(connection, seq)?.and_then(|packed| unpacked_input(&packed)))
}

fn content_of(connection: &Connection, seq: i64) -> rusqlite::Result<Option<serde_json::Value>> {
    let text = packed_of(connection, seq)?.and_then(|it| unpacked(&it));
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

fn packed_of(connection: &Connection, seq: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    let query = "SELECT content FROM trajectory_contents WHERE seq = ?1";
    connection.query_row(query, [seq], |row| row.get(0)).optional()
}
