//! Facts of a trajectory other than calls: user input, final output, usage, cost, tool definitions.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::hash::BuildHasher;

use hashbrown::HashSet;

use super::super::decode::{Decoded, FoundDefinitions, tool_definitions};
use super::super::dialect::Role;
use super::super::table::Table;
use super::gather::{FoundValue, Gathered};
use super::messages::read_messages;
use super::plan::ReadingPlan;
use super::read;
use super::tree::{NONE, Span, Tree, depths};
use crate::record::layout::FactsReader;
use spanscore_base::model::trajectory::KeptSpan;
use spanscore_base::model::{
    Content, HeardText, HeardTexts, Remarks, SpanFlags, TextOrigin, ToolDefinition, TraceSpans,
    Trajectory, Usage, WorkBudget,
};
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::Value;

/// Limit on model texts read as remarks of one trace.
const REMARKS_MAX: usize = 200;

pub(super) fn fill<'a>(
    plan: &'a ReadingPlan,
    table: &'a Table,
    trace: &'a TraceSpans,
    tree: &Tree<'a>,
    mut gathered: Gathered<'a>,
    trajectory: &mut Trajectory<'a>,
) {
    if let Some(root) = tree.root().and_then(|at| tree.get(at)) {
        trajectory.span_id = root.record.span_id;
        trajectory.span_name = Cow::Borrowed(root.facts.span_name());
        if let Some(resource) = trace.resources.get(root.record.resource as usize) {
            trajectory.resource = resource.clone();
        }
        let response_id = table.response_id.and_then(|slot| root.facts.attribute(slot));
        trajectory.response_id = response_id.and_then(AnyValue::as_str).map(Cow::Borrowed);
        if table.root_attributes {
            trajectory.attributes = root.facts.keyed(table).collect();
        }
    }
    // A span without a start began at its end, at the latest.
    let bounds = tree.spans.iter().map(|span| [span.record.start_ns, span.record.end_ns]);
    let starts = bounds.filter_map(|bounds| bounds.into_iter().find(|ns| *ns > 0));
    trajectory.start_ns = starts.min().unwrap_or(0);
    let ends = tree.spans.iter().map(|span| span.record.end_ns.max(span.record.start_ns));
    trajectory.end_ns = ends.max().unwrap_or(0);
    if trajectory.attributes.is_empty() && tree.spans.is_empty() {
        trajectory.start_ns = tree.logs.first().map_or(0, |log| log.record.start_ns);
    }

    let definitions = std::mem::take(&mut gathered.definitions);
    trajectory.tool_definitions = read_definitions(plan, tree, &gathered, definitions);
    let Gathered { mut inputs, mut outputs, counts, .. } = gathered;
    rank(plan, tree, &mut inputs, &mut outputs);
    trajectory.user_input = first_text(plan, &inputs, |_, _| {});
    trajectory.final_output = first_text(plan, &outputs, |_, _| {});
    if outputs.len() > 1 && !trajectory.tool_calls.is_empty() {
        trajectory.remarks = vec![Remarks::new(move |effort| remarks(plan, &outputs, effort))];
    }
    count(plan, tree, counts, trajectory);
    trajectory.kept_spans = kept_spans(table, tree);
    if table.spans {
        trajectory.spans = tree.spans.iter().filter_map(|span| span.facts.parts()).collect();
        // Parts are copies for expressions; evaluators do not read them.
        let copied: usize = trajectory.spans.iter().map(|parts| parts.len()).sum();
        trajectory.bytes = trajectory.bytes.saturating_sub(copied);
    }
}

/// Sorts the candidates for the user's input and the final output by precedence.
fn rank<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    inputs: &mut [FoundValue<'a>],
    outputs: &mut [FoundValue<'a>],
) {
    let rank = |found: &FoundValue<'_>| {
        let source = plan.sources.get(usize::from(found.source));
        (source.is_none_or(|source| source.source.fallback), found.source)
    };
    // Of a span's log events the last one is the newest message, hence `!start_ns`.
    let span_start = |found: &FoundValue<'_>| {
        tree.get(found.span).map_or(found.start_ns, |it| it.record.start_ns)
    };
    let aside = AuxiliarySpans::of(tree);
    let is_aside = |found: &FoundValue<'_>| aside.has(found.span);
    inputs.sort_by_key(|found| (is_aside(found), rank(found), span_start(found), !found.start_ns));
    outputs.sort_by_key(|found| (is_aside(found), rank(found), !found.end_ns));
}

/// Spans of model calls that serve the application instead of the user, such as a title for the
/// conversation. Their texts are neither question nor answer of the run.
struct AuxiliarySpans(Vec<u32>);

impl AuxiliarySpans {
    fn of(tree: &Tree<'_>) -> Self {
        let flag = |span: &Span<'_>| span.record.flags.has(SpanFlags::TITLE);
        if !tree.spans.iter().any(flag) {
            return Self(Vec::new());
        }
        let root = tree.root();
        let is_title = |at: u32| root != Some(at) && tree.get(at).is_some_and(flag);
        Self(tree.inherit(|at| if is_title(at) { at } else { NONE }))
    }

    fn has(&self, span: u32) -> bool {
        self.0.get(span as usize).is_some_and(|at| *at != NONE)
    }
}

/// Verdict on a candidate for the user's input or the final output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum TextVerdict {
    /// Chosen.
    Taken,
    /// Never read, since an earlier candidate was chosen.
    #[default]
    NotAsked,
    /// No value from its source.
    Nothing,
    /// Weak: empty, or more than the user's words, so that a later candidate may be better.
    Weak,
    /// A placeholder.
    Redacted,
    /// Truncated or malformed.
    Unreadable,
}

/// Candidate for the user's input or the final output, with its verdict.
pub(super) struct TextCandidate {
    pub(super) source: u16,
    pub(super) span: u32,
    pub(super) verdict: TextVerdict,
}

/// Returns the candidates for the user's input and the final output in order of precedence, with
/// their verdicts.
pub(super) fn told<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    gathered: &Gathered<'a>,
) -> [Vec<TextCandidate>; 2] {
    let mut inputs = gathered.inputs.clone();
    let mut outputs = gathered.outputs.clone();
    rank(plan, tree, &mut inputs, &mut outputs);
    [inputs, outputs].map(|found| {
        let told = |found: &FoundValue<'_>| TextCandidate {
            source: found.source,
            span: found.span,
            verdict: TextVerdict::default(),
        };
        let mut all: Vec<TextCandidate> = found.iter().map(told).collect();
        first_text(plan, &found, |at, verdict| all[at].verdict = verdict);
        all
    })
}

/// Returns the first candidate that is neither empty nor a placeholder; calls `tell` with the
/// verdict on each.
fn first_text<'a>(
    plan: &'a ReadingPlan,
    found: &[FoundValue<'a>],
    mut tell: impl FnMut(usize, TextVerdict),
) -> Content<'a> {
    let mut poor = (Content::NotRecorded, None);
    let mut empty: Option<(u16, u64, bool)> = None;
    for (at, found) in found.iter().enumerate() {
        let Some(source) = plan.sources.get(usize::from(found.source)) else { continue };
        let is_reply = source.source.fallback && source.role == Role::FinalOutput;
        // The newest value of one source counts, even if empty; so does the newest reply of a
        // model, from any source.
        if let Some((known, end_ns, known_is_reply)) = empty
            && (known == found.source || known_is_reply && is_reply && found.end_ns < end_ns)
        {
            continue;
        }
        let end_ns = found.end_ns;
        match read::content(&source.source, found.raw.clone()) {
            Some(content) if content.value().is_some_and(|value| is_weak(source.role, value)) => {
                if content.value().is_some_and(|value| value.as_str() == Some("")) {
                    empty = Some((found.source, end_ns, is_reply));
                }
                tell(at, TextVerdict::Weak);
                poor = if poor.0.is_recorded() { poor } else { (content, Some(at)) };
            }
            Some(content) if content.is_recorded() => {
                tell(at, TextVerdict::Taken);
                return content;
            }
            Some(content) => {
                let is_cut = matches!(content, Content::Unreadable(_));
                tell(at, if is_cut { TextVerdict::Unreadable } else { TextVerdict::Redacted });
                if matches!(poor.0, Content::NotRecorded) {
                    poor = (content, Some(at));
                }
            }
            None => tell(at, TextVerdict::Nothing),
        }
    }
    if let (Content::Recorded(_), Some(at)) = poor {
        tell(at, TextVerdict::Taken);
    }
    poor.0
}

/// Reads the models' messages, each a candidate for the final output.
fn remarks<'a>(
    plan: &'a ReadingPlan,
    outputs: &[FoundValue<'a>],
    effort: &WorkBudget,
) -> Vec<(u64, Value<'a>)> {
    let said = |found: &FoundValue<'a>| {
        let source = plan.sources.get(usize::from(found.source))?;
        let bytes = found.raw.searched().map_or(1, <[u8]>::len);
        let content = effort.spend(bytes).then(|| read::content(&source.source, found.raw.clone()));
        Some((found.end_ns, content??.value()?.clone()))
    };
    outputs.iter().take(REMARKS_MAX).filter_map(said).collect()
}

/// Reads the models' inputs in span order. Models may repeat call ids in each turn, so results are
/// also distinguished by value.
pub(super) fn heard<'a>(plan: &'a ReadingPlan, gathered: &Gathered<'a>) -> HeardTexts<'a> {
    let inputs = gathered.model_inputs.clone();
    // Results of tools run by the model's provider are in its answer.
    let is_answer = move |found: &FoundValue<'_>| {
        let source = plan.sources.get(usize::from(found.source));
        source.is_some_and(|source| source.role == Role::OutputMessages)
    };
    HeardTexts::new(move |effort| {
        let mut known: HashSet<u64> = HashSet::new();
        let mut list = Vec::new();
        for found in &inputs {
            let Some(messages) = read_messages(plan, found.clone(), effort) else { continue };
            let said = messages.heard.into_iter().map(|(is_users, text)| {
                let origin = if is_users { TextOrigin::User } else { TextOrigin::Operator };
                (origin, Cow::Borrowed(""), Value::String(text))
            });
            let results = messages.results.into_iter();
            let told = results.map(|result| (TextOrigin::Tool, result.id, result.value));
            let since_ns = if is_answer(found) { found.end_ns } else { found.start_ns };
            for (origin, id, value) in said.chain(told) {
                let words = value.to_string();
                effort.spend(words.len());
                if known.insert(known.hasher().hash_one((origin == TextOrigin::Tool, &id, words))) {
                    list.push(HeardText { since_ns, origin, id, value });
                }
            }
        }
        list
    })
}

/// Returns true if another source may have a better value: a function around the agent may return
/// nothing, and its arguments may be more than the user's words.
fn is_weak(role: Role, value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Map(_) | Value::List(_) => role == Role::UserInput,
        _ => false,
    }
}

/// Reads tool definitions, first from lists, then from tool spans with a description.
fn read_definitions<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    gathered: &Gathered<'a>,
    mut lists: Vec<FoundValue<'a>>,
) -> Vec<ToolDefinition<'a>> {
    let agents = if lists.len() > 1 { gathered.enclosing_agents(tree) } else { Vec::new() };
    let agent = |span: u32| {
        agents.get(span as usize).and_then(|at| gathered.agent_named_at(*at)).map(str::to_owned)
    };
    let mut found = FoundDefinitions::default();
    lists.sort_by_key(|list| (list.start_ns, list.source));
    let mut last: Option<FoundValue<'a>> = None;
    for list in lists {
        // Every model call repeats the list: equal neighbours are parsed once.
        if last.as_ref().is_some_and(|last| same_text(last, &list)) {
            continue;
        }
        if let Some(source) = plan.sources.get(usize::from(list.source))
            && let Some(Decoded::Value(value)) = read::decoded(&source.source, list.raw.clone())
        {
            found.offer_to(agent(list.span).map(Cow::Owned));
            tool_definitions(value, &mut found);
        }
        last = Some(list);
    }
    if plan.has_schemas {
        described_by_spans(plan, tree, &mut found);
    }
    found.into_list()
}

fn same_text(one: &FoundValue<'_>, other: &FoundValue<'_>) -> bool {
    one.raw.as_str().is_some() && one.raw.as_str() == other.raw.as_str()
}

fn described_by_spans<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    found: &mut FoundDefinitions<'a>,
) {
    let mut raws = Vec::new();
    for span in tree.spans.iter().filter(|span| span.record.flags.has(SpanFlags::TOOL)) {
        let mut first = |role, facts: FactsReader<'a>| {
            tree.form(span).call(role).iter().find_map(|candidate| {
                let source = plan.sources.get(usize::from(candidate.source))?;
                read::raws(source, facts, &mut raws);
                let raw = raws.pop();
                raws.clear();
                read::decoded(&source.source, raw?)?.value().filter(|value| !value.is_null())
            })
        };
        let Some(Value::String(name)) = first(Role::Name, span.facts) else { continue };
        if found.has(&name) {
            continue;
        }
        let Some(schema @ Value::Map(_)) = first(Role::Schema, span.facts) else { continue };
        let description = match first(Role::Description, span.facts) {
            Some(Value::String(text)) => text,
            _ => Cow::Borrowed(""),
        };
        found.add(ToolDefinition { name, description, input_schema: schema, agent: None });
    }
}

/// Token counts and cost of one span.
#[derive(Clone, Copy, Default)]
struct SpanUsage {
    usage: Usage,
    excludes_cache: bool,
    cost: Option<f64>,
}

/// Sums counts over the innermost spans with counts, since outer ones repeat the sums.
fn count<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    mut counts: Vec<FoundValue<'a>>,
    trajectory: &mut Trajectory<'a>,
) {
    if counts.is_empty() {
        return;
    }
    counts.sort_by_key(|found| (found.span, found.source));
    let mut spans: Vec<(u32, SpanUsage)> = Vec::new();
    for found in counts {
        if spans.last().is_none_or(|(span, _)| *span != found.span) {
            spans.push((found.span, SpanUsage::default()));
        }
        if let Some((_, counts)) = spans.last_mut() {
            counts.take(plan, found);
        }
    }
    let usage =
        |counts: &SpanUsage| counts.usage.input_tokens.or(counts.usage.output_tokens).is_some();
    let innermost = innermost(tree, &spans, usage);
    for (_, counts) in spans.iter().zip(innermost).filter(|(_, inner)| *inner).map(|(s, _)| s) {
        counts.add_to(&mut trajectory.usage);
        *trajectory.usage.model_calls.get_or_insert(0) += 1;
    }
    let cost = innermost_cost(tree, &spans);
    trajectory.cost = cost;
}

fn innermost_cost(tree: &Tree<'_>, spans: &[(u32, SpanUsage)]) -> Option<f64> {
    let has_cost = |counts: &SpanUsage| counts.cost.is_some();
    let inner = innermost(tree, spans, has_cost);
    let costs = spans.iter().zip(inner).filter(|(_, inner)| *inner);
    let costs: Vec<f64> = costs.filter_map(|((_, counts), _)| counts.cost).collect();
    (!costs.is_empty()).then(|| costs.iter().sum::<f64>().min(f64::MAX))
}

/// Returns true for each entry that counts and has no counting span inside.
fn innermost(
    tree: &Tree<'_>,
    spans: &[(u32, SpanUsage)],
    counts: impl Fn(&SpanUsage) -> bool,
) -> Vec<bool> {
    let mut outer = vec![false; tree.spans.len()];
    for (span, _) in spans.iter().filter(|(_, found)| counts(found)) {
        let mut at = tree.get(*span).map_or(NONE, |span| span.parent);
        while let Some(parent) = tree.get(at) {
            if std::mem::replace(&mut outer[at as usize], true) {
                break;
            }
            at = parent.parent;
        }
    }
    let is_outer = |span: u32| outer.get(span as usize).copied().unwrap_or(false);
    spans.iter().map(|(span, found)| counts(found) && !is_outer(*span)).collect()
}

impl SpanUsage {
    fn take(&mut self, plan: &ReadingPlan, found: FoundValue<'_>) {
        let Some(source) = plan.sources.get(usize::from(found.source)) else { return };
        let number = match read::decoded(&source.source, found.raw) {
            Some(Decoded::Value(Value::Number(number))) => number.as_f64(),
            Some(Decoded::Value(Value::String(text))) => match text.parse() {
                Ok(number) => number,
                Err(_) => return,
            },
            _ => return,
        };
        if !number.is_finite() || number < 0.0 {
            return;
        }
        let place = match source.role {
            Role::UsageInput => {
                self.excludes_cache |= plan
                    .dialects
                    .get(usize::from(source.dialect))
                    .is_some_and(|dialect| dialect.input_excludes_cache);
                &mut self.usage.input_tokens
            }
            Role::UsageOutput => &mut self.usage.output_tokens,
            Role::UsageCacheRead => &mut self.usage.cache_read_tokens,
            Role::UsageCacheWrite => &mut self.usage.cache_write_tokens,
            Role::UsageReasoning => &mut self.usage.reasoning_tokens,
            _ => {
                self.cost = self.cost.or(Some(number));
                return;
            }
        };
        place.get_or_insert(number as u64);
    }

    fn add_to(&self, sum: &mut Usage) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        let own = self.usage;
        let mut input = own.input_tokens;
        if self.excludes_cache {
            add(&mut input, own.cache_read_tokens);
            add(&mut input, own.cache_write_tokens);
        }
        add(&mut sum.input_tokens, input);
        add(&mut sum.output_tokens, own.output_tokens);
        add(&mut sum.cache_read_tokens, own.cache_read_tokens);
        add(&mut sum.cache_write_tokens, own.cache_write_tokens);
        add(&mut sum.reasoning_tokens, own.reasoning_tokens);
    }
}

/// Returns the spans with attributes that an evaluator needs, by end. Spans that end together are
/// ordered inner before outer, then by start.
fn kept_spans<'a>(table: &'a Table, tree: &Tree<'a>) -> Vec<KeptSpan<'a>> {
    let mut kept = Vec::new();
    if table.groups().is_empty() {
        return kept;
    }
    for span in in_order_of_ends(tree) {
        let present = |group: &&Vec<_>| {
            group.first().is_some_and(|first| span.facts.attribute(*first).is_some())
        };
        let groups: Vec<_> = table.groups().iter().filter(present).collect();
        if groups.is_empty() {
            continue;
        }
        let attributes = span.facts.attributes();
        let wanted = attributes.filter(|(slot, _)| groups.iter().any(|group| group.contains(slot)));
        kept.push(KeptSpan {
            span_id: span.record.span_id,
            start_ns: span.record.start_ns,
            end_ns: span.record.end_ns,
            attributes: wanted.map(|(slot, value)| (table.key(slot), value)).collect(),
        });
    }
    kept
}

fn in_order_of_ends<'t, 'a>(tree: &'t Tree<'a>) -> Vec<&'t Span<'a>> {
    let mut spans: Vec<_> = (0..).zip(&tree.spans).collect();
    spans.sort_by_key(|(_, span)| span.record.end_ns);
    let mut ends = spans.array_windows();
    if ends.any(|[(_, one), (_, next)]| one.record.end_ns == next.record.end_ns) {
        let depths = depths(&tree.spans.iter().map(|span| span.parent).collect::<Vec<_>>());
        spans.sort_by_key(|(at, span): &(usize, _)| (span.record.end_ns, Reverse(depths[*at])));
    }
    spans.into_iter().map(|(_, span)| span).collect()
}
