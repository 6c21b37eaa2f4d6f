//! The records of a complete trace to the [`Trajectory`] that is judged.
//!
//! ```text
//! tree      spans in start order with their parents; a span that came twice counts once
//! gather    one pass: sessions, agents, texts, messages, counts
//! calls     tool calls on spans: of several dialects the first wins, the others fill gaps
//! merge     the same call on several spans
//! llm       ids, arguments, results and whole calls from the messages of models
//! facts     user input, final output, usage, definitions
//! session   what the traces of one session tell of each other's calls
//! ```
//!
//! **Invariants:** pure; the outcome does not depend on the order in which the spans came, nor on
//! how requests split them, but for spans that start and end at the same nanosecond; no step is
//! quadratic in the spans.

mod calls;
mod facts;
mod gather;
mod llm;
mod merge;
mod plan;
mod read;
mod session;
mod tree;
mod unflatten;

use std::sync::Arc;

pub(super) use read::raw_text;
pub use session::{SessionCalls, reconcile};

use self::calls::SpanCall;
use self::gather::Gathered;
use self::plan::Plan;
use self::tree::Tree;
use super::table::Table;
use crate::model::{Content, ToolCall, TraceSpans, Trajectory};

/// Turns complete traces into trajectories; built once from a [`Table`].
#[derive(Debug)]
pub struct Resolver {
    table: Arc<Table>,
    plan: Plan,
}

/// How a trace was resolved: what [`explain`](super::explain) tells.
pub(super) struct Resolved<'a> {
    pub(super) trajectory: Trajectory<'a>,
    pub(super) tree: Tree<'a>,
    pub(super) fates: Vec<Fate>,
}

/// What became of a record.
pub(super) struct Fate {
    /// Place among the trace's records.
    pub(super) record: u32,
    pub(super) what: What,
}

/// See [`Fate`].
pub(super) enum What {
    /// It is left out.
    Dropped(&'static str),
    /// It is a tool call, read by these sources (name, id, arguments, result, error).
    Call([Option<u16>; 5]),
    /// It is part of the call on this record.
    PartOf(u32),
    /// A dialect takes it for a tool call, but it has no name.
    Nameless,
}

impl Resolver {
    /// Prepares the reading of records that were extracted with this table.
    pub fn new(table: Arc<Table>) -> Self {
        let plan = Plan::new(&table);
        Self { table, plan }
    }

    /// The table that records must be extracted with.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The trajectory of a trace.
    pub fn resolve<'a>(&'a self, trace: &'a TraceSpans) -> Trajectory<'a> {
        self.resolve_with_fates(trace, false).trajectory
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn resolve_with_fates<'a>(
        &'a self,
        trace: &'a TraceSpans,
        with_fates: bool,
    ) -> Resolved<'a> {
        let plan = &self.plan;
        let tree = Tree::new(plan, trace);
        let mut gathered = Gathered::new(plan, &tree);
        let (mut span_calls, nameless) = calls::on_spans(plan, &tree);
        merge::merge(&tree, &mut span_calls);
        let mut asked = llm::asked(plan, &mut gathered);
        llm::join(plan, &gathered.given, &mut span_calls, &mut asked);

        let mut fates = Vec::new();
        if with_fates {
            fates = collect_fates(&tree, &span_calls, &nameless);
        }
        let agents = gathered.enclosing_agents(&tree);
        let agent_of = |span: u32| gathered.agent_of(agents.get(span as usize).copied().flatten());
        let span_id =
            |span: u32| tree.get(span).map_or_else(Default::default, |s| s.record.span_id);
        let only_asked = llm::only_asked(plan, asked, &span_calls, gathered.handoff, span_id);
        let has_span_calls = !span_calls.is_empty();
        let mut tool_calls: Vec<ToolCall<'a>> = span_calls
            .into_iter()
            .filter(|call| call.part_of.is_none())
            .map(|SpanCall { mut call, span, .. }| {
                call.agent = agent_of(span);
                call
            })
            .collect();
        if !only_asked.is_empty() {
            tool_calls.extend(only_asked.into_iter().map(|(span, mut call)| {
                call.agent = agent_of(span);
                call
            }));
            tool_calls.sort_by_key(|call| call.start_ns);
        }
        let mut trajectory = Trajectory {
            trace_id: trace.trace_id,
            session_id: gathered.session.as_ref().map(|(_, id)| id.clone()),
            agent_name: gathered.first_agent().cloned(),
            tool_calls,
            model: gathered.model.clone(),
            ..Trajectory::default()
        };
        join_results(plan, &gathered, &mut trajectory, has_span_calls);
        facts::fill(plan, &self.table, trace, &tree, gathered, &mut trajectory);
        Resolved { trajectory, tree, fates }
    }
}

/// Takes results that stand only in messages.
fn join_results<'a>(
    plan: &'a Plan,
    gathered: &Gathered<'a>,
    trajectory: &mut Trajectory<'a>,
    has_span_calls: bool,
) {
    let lacks = |call: &ToolCall<'_>| {
        call.id.is_some() && matches!(call.result, Content::NotRecorded | Content::Redacted)
    };
    let wanted = trajectory.tool_calls.iter().any(lacks);
    if gathered.given.is_empty() || (has_span_calls && !wanted) {
        return;
    }
    let mut results = llm::Results::new(plan, &gathered.given);
    for call in trajectory.tool_calls.iter_mut().filter(|call| lacks(call)) {
        let Some(id) = &call.id else { continue };
        if let Some(result) = results.of(id) {
            call.result = Content::ready(result.value.clone());
            if result.is_error {
                call.fail(&result.value);
            }
        }
    }
    // Without a single tool span this may be one of several traces of a run, each of which repeats
    // the results of the others.
    if !has_span_calls {
        for result in results.into_last() {
            if !trajectory.tool_calls.iter().any(|call| call.id.as_ref() == Some(&result.id)) {
                trajectory.foreign_results.push((result.id, result.value));
            }
        }
    }
}

fn collect_fates(
    tree: &Tree<'_>,
    calls: &[SpanCall<'_>],
    nameless: &[calls::Nameless],
) -> Vec<Fate> {
    let arrival = |span: u32| tree.get(span).map_or(0, |span| span.arrival);
    let dropped =
        tree.dropped.iter().map(|(record, why)| Fate { record: *record, what: What::Dropped(why) });
    let found = calls.iter().map(|call| {
        let what = match call.part_of {
            Some(whole) => What::PartOf(arrival(calls[whole as usize].span)),
            None => What::Call(call.given_by),
        };
        Fate { record: arrival(call.span), what }
    });
    let nameless =
        nameless.iter().map(|found| Fate { record: arrival(found.span), what: What::Nameless });
    let mut fates: Vec<_> = dropped.chain(found).chain(nameless).collect();
    fates.sort_by_key(|fate| fate.record);
    fates
}
