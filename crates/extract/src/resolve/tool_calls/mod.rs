//! Tool calls on spans.

mod beside;
#[cfg(test)]
mod beside_tests;
mod positional;
mod sign;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::OnceCell;

use hashbrown::HashSet;

use self::beside::settle;
use self::sign::{Sign, causes, result_text, without_traceback};
use super::super::decode::{commanded_result, without_envelope};
use super::super::dialect::{FactSource, Role};
use super::super::table::names_kind;
use super::form::{Candidate, RecordForm};
use super::messages::{Asked, LlmCall};
use super::plan::{FactPlace, PlannedSource, ReadingPlan};
use super::read::{self, Raw};
use super::tree::{Span, Tree};
use crate::record::layout::{self, FactsReader};
use crate::standing::{CallStanding, standing};
pub(super) use positional::name_bare;
use spanscore_base::model::{CallStatus, Content, Origin, SpanFlags, SpanId, ToolCall, WorkBudget};
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::Value;

/// Tool call on a span.
pub(super) struct SpanCall<'a> {
    pub(super) call: ToolCall<'a>,
    /// Index of the span.
    pub(super) span: u32,
    /// Model message with its request.
    pub(super) asked: Asked,
    /// True if its request by a model is known.
    pub(super) joined: bool,
    /// Sources of its fields.
    pub(super) sources: FieldSources,
    /// True if its dialect has no marker of tools: it is a call only if a model requested it.
    pub(super) unmarked: bool,
    /// True if the arguments are a bare value instead of an object.
    pub(super) bare_arguments: bool,
    /// Index of the call that this one is part of.
    pub(super) part_of: Option<u32>,
}

/// Numbers of the sources of a call's fields; `None` for a field without one.
#[derive(Clone, Copy, Default)]
pub(super) struct FieldSources {
    pub(super) name: Option<u16>,
    pub(super) id: Option<u16>,
    pub(super) arguments: Option<u16>,
    pub(super) result: Option<u16>,
    pub(super) error: Option<u16>,
}

/// Reason for which a span with a detected call has none of its own.
pub(super) enum NoCall {
    /// No source gives a tool name.
    Unnamed,
    /// Its name says that it speaks of a call: a guard, an approval.
    Beside,
    /// It speaks of the call on this span.
    PartOf(SpanId),
}

/// Returns the tool calls on a trace's spans in start order, and the indices of the other detected
/// spans. A span with only the id of another span's call is included without a name: it is part of
/// that call.
pub(super) fn on_spans<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    effort: &WorkBudget,
) -> (Vec<SpanCall<'a>>, Vec<(u32, NoCall)>) {
    let is_tool = |span: &&Span<'_>| span.record.flags.has(SpanFlags::TOOL);
    let count = tree.spans.iter().filter(is_tool).count();
    let mut calls = Vec::with_capacity(count);
    let mut none = Vec::new();
    let mut standings = Vec::new();
    let mut read = Vec::new();
    let mut raws = Vec::new();
    for (at, span) in (0..).zip(&tree.spans) {
        let form = tree.form(span);
        if !is_tool(&span) || form.dialects.is_empty() {
            continue;
        }
        let values = tree.values(span);
        read.clear();
        read.resize_with(values.len(), OnceCell::new);
        let mut reader = ToolCallReader { plan, form, values, read: &read, raws: &mut raws };
        if reader.call(at, span, &mut calls).is_none() {
            none.push((at, NoCall::Unnamed));
        } else if form.doubtful
            && let Some(SpanCall { call, sources, .. }) = calls.last()
        {
            let keys = tree.others(span).iter().filter_map(|(key, _)| str::from_utf8(key).ok());
            let is_whole = sources.arguments.is_some() && sources.result.is_some();
            let standing = match standing(span.facts.span_name(), &call.name, keys) {
                CallStanding::Beside if is_whole => CallStanding::Doubtful,
                standing => standing,
            };
            if standing != CallStanding::Call {
                standings.resize(calls.len(), CallStanding::Call);
                standings[calls.len() - 1] = standing;
            }
        }
    }
    if !standings.is_empty() {
        standings.resize(calls.len(), CallStanding::Call);
        none.extend(settle(tree, &mut calls, standings, effort));
    }
    leave_names_to_others(plan, &mut calls);
    if calls.iter().any(SpanCall::is_nameless) {
        let named = calls.iter().filter(|call| !call.is_nameless());
        let ids: HashSet<Cow<'a, str>> = named.filter_map(|call| call.call.id.clone()).collect();
        calls.retain(|call| {
            let is_known = call.call.id.as_ref().is_some_and(|id| ids.contains(id));
            let keep = !call.is_nameless() || is_known;
            if !keep {
                none.push((call.span, NoCall::Unnamed));
            }
            keep
        });
    }
    (calls, none)
}

/// Removes the names of calls with an id that come from the span's name, if another span has a call
/// with that id, of which they are parts, or if the name is only a kind (`acme.tool.execution`).
fn leave_names_to_others(plan: &ReadingPlan, calls: &mut [SpanCall<'_>]) {
    let is_of_span = |call: &SpanCall<'_>| call.is_named_by_span(plan);
    if !calls.iter().any(|call| call.call.id.is_some() && is_of_span(call)) {
        return;
    }
    let named = calls.iter().filter(|call| !call.is_nameless() && !is_of_span(call));
    let ids: HashSet<String> =
        named.filter_map(|it| Some(it.call.id.as_ref()?.to_string())).collect();
    for call in calls {
        let Some(id) = &call.call.id else { continue };
        let is_part = ids.contains(&**id) || names_kind(&call.call.name);
        if is_part && is_of_span(call) {
            call.call.name = Cow::Borrowed("");
            call.sources.name = None;
        }
    }
}

/// Drops the calls of dialects without a marker of tools, unless a model requested a tool of that
/// name.
pub(super) fn keep_asked<'a>(
    plan: &ReadingPlan,
    calls: &mut Vec<SpanCall<'a>>,
    requested: &[LlmCall<'a>],
) {
    if !plan.has_unmarked || !calls.iter().any(|call| call.unmarked) {
        return;
    }
    let asked: HashSet<&str> = requested.iter().map(|call| &*call.call.name).collect();
    calls.retain(|call| !call.unmarked || asked.contains(&*call.call.name));
}

struct ToolCallReader<'a, 'r> {
    plan: &'a ReadingPlan,
    form: &'r RecordForm,
    /// Encoded values of the span's attributes.
    values: &'r [&'a [u8]],
    /// Decoded values, each decoded at most once: decoding a text checks each of its bytes.
    read: &'r [OnceCell<AnyValue<'a>>],
    raws: &'r mut Vec<Raw<'a>>,
}

impl<'a> ToolCallReader<'a, '_> {
    /// Adds the call on a span; `None` if it has neither a name nor an id.
    fn call(&mut self, at: u32, span: &Span<'a>, calls: &mut Vec<SpanCall<'a>>) -> Option<()> {
        let name = self.first(Role::Name, span.facts, read::text);
        let id = self.first(Role::Id, span.facts, read::id);
        let (name, by_name) = match name {
            Some((name, by)) => (name, Some(by)),
            None => (Cow::Borrowed(""), None),
        };
        if name.is_empty() && id.is_none() {
            return None;
        }
        let arguments = self.arguments(span.facts);
        let arguments = arguments.map(|(given, by)| (self.without_envelope(given, by, &name), by));
        let result = self.content(Role::Result, span.facts);
        let winner = *self.form.dialects.first()?;
        let dialect = self.plan.dialects.get(usize::from(winner))?;
        let ended = span.record.flags.has(SpanFlags::ENDED);
        calls.push(SpanCall {
            call: ToolCall {
                name,
                origin: Origin::Span,
                status: if ended { CallStatus::Ok } else { CallStatus::Unknown },
                span_id: span.record.span_id,
                dialect: &dialect.name,
                start_ns: span.record.start_ns,
                end_ns: span.record.end_ns,
                ..ToolCall::default()
            },
            span: at,
            asked: Asked::default(),
            joined: false,
            unmarked: dialect.unmarked,
            sources: FieldSources { name: by_name, ..FieldSources::default() },
            bare_arguments: false,
            part_of: None,
        });
        let call = calls.last_mut()?;
        if let Some((id, by)) = id {
            call.call.id = Some(id);
            call.sources.id = Some(by);
        }
        if let Some((arguments, by)) = arguments {
            call.set_arguments(arguments);
            call.sources.arguments = Some(by);
        }
        if let Some((result, by)) = result {
            call.call.result = result;
            call.sources.result = Some(by);
        }
        let own = self.command(span.facts, call);
        if let Some((message, _)) = &own {
            call.call.result = Content::ready(message.clone());
        }
        self.error(span, call, own.as_ref());
        if let Some((message, true)) = own {
            call.call.fail(&message);
            call.sources.error = call.sources.error.or(call.sources.result);
        }
        Some(())
    }

    /// Returns the result for the call's id in a command with several messages; also true if it
    /// reports a failure.
    fn command(
        &mut self,
        facts: FactsReader<'a>,
        call: &SpanCall<'a>,
    ) -> Option<(Value<'a>, bool)> {
        let id = call.call.id.as_ref()?;
        let result = call.sources.result?;
        if call.sources.id == Some(result) {
            return None;
        }
        let candidate = *self.form.call(Role::Result).iter().find(|it| it.source == result)?;
        self.find(candidate, facts, |_, raw| match raw {
            Raw::Any(AnyValue::String(text)) if text.starts_with('{') => commanded_result(text, id),
            _ => None,
        })
    }

    /// Returns the attribute at an index.
    fn attribute(&self, place: u16) -> Option<AnyValue<'a>> {
        let encoded = self.values.get(usize::from(place))?;
        let value = self.read.get(usize::from(place))?;
        Some(*value.get_or_init(|| layout::read(encoded)))
    }

    /// Returns the first of a source's values that `get` accepts.
    fn find<T>(
        &mut self,
        candidate: Candidate,
        facts: FactsReader<'a>,
        get: impl Fn(&'a PlannedSource, Raw<'a>) -> Option<T>,
    ) -> Option<T> {
        let source = self.plan.sources.get(usize::from(candidate.source))?;
        if let Some(place) = candidate.place {
            return get(source, Raw::Any(self.attribute(place)?));
        }
        self.raws.clear();
        read::raws(source, facts, self.raws);
        self.raws.drain(..).find_map(|raw| get(source, raw))
    }

    /// Returns the first value of any source of the dialects for a role, with its source.
    fn first<T>(
        &mut self,
        role: Role,
        facts: FactsReader<'a>,
        get: impl Fn(&'a FactSource, Raw<'a>) -> Option<T>,
    ) -> Option<(T, u16)> {
        let form = self.form;
        form.call(role).iter().find_map(|&candidate| {
            let value = self.find(candidate, facts, |source, raw| get(&source.source, raw))?;
            Some((value, candidate.source))
        })
    }

    /// Returns the first readable content, else the first unreadable or redacted one.
    fn content(&mut self, role: Role, facts: FactsReader<'a>) -> Option<(Content<'a>, u16)> {
        let readable = |source, raw| read::content(source, raw).filter(Content::is_recorded);
        self.first(role, facts, readable).or_else(|| self.first(role, facts, read::content))
    }

    /// Returns the arguments; positional ones get the names of the tool's parameters.
    fn arguments(&mut self, facts: FactsReader<'a>) -> Option<(Content<'a>, u16)> {
        let (arguments, by) = self.content(Role::Arguments, facts)?;
        let form = self.form;
        let of_schema = |number: u16| {
            let source = self.plan.sources.get(usize::from(number))?;
            source.source.only_if.map(|_| &source.source)
        };
        let mut schemas = form.call(Role::Arguments).iter().filter_map(|candidate| {
            let source = of_schema(candidate.source)?;
            read::schema(source, Raw::Any(self.attribute(candidate.place?)?))
        });
        let is_placed = || self.may_hold(by, "\"args\"");
        if of_schema(by).is_none()
            && form.call(Role::Arguments).iter().any(|it| of_schema(it.source).is_some())
            && is_placed()
            && let Some(value) = arguments.value()
            && let Some(named) = schemas.find_map(|schema| positional::named(value, &schema))
        {
            return Some((Content::ready(named), by));
        }
        Some((arguments, by))
    }

    /// Returns true if the text of the arguments may contain a word.
    fn may_hold(&self, by: u16, word: &str) -> bool {
        let mut candidates = self.form.call(Role::Arguments).iter();
        let candidate = candidates.find(|candidate| candidate.source == by);
        let place = candidate.and_then(|candidate| candidate.place);
        let value = place.and_then(|place| self.attribute(place));
        value.and_then(|value| value.as_str()).is_none_or(|text| text.contains(word))
    }

    /// Removes an envelope with the tool's name around arguments.
    fn without_envelope(&self, given: Content<'a>, by: u16, tool: &str) -> Content<'a> {
        // Decoding arguments only for this would cost as much as judging them.
        let is_read = matches!(&given, Content::Recorded(lazy) if lazy.is_ready());
        if tool.is_empty() || !is_read && !self.may_hold(by, tool) {
            return given;
        }
        let inner = given.value().and_then(|value| without_envelope(value, tool));
        inner.map_or(given, Content::ready)
    }

    /// Sets the error. The call's own message, if known and failed, replaces the result's report of
    /// another message.
    fn error(&mut self, span: &Span<'a>, call: &mut SpanCall<'a>, own: Option<&(Value<'a>, bool)>) {
        let form = self.form;
        let mut error_type = None;
        let mut failed = None;
        let mut flag = None;
        let mut text = None;
        for &candidate in form.call(Role::Error) {
            let sign = match own.filter(|_| self.is_of_message(candidate)) {
                Some((message, failed)) => failed.then(|| sign::of_failure(message)),
                None => self.error_of(candidate, span),
            };
            let Some(sign) = sign else { continue };
            let number = candidate.source;
            failed = failed.or(Some(number));
            match sign {
                Sign::Text(found) => {
                    let kind = error_type.get_or_insert_with(|| self.error_type());
                    if kind.as_deref() != Some(&*found) {
                        text = Some((found, number));
                        break;
                    }
                    flag = flag.or(Some(found));
                }
                Sign::Flag(Some(found)) => flag = flag.or(Some(found)),
                Sign::Flag(None) => {}
            }
        }
        let Some(failed) = failed else { return };
        call.call.status = CallStatus::Error;
        call.sources.error = Some(text.as_ref().map_or(failed, |(_, number)| *number));
        let told = text.as_ref().and_then(|(text, _)| causes(text, &call.call.result));
        let text = told.or_else(|| text.map(|(text, _)| text));
        let text = text.or_else(|| result_text(&call.call.result)).or(flag);
        call.call.error = text.map(without_traceback).filter(|text| !text.is_empty());
    }

    /// Returns the value of the sources of error types.
    fn error_type(&self) -> Option<Cow<'a, str>> {
        self.form.call(Role::Error).iter().find_map(|candidate| {
            let source = self.plan.sources.get(usize::from(candidate.source))?;
            let value = candidate.place.filter(|_| source.source.flag)?;
            read::text(&source.source, Raw::Any(self.attribute(value)?))
        })
    }

    fn is_of_message(&self, candidate: Candidate) -> bool {
        let source = self.plan.sources.get(usize::from(candidate.source));
        source.is_some_and(|source| source.source.decode.is_message_error())
    }

    fn error_of(&mut self, candidate: Candidate, span: &Span<'a>) -> Option<Sign<'a>> {
        let source = self.plan.sources.get(usize::from(candidate.source))?;
        if let FactPlace::Status = source.read {
            let failed = span.record.flags.has(SpanFlags::ERROR);
            return failed.then(|| sign::of_message(span.facts.status_message()));
        }
        self.find(candidate, span.facts, sign::sign)
    }
}

impl<'a> SpanCall<'a> {
    /// Returns true if its span only has the id of a call.
    pub(super) fn is_nameless(&self) -> bool {
        self.call.name.is_empty()
    }

    /// Returns true if the tool is named only by the span's name, without a prefix that marks
    /// tools.
    pub(super) fn is_named_by_span(&self, plan: &ReadingPlan) -> bool {
        let source = self.sources.name.and_then(|by| plan.sources.get(usize::from(by)));
        source.is_some_and(|source| {
            matches!(source.read, FactPlace::SpanName) && source.source.strip_prefix.is_empty()
        })
    }

    /// Sets the arguments from a source. A bare value is stored as unreadable text, since it is no
    /// object.
    pub(super) fn set_arguments(&mut self, arguments: Content<'a>) {
        let bare = match &arguments {
            Content::Recorded(lazy) if lazy.is_ready() => match lazy.get() {
                Value::Map(_) | Value::List(_) => None,
                Value::Null => return,
                Value::String(text) => Some(text.clone()),
                value => Some(Cow::Owned(value.to_string())),
            },
            Content::Unreadable(text) if !text.trim_start().starts_with(['{', '[']) => {
                Some(text.clone())
            }
            _ => None,
        };
        self.bare_arguments = bare.is_some();
        self.call.arguments = bare.map_or(arguments, Content::Unreadable);
    }

    /// Fills the gaps of this call from a part of it.
    pub(super) fn fill_from(&mut self, part: &mut Self) {
        let own = &mut self.call;
        let other = &mut part.call;
        if own.id.is_none() && other.id.is_some() {
            own.id = other.id.take();
            self.sources.id = part.sources.id;
        }
        let other_is_better = other.arguments.is_recorded() || self.sources.arguments.is_none();
        if !own.arguments.is_recorded() && other_is_better {
            own.arguments = std::mem::take(&mut other.arguments);
            self.sources.arguments = part.sources.arguments;
            self.bare_arguments = part.bare_arguments;
        }
        let other_is_better = other.result.is_recorded() || self.sources.result.is_none();
        if !own.result.is_recorded() && other_is_better {
            own.result = std::mem::take(&mut other.result);
            self.sources.result = part.sources.result;
        }
        if other.status == CallStatus::Error {
            if own.error.is_none() {
                own.error = other.error.take();
                self.sources.error = part.sources.error;
            }
            own.status = CallStatus::Error;
        }
    }
}
