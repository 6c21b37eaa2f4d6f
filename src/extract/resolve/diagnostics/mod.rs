//! Why a trace gave the calls and facts it gave: what a user reads when one is missing.

mod trace_facts;

use std::fmt;

use hashbrown::HashMap;

pub use self::trace_facts::FactExplanation;

use super::Resolver;
use super::messages::{LlmCall, RequestedAs};
use super::plan::PlannedSource;
use super::tool_calls::{FieldSources, SpanCall};
use super::tree::Tree;
use crate::extract::dialect::{From, Role};
use crate::extract::record::layout::FactsReader;
use crate::extract::table::ConditionId;
use crate::model::{
    CallStatus, Content, Effort, SpanFlags, SpanId, SpanRecord, ToolCall, TraceId, TraceSpans,
};
use crate::visible;

/// How a trace was read.
#[derive(Debug, Default)]
pub struct TraceExplanation {
    /// The trace.
    pub trace_id: TraceId,
    /// Its spans in order of arrival, log events among them.
    pub spans: Vec<SpanExplanation>,
    /// The calls in the messages of models, in order.
    pub messages: Vec<CallInMessage>,
    /// The other facts of the trace, with where they came from.
    pub facts: Vec<FactExplanation>,
    /// Calls that were made together, and those that gave the answer, in words.
    pub calls: Vec<String>,
}

/// How one span was read.
#[derive(Debug, Default)]
pub struct SpanExplanation {
    /// The span.
    pub span_id: SpanId,
    /// Its name, or that of the log event; empty where no dialect asks for it.
    pub name: String,
    /// The dialects that take it for a tool call; the first one wins.
    pub dialects: Vec<String>,
    /// The dialect that says it is no tool call.
    pub excluded_by: Option<String>,
    /// What gave each field of the call.
    pub given_by: Vec<GivenBy>,
    /// What became of it, in words.
    pub outcome: String,
}

/// What gave one field of a tool call.
#[derive(Debug, PartialEq)]
pub struct GivenBy {
    /// The field: `name`, `id`, `arguments`, `result`, `error` or `status`.
    pub field: &'static str,
    /// The dialect; empty for messages, and where nothing gave it.
    pub dialect: String,
    /// What was read, or what stands there instead, such as ``attribute `tool.name` ``.
    pub source: String,
}

/// A call that a model's message holds.
#[derive(Debug)]
pub struct CallInMessage {
    /// The model's span.
    pub span_id: SpanId,
    /// The tool.
    pub name: String,
    /// The call's id.
    pub id: Option<String>,
    /// What became of it, in words.
    pub outcome: &'static str,
    /// The span of the call that it was joined to.
    pub joined_to: Option<SpanId>,
}

/// What became of records, gathered while a trace is resolved.
#[derive(Default)]
pub(super) struct Diagnostics {
    /// By place of arrival.
    spans: Vec<(u32, SpanOutcome)>,
    messages: Vec<CallInMessage>,
    facts: Vec<FactExplanation>,
    calls: Vec<String>,
}

/// What became of a span that a dialect takes for a tool call.
enum SpanOutcome {
    Dropped(&'static str),
    Call(FieldSources),
    PartOf(SpanId),
    Unnamed,
}

impl Diagnostics {
    pub(super) fn add_spans(&mut self, tree: &Tree<'_>, calls: &[SpanCall<'_>], unnamed: &[u32]) {
        let arrival = |span: u32| tree.get(span).map_or(0, |span| span.arrival);
        let dropped = tree.dropped.iter().map(|(record, why)| (*record, SpanOutcome::Dropped(why)));
        let found = calls.iter().map(|call| {
            let whole = call.part_of.and_then(|whole| calls.get(whole as usize));
            let outcome = match whole {
                Some(whole) => SpanOutcome::PartOf(whole.call.span_id),
                None => SpanOutcome::Call(call.sources),
            };
            (arrival(call.span), outcome)
        });
        let unnamed = unnamed.iter().map(|&span| (arrival(span), SpanOutcome::Unnamed));
        self.spans = dropped.chain(found).chain(unnamed).collect();
        self.spans.sort_by_key(|(record, _)| *record);
    }

    pub(super) fn add_requested(
        &mut self,
        tree: &Tree<'_>,
        requested: &[LlmCall<'_>],
        on_spans: &[SpanCall<'_>],
    ) {
        let joined = on_spans.iter().filter(|call| call.joined);
        let joined: HashMap<u32, SpanId> =
            joined.map(|call| (call.asked.order, call.call.span_id)).collect();
        let explain = |call: &LlmCall<'_>| CallInMessage {
            span_id: tree.get(call.span).map_or_else(Default::default, |it| it.record.span_id),
            name: call.call.name.to_string(),
            id: call.call.id.as_ref().map(ToString::to_string),
            outcome: match call.role {
                RequestedAs::Call => "a tool call that no span tells of",
                RequestedAs::OnSpan => "the call of a tool span",
                RequestedAs::Handoff => "dropped: hands over to another agent",
                RequestedAs::HasSpans => "dropped: this tool's calls are on spans of their own",
            },
            joined_to: match call.role {
                RequestedAs::OnSpan => joined.get(&call.asked.order).copied(),
                _ => None,
            },
        };
        self.messages = requested.iter().map(explain).collect();
    }
}

impl Resolver {
    /// Explains how a trace is read.
    pub fn explain(&self, trace: &TraceSpans) -> TraceExplanation {
        let mut diagnostics = Diagnostics::default();
        let trajectory = self.resolve_with(trace, Effort::new(u64::MAX), Some(&mut diagnostics));
        // Of several calls on a span the first is that of the span itself.
        let named = trajectory.tool_calls.iter().rev().map(|call| (call.span_id, call));
        let calls: HashMap<SpanId, &ToolCall<'_>> = named.collect();
        let mut rest = diagnostics.spans.into_iter().peekable();
        let mut spans = Vec::with_capacity(trace.spans.len());
        for (at, record) in trace.spans.iter().enumerate() {
            let facts = FactsReader::new(trace.facts(record));
            let mut span = SpanExplanation { span_id: record.span_id, ..Default::default() };
            if record.flags.has(SpanFlags::LOG) {
                facts.log_event().clone_into(&mut span.name);
                "log event, read for the span that it names".clone_into(&mut span.outcome);
                spans.push(span);
                continue;
            }
            facts.span_name().clone_into(&mut span.name);
            self.explain_dialects(facts, &mut span);
            let outcome = rest.next_if(|(record, _)| *record == at as u32).map(|(_, it)| it);
            span.outcome = match &outcome {
                Some(SpanOutcome::Dropped(why)) => format!("dropped: {why}"),
                Some(SpanOutcome::Call(_)) => "tool call".into(),
                Some(SpanOutcome::PartOf(whole)) => format!("part of the call on span {whole}"),
                Some(SpanOutcome::Unnamed) => "dropped: no source gives a tool name".into(),
                None if span.excluded_by.is_some() => "dropped: excluded".into(),
                None => "no tool call".into(),
            };
            if let Some(SpanOutcome::Call(sources)) = outcome
                && let Some(call) = calls.get(&record.span_id)
            {
                span.given_by = self.explain_fields(facts, sources, call);
            }
            spans.push(span);
        }
        let Diagnostics { messages, facts, calls, .. } = diagnostics;
        TraceExplanation { trace_id: trace.trace_id, spans, messages, facts, calls }
    }

    /// The spans of a trace that some dialect takes, as those of tools, agents or models, or as
    /// none. A span that is only taken at its word about its kind is not among them, nor is one of
    /// which nothing is read but its name: a dialect of its own may read more of it.
    pub fn known_spans(&self, trace: &TraceSpans) -> impl Iterator<Item = SpanId> {
        let is_known = |record: &&SpanRecord| {
            let facts = FactsReader::new(trace.facts(record));
            let is_empty = facts.encoded_attributes().next().is_none();
            let takes = |id: ConditionId| {
                let means = self.table.compiled(id.0);
                let condition = self.table.conditions().get(usize::from(id.0));
                means.is_some_and(|it| it.tool || it.agent || it.exclude)
                    && condition.is_some_and(|condition| {
                        let by_name = is_empty && condition.may_ask_only_names();
                        let is_excluded = means.is_some_and(|it| it.exclude);
                        (is_excluded || !by_name) && !condition.asks_only_what_is_said()
                    })
            };
            !record.flags.has(SpanFlags::LOG) && facts.conditions().any(takes)
        };
        trace.spans.iter().filter(is_known).map(|record| record.span_id)
    }

    fn explain_dialects(&self, facts: FactsReader<'_>, span: &mut SpanExplanation) {
        let shape = self.forms.shapes.of(&self.plan, facts);
        let name = |number: &u16| {
            self.plan.dialects.get(usize::from(*number)).map(|dialect| dialect.name.clone())
        };
        span.dialects = shape.dialects.iter().filter_map(name).collect();
        let mut meanings = facts.conditions().filter_map(|id| self.plan.meaning_of(id));
        span.excluded_by = meanings.find_map(|meaning| meaning.exclude.as_ref().and_then(name));
    }

    /// What gave the fields of a call. A field that the call has and no source of its span gave
    /// comes from messages.
    fn explain_fields(
        &self,
        facts: FactsReader<'_>,
        sources: FieldSources,
        call: &ToolCall<'_>,
    ) -> Vec<GivenBy> {
        let shape = self.forms.shapes.of(&self.plan, facts);
        let source = |number: Option<u16>| self.plan.sources.get(usize::from(number?));
        let mut fields = Vec::new();
        for (field, number, has, role, state) in [
            ("name", sources.name, true, Role::Name, ""),
            ("id", sources.id, call.id.is_some(), Role::Id, ""),
            (
                "arguments",
                sources.arguments,
                is_found(&call.arguments),
                Role::Arguments,
                state(&call.arguments),
            ),
            ("result", sources.result, is_found(&call.result), Role::Result, state(&call.result)),
            ("error", sources.error, call.error.is_some(), Role::Error, ""),
        ] {
            let (dialect, text) = match source(number) {
                Some(source) => (self.dialect_of(source), describe(source)),
                None if has => (String::new(), "messages of a model call".to_owned()),
                None if field == "error" => continue,
                None => (String::new(), self.not_recorded(shape.call(role))),
            };
            fields.push(GivenBy { field, dialect, source: format!("{text}{state}") });
        }
        let status = match (call.status, source(sources.error)) {
            (CallStatus::Error, Some(source)) => format!("error, by {}", describe(source)),
            (CallStatus::Error, None) => "error, by messages of a model call".to_owned(),
            (CallStatus::Ok, _) => "ok, nothing on the span says that it failed".to_owned(),
            (CallStatus::Unknown, _) => "unknown, nothing says how it ended".to_owned(),
        };
        fields.push(GivenBy { field: "status", dialect: String::new(), source: status });
        fields
    }

    /// That a field is not recorded, and where it was looked for.
    fn not_recorded(&self, sources: &[u16]) -> String {
        let source = |number: &u16| self.plan.sources.get(usize::from(*number));
        let looked: Vec<String> =
            sources.iter().filter_map(source).take(LOOKED_SHOWN_MAX).map(describe).collect();
        match looked.len() {
            0 => "not recorded".to_owned(),
            _ => format!("not recorded; there is no {}", looked.join(", no ")),
        }
    }

    fn dialect_of(&self, source: &PlannedSource) -> String {
        let dialect = self.plan.dialects.get(usize::from(source.dialect));
        dialect.map_or_else(String::new, |dialect| dialect.name.clone())
    }
}

/// Sources that are named where none of them yields.
const LOOKED_SHOWN_MAX: usize = 4;

fn is_found(content: &Content<'_>) -> bool {
    !matches!(content, Content::NotRecorded)
}

/// What stands in place of content.
fn state(content: &Content<'_>) -> &'static str {
    match content {
        Content::Redacted => ", where a placeholder stands",
        Content::Unreadable(_) => ", which is cut off, or not of its form",
        Content::NotRecorded | Content::Recorded(_) => "",
    }
}

/// One line for each span, with the fields of a call below it; names come from strangers, so they
/// are made [`visible`].
impl fmt::Display for TraceExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "trace {}", self.trace_id)?;
        for span in &self.spans {
            let name = visible::line(&span.name);
            write!(f, "  span {} {name}: {}", span.span_id, span.outcome)?;
            let dialects = match (&span.dialects[..], &span.excluded_by) {
                ([], None) => String::new(),
                ([], Some(by)) => format!(" (by {by})"),
                ([won], _) => format!(" ({won})"),
                ([won, others @ ..], _) => format!(" ({won}; {} matched too)", others.join(", ")),
            };
            writeln!(f, "{}", visible::line(dialects))?;
            for GivenBy { field, dialect, source } in &span.given_by {
                let by = if dialect.is_empty() { String::new() } else { format!(" ({dialect})") };
                writeln!(f, "    {field}: {}", visible::line(format_args!("{source}{by}")))?;
            }
        }
        for CallInMessage { span_id, name, id, outcome, joined_to } in &self.messages {
            let id = id.as_deref().unwrap_or("without id");
            let name = visible::line(name);
            let id = visible::line(id);
            let to = joined_to.map_or_else(String::new, |span| format!(", {span}"));
            writeln!(f, "  message on span {span_id}: {name} {id}: {outcome}{to}")?;
        }
        for call in &self.calls {
            writeln!(f, "  {}", visible::line(call))?;
        }
        for fact in &self.facts {
            write!(f, "{fact}")?;
        }
        Ok(())
    }
}

fn describe(source: &PlannedSource) -> String {
    let source = &source.source;
    match source.from {
        From::Attr => format!("attribute `{}`", source.key),
        From::AttrsPrefix => format!("attributes `{}*`", source.key),
        From::AttrsEnding => "an attribute with a body".into(),
        From::AttrsIndexed => {
            let words = source.key.replace('|', ".N.*`, `*");
            format!("attributes `*{words}.N.*`")
        }
        From::AttrsWorded => {
            format!("an attribute of any name that ends with `{}`", source.key.replace('|', "`, `"))
        }
        From::AttrsObject => format!("attributes `{}`", source.keys.join("`, `")),
        From::SpanEvent if source.key.is_empty() => format!("span events `{}`", source.event),
        From::SpanEvent => format!("span event `{}`, attribute `{}`", source.event, source.key),
        From::SpanName => "span name".into(),
        From::Status => "span status".into(),
        From::Log if source.key.is_empty() => format!("body of log event `{}`", source.event),
        From::Log => format!("log event `{}`, attribute `{}`", source.event, source.key),
    }
}
