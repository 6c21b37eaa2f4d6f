//! Turns: the calls of one agent between two of its model calls, for calls that no message has.
//!
//! A model call belongs to an agent as a tool call does, by the nearest span that names one. Spans
//! of one agent's run may each name it: a run is the outermost span that does and that holds model
//! calls as well as tool calls; spans beside each other that name one agent and hold only one of
//! both are parts of one run. The inside of a call is a run of its own.
//!
//! Two cases are decided by time instead. A model span that is the only one of its run and lasts
//! longer than a call is no turn: it is the whole conversation of a library that calls the model
//! again by itself. Calls before the first model span have no model call that asked for them: that
//! span is the one of the answer alone.

use hashbrown::HashMap;

use super::sets::Sets;
use super::{CallPlace, Nest};
use crate::resolve::gather::Gathered;
use crate::resolve::tree::{NONE, Tree};
use spanscore_base::model::{Origin, ToolCall};

/// Joins the calls that no message has.
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
    // Start and end of the model calls of each scope; in start order, as the spans are.
    let mut asked: HashMap<(u32, u32), Vec<(u64, u64)>> = HashMap::new();
    for &model in &models {
        let scope = scope(model, nest.around(tree, model));
        let times = tree.get(model).map_or((0, 0), |it| (it.record.start_ns, it.record.end_ns));
        asked.entry(scope).or_default().push(times);
    }
    let mut turns: HashMap<((u32, u32), usize), u32> = HashMap::new();
    let mut without_models = Vec::new();
    // Calls with a message first: a turn that has one joins its other calls to that message's
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
        // No model span asked for calls before the first of them: only time is left.
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

/// Runs of agents: for each span the index of the span that stands for its run.
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
        // Spans beside each other that are parts of one run.
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

/// Returns for each span true if it is one of some spans or has one of them within it.
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
