//! Explanation of a resolved trace: the source of each call and fact, and the reason for missing
//! ones.

mod trace_facts;

use std::fmt;

use hashbrown::HashMap;

pub use self::trace_facts::FactExplanation;

use super::Resolver;
use super::messages::{LlmCall, RequestedAs};
use super::plan::PlannedSource;
use super::tool_calls::{FieldSources, NoCall, SpanCall};
use super::tree::Tree;
use crate::dialect::{From, Mark, Role};
use crate::record::layout::FactsReader;
use crate::table::ConditionId;
use spanscore_base::model::{
    CallStatus, Content, SpanFlags, SpanId, SpanRecord, ToolCall, TraceId, TraceSpans, WorkBudget,
};
use spanscore_base::visible;

/// Explanation of one trace.
#[derive(Debug, Default)]
pub struct TraceExplanation {
    /// Id of the trace.
    pub trace_id: TraceId,
    /// Spans in order of arrival, including log events.
    pub spans: Vec<SpanExplanation>,
    /// Calls in the messages of models, in order.
    pub messages: Vec<CallInMessage>,
    /// Other facts of the trace with their sources.
    pub facts: Vec<FactExplanation>,
    /// Descriptions of parallel calls, and of calls that gave the answer.
    pub calls: Vec<String>,
}

/// Explanation of one span.
#[derive(Debug, Default)]
pub struct SpanExplanation {
    /// Id of the span.
    pub span_id: SpanId,
    /// Name of the span or log event; empty if no dialect reads it.
    pub name: String,
    /// Dialects that detect a tool call in it; the first one wins.
    pub dialects: Vec<String>,
    /// Dialect that excludes it from tool calls.
    pub excluded_by: Option<String>,
    /// Source of each of the call's fields.
    pub given_by: Vec<GivenBy>,
    /// Outcome for the span, in words.
    pub outcome: String,
}

/// Source of one field of a tool call.
#[derive(Debug, PartialEq)]
pub struct GivenBy {
    /// Field: `name`, `id`, `arguments`, `result`, `error` or `status`.
    pub field: &'static str,
    /// Dialect of the source; empty for messages, and if there is no source.
    pub dialect: String,
    /// Place read, such as ``attribute `tool.name` ``, or the reason for a missing one.
    pub source: String,
}

/// Call in a model's message.
#[derive(Debug)]
pub struct CallInMessage {
    /// Span of the model.
    pub span_id: SpanId,
    /// Name of the tool.
    pub name: String,
    /// Id of the call.
    pub id: Option<String>,
    /// Outcome for the call, in words.
    pub outcome: &'static str,
    /// Span of the joined call.
    pub joined_to: Option<SpanId>,
}

/// Outcomes of records, collected while a trace is resolved.
#[derive(Default)]
pub(super) struct Diagnostics {
    /// Outcomes of spans, by index of arrival.
    spans: Vec<(u32, SpanOutcome)>,
    messages: Vec<CallInMessage>,
    facts: Vec<FactExplanation>,
    calls: Vec<String>,
}

/// Outcome for a span with a detected tool call.
enum SpanOutcome {
    Dropped(&'static str),
    Call(FieldSources),
    PartOf(SpanId),
}

impl Diagnostics {
    pub(super) fn add_spans(
        &mut self,
        tree: &Tree<'_>,
        calls: &[SpanCall<'_>],
        none: &[(u32, NoCall)],
    ) {
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
        let none = none.iter().map(|(span, why)| {
            let outcome = match why {
                NoCall::Unnamed => SpanOutcome::Dropped("no source gives a tool name"),
                NoCall::Beside => SpanOutcome::Dropped(
                    "its name is that of no call, but of what is about one (a guard, a step)",
                ),
                NoCall::PartOf(whole) => SpanOutcome::PartOf(*whole),
            };
            (arrival(*span), outcome)
        });
        self.spans = dropped.chain(found).chain(none).collect();
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
                RequestedAs::WrittenIn => {
                    "dropped: no model asked, a framework wrote it into the history"
                }
                RequestedAs::OtherChoice => "dropped: of a choice that the run did not take",
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

/// Describes attributes dropped by the sender's SDK, with the remedy.
fn lost(attributes: u32) -> String {
    format!("the SDK dropped {attributes} of its attributes: raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT")
}

impl Resolver {
    /// Explains the resolution of a trace.
    pub fn explain(&self, trace: &TraceSpans) -> TraceExplanation {
        let mut diagnostics = Diagnostics::default();
        let trajectory =
            self.resolve_with(trace, WorkBudget::new(u64::MAX), Some(&mut diagnostics));
        // Reversed, so that the first of several calls on a span, its own, stays in the map.
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
                None if span.excluded_by.is_some() => "dropped: excluded".into(),
                None => "no tool call".into(),
            };
            let dropped = facts.dropped_attributes();
            if dropped > 0 {
                span.outcome = format!("{}; {}", span.outcome, lost(dropped));
            }
            if let Some(SpanOutcome::Call(sources)) = outcome
                && let Some(call) = calls.get(&record.span_id)
            {
                span.given_by = self.explain_fields(facts, sources, call);
            }
            spans.push(span);
        }
        let Diagnostics { messages, facts, calls, .. } = diagnostics;
        TraceExplanation { trace_id: trace.sent_id(), spans, messages, facts, calls }
    }

    /// Returns the spans of a trace known to a dialect: as a tool's, an agent's or a model's, or
    /// excluded. Spans known only by a stated kind or a read name are not included: a dialect of
    /// their own may read more of them.
    pub fn known_spans(&self, trace: &TraceSpans) -> impl Iterator<Item = SpanId> {
        let is_known = |record: &&SpanRecord| {
            let facts = FactsReader::new(trace.facts(record));
            let is_empty = facts.encoded_attributes().next().is_none();
            let takes = |id: ConditionId| {
                let means = self.table.compiled(id.0);
                let condition = self.table.conditions().get(usize::from(id.0));
                means.is_some_and(|it| TAKING.iter().any(|mark| it.is(*mark)))
                    && condition.is_some_and(|condition| {
                        let by_name = is_empty && condition.may_ask_only_names();
                        let is_excluded = means.is_some_and(|it| it.is(Mark::Exclude));
                        (is_excluded || !by_name) && !condition.asks_only_what_is_said()
                    })
            };
            !record.flags.has(SpanFlags::LOG) && facts.conditions().any(takes)
        };
        trace.spans.iter().filter(is_known).map(|record| record.span_id)
    }

    fn explain_dialects(&self, facts: FactsReader<'_>, span: &mut SpanExplanation) {
        let conditions = facts.condition_set();
        let dialects = self.plan.tool_dialects(&conditions);
        let name = |number: &u16| {
            self.plan.dialects.get(usize::from(*number)).map(|dialect| dialect.name.clone())
        };
        span.dialects = dialects.iter().filter_map(name).collect();
        let mut excluding = self.plan.dialects_of(Mark::Exclude, &conditions);
        span.excluded_by = excluding.find_map(|number| name(&number));
    }

    /// Returns the source of each field of a call. A field without a source on its span comes from
    /// messages.
    fn explain_fields(
        &self,
        facts: FactsReader<'_>,
        sources: FieldSources,
        call: &ToolCall<'_>,
    ) -> Vec<GivenBy> {
        let conditions = facts.condition_set();
        let dialects = self.plan.tool_dialects(&conditions);
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
                None => {
                    let sources = self.plan.sources_of_call(role, &dialects, &conditions);
                    (String::new(), self.not_recorded(sources))
                }
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

    /// Describes an unrecorded field, with the sources that were tried.
    fn not_recorded(&self, sources: impl Iterator<Item = u16>) -> String {
        let source = |number: u16| self.plan.sources.get(usize::from(number));
        let looked: Vec<String> =
            sources.filter_map(source).take(LOOKED_SHOWN_MAX).map(describe).collect();
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

/// Marks by which a dialect claims a span.
const TAKING: [Mark; 3] = [Mark::Tool, Mark::Agent, Mark::Exclude];

/// Limit on the named sources if none gives a value.
const LOOKED_SHOWN_MAX: usize = 4;

fn is_found(content: &Content<'_>) -> bool {
    !matches!(content, Content::NotRecorded)
}

/// Describes the state of unreadable content.
fn state(content: &Content<'_>) -> &'static str {
    match content {
        Content::Redacted => ", where a placeholder stands",
        Content::Unreadable(_) => ", which is cut off, or not of its form",
        Content::NotRecorded | Content::Recorded(_) => "",
    }
}

/// Formats a line per span, with the fields of a call below it; names are untrusted, so they are
/// made [`visible`].
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
