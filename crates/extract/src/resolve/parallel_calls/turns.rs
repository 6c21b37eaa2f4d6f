//! Turns: the calls of one agent between two of its model calls, for calls without a message.
//!
//! A model call belongs to an agent like a tool call does, by the nearest span that names one.
//! Several spans of a run may name the agent: the run is the outermost of them with both model and
//! tool calls. Sibling spans that name one agent, with only one kind of calls each, are parts of
//! one run. The inside of a call is a run of its own.
//!
//! Two cases are decided by time instead. A model span that is the only one of its run and lasts
//! longer than a call is no turn: it is the whole conversation of a library that calls the model
//! repeatedly. Calls before the first model span have no recorded request: that span is the
//! answer's.

use hashbrown::HashMap;

use super::sets::Sets;
use super::{CallPlace, Nest};
use crate::resolve::gather::Gathered;
use crate::resolve::tree::{NONE, Tree};
use spanscore_base::model::{Origin, ToolCall};

/// Joins the calls without a message.
pub(super) fn join(
    tree: &Tree<'_>,
    gathered: &Gathered<'_>,
    agents: &[u32],
    nest: &Nest,
    calls: &[ToolCall<'_>],
    places: &[CallPlace],
    sets: &mut Sets,
) {
    let is_told = |at: usize| places[at].asked.message != NONE;
    if (0..calls.len()).all(is_told) {
        return;
    }
    let models: Vec<u32> = (0..)
        .zip(&tree.spans)
        .filter(|(_, span)| tree.form(span).model)
        .map(|(at, _)| at)
        .collect();
    let runs = Runs::new(tree, gathered, agents, &models, calls, places);
    let scope = |span: u32, around: u32| (runs.of(span), around);
    // Start and end of each scope's model calls, in start order like the spans.
    let mut asked: HashMap<(u32, u32), Vec<(u64, u64)>> = HashMap::new();
    for &model in &models {
        let scope = scope(model, nest.around(tree, model));
        let times = tree.get(model).map_or((0, 0), |it| (it.record.start_ns, it.record.end_ns));
        asked.entry(scope).or_default().push(times);
    }
    let mut turns: HashMap<((u32, u32), usize), u32> = HashMap::new();
    let mut without_models = Vec::new();
    // Calls with a message come first: a turn with one joins its other calls to that message's
    // group, and two messages of one turn are not joined.
    let (told, untold): (Vec<u32>, Vec<u32>) =
        (0..calls.len() as u32).partition(|at| is_told(*at as usize));
    for at in told.into_iter().chain(untold) {
        let scope = scope(places[at as usize].span, nest.outer[at as usize]);
        let is_told = is_told(at as usize);
        let call = &calls[at as usize];
        let outlasts = |models: &&Vec<(u64, u64)>| {
            let [(start, end)] = models[..] else { return false };
            start <= call.start_ns && end >= call.end_ns
        };
        let Some(models) = asked.get(&scope).filter(|models| !outlasts(models)) else {
            if !is_told {
                without_models.push(at);
            }
            continue;
        };
        let turn = models.partition_point(|(start, _)| *start <= call.start_ns);
        // No model span requested the calls before the first one: only time is left.
        if turn == 0 && !is_told {
            without_models.push(at);
            continue;
        }
        let first = *turns.entry((scope, turn)).or_insert(at);
        if !is_told {
            sets.join(first, at);
        }
    }
    join_overlapping(calls, nest, without_models, sets);
}

/// Joins calls that overlap in time, transitively.
fn join_overlapping(calls: &[ToolCall<'_>], nest: &Nest, mut those: Vec<u32>, sets: &mut Sets) {
    let outer = |at: u32| nest.outer[at as usize];
    let start = |at: u32| calls[at as usize].start_ns;
    those.sort_by_key(|at| (outer(*at), start(*at)));
    let mut last = None;
    for at in those {
        let call = &calls[at as usize];
        last = match last {
            Some((known, end)) if outer(known) == outer(at) && start(at) < end => {
                sets.join(known, at);
                Some((at, call.end_ns.max(end)))
            }
            _ => Some((at, call.end_ns)),
        };
    }
}

/// Runs of agents: for each span the index of its run's representative span.
struct Runs {
    of: Vec<u32>,
}

impl Runs {
    fn new(
        tree: &Tree<'_>,
        gathered: &Gathered<'_>,
        agents: &[u32],
        models: &[u32],
        calls: &[ToolCall<'_>],
        places: &[CallPlace],
    ) -> Self {
        if agents.is_empty() {
            return Self { of: Vec::new() };
        }
        let on_spans = calls.iter().zip(places).filter(|(call, _)| call.origin == Origin::Span);
        let on_spans: Vec<u32> = on_spans.map(|(_, place)| place.span).collect();
        let has_model = around(tree, models);
        let has_call = around(tree, &on_spans);
        let agent = |span: u32| gathered.agent_named_at(agents.get(span as usize).copied()?);
        let begins = |span: u32| {
            let parent = tree.get(span).map_or(NONE, |span| span.parent);
            agents.get(span as usize) == Some(&span) && agent(parent) != agent(span)
        };
        let mut of = tree.inherit(|span| if begins(span) { span } else { NONE });
        // Sibling spans that are parts of one run.
        let mut parts: HashMap<(&str, u32), u32> = HashMap::new();
        let mut stands_for = vec![NONE; of.len()];
        for span in (0..of.len() as u32).filter(|span| of[*span as usize] == *span) {
            let is_whole = has_model[span as usize] && has_call[span as usize];
            let parent = tree.get(span).map_or(NONE, |span| span.parent);
            let above = of.get(parent as usize).copied().unwrap_or(NONE);
            stands_for[span as usize] = match agent(span) {
                Some(name) if !is_whole => *parts.entry((name, above)).or_insert(span),
                _ => span,
            };
        }
        for run in &mut of {
            *run = stands_for.get(*run as usize).copied().unwrap_or(NONE);
        }
        Self { of }
    }

    fn of(&self, span: u32) -> u32 {
        self.of.get(span as usize).copied().unwrap_or(NONE)
    }
}

/// Returns true for each of the given spans and their ancestors.
fn around(tree: &Tree<'_>, spans: &[u32]) -> Vec<bool> {
    let mut found = vec![false; tree.spans.len()];
    for &span in spans {
        let mut at = span;
        while let Some(place) = found.get_mut(at as usize) {
            if std::mem::replace(place, true) {
                break;
            }
            at = tree.get(at).map_or(NONE, |span| span.parent);
        }
    }
    found
}
