//! Calls that only stand in the history of the next request: some instrumentations do not record
//! what a model answered where it asks for tools.
//!
//! What a model was given repeats all that was said before. Of each request the calls that an
//! earlier request of the same conversation does not have were asked for by the model call between
//! the two.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};

use super::super::decode::MessageCall;
use super::gather::{FoundValue, Gathered};
use super::join::weight;
use super::messages::{Asked, LlmCall, may_hold_call, read_messages};
use super::plan::ReadingPlan;
use super::tree::{NONE, Tree};
use crate::model::Effort;

/// How many earlier requests are looked through for the one that a request goes on from: as many
/// conversations may be under way at once.
const EARLIER_MAX: usize = 16;

/// A model call, with the calls in what the model was given.
struct ModelCall<'a> {
    span: u32,
    start_ns: u64,
    end_ns: u64,
    given: Vec<MessageCall<'a>>,
}

/// The calls that models asked for, by what they were given next.
pub(super) fn requested<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    gathered: &Gathered<'a>,
    effort: &Effort,
) -> Vec<LlmCall<'a>> {
    let inputs = &gathered.model_inputs;
    if !inputs.iter().any(may_hold_call) {
        return Vec::new();
    }
    let models = model_calls(plan, tree, inputs, effort);
    let mut first_of: HashMap<u32, &FoundValue<'a>> = HashMap::new();
    for found in inputs {
        first_of.entry(found.span).or_insert(found);
    }
    let (mut requested, mut known): (Vec<LlmCall<'a>>, HashSet<Cow<'a, str>>) = Default::default();
    let mut message = 0;
    for (at, model) in models.iter().enumerate() {
        let Some((before, count)) = goes_on_from(&models[..at], model, effort) else {
            known.extend(model.given.iter().filter_map(|call| call.id.clone()));
            continue;
        };
        let found = first_of.get(&model.span).filter(|_| model.given.len() > count);
        let Some(found) = found else { continue };
        for call in &model.given[count..] {
            if call.id.as_ref().is_some_and(|id| !known.insert(id.clone())) {
                continue;
            }
            let mut asked = LlmCall::new(plan, call.clone(), found);
            (asked.span, asked.time_ns) = (before.span, before.end_ns);
            let order = requested.len() as u32;
            asked.asked = Asked { order, message, time_ns: before.end_ns };
            requested.push(asked);
        }
        message += 1;
    }
    requested
}

/// The model calls of a trace in order, with what each was given.
fn model_calls<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    inputs: &[FoundValue<'a>],
    effort: &Effort,
) -> Vec<ModelCall<'a>> {
    let mut inputs: Vec<_> = inputs.iter().filter(|found| found.span != NONE).collect();
    inputs.sort_by_key(|found| (found.span, found.source));
    let mut models = Vec::new();
    let mut rest = &inputs[..];
    for (at, span) in (0..).zip(&tree.spans) {
        let count = rest.iter().take_while(|found| found.span == at).count();
        let (own, later) = rest.split_at(count);
        rest = later;
        if own.is_empty() && !tree.form(span).shape.model {
            continue;
        }
        let given = own
            .iter()
            .filter(|found| may_hold_call(found))
            .filter_map(|found| Some(read_messages(plan, (*found).clone(), effort)?.calls));
        let (start_ns, end_ns) = (span.record.start_ns, span.record.end_ns);
        // Each message may be an event of its own; of several readings of one request the fullest
        // counts.
        let is_split = own.iter().any(|found| found.start_ns != start_ns);
        let given = if is_split {
            given.flatten().collect()
        } else {
            given.max_by_key(Vec::len).unwrap_or_default()
        };
        models.push(ModelCall { span: at, start_ns, end_ns: end_ns.max(start_ns), given });
    }
    models
}

/// The last of the earlier model calls with the longest beginning of what this one was given, and
/// how many calls that is; `None` for the first one.
fn goes_on_from<'m, 'a>(
    earlier: &'m [ModelCall<'a>],
    model: &ModelCall<'a>,
    effort: &Effort,
) -> Option<(&'m ModelCall<'a>, usize)> {
    let mut best: Option<(&ModelCall<'a>, usize)> = None;
    // Those that have not ended are passed over, however many there are.
    let looked_at = earlier.iter().rev().take_while(|_| effort.spend(1));
    let ended = looked_at.filter(|before| before.end_ns <= model.start_ns);
    for before in ended.take(EARLIER_MAX) {
        let count = before.given.len();
        let is_longer = best.is_none_or(|(_, known)| count > known);
        if is_longer && count <= model.given.len() && begins_with(&model.given, before, effort) {
            best = Some((before, count));
        }
    }
    best
}

fn begins_with(given: &[MessageCall<'_>], before: &ModelCall<'_>, effort: &Effort) -> bool {
    before.given.iter().zip(given).all(|(one, other)| match (&one.id, &other.id) {
        (Some(one), Some(other)) => one == other,
        _ => {
            effort.spend(weight(&one.arguments))
                && one.name == other.name
                && one.arguments == other.arguments
        }
    })
}
