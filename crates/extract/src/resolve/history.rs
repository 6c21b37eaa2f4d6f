//! Calls known only from the history in a model's next request: some instrumentations do not record
//! the answers in which models request tools.
//!
//! A model's input repeats all earlier messages. Calls missing from an earlier request of the same
//! conversation were requested by the model call between the two. In the first request, the calls
//! after the user's last message also belong to the run, though no span shows which model call
//! requested them. If that request is all of its trace, they belong to another trace.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};

use super::super::decode::{MessageCall, Messages};
use super::gather::{FoundValue, Gathered};
use super::join::weight;
use super::messages::{Asked, LlmCall, may_hold_call, read_messages};
use super::plan::ReadingPlan;
use super::tree::{NONE, Tree};
use spanscore_base::model::WorkBudget;

/// Limit on earlier requests searched for a predecessor, and thus on concurrent conversations.
const EARLIER_MAX: usize = 16;

/// Model call, with the calls in its input.
struct ModelCall<'a> {
    span: u32,
    start_ns: u64,
    end_ns: u64,
    given: Vec<MessageCall<'a>>,
    /// Number of calls before the user's last message.
    before_user: usize,
}

/// Returns the calls requested by models, from their next inputs; also true if there are calls of
/// another trace.
pub(super) fn requested<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    gathered: &Gathered<'a>,
    effort: &WorkBudget,
) -> (Vec<LlmCall<'a>>, bool) {
    let inputs = &gathered.model_inputs;
    if !inputs.iter().any(|found| may_hold_call(plan, found)) {
        return Default::default();
    }
    let models = model_calls(plan, tree, inputs, effort);
    let mut first_of: HashMap<u32, &FoundValue<'a>> = HashMap::new();
    for found in inputs {
        first_of.entry(found.span).or_insert(found);
    }
    let (mut requested, mut known): (Vec<LlmCall<'a>>, HashSet<Cow<'a, str>>) = Default::default();
    let mut message = 0;
    let mut elsewhere = false;
    for (at, model) in models.iter().enumerate() {
        let before = goes_on_from(&models[..at], model, effort);
        let (count, span, time_ns) = match before {
            Some((before, count)) => (count, before.span, before.end_ns),
            None => (model.before_user.min(model.given.len()), model.span, model.start_ns),
        };
        let is_alone = before.is_none()
            && tree.get(model.span).is_none_or(|span| span.record.parent_id.is_none());
        let (earlier, fresh) = model.given.split_at(count);
        if before.is_none() {
            known.extend(earlier.iter().filter_map(|call| call.id.clone()));
        }
        if is_alone {
            elsewhere |= !fresh.is_empty();
            known.extend(fresh.iter().filter_map(|call| call.id.clone()));
            continue;
        }
        let Some(found) = first_of.get(&model.span) else { continue };
        let mut turn = None;
        for call in fresh {
            if call.id.as_ref().is_some_and(|id| !known.insert(id.clone())) {
                continue;
            }
            // Between two requests is one message of a model. Before the first may be several,
            // distinguished by turn.
            let is_next = before.is_none() && turn.is_some_and(|turn| turn != call.turn);
            message += u32::from(is_next);
            turn = Some(call.turn);
            let mut asked = LlmCall::new(plan, call.clone(), found);
            (asked.span, asked.time_ns) = (span, time_ns);
            asked.is_repeated = before.is_none();
            let order = requested.len() as u32;
            asked.asked = Asked { order, message, time_ns, ..Asked::default() };
            requested.push(asked);
        }
        message += 1;
    }
    (requested, elsewhere)
}

/// Returns the model calls of a trace in order, with the calls in their inputs.
fn model_calls<'a>(
    plan: &'a ReadingPlan,
    tree: &Tree<'a>,
    inputs: &[FoundValue<'a>],
    effort: &WorkBudget,
) -> Vec<ModelCall<'a>> {
    let mut inputs: Vec<_> = inputs.iter().filter(|found| found.span != NONE).collect();
    inputs.sort_by_key(|found| (found.span, found.source));
    let mut models = Vec::new();
    let mut rest = &inputs[..];
    for (at, span) in (0..).zip(&tree.spans) {
        let count = rest.iter().take_while(|found| found.span == at).count();
        let (own, later) = rest.split_at(count);
        rest = later;
        if own.is_empty() && !tree.form(span).model {
            continue;
        }
        let start_ns = span.record.start_ns;
        let end_ns = span.record.end_ns;
        let (given, before_user) = given(plan, own, start_ns, effort);
        let end_ns = end_ns.max(start_ns);
        models.push(ModelCall { span: at, start_ns, end_ns, given, before_user });
    }
    models
}

/// Returns the calls in a model's input, and their number before the user's last message. Each
/// message may be an event of its own; of several readings of one request the longest counts.
fn given<'a>(
    plan: &'a ReadingPlan,
    own: &[&FoundValue<'a>],
    start_ns: u64,
    effort: &WorkBudget,
) -> (Vec<MessageCall<'a>>, usize) {
    let mut told = Messages::default();
    let mut fullest = Messages::default();
    for found in own {
        let is_event = found.start_ns != start_ns || found.is_event(plan);
        if !is_event && !may_hold_call(plan, found) {
            continue;
        }
        let Some(mut read) = read_messages(plan, (*found).clone(), effort) else { continue };
        if !is_event {
            if read.calls.len() > fullest.calls.len() {
                fullest = read;
            }
            continue;
        }
        if read.has_user() {
            told.before_user = told.calls.len() + read.before_user;
        }
        told.calls.append(&mut read.calls);
    }
    let fullest = if told.calls.len() > fullest.calls.len() { told } else { fullest };
    (fullest.calls, fullest.before_user)
}

/// Returns the predecessor of a model call: the last earlier call whose input is the longest prefix
/// of this one's, with its number of calls; `None` for the first call.
fn goes_on_from<'m, 'a>(
    earlier: &'m [ModelCall<'a>],
    model: &ModelCall<'a>,
    effort: &WorkBudget,
) -> Option<(&'m ModelCall<'a>, usize)> {
    let mut best: Option<(&ModelCall<'a>, usize)> = None;
    // Unfinished calls do not count towards the limit, but each costs a step.
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

fn begins_with(given: &[MessageCall<'_>], before: &ModelCall<'_>, effort: &WorkBudget) -> bool {
    before.given.iter().zip(given).all(|(one, other)| match (&one.id, &other.id) {
        (Some(one), Some(other)) => one == other,
        _ => {
            effort.spend(weight(&one.arguments))
                && one.name == other.name
                && one.arguments == other.arguments
        }
    })
}
