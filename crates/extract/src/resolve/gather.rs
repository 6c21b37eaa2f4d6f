//! Gathering of trace-level facts in one pass over the records.

use std::borrow::Cow;

use super::super::decode::MessageCall;
use super::super::dialect::{FactSource, Role};
use super::flat;
use super::plan::{FactPlace, PlannedSource, ReadingPlan};
use super::read::{self, Raw, copied};
use super::tree::{NONE, Span, Tree, depths};
use crate::record::layout::{self, Attribute};
use spanscore_base::model::{SpanFlags, WorkBudget};
use spanscore_base::otlp::AnyValue;

/// Facts of a trace other than its tool calls, not decoded.
#[derive(Default)]
pub(super) struct Gathered<'a> {
    /// Session of the trace, with the rank of its source.
    pub(super) session: Option<(u16, Cow<'a, str>)>,
    /// User of the trace, with the rank of its source.
    pub(super) user: Option<(u16, Cow<'a, str>)>,
    /// Agent named by each span, with the rank of its source.
    pub(super) agents: Vec<Option<(u16, Cow<'a, str>)>>,
    /// Index of the span that names the calls' agent, if not the first one.
    caller: Option<u32>,
    /// Candidates for the user's input.
    pub(super) inputs: Vec<FoundValue<'a>>,
    /// Candidates for the final output.
    pub(super) outputs: Vec<FoundValue<'a>>,
    /// Output messages of models.
    pub(super) model_outputs: Vec<ModelOutput<'a>>,
    /// Input messages of models.
    pub(super) model_inputs: Vec<FoundValue<'a>>,
    /// Definitions of tools.
    pub(super) definitions: Vec<FoundValue<'a>>,
    /// Models by span, with the index of the span and the rank of the source.
    named_models: Vec<(u32, u16, Cow<'a, str>)>,
    /// Token counts and costs.
    pub(super) counts: Vec<FoundValue<'a>>,
    /// True if a span hands over to another agent.
    pub(super) handoff: bool,
    /// True if a finish reason states that a model requested tools.
    pub(super) asked_for_tools: bool,
    /// True if any messages come from fallback sources, which guess.
    has_bodies: bool,
}

/// Value found by a source on a record.
#[derive(Clone)]
pub(super) struct FoundValue<'a> {
    /// Rank of the source; the lowest has precedence.
    pub(super) source: u16,
    /// Index of the span; `NONE` for a log event without its span in the trace.
    pub(super) span: u32,
    /// Start of the record, Unix nanoseconds.
    pub(super) start_ns: u64,
    /// End of the record, Unix nanoseconds.
    pub(super) end_ns: u64,
    pub(super) raw: Raw<'a>,
}

impl<'a> FoundValue<'a> {
    fn new(source: u16, at: u32, span: &Span<'a>, raw: Raw<'a>) -> Self {
        let start_ns = span.record.start_ns;
        // With skewed clocks the end may precede the start: the record was then complete at its
        // start.
        let end_ns = span.record.end_ns.max(start_ns);
        Self { source, span: at, start_ns, end_ns, raw }
    }

    /// Returns true if its source reads span events, each of which is a message.
    pub(super) fn is_event(&self, plan: &ReadingPlan) -> bool {
        let source = plan.sources.get(usize::from(self.source));
        source.is_some_and(|source| matches!(source.read, FactPlace::EventObject(_)))
    }

    /// Returns true if its source only counts without any other value.
    pub(super) fn is_fallback(&self, plan: &ReadingPlan) -> bool {
        plan.sources.get(usize::from(self.source)).is_some_and(|source| source.source.fallback)
    }
}

/// Messages written by a model.
pub(super) struct ModelOutput<'a> {
    /// Place of the messages; without a value if the calls are known.
    pub(super) found: FoundValue<'a>,
    /// Calls in the messages, if read from flattened attributes.
    pub(super) calls: Option<Vec<MessageCall<'a>>>,
}

impl<'a> Gathered<'a> {
    pub(super) fn new(plan: &'a ReadingPlan, tree: &Tree<'a>) -> Self {
        let mut gathered = Self { agents: vec![None; tree.spans.len()], ..Self::default() };
        let mut raws = Vec::new();
        for (at, span) in (0..).zip(&tree.spans) {
            gathered.span(plan, tree, at, span, &mut raws);
        }
        for log in &tree.logs {
            let name = log.facts.log_event();
            let conditions = log.facts.condition_set();
            for &number in &plan.by_log {
                let Some(source) = plan.sources.get(usize::from(number)) else { continue };
                if source.reads_event(name) && source.applies(&conditions) {
                    read::raws(source, log.facts, &mut raws);
                    gathered.take(source, number, log.parent, log, &mut raws);
                }
            }
        }
        gathered.keep_known_messages(plan);
        gathered
    }

    /// Drops messages of fallback sources if any other source has models' messages.
    fn keep_known_messages(&mut self, plan: &ReadingPlan) {
        if !self.has_bodies {
            return;
        }
        let is_known = |found: &FoundValue<'_>| !found.is_fallback(plan);
        let mut outputs = self.model_outputs.iter().map(|output| &output.found);
        if outputs.any(is_known) || self.model_inputs.iter().any(is_known) {
            self.model_outputs.retain(|output| is_known(&output.found));
            self.model_inputs.retain(is_known);
        }
    }

    fn span(
        &mut self,
        plan: &'a ReadingPlan,
        tree: &Tree<'a>,
        at: u32,
        span: &Span<'a>,
        raws: &mut Vec<Raw<'a>>,
    ) {
        let form = tree.form(span);
        self.handoff |= form.handoff;
        let values = tree.values(span);
        for &(place, number) in &form.by_attribute {
            let Some(source) = plan.sources.get(usize::from(number)) else { continue };
            if let Some(value) = values.get(usize::from(place))
                && !self.is_settled(source, number)
            {
                self.take_one(source, number, at, span, Raw::Any(layout::read(value)));
            }
        }
        let is_tool = span.record.flags.has(SpanFlags::TOOL);
        for &number in &form.by_other {
            let Some(source) = plan.sources.get(usize::from(number)) else { continue };
            // A tool's arguments and results are no request or answer.
            let is_said = matches!(source.role, Role::UserInput | Role::FinalOutput);
            if is_said
                && is_tool
                && matches!(source.read, FactPlace::WordMatch(..) | FactPlace::Prefix)
            {
                continue;
            }
            let others = tree.others(span);
            match flat_calls(source, others) {
                None if is_missing(source, others) => {}
                None => {
                    read::raws(source, span.facts, raws);
                    self.take(source, number, at, span, raws);
                }
                Some(calls) if calls.is_empty() => {}
                Some(calls) => {
                    let found = FoundValue::new(number, at, span, Raw::Any(AnyValue::Empty));
                    self.model_outputs.push(ModelOutput { found, calls: Some(calls) });
                }
            }
        }
    }

    fn take(
        &mut self,
        source: &'a PlannedSource,
        number: u16,
        at: u32,
        span: &Span<'a>,
        raws: &mut Vec<Raw<'a>>,
    ) {
        // Of a span's events with one message each, the user's last one is the question.
        let is_event = matches!(source.read, FactPlace::Event(_) | FactPlace::EventObject(_));
        if source.role == Role::UserInput && is_event {
            raws.reverse();
        }
        for raw in raws.drain(..) {
            self.take_one(source, number, at, span, raw);
        }
    }

    fn take_one(
        &mut self,
        source: &'a PlannedSource,
        number: u16,
        at: u32,
        span: &Span<'a>,
        raw: Raw<'a>,
    ) {
        let found = |raw| FoundValue::new(number, at, span, raw);
        match source.role {
            Role::SessionId => id_of_trace(&mut self.session, &source.source, number, raw),
            Role::UserId => id_of_trace(&mut self.user, &source.source, number, raw),
            Role::AgentName => self.agent(&source.source, number, at, raw),
            Role::UserInput => self.inputs.push(found(raw)),
            Role::FinalOutput => self.outputs.push(found(raw)),
            Role::OutputMessages => {
                self.has_bodies |= source.source.fallback;
                self.model_outputs.push(ModelOutput { found: found(raw), calls: None });
            }
            Role::InputMessages => {
                self.has_bodies |= source.source.fallback;
                self.model_inputs.push(found(raw));
            }
            Role::ToolDefinitions => self.definitions.push(found(raw)),
            Role::Model => self.model(&source.source, number, at, raw),
            Role::FinishReason => self.asked_for_tools |= read::asks_for_tools(&source.source, raw),
            _ => self.counts.push(found(raw)),
        }
    }

    /// Returns true if a source of a lower rank already gave every value that this one could.
    fn is_settled(&self, source: &PlannedSource, rank: u16) -> bool {
        let known = match source.role {
            Role::SessionId => &self.session,
            Role::UserId => &self.user,
            _ => return false,
        };
        known.as_ref().is_some_and(|(known, _)| *known <= rank)
    }

    fn model(&mut self, source: &FactSource, rank: u16, at: u32, raw: Raw<'a>) {
        let Some(model) = read::text(source, raw) else { return };
        match self.named_models.last_mut() {
            Some((span, known, _)) if *span == at && *known <= rank => {}
            Some(last) if last.0 == at => *last = (at, rank, model),
            _ => self.named_models.push((at, rank, model)),
        }
    }

    /// Returns the models by span, in start order.
    pub(super) fn models(&self) -> impl Iterator<Item = &Cow<'a, str>> {
        self.named_models.iter().map(|(_, _, model)| model)
    }

    fn agent(&mut self, source: &FactSource, number: u16, at: u32, raw: Raw<'a>) {
        let rank = if source.fallback { number | FALLBACK } else { number };
        let Some(place) = self.agents.get_mut(at as usize) else { return };
        if place.as_ref().is_some_and(|(known, _)| *known <= rank) {
            return;
        }
        if let Some(name) = read::name(source, raw) {
            *place = Some((rank, name));
        }
    }

    /// Returns for each span the index of the nearest enclosing span with its agent's name, or
    /// [`NONE`]; empty without such spans.
    pub(super) fn enclosing_agents(&self, tree: &Tree<'a>) -> Vec<u32> {
        let ranks = || self.agents.iter().flatten().map(|(rank, _)| rank & FALLBACK);
        let any = ranks().next().is_some();
        let any_own = ranks().any(|rank| rank == 0);
        if !any {
            return Vec::new();
        }
        let named = |at: u32, fallback: bool| match self.agents.get(at as usize) {
            Some(Some((rank, _))) if fallback || rank & FALLBACK == 0 => at,
            _ => NONE,
        };
        let mut nearest = Vec::new();
        if any_own {
            nearest = tree.inherit(|at| named(at, false));
            if !nearest.contains(&NONE) {
                return nearest;
            }
        }
        let other = tree.inherit(|at| named(at, true));
        if nearest.is_empty() {
            return other;
        }
        let or = |(own, other): (u32, u32)| if own == NONE { other } else { own };
        nearest.into_iter().zip(other).map(or).collect()
    }

    /// Sets the caller, given the index of the span that names each call's agent. If the calls
    /// nearest to the root are in no agent's span, the span around them names the agent. A workflow
    /// may name the agent whose sub-agents have their own spans; the steps of a graph may call
    /// themselves agents next to the tools that they request.
    pub(super) fn note_caller(
        &mut self,
        tree: &Tree<'a>,
        agents: &[u32],
        calls: impl Iterator<Item = u32> + Clone,
    ) {
        if !self.agents.iter().flatten().any(|(rank, _)| rank & FALLBACK != 0) {
            return;
        }
        let depths = depths(&tree.spans.iter().map(|span| span.parent).collect::<Vec<_>>());
        let depth = |span: &u32| depths.get(*span as usize).copied().unwrap_or(NONE);
        let Some(least) = calls.clone().map(|span| depth(&span)).min() else { return };
        let mut caller = None;
        let outermost = calls.filter(|span| depth(span) == least);
        for at in outermost.filter_map(|span| agents.get(span as usize).copied()) {
            match self.agents.get(at as usize) {
                Some(Some((rank, _))) if rank & FALLBACK != 0 => caller = caller.or(Some(at)),
                Some(Some(_)) => return,
                _ => {}
            }
        }
        self.caller = caller;
    }

    /// Returns the agent that called, or that started first.
    pub(super) fn first_agent(&self) -> Option<&Cow<'a, str>> {
        self.named_at(self.first_agent_source()?.0)
    }

    /// Returns the index of the span that names that agent, and the rank of the source.
    pub(super) fn first_agent_source(&self) -> Option<(u32, u16)> {
        let named = (0..).zip(&self.agents);
        let ranks = || named.clone().filter_map(|(at, it)| Some((at, it.as_ref()?.0)));
        let caller = || ranks().find(|(at, _)| self.caller == Some(*at));
        let own = || ranks().find(|(_, rank)| rank & FALLBACK == 0);
        caller().or_else(own).or_else(|| ranks().next())
    }

    pub(super) fn agent_of(&self, at: u32, effort: &WorkBudget) -> Option<Cow<'a, str>> {
        copied(self.named_at(at)?, effort)
    }

    /// Returns the agent named by the span at an index.
    pub(super) fn agent_named_at(&self, at: u32) -> Option<&str> {
        self.named_at(at).map(|name| &**name)
    }

    fn named_at(&self, at: u32) -> Option<&Cow<'a, str>> {
        self.agents.get(at as usize)?.as_ref().map(|(_, name)| name)
    }
}

/// Takes an id of the trace, unless one of a lower rank is known.
fn id_of_trace<'a>(
    place: &mut Option<(u16, Cow<'a, str>)>,
    source: &FactSource,
    rank: u16,
    raw: Raw<'a>,
) {
    if place.as_ref().is_some_and(|(known, _)| *known <= rank) {
        return;
    }
    if let Some(id) = read::id(source, raw) {
        *place = Some((rank, id));
    }
}

/// Returns true if a source reads a key prefix that no attribute has.
fn is_missing(source: &PlannedSource, attributes: &[Attribute<'_>]) -> bool {
    let prefix = source.source.key.as_bytes();
    matches!(source.read, FactPlace::Prefix)
        && !attributes.iter().any(|(key, _)| key.starts_with(prefix))
}

/// Reads the calls of a model's answer if that needs no message to be built.
fn flat_calls<'a>(
    source: &PlannedSource,
    attributes: &[Attribute<'a>],
) -> Option<Vec<MessageCall<'a>>> {
    let is_flat = matches!((source.role, &source.read), (Role::OutputMessages, FactPlace::Prefix))
        && source.source.decode.is_plain();
    is_flat.then(|| flat::calls(&source.source.key, attributes)).flatten()
}

/// Rank bit of sources that only count without any other value.
pub(super) const FALLBACK: u16 = 1 << 15;

#[cfg(test)]
mod tests {
    use crate::testing::{resolved, span, text};
    use spanscore_base::model::Facts;
    use spanscore_base::model::trajectory::MODELS_MAX;

    /// Checks the models and the user of a trace whose spans have these attributes.
    fn check(spans: &[&[(&str, &str)]], models: &[&str], user: Option<&str>) {
        let spans = (1..).zip(spans).map(|(id, attributes)| {
            let attributes = attributes.iter().map(|(key, value)| text(key, value)).collect();
            let mut span = span(id, "chat", attributes);
            (span.start_time_unix_nano, span.end_time_unix_nano) = (u64::from(id), 100);
            span
        });
        let needs = Facts { usage: true, user_id: true, ..Facts::default() };
        resolved(needs, spans.collect(), |trajectory| {
            assert_eq!(trajectory.models, models);
            assert_eq!(trajectory.user_id.as_deref(), user);
        });
    }

    #[test]
    fn models_stand_in_the_order_of_their_last_naming() {
        let request = "gen_ai.request.model";
        let response = "gen_ai.response.model";
        check(
            &[&[(request, "a"), (response, "a-1")], &[(response, "a-1"), (request, "a")]],
            &["a-1"],
            None,
        );
        check(
            &[&[(request, "a")], &[("llm.model_name", "b")], &[(request, "a")]],
            &["b", "a"],
            None,
        );
        let names: Vec<String> = (0..=MODELS_MAX).map(|at| at.to_string()).collect();
        let named: Vec<_> = names.iter().map(|name| [(request, name.as_str())]).collect();
        let spans: Vec<&[_]> = named.iter().map(|it| &it[..]).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        check(&spans[1..], &names[1..], None);
        check(&spans, &names[1..], None);
    }

    #[test]
    fn user_is_of_the_first_source_on_any_span() {
        check(&[&[("enduser.id", "e")], &[("user.id", "u")]], &[], Some("u"));
        check(&[&[("user.id", "")], &[("enduser.id", "e")]], &[], Some("e"));
        check(&[&[("metadata.userId", "u")]], &[], None);
        check(&[&[("metadata.userId", "u"), ("openinference.span.kind", "LLM")]], &[], Some("u"));
        let metadata = ("metadata", r#"{"user_id": 17}"#);
        check(&[&[metadata, ("langwatch.span.type", "llm")]], &[], Some("17"));
        check(&[&[metadata]], &[], None);
    }
}
