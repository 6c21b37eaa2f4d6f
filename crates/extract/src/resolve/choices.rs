//! Alternative choices of one model request (`n` above 1): the run continues with one of them, and
//! the calls of the others were never made.
//!
//! The messages of an answer may also be parts of one choice. They are choices only if each
//! requests the same tools; the one with executed or answered calls counts, else the first.

use std::ops::Range;

use super::gather::FoundValue;
use super::messages::{LlmCall, RequestedAs};
use super::tree::{NONE, Tree};
use spanscore_base::model::WorkBudget;

/// Marks the calls of unused choices. Requests of one message are adjacent.
pub(super) fn drop_others(
    tree: &Tree<'_>,
    inputs: &[FoundValue<'_>],
    requested: &mut [LlmCall<'_>],
    effort: &WorkBudget,
) {
    // Calls may wait for a person while others have run.
    let none_ran = !requested.iter().any(|call| call.on_span);
    let mut begin = 0;
    while begin < requested.len() {
        let first = &requested[begin];
        let span = first.span;
        let message = first.asked.message;
        let same = |call: &&LlmCall<'_>| call.span == span && call.asked.message == message;
        let end = begin + requested[begin..].iter().take_while(same).count();
        let is_model = tree.get(span).is_some_and(|span| tree.form(span).model);
        if end - begin > 1 && message != NONE && is_model && effort.spend(end - begin) {
            drop_others_of(inputs, &mut requested[begin..end], none_ran, effort);
        }
        begin = end;
    }
}

/// Bytes of a text searched for a word in one step.
const BYTES_PER_STEP: usize = 16;

fn drop_others_of(
    inputs: &[FoundValue<'_>],
    calls: &mut [LlmCall<'_>],
    none_ran: bool,
    effort: &WorkBudget,
) {
    let choices = choices(calls);
    let [first, others @ ..] = &choices[..] else { return };
    let tools = |choice: &Range<usize>| {
        let mut names: Vec<&str> = calls[choice.clone()].iter().map(|it| &*it.call.name).collect();
        names.sort_unstable();
        names
    };
    if others.is_empty() || others.iter().any(|choice| tools(choice) != tools(first)) {
        return;
    }
    let is_taken = |call: &LlmCall<'_>| {
        let is_answered = |id: &str| {
            inputs.iter().any(|found| {
                let bytes = found.raw.searched().map_or(0, <[u8]>::len);
                effort.spend(1 + bytes / BYTES_PER_STEP) && found.raw.may_hold(id)
            })
        };
        call.on_span || call.call.id.as_deref().is_some_and(is_answered)
    };
    let taken: Vec<bool> =
        choices.iter().map(|choice| calls[choice.clone()].iter().any(is_taken)).collect();
    let none_is = !taken.contains(&true);
    // All were executed or answered, so they were no choices.
    if taken.iter().all(|taken| *taken) || none_is && !none_ran {
        return;
    }
    for (at, choice) in choices.iter().enumerate() {
        let is_it = if none_is { at == 0 } else { taken[at] };
        if !is_it {
            calls[choice.clone()].iter_mut().for_each(|call| call.role = RequestedAs::OtherChoice);
        }
    }
}

/// Returns the ranges of calls per message of an answer.
fn choices(calls: &[LlmCall<'_>]) -> Vec<Range<usize>> {
    let mut choices: Vec<Range<usize>> = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        match choices.last_mut() {
            Some(last) if calls[last.start].asked.part == call.asked.part => last.end = at + 1,
            _ => choices.push(at..at + 1),
        }
    }
    choices
}
