//! Traces known to the writer: their rows, counts and evaluations, from memory or the file.

use hashbrown::{HashMap, HashSet};
use rusqlite::{Connection, OptionalExtension, Row, params};

use spanscore_base::model::{EvaluationId, GivenVerdict, SpanId, fingerprint};

use super::collected::{CollectedNumbers, hash_of_name};
use crate::record::TraceKey;
use crate::rollup::EvaluationFigures;

/// Revision of a row for evaluations that arrived before their run.
pub(super) const AWAITED: i64 = -1;

/// Stored evaluation of a trace.
#[derive(Clone, Debug)]
pub(super) struct KnownEvaluation {
    pub(super) seq: i64,
    pub(super) is_current: bool,
    /// Hash of the client whose process judged; `None` for this one.
    pub(super) client: Option<u32>,
    pub(super) evaluator: i64,
    pub(super) source: i64,
    pub(super) figures: EvaluationFigures,
}

impl KnownEvaluation {
    /// Returns true if another process judged.
    pub(super) fn is_collected(&self) -> bool {
        self.client.is_some()
    }
}

/// Row of a trace, with the data for later messages about it.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownTrace {
    pub(super) seq: i64,
    pub(super) source: i64,
    pub(super) session: Option<i64>,
    pub(super) revision: i64,
    /// Spans, calls and end of the stored judgement, which identify a repeat.
    pub(super) size: (i64, i64, i64),
    pub(super) shed: i64,
    /// True if its run was repeated.
    pub(super) is_repeat: bool,
    /// Current evaluations by verdict.
    pub(super) counts: [i64; 4],
    pub(super) evaluations: HashMap<EvaluationId, KnownEvaluation>,
    /// Number of evaluations from other processes.
    pub(super) collected: CollectedNumbers,
    /// Evaluations from other processes by the hash of their evaluator's name, until an own one
    /// arrives.
    pub(super) collected_by_name: HashMap<u32, Vec<EvaluationId>>,
    /// Hashes of the names of own evaluators.
    pub(super) own_names: HashSet<u32>,
    /// Evaluations revised by stored ones, stored or not.
    pub(super) revised: HashSet<EvaluationId>,
    /// Evaluations revised by stored ones of other processes.
    pub(super) revised_elsewhere: HashSet<EvaluationId>,
    /// Tools of its stored calls by span, loaded on demand.
    pub(super) tools: Option<HashMap<SpanId, i64>>,
}

/// Columns read by [`KnownTrace::find`].
const COLUMNS: &str = "seq, source, session, revision, spans, calls, time, shed,
    passed, failed, not_evaluable, broken";

impl KnownTrace {
    /// Finds a trace in the file.
    pub(super) fn find(
        connection: &Connection,
        (id, group): TraceKey,
    ) -> rusqlite::Result<Option<Self>> {
        let query = format!(
            "SELECT {COLUMNS} FROM trajectories WHERE trace_id = ?1
             AND client_group = ?2"
        );
        let found = connection
            .prepare_cached(&query)?
            .query_row([&id.0[..], &group.to_bytes()[..]], Self::read)
            .optional()?;
        let Some(mut trace) = found else { return Ok(None) };
        let mut query = connection.prepare_cached(
            "SELECT seq, e.id, revises, current, evaluator, source, outcome, score, cost, time,
             client, v.name FROM evaluations e JOIN evaluators v ON v.id = e.evaluator
             WHERE trajectory = ?1",
        )?;
        let rows = query.query_map(params![trace.seq], known_evaluation)?;
        for row in rows {
            let (id, revises, name, evaluation) = row?;
            trace.add(id, revises, name, evaluation);
        }
        Ok(Some(trace))
    }

    /// Adds a stored evaluation by an evaluator of a name, a hash.
    pub(super) fn add(
        &mut self,
        id: EvaluationId,
        revises: Option<EvaluationId>,
        name: u32,
        evaluation: KnownEvaluation,
    ) {
        if evaluation.is_collected() {
            self.revised_elsewhere.extend(revises);
            self.collected_by_name.entry(name).or_default().push(id);
            for key in [evaluation.client, None] {
                *self.collected.entry(key).or_default() += 1;
            }
        } else {
            self.revised.extend(revises);
            self.own_names.insert(name);
        }
        self.evaluations.insert(id, evaluation);
    }

    /// Returns the tool of a span's stored call.
    pub(super) fn tool(
        &mut self,
        connection: &Connection,
        span: SpanId,
    ) -> rusqlite::Result<Option<i64>> {
        let tools = match self.tools.take() {
            Some(tools) => tools,
            None => tools_of(connection, self.seq)?,
        };
        Ok(self.tools.insert(tools).get(&span).copied())
    }

    /// Forgets the tools of spans, since the calls change.
    pub(super) fn forget_tools(&mut self) {
        self.tools = None;
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            source: row.get(1)?,
            session: row.get(2)?,
            revision: row.get(3)?,
            size: (row.get(4)?, row.get(5)?, row.get(6)?),
            shed: row.get(7)?,
            counts: [row.get(8)?, row.get(9)?, row.get(10)?, row.get(11)?],
            ..Self::default()
        })
    }

    /// Returns the weight in the cache: its evaluations, those of other processes by name too, the
    /// tools of its spans, and itself.
    pub(super) fn weight(&self) -> usize {
        let collected = self.collected.get(&None).copied().unwrap_or(0);
        1 + self.evaluations.len() + collected + self.tools.as_ref().map_or(0, HashMap::len)
    }
}

fn tools_of(connection: &Connection, seq: i64) -> rusqlite::Result<HashMap<SpanId, i64>> {
    let mut query = connection.prepare_cached(
        "SELECT span_id, tool FROM calls WHERE trajectory = ?1 ORDER BY position",
    )?;
    let mut tools = HashMap::new();
    let mut rows = query.query([seq])?;
    while let Some(row) = rows.next()? {
        tools.entry(SpanId(row.get(0)?)).or_insert(row.get(1)?);
    }
    Ok(tools)
}

type EvaluationOfTrace = (EvaluationId, Option<EvaluationId>, u32, KnownEvaluation);

fn known_evaluation(row: &Row<'_>) -> rusqlite::Result<EvaluationOfTrace> {
    let revises: Option<[u8; 16]> = row.get(2)?;
    let client = row.get_ref(10)?.as_str_or_null()?;
    let known = KnownEvaluation {
        seq: row.get(0)?,
        is_current: row.get(3)?,
        client: client.map(|name| fingerprint(name.as_bytes())),
        evaluator: row.get(4)?,
        source: row.get(5)?,
        figures: EvaluationFigures {
            verdict: GivenVerdict::numbered(row.get(6)?).unwrap_or(GivenVerdict::Failed),
            score: row.get(7)?,
            cost: row.get(8)?,
            time_ms: row.get(9)?,
        },
    };
    let name = hash_of_name(row.get_ref(11)?.as_str()?);
    Ok((EvaluationId(row.get(1)?), revises.map(EvaluationId), name, known))
}
