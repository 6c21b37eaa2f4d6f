//! Scoring of places: the best place for each part of a call on the spans of tool calls, and for
//! session and agent on all spans.
//!
//! A place gets points for the words of its key and the shape of its values, minus some for an
//! unlikely kind of place. The most points win, then the most spans.

use hashbrown::HashMap;

use super::markers::{SpanMarker, has_number, names_tool};
use super::places::{SeenPlace, ValuePlace, ValueShape, is_about};
use super::samples::SampleSpan;
use super::words::{
    AGENTS, ANSWERS, ARGUMENTS, CALLING, ERRORS, HOLDERS, INPUTS, OUTCOMES, REQUESTS, RESULTS,
    SAYINGS, SESSIONS, TOOLS, any_in, is_in, is_tool_kind,
};

/// Parts of a call with their likeliest places.
pub(super) struct CallPlaces<'p> {
    pub(super) name: Option<&'p SeenPlace>,
    pub(super) id: Option<&'p SeenPlace>,
    pub(super) arguments: Option<&'p SeenPlace>,
    pub(super) result: Option<&'p SeenPlace>,
    pub(super) error: Option<ErrorPlace<'p>>,
}

/// Place that shows a call's failure.
#[derive(Clone, Copy)]
pub(super) enum ErrorPlace<'p> {
    /// Text with the reason.
    Text(&'p SeenPlace),
    /// Boolean, and its value for a failure.
    Flag(&'p SeenPlace, bool),
    /// Word, and its value for a failure.
    Word(&'p SeenPlace, &'p str),
}

impl<'p> ErrorPlace<'p> {
    pub(super) fn seen(self) -> &'p SeenPlace {
        match self {
            Self::Text(seen) | Self::Flag(seen, _) | Self::Word(seen, _) => seen,
        }
    }
}

impl<'p> CallPlaces<'p> {
    pub(super) fn find(marker: &SpanMarker, places: &'p [SeenPlace], total: usize) -> Self {
        let name = best(places, total, |seen| name_points(marker, seen, total));
        let others = |seen: &SeenPlace| name.is_none_or(|name| name.place != seen.place);
        let id = best(places, total, |seen| if others(seen) { id_points(seen) } else { 0 });
        let arguments = best(places, total, arguments_points);
        let taken = |seen: &SeenPlace| {
            [name, id, arguments].into_iter().flatten().any(|taken| taken.place == seen.place)
        };
        let result = best(places, total, |seen| if taken(seen) { 0 } else { result_points(seen) });
        let error = places.iter().filter(|seen| !taken(seen)).find_map(error_place);
        Self { name, id, arguments, result, error }
    }

    /// Returns the points of the found parts, weighted by the share of spans with them.
    pub(super) fn weight(&self, total: usize) -> u32 {
        let of = |seen: Option<&SeenPlace>, weight: usize| {
            seen.map_or(0, |seen| (weight * seen.count / total.max(1)) as u32)
        };
        of(self.name, 30) + of(self.arguments, 30) + of(self.result, 30) + of(self.id, 5)
    }
}

/// Fewest points of a place that counts.
const POINTS_MIN: i32 = 4;

fn best(
    places: &[SeenPlace],
    total: usize,
    points: impl Fn(&SeenPlace) -> i32,
) -> Option<&SeenPlace> {
    let rated = places.iter().map(|seen| {
        let out_of_the_way = match seen.place {
            ValuePlace::Attribute(_) | ValuePlace::SpanName => 0,
            ValuePlace::Event(..) | ValuePlace::Prefix(_) => 1,
            ValuePlace::Entry(..) => 3,
        };
        let numbered = if has_number(&seen.words) { 4 } else { 0 };
        (points(seen) - out_of_the_way - numbered, seen.count * 100 / total.max(1), seen)
    });
    let found = rated.filter(|(points, ..)| *points >= POINTS_MIN);
    // Reversed, so that the first in order of places wins a tie, independent of arrival.
    found.rev().max_by_key(|(points, share, _)| (*points, *share)).map(|(.., seen)| seen)
}

/// Returns the key's word for the fact: the last one except holders (`value`, `json`).
fn content_word(seen: &SeenPlace) -> &str {
    let said = seen.words.iter().rev().find(|word| !is_in(word, HOLDERS));
    said.map_or("", String::as_str)
}

fn name_points(marker: &SpanMarker, seen: &SeenPlace, total: usize) -> i32 {
    let is_word = seen.share(ValueShape::Word) >= 0.9;
    let is_everywhere = seen.count * 2 >= total;
    if let ValuePlace::SpanName = seen.place {
        return match marker {
            SpanMarker::NamePrefix(_) => 7,
            _ if is_word && !seen.texts.iter().any(|text| is_tool_kind(text, TOOLS)) => 4,
            _ => 0,
        };
    }
    if !is_word || !is_everywhere {
        return 0;
    }
    if names_tool(seen) {
        return 10;
    }
    let other = [
        "model", "session", "service", "user", "host", "scope", "thread", "workflow", "server",
        "provider", "system", "operation", "project", "environment", "class",
    ];
    if seen.last_word() != "name" || any_in(&seen.words, &other) || any_in(&seen.words, AGENTS) {
        return 0;
    }
    let constant = total > 2 && seen.distinct() == 1;
    let is_numbered = total > 3 && seen.distinct() == total;
    6 - i32::from(constant) * 3 - i32::from(is_numbered) * 3
}

fn id_points(seen: &SeenPlace) -> i32 {
    let is_own = seen.distinct() * 10 >= seen.count * 9;
    let other = ["session", "conversation", "trace", "parent", "user", "agent", "project"];
    if seen.share(ValueShape::Word) < 0.9 || !is_own || any_in(&seen.words, &other) {
        return 0;
    }
    let is_call = any_in(&seen.words, CALLING) || any_in(&seen.words, &["toolcall"]);
    match seen.last_word() {
        "id" | "callid" if is_call && any_in(&seen.words, TOOLS) => 12,
        "id" | "callid" if is_call => 10,
        "id" if any_in(&seen.words, TOOLS) => 8,
        "call" if seen.distinct() > 1 => 6,
        _ => 0,
    }
}

/// Returns extra points for a key that names a tool.
fn tool_points(seen: &SeenPlace) -> i32 {
    2 * i32::from(any_in(&seen.words, TOOLS))
}

fn arguments_points(seen: &SeenPlace) -> i32 {
    if seen.place == ValuePlace::SpanName || seen.holds_schemas() {
        return 0;
    }
    let word = content_word(seen);
    let is_object = seen.share(ValueShape::Object) >= 0.8;
    let said = match word {
        word if is_in(word, ARGUMENTS) => 10,
        word if is_in(word, INPUTS) => 8,
        word if is_in(word, REQUESTS) => 5,
        // By its shape only, so with the fewest points.
        _ if is_object && !is_about(&seen.words) && !says_otherwise(seen) => {
            return if let ValuePlace::Attribute(_) = seen.place { POINTS_MIN } else { 0 };
        }
        _ => return 0,
    };
    let share = |shape| seen.share(shape) >= 0.5;
    let looks = if is_object {
        3
    } else if share(ValueShape::Number) || share(ValueShape::Bool) {
        -6
    } else if share(ValueShape::Word) || share(ValueShape::List) {
        -2
    } else {
        -1
    };
    said + looks + tool_points(seen)
}

/// Returns true if the key names an object other than arguments and result.
fn says_otherwise(seen: &SeenPlace) -> bool {
    let other = [
        "metadata", "attributes", "config", "settings", "options", "context", "state", "usage",
        "headers", "resource", "tags", "info", "properties", "tools", "messages", "agent",
    ];
    any_in(&seen.words, &other)
        || any_in(&seen.words, RESULTS)
        || any_in(&seen.words, ANSWERS)
        || any_in(&seen.words, ERRORS)
}

fn result_points(seen: &SeenPlace) -> i32 {
    let said = match content_word(seen) {
        word if is_in(word, RESULTS) => 10,
        word if is_in(word, ANSWERS) => 7,
        _ => return 0,
    };
    said + tool_points(seen)
}

fn error_place(seen: &SeenPlace) -> Option<ErrorPlace<'_>> {
    // Every dialect reads `error.type` by default.
    let is_standard = seen.place == ValuePlace::Attribute("error.type".into());
    let is_entry = matches!(seen.place, ValuePlace::Entry(..) | ValuePlace::Prefix(_));
    if is_standard || is_entry || has_number(&seen.words) {
        return None;
    }
    let is_bool = seen.share(ValueShape::Bool) >= 0.9;
    match &seen.words[..] {
        [.., last] if is_bool && is_in(last, ERRORS) => Some(ErrorPlace::Flag(seen, true)),
        [.., last] if is_bool && matches!(last.as_str(), "success" | "succeeded" | "ok") => {
            Some(ErrorPlace::Flag(seen, false))
        }
        [.., word, last] if is_in(word, ERRORS) && is_in(last, SAYINGS) => {
            Some(ErrorPlace::Text(seen))
        }
        [.., last] if is_in(last, ERRORS) && !is_bool => Some(ErrorPlace::Text(seen)),
        [.., last] if is_in(last, OUTCOMES) => {
            let failed = ["error", "failed", "failure", "err"];
            let says = |text: &&String| failed.contains(&text.to_lowercase().as_str());
            seen.texts.iter().find(says).map(|text| ErrorPlace::Word(seen, text))
        }
        _ => None,
    }
}

/// Returns the place of the session's id among those on all spans.
pub(super) fn session<'p>(places: &'p [SeenPlace], spans: &[&SampleSpan]) -> Option<&'p SeenPlace> {
    best(places, spans.len(), |seen| {
        let ValuePlace::Attribute(key) = &seen.place else { return 0 };
        // By convention `thread.id` is a thread of the process, no conversation.
        if key == "thread.id" || seen.share(ValueShape::Word) < 0.9 || !is_one_a_trace(key, spans) {
            return 0;
        }
        match &seen.words[..] {
            [.., word, last] if is_in(word, SESSIONS) && is_in(last, &["id", "uuid", "key"]) => 10,
            [.., last] if is_in(last, SESSIONS) => 7,
            _ => 0,
        }
    })
}

fn is_one_a_trace(key: &str, spans: &[&SampleSpan]) -> bool {
    let mut known = HashMap::new();
    spans.iter().all(|span| match span.attribute(key) {
        Some(value) => *known.entry(span.trace_id).or_insert(value) == value,
        None => true,
    })
}

/// Returns the place of the agent's name.
pub(super) fn agent(places: &[SeenPlace], total: usize) -> Option<&SeenPlace> {
    best(places, total, |seen| {
        let ValuePlace::Attribute(_) = &seen.place else { return 0 };
        let is_short = seen.texts.iter().all(|text| text.len() <= 100 && !text.contains('\n'));
        let is_text = seen.share(ValueShape::Word) + seen.share(ValueShape::Text) >= 0.9;
        if !is_short || !is_text {
            return 0;
        }
        match &seen.words[..] {
            [.., word, last] if is_in(word, AGENTS) && last == "name" => 10,
            [.., last] if is_in(last, AGENTS) => 7,
            _ => 0,
        }
    })
}
