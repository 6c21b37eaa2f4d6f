//! Stored runs restored as trajectories with their verdicts, for judgement by other evaluators.

use std::sync::Arc;

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};
use rusqlite::{Connection, OptionalExtension, Row};

use super::filter::StoreFilter;
use super::list::verdict_word;
use super::offered::OfferedTools;
use super::page::{CALLED, Page, PagePlace, RUNS, StoredPage};
use super::row::stored_row;
use super::unpack::UnpackedContent;
use super::{StoreQueryError, StoreReader};
use crate::part::{StoredGap, StoredPart};
use crate::source::{RESOURCE_KEYS, RunSource};
use crate::writer::may_be_cut;
use spanscore_base::model::{
    CallStatus, ClientGroup, EvaluationId, Resource, Sender, SpanId, TraceId, Trajectory,
    WorkBudget,
};

/// Store's name for tools beyond its limit.
const OTHER_TOOL: &str = "other";

/// Columns of [`RestoredRun`].
const COLUMNS: &str = "t.trace_id, t.client_group, t.span_id, n.session_id, s.service, s.version,
    s.environment, t.cost, t.calls, t.title,
    (SELECT c.content FROM trajectory_contents c WHERE c.seq = t.seq),
    t.definitions";

/// Stored run with the data for judging it again.
pub struct RestoredRun {
    seq: i64,
    /// Trace.
    pub trace_id: TraceId,
    /// Group of its senders.
    pub group: ClientGroup,
    /// Beginning of the input.
    pub title: Option<String>,
    /// Current verdicts on the run and its calls, in storing order; without those on sessions.
    pub verdicts: Vec<KnownVerdict>,
    span_id: SpanId,
    session_id: Option<String>,
    resource: Arc<Resource>,
    cost: Option<f64>,
    call_count: usize,
    calls: Vec<RestoredCall>,
    content: Option<UnpackedContent>,
    /// Id of its set of offered tools.
    definitions: Option<i64>,
    /// That set, shared by runs of a page.
    offered: Option<Arc<OfferedTools>>,
    gaps: HashMap<StoredPart, StoredGap>,
    resource_gaps: Vec<&'static str>,
}

/// Row of a call.
pub(super) struct RestoredCall {
    pub(super) tool: String,
    pub(super) span_id: SpanId,
    pub(super) status: CallStatus,
    pub(super) is_repeated: bool,
}

stored_row! {
    /// Stored verdict.
    #[derive(Clone, Debug, PartialEq)]
    pub struct KnownVerdict: VERDICT_COLUMNS {
        /// Evaluation.
        pub id: EvaluationId = "e.id" => EvaluationId;
        /// Number of its predecessors.
        pub revision: u32 = "e.revision" => revision_of;
        /// Full name of the evaluator.
        pub evaluator: String = "v.name";
        /// Version of the evaluator, bytes of its digest.
        pub version: [u8; 16] = "v.version";
        /// True for a verdict on one call.
        pub is_of_call: bool = "v.level = 'call'";
        /// Span with the evaluation.
        pub span_id: SpanId = "e.span_id" => SpanId;
        /// `pass`, `fail`, `not_evaluable` or `failed`.
        pub verdict: &'static str = "e.outcome" => verdict_word;
        /// 0 to 1.
        pub score: Option<f64> = "e.score";
        /// Reason that it was not evaluable.
        pub reason: Option<String> = "e.reason";
    }
}

fn revision_of(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

impl RestoredRun {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let source = RunSource {
            service: row.get::<_, String>(4)?.into(),
            version: row.get::<_, String>(5)?.into(),
            environment: row.get::<_, String>(6)?.into(),
            ..RunSource::default()
        };
        let packed: Option<Vec<u8>> = row.get(10)?;
        let content = packed.and_then(|it| UnpackedContent::read(&it));
        let (resource, resource_gaps) = match &content {
            Some(content) => source.resource(&content.resource_sums()),
            None => (Resource::default(), RESOURCE_KEYS.to_vec()),
        };
        let session_id: Option<String> = row.get(3)?;
        let mut gaps = content.as_ref().map(UnpackedContent::gaps).unwrap_or_default();
        if session_id.as_deref().is_some_and(may_be_cut) {
            gaps.insert(StoredPart::SessionId, StoredGap::Cut);
        }
        Ok(Self {
            seq: row.get("row")?,
            trace_id: TraceId(row.get(0)?),
            title: row.get(9)?,
            verdicts: Vec::new(),
            group: ClientGroup::from_bytes(row.get(1)?),
            span_id: SpanId(row.get(2)?),
            session_id,
            resource: Arc::new(resource),
            cost: row.get(7)?,
            call_count: usize::try_from(row.get::<_, i64>(8)?).unwrap_or(0),
            calls: Vec::new(),
            gaps,
            resource_gaps,
            content,
            definitions: row.get(11)?,
            offered: None,
        })
    }

    /// Returns the trajectory with a work budget of `steps`; `None` if nothing can judge it. Its
    /// resource has only [`RESOURCE_KEYS`], without [gaps](Self::resource_gaps).
    ///
    /// # Errors
    /// The reason, as text.
    pub fn trajectory(&self, steps: u64) -> Result<Trajectory<'_>, &'static str> {
        let Some(content) = &self.content else {
            return Err("the content of the run is not stored");
        };
        if self.call_count != self.calls.len() {
            return Err("the run has more calls than are stored");
        }
        if self.calls.iter().any(|call| may_be_cut(&call.tool)) {
            return Err("the name of a tool is cut");
        }
        let base = Trajectory {
            trace_id: self.trace_id,
            sender: Sender::of_group(self.group),
            span_id: self.span_id,
            resource: Arc::clone(&self.resource),
            session_id: self.session_id.as_deref().map(Into::into),
            cost: self.cost,
            tool_definitions: self
                .offered
                .as_deref()
                .map(OfferedTools::definitions)
                .unwrap_or_default(),
            effort: WorkBudget::new(steps),
            ..Trajectory::default()
        };
        content.fill(base, &self.calls).ok_or("it was stored by an older version")
    }

    /// Returns the reason that a part differs from the original; `None` if it does not.
    pub fn gap(&self, part: StoredPart) -> Option<StoredGap> {
        self.gaps.get(&part).copied()
    }

    /// Returns the [`RESOURCE_KEYS`] whose stored value differs from the original.
    pub fn resource_gaps(&self) -> &[&'static str] {
        &self.resource_gaps
    }

    /// Returns the keys of root span attributes whose stored value differs from the original.
    pub fn attribute_gaps(&self) -> impl Iterator<Item = (&str, StoredGap)> {
        self.content.iter().flat_map(UnpackedContent::attribute_gaps)
    }
}

impl StoreReader {
    /// Lists runs with the data for judging them again, newest first, page by page.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn restored_runs(
        &self,
        filter: &StoreFilter,
        after: Option<PagePlace>,
        limit: usize,
    ) -> Result<StoredPage<RestoredRun>, StoreQueryError> {
        let connection = self.begin();
        let condition = filter.within(connection)?.of_runs(CALLED);
        let page = Page { columns: COLUMNS, rank: "t.seq", seq: "t.seq", from: RUNS, order: None };
        let mut page = page.read(connection, condition, after, limit, RestoredRun::read)?;
        let is_over = has_other_tools(connection)?;
        add_offered(connection, &mut page.items)?;
        for run in &mut page.items {
            add_calls(connection, run)?;
            add_verdicts(connection, run)?;
            if is_over && run.calls.iter().any(|call| call.tool == OTHER_TOOL) {
                run.content = None;
            }
        }
        Ok(page)
    }
}

/// Returns true if tools beyond the limit share a row.
fn has_other_tools(connection: &Connection) -> rusqlite::Result<bool> {
    let tools: i64 = connection.query_row("SELECT count(*) FROM tools", [], |row| row.get(0))?;
    Ok(tools >= crate::TOOLS_MAX as i64)
}

/// Adds the offered tools of runs; each set is unpacked once.
fn add_offered(connection: &Connection, runs: &mut [RestoredRun]) -> rusqlite::Result<()> {
    let mut sets: HashMap<i64, Option<Arc<OfferedTools>>> = HashMap::new();
    let mut content = connection.prepare_cached("SELECT content FROM definitions WHERE id = ?1")?;
    for run in runs {
        let set = run.definitions.map(|id| sets.entry(id));
        run.offered = match set {
            None => None,
            Some(Entry::Occupied(known)) => known.get().clone(),
            Some(Entry::Vacant(new)) => {
                let packed = content.query_row([*new.key()], |row| row.get::<_, Vec<u8>>(0));
                let offered = packed.optional()?.and_then(|it| OfferedTools::read(&it));
                new.insert(offered.map(Arc::new)).clone()
            }
        };
        let gap = run.offered.as_deref().map_or(Some(StoredGap::NotStored), OfferedTools::gap);
        run.gaps.extend(gap.map(|gap| (StoredPart::Definitions, gap)));
    }
    Ok(())
}

fn add_calls(connection: &Connection, run: &mut RestoredRun) -> rusqlite::Result<()> {
    let mut calls = connection.prepare_cached(
        "SELECT l.name, c.span_id, c.status, c.repeated FROM calls c JOIN tools l ON l.id = c.tool
         WHERE c.trajectory = ?1 ORDER BY c.position",
    )?;
    let rows = calls.query_map([run.seq], |row| {
        let status = match row.get::<_, String>(2)?.as_str() {
            "ok" => CallStatus::Ok,
            "error" => CallStatus::Error,
            _ => CallStatus::Unknown,
        };
        let span_id = SpanId(row.get(1)?);
        Ok(RestoredCall { tool: row.get(0)?, span_id, status, is_repeated: row.get(3)? })
    })?;
    run.calls = rows.collect::<rusqlite::Result<_>>()?;
    Ok(())
}

fn add_verdicts(connection: &Connection, run: &mut RestoredRun) -> rusqlite::Result<()> {
    let mut verdicts = connection.prepare_cached(&format!(
        "SELECT {VERDICT_COLUMNS} FROM evaluations e JOIN evaluators v ON v.id = e.evaluator
         WHERE e.trajectory = ?1 AND e.current = 1 AND v.level <> 'session' ORDER BY e.seq"
    ))?;
    let verdicts: Vec<KnownVerdict> =
        verdicts.query_map([run.seq], KnownVerdict::read)?.collect::<rusqlite::Result<_>>()?;
    // An early verdict remains beside the final one unless revised.
    let mut seen = HashSet::new();
    let mut last: Vec<KnownVerdict> = Vec::new();
    for it in verdicts.into_iter().rev() {
        if it.is_of_call || seen.insert(it.evaluator.clone()) {
            last.push(it);
        }
    }
    last.reverse();
    run.verdicts = last;
    Ok(())
}
