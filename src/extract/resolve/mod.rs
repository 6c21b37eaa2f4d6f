//! The records of a complete trace to the [`Trajectory`] that is judged.
//!
//! ```text
//! shape     what the conditions of a record mean for reading it
//! form      what its attributes add to that
//! tree      spans in start order with their parents; a span that came twice counts once
//! gather    one pass: sessions, agents, texts, messages, counts
//! calls     tool calls on spans: of several dialects the first wins, the others fill gaps
//! merge     the same call on several spans
//! llm       ids, arguments, results and whole calls from the messages of models
//! together  the order of the calls, and which of them were made together
//! facts     user input, final output, usage, definitions
//! session   what the traces of one session tell of each other's calls
//! explain   for each span which dialects matched, what gave each field, what was dropped and why
//! ```
//!
//! **Invariants:** pure; the outcome does not depend on the order in which the spans came, nor on
//! how requests split them; no step is quadratic in the spans.

mod diagnostics;
mod facts;
mod flat;
mod form;
mod gather;
mod merge;
mod messages;
mod plan;
mod read;
mod session;
mod shape;
mod together;
mod tool_calls;
mod tree;
mod unflatten;

use std::sync::Arc;

use hashbrown::HashSet;

pub use self::diagnostics::{CallInMessage, Explanation, GivenBy, SpanExplanation};
pub(crate) use read::raw_text;
pub use session::{SessionCalls, reconcile};

use self::diagnostics::Fates;
use self::form::Forms;
use self::gather::Gathered;
use self::messages::{Names, Verdict};
use self::plan::Plan;
use self::together::Together;
use self::tool_calls::SpanCall;
use self::tree::{NONE, Tree};
use super::table::Table;
use crate::model::{Content, ToolCall, TraceSpans, Trajectory};

/// Turns complete traces into trajectories; built once from a [`Table`].
#[derive(Debug)]
pub struct Resolver {
    table: Arc<Table>,
    plan: Plan,
    forms: Forms,
}

impl Resolver {
    /// Prepares the reading of records that were extracted with this table.
    pub fn new(table: Arc<Table>) -> Self {
        let plan = Plan::new(&table);
        Self { table, plan, forms: Forms::default() }
    }

    /// The table that records must be extracted with.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The trajectory of a trace.
    pub fn resolve<'a>(&'a self, trace: &'a TraceSpans) -> Trajectory<'a> {
        self.resolve_with_fates(trace, None)
    }

    /// The trajectory of a trace; `fates` takes what became of its records.
    fn resolve_with_fates<'a>(
        &'a self,
        trace: &'a TraceSpans,
        fates: Option<&mut Fates>,
    ) -> Trajectory<'a> {
        let plan = &self.plan;
        let tree = Tree::new(plan, &self.forms, trace);
        let mut gathered = Gathered::new(plan, &tree);
        let (mut on_spans, nameless) = tool_calls::on_spans(plan, &tree);
        merge::merge(&tree, &mut on_spans);
        let mut asked = messages::asked(plan, &mut gathered);
        messages::join(plan, &gathered.given, &mut on_spans, &mut asked);
        let names = Names::new(if asked.is_empty() { &[] } else { &on_spans });
        if let Some(fates) = fates {
            fates.take(&tree, &on_spans, &nameless);
            fates.take_asked(&tree, &asked, |call| call.verdict(&names, gathered.handoff));
        }
        asked.retain(|call| call.verdict(&names, gathered.handoff) == Verdict::Call);
        let has_span_calls = !on_spans.is_empty();
        let agents = gathered.enclosing_agents(&tree);
        let agent_of =
            |span: u32| gathered.agent_of(agents.get(span as usize).copied().unwrap_or(NONE));
        let mut tool_calls = Together::with_capacity(on_spans.len());
        for SpanCall { call, span, part_of, asked, .. } in on_spans {
            if part_of.is_none() {
                tool_calls.add(ToolCall { agent: agent_of(span), ..call }, span, asked);
            }
        }
        for call in asked {
            let (span, asked) = (call.span, call.asked);
            let call = call.into_tool_call(plan, &tree);
            tool_calls.add(ToolCall { agent: agent_of(span), ..call }, span, asked);
        }
        let tool_calls = tool_calls.in_order(&tree);
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
        trajectory
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
    let mut results = messages::Results::new(plan, &gathered.given);
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
        let own: HashSet<_> = trajectory.tool_calls.iter().flat_map(|call| &call.id).collect();
        let foreign = results.into_last().into_iter().filter(|result| !own.contains(&result.id));
        let foreign = foreign.map(|result| (result.id, result.value)).collect();
        trajectory.foreign_results = foreign;
    }
}
