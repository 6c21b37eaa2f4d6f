//! Resolution of a complete trace's records into a [`Trajectory`].
//!
//! ```text
//! plan         the table's sources and conditions, indexed for reading
//! form         the sources relevant for a record
//! tree         spans in start order with their parents, without duplicates
//! gather       one pass: sessions, agents, texts, messages, counts
//! read         the values of one source in a record
//! flat         messages flattened to attributes with numbered keys, and `unflatten`
//! tool_calls   tool calls on spans: of several dialects the first wins, the others fill gaps
//! merge        the same call on several spans
//! message_results  results of calls from the inputs of models
//! messages     the calls requested in models' answers
//! history      the calls known only from a model's next request
//! choices      calls of unused choices of an answer
//! join         calls on spans joined to requests: ids, arguments, names
//! parallel_calls  the order of the calls, and the groups of parallel ones
//! output_tools calls by which a framework returns the answer
//! facts        user input, final output, usage, definitions
//! session      corrections between the traces of one session
//! diagnostics  the dialects of each span, the sources of its fields or the reason for a drop;
//!              the source of each fact
//! ```
//!
//! **Invariants:** pure; the result is independent of the order of spans and their division into
//! requests; no step is quadratic in the spans.

mod choices;
mod diagnostics;
mod facts;
mod flat;
mod form;
mod gather;
mod history;
mod join;
mod merge;
mod message_results;
mod messages;
mod output_tools;
mod parallel_calls;
mod plan;
mod read;
mod session;
mod tool_calls;
mod tree;
mod unflatten;

use std::sync::Arc;

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};

pub use self::diagnostics::{
    CallInMessage, FactExplanation, GivenBy, SpanExplanation, TraceExplanation,
};
pub use read::raw_text;
pub use session::{SessionCalls, reconcile};

use self::diagnostics::Diagnostics;
use self::form::RecordForms;
use self::gather::Gathered;
use self::message_results::MessageResults;
use self::messages::RequestedAs;
use self::parallel_calls::CallGrouping;
use self::plan::ReadingPlan;
use self::tool_calls::SpanCall;
use self::tree::{NONE, Tree};
use super::decode::is_cut;
use super::table::Table;
use super::unknown_tool;
use spanscore_base::model::{
    Content, ForeignResults, Origin, ToolCall, TraceSpans, Trajectory, WorkBudget,
};
use spanscore_base::value::Value;

/// Converts complete traces to trajectories; built once from a [`Table`].
#[derive(Debug)]
pub struct Resolver {
    table: Arc<Table>,
    plan: ReadingPlan,
    forms: RecordForms,
}

impl Resolver {
    /// Returns a resolver of records extracted with this table.
    pub fn new(table: Arc<Table>) -> Self {
        let plan = ReadingPlan::new(&table);
        Self { table, plan, forms: RecordForms::default() }
    }

    /// Returns the table required for extraction.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the trajectory of a trace, within the default work budget.
    pub fn resolve<'a>(&'a self, trace: &'a TraceSpans) -> Trajectory<'a> {
        self.resolve_within(trace, WorkBudget::default())
    }

    /// Returns the trajectory of a trace, within a work budget. If that is too small, the
    /// trajectory has the trace's identity without all calls, and its budget is spent.
    pub fn resolve_within<'a>(
        &'a self,
        trace: &'a TraceSpans,
        effort: WorkBudget,
    ) -> Trajectory<'a> {
        self.resolve_with(trace, effort, None)
    }

    /// Returns the trajectory of a trace; `diagnostics` records the outcome of each span and
    /// message.
    ///
    /// The order of the steps is not free. Duplicates merge before the join, so that a request
    /// meets each call once. Requests are decided after the join, by the spans that it left over.
    /// Diagnostics are recorded before requests without a call are dropped. Results are joined
    /// after sorting, since of several calls with one id each gets the result at its place among
    /// them. Output tools come last: they are recognised by results and by the final output.
    fn resolve_with<'a>(
        &'a self,
        trace: &'a TraceSpans,
        effort: WorkBudget,
        mut diagnostics: Option<&mut Diagnostics>,
    ) -> Trajectory<'a> {
        let plan = &self.plan;
        let tree = Tree::new(plan, &self.forms, trace);
        let mut gathered = Gathered::new(plan, &tree);
        if !effort.begin_reading(reading_steps(trace).saturating_add(word_steps(&tree))) {
            return unread(plan, &self.table, trace, &tree, (gathered, effort));
        }
        let (mut on_spans, none) = tool_calls::on_spans(plan, &tree, &effort);
        let repeats = messages::repeating(&tree, &gathered.model_outputs);
        let mut requested = messages::requested(plan, &tree, &mut gathered, &effort);
        tool_calls::keep_asked(plan, &mut on_spans, &requested);
        merge::merge(&tree, &mut on_spans, &requested);
        let mut elsewhere = false;
        if requested.is_empty() && on_spans.is_empty() {
            (requested, elsewhere) = history::requested(plan, &tree, &gathered, &effort);
        }
        join::join(plan, &gathered.model_inputs, &mut on_spans, &mut requested, &effort);
        decide_requests(&tree, &gathered, &repeats, (&mut on_spans, &mut requested), &effort);
        let agents = gathered.enclosing_agents(&tree);
        gathered.note_caller(&tree, &agents, on_spans.iter().map(|call| call.span));
        if let Some(diagnostics) = &mut diagnostics {
            diagnostics.add_spans(&tree, &on_spans, &none);
            diagnostics.add_requested(&tree, &requested, &on_spans);
            diagnostics.add_facts(plan, &tree, &gathered);
        }
        requested.retain(|call| call.role == RequestedAs::Call);
        let has_span_calls = !on_spans.is_empty();
        let agent_of = |span: u32| {
            gathered.agent_of(agents.get(span as usize).copied().unwrap_or(NONE), &effort)
        };
        let mut tool_calls = CallGrouping::with_capacity(on_spans.len());
        for SpanCall { call, span, part_of, asked, .. } in on_spans {
            if part_of.is_none() {
                tool_calls.add(ToolCall { agent: agent_of(span), ..call }, span, asked);
            }
        }
        for call in requested {
            let span = call.span;
            let asked = call.asked;
            let mut call = call.into_tool_call(plan, &tree);
            messages::fail_if_unknown(&tree, span, &mut call);
            tool_calls.add(ToolCall { agent: agent_of(span), ..call }, span, asked);
        }
        let tool_calls = tool_calls.in_order(&tree, &gathered, &agents);
        let mut trajectory = Trajectory { tool_calls, ..identified(trace, &gathered, effort) };
        gathered.models().for_each(|model| trajectory.add_model(model.clone()));
        trajectory.calls_missing =
            (gathered.asked_for_tools || elsewhere) && trajectory.tool_calls.is_empty();
        if self.table.needs_model_inputs() && !gathered.model_inputs.is_empty() {
            trajectory.heard = vec![facts::heard(plan, &gathered)];
        }
        join_results(plan, &mut gathered, &mut trajectory, has_span_calls);
        facts::fill(plan, &self.table, trace, &tree, gathered, &mut trajectory);
        let answered_by = output_tools::mark(plan, &tree, &mut trajectory);
        if let Some(diagnostics) = diagnostics {
            diagnostics.add_groups(&trajectory, answered_by);
        }
        trajectory
    }
}

/// Steps per retained byte of a trace, and per record.
const STEPS_PER_BYTE: usize = 1;
const STEPS_PER_RECORD: usize = 400;

/// Steps to build a value of a list or object.
const STEPS_PER_VALUE: usize = 32;

/// Steps to parse a quote or parenthesis of a Python literal. A text has two quotes; other texts
/// have few of either.
const STEPS_PER_LITERAL_SIGN: usize = 16;

/// Steps to parse a printed field (`name=value`): name and value are built, and a result is parsed
/// for its id, content and error.
const STEPS_PER_FIELD: usize = 400;

/// Steps to match a word at each word start in a key.
const STEPS_PER_WORD: usize = 8;

/// Returns the steps to read a trace: all work linear in it.
pub fn reading_steps(trace: &TraceSpans) -> usize {
    let signs = trace.signs();
    trace.arena.len() * STEPS_PER_BYTE
        + trace.spans.len() * STEPS_PER_RECORD
        + signs.values * STEPS_PER_VALUE
        + signs.literals * STEPS_PER_LITERAL_SIGN
        + signs.fields * STEPS_PER_FIELD
}

/// Returns the steps to match words in keys that no dialect names.
fn word_steps(tree: &Tree<'_>) -> usize {
    let of_span = |span: &tree::Span<'_>| match tree.form(span).word_count() {
        0 => 0,
        words => words * tree.others(span).len() * STEPS_PER_WORD,
    };
    tree.spans.iter().map(of_span).sum()
}

/// Returns the identity of a trace's trajectory.
fn identified<'a>(
    trace: &TraceSpans,
    gathered: &Gathered<'a>,
    effort: WorkBudget,
) -> Trajectory<'a> {
    Trajectory {
        trace_id: trace.sent_id(),
        sender: trace.sender,
        session_id: gathered.session.as_ref().map(|(_, id)| id.clone()),
        user_id: gathered.user.as_ref().map(|(_, id)| id.clone()),
        agent_name: gathered.first_agent().cloned(),
        bytes: trace.arena.len(),
        effort,
        ..Trajectory::default()
    }
}

/// Returns the trajectory of a trace beyond its budget: its identity without calls.
fn unread<'a>(
    plan: &'a ReadingPlan,
    table: &'a Table,
    trace: &'a TraceSpans,
    tree: &Tree<'a>,
    (gathered, effort): (Gathered<'a>, WorkBudget),
) -> Trajectory<'a> {
    let mut trajectory = identified(trace, &gathered, effort);
    facts::fill(plan, table, trace, tree, Gathered::default(), &mut trajectory);
    trajectory
}

/// Decides which requests are separate calls, after their join with the calls on spans.
fn decide_requests<'a>(
    tree: &Tree<'a>,
    gathered: &Gathered<'a>,
    repeats: &[bool],
    (on_spans, requested): (&mut [SpanCall<'a>], &mut [messages::LlmCall<'a>]),
    effort: &WorkBudget,
) {
    tool_calls::name_bare(on_spans, effort);
    choices::drop_others(tree, &gathered.model_inputs, requested, effort);
    messages::decide(requested, on_spans, gathered.handoff, repeats);
}

/// Marks a truncated result as unreadable, so that its start is not compared. A result with
/// deferred decoding is complete.
fn mark_cut(call: &mut ToolCall<'_>) {
    if let Content::Recorded(result) = &call.result
        && result.is_ready()
        && let Value::String(text) = result.get()
        && is_cut(text)
    {
        call.result = Content::Unreadable(text.clone());
    }
}

/// Returns true for the name of an error type, which is less specific than a message.
fn is_bare_type(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
}

/// Fills in results that only messages have, and marks truncated ones.
fn join_results<'a>(
    plan: &'a ReadingPlan,
    gathered: &mut Gathered<'a>,
    trajectory: &mut Trajectory<'a>,
    has_span_calls: bool,
) {
    take_results(plan, gathered, trajectory, has_span_calls);
    trajectory.tool_calls.iter_mut().for_each(mark_cut);
}

fn take_results<'a>(
    plan: &'a ReadingPlan,
    gathered: &mut Gathered<'a>,
    trajectory: &mut Trajectory<'a>,
    has_span_calls: bool,
) {
    let lacks = |call: &ToolCall<'_>| call.result.is_absent();
    let calls = &mut trajectory.tool_calls;
    if gathered.model_inputs.is_empty() || (has_span_calls && !calls.iter().any(lacks)) {
        return;
    }
    let effort = &trajectory.effort;
    let mut results = MessageResults::new(plan, &gathered.model_inputs, effort);
    if has_span_calls && calls.iter().all(|call| call.origin == Origin::Span) {
        let wanted = calls.iter().filter(|call| lacks(call)).filter_map(|call| call.id.as_deref());
        results.look_for(&wanted.collect::<Vec<_>>());
    }
    let own: HashSet<_> = calls.iter().filter_map(|call| call.id.clone()).collect();
    let mut places: HashMap<Cow<'_, str>, usize> = HashMap::new();
    for at in 0..calls.len() {
        let call = &calls[at];
        let place = call.id.as_ref().map(|id| {
            let place = places.entry(id.clone()).or_default();
            *place += 1;
            *place - 1
        });
        if !lacks(call) {
            continue;
        }
        let found = match (&call.id, place) {
            (Some(id), Some(place)) => match results.of(id, place) {
                None => results.of_renamed(at, calls, &own),
                found => found.cloned(),
            },
            _ if call.origin == Origin::Llm => results.of_unnamed(call),
            _ => None,
        };
        let call = &mut calls[at];
        if let Some(result) = found {
            let is_unknown = |text: &str| {
                unknown_tool::is_reported(text.as_bytes())
                    && unknown_tool::is_named(text, &call.name)
            };
            if result.is_error
                || (has_span_calls && call.origin == Origin::Llm)
                    && result.value.as_str().is_some_and(is_unknown)
            {
                call.error = call.error.take().filter(|text| !is_bare_type(text));
                call.fail(&result.value);
            }
            call.result = Content::ready(result.value);
        }
    }
    if calls.iter().any(|call| matches!(call.result, Content::NotRecorded)) {
        results.give_loose(calls);
    }
    let looked_at = results.looked_at();
    // Without tool spans this may be one of several traces of a run, each of which repeats the
    // others' results. Deferred, since only session judging needs them.
    if !has_span_calls {
        let own = calls.iter().filter(|call| !call.is_repeated);
        let own: HashSet<_> = own.filter_map(|call| call.id.clone()).collect();
        let inputs = std::mem::take(&mut gathered.model_inputs);
        trajectory.foreign_results = ForeignResults::new(move |effort| {
            let results = MessageResults::new(plan, &inputs, effort).into_last(looked_at);
            let foreign = results.into_iter().filter(|result| !own.contains(&result.id));
            foreign.map(|result| (result.id, result.value)).collect()
        });
    }
}
