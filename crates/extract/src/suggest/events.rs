//! Suggested sources in log events: an event for a finished tool with the call's id and the input
//! missing on its span.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::markers::SpanMarker;
use super::places::{SeenPlace, ValuePlace, ValueShape, is_about, places};
use super::roles::CallPlaces;
use super::samples::SampleSpan;
use super::words::{INPUTS, is_in};
use super::write::{DialectSuggestion, SuggestedSource};
use spanscore_base::model::TraceId;

/// Parts of a call in events with one name.
struct EventCalls<'p> {
    event: &'p str,
    count: usize,
    /// Places of id, name, arguments or result, and a flag or text of an error.
    parts: Vec<&'p SeenPlace>,
}

/// Adds the events of traces to a suggestion for spans without arguments or results.
pub(super) fn add_events(
    suggestion: &mut DialectSuggestion,
    events: &[SampleSpan],
    traces: &HashSet<TraceId>,
) {
    let is_whole = suggestion.reads("arguments") && suggestion.reads("result");
    let has_inputs = suggestion.messages.iter().any(|(part, _)| *part == "input");
    if is_whole || has_inputs || !suggestion.reads("id") {
        return;
    }
    let mut by_name: BTreeMap<&str, Vec<&SampleSpan>> = BTreeMap::new();
    for event in events.iter().filter(|event| traces.contains(&event.trace_id)) {
        by_name.entry(&event.name).or_default().push(event);
    }
    let seen: Vec<(&str, usize, Vec<SeenPlace>)> = by_name
        .into_iter()
        .map(|(name, of)| (name, of.len(), of_attributes(places(&of))))
        .collect();
    let told = seen.iter().filter_map(|(event, count, seen)| told(event, *count, seen));
    // Reversed, so that the first in order of names wins a tie, independent of arrival.
    if let Some(told) = told.rev().max_by_key(|told| told.parts.len()) {
        let source = SuggestedSource::of_event(told.event, told.count, &told.parts);
        suggestion.messages.push(("input", source));
    }
}

fn of_attributes(seen: Vec<SeenPlace>) -> Vec<SeenPlace> {
    seen.into_iter().filter(|it| matches!(it.place, ValuePlace::Attribute(_))).collect()
}

/// Returns the parts of a call in events with a name, if they include the call's id and its
/// arguments or result.
fn told<'p>(event: &'p str, count: usize, seen: &'p [SeenPlace]) -> Option<EventCalls<'p>> {
    let call = CallPlaces::find(&SpanMarker::Present(String::new()), seen, count);
    // An input is the call's; parameters next to it belong to something else.
    let is_input = |it: &&SeenPlace| {
        let is_worded = is_in(it.last_word(), INPUTS);
        is_worded && !is_about(&it.words) && it.share(ValueShape::Object) >= 0.5
    };
    let arguments = seen.iter().find(is_input).or(call.arguments);
    let id = call.id?;
    let name = call.name?;
    arguments.or(call.result)?;
    let error = call.error.map(super::roles::ErrorPlace::seen);
    let parts = [Some(id), Some(name), arguments, call.result, error];
    Some(EventCalls { event, count, parts: parts.into_iter().flatten().collect() })
}
