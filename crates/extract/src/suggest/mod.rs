//! Dialect suggestions: a draft dialect for an unknown instrumentation, inferred from its spans.
//!
//! The input is original spans ([`SpanSamples`]) and the ids of those known to a dialect. The
//! output is entries for `dialects:`, each fact with its evidence, to be reviewed by a person.
//!
//! ```text
//! samples   spans that no dialect knows, and log events, with their values
//! words     word lists for keys
//! places    places of values on some spans, with the shapes of the values
//! markers   conditions that may tell spans of tool calls from others
//! roles     scoring of places for each fact
//! events    log events with the parts of a call that spans lack
//! write     the entry as YAML
//! ```
//!
//! Each marker is evaluated with all spans that match it; the one whose spans show most parts of a
//! call wins. The remaining spans are then searched for another instrumentation.
//!
//! **Invariants:** pure, independent of the order of spans. A sender's names are in the YAML only
//! if plain, so that they cannot be misread there.

mod events;
mod markers;
mod places;
mod roles;
mod samples;
mod words;
mod write;

use std::collections::BTreeSet;

use hashbrown::HashSet;

pub use self::samples::{SPANS_MAX, SpanSamples};
pub use self::write::DialectSuggestion;

use self::markers::{SpanMarker, markers};
use self::places::{SeenPlace, ValuePlace, is_about, places};
use self::roles::{CallPlaces, ErrorPlace};
use self::samples::{SampleSpan, SampleValue, ValueForm, is_writable};
use self::words::{ANSWERS, INPUTS, KINDS, MODELS, QUESTIONS, RESULTS, RUNS, any_in, is_in, words};
use self::write::{SuggestedSource, arguments_decoder, quoted, result_decoder};
use super::decode::Messages;
use super::dialect::Dialect;
use spanscore_base::model::{SpanId, TraceId};
use spanscore_base::value::Value;
use spanscore_base::visible;

/// Limit on suggested dialects.
const SUGGESTIONS_MAX: usize = 4;
/// Limit on the shown span names.
const NAMES_SHOWN_MAX: usize = 3;
/// Limit on the values of one kind in a condition.
const KINDS_MAX: usize = 8;

/// Returns suggestions for the spans outside `known`.
pub fn suggest(
    samples: &SpanSamples,
    known: &HashSet<(TraceId, SpanId)>,
) -> Vec<DialectSuggestion> {
    let spans = samples.unknown(known);
    let events = samples.events();
    let mut left: Vec<&SampleSpan> = spans.iter().collect();
    let mut found: Vec<DialectSuggestion> = Vec::new();
    while found.len() < SUGGESTIONS_MAX {
        let Some((marker, mut suggestion)) = best(&left, &spans) else { break };
        // Other spans of the same traces may repeat the calls: one dialect per trace suffices.
        let told: HashSet<TraceId> =
            left.iter().filter(|span| marker.holds(span)).map(|span| span.trace_id).collect();
        left.retain(|span| !told.contains(&span.trace_id));
        events::add_events(&mut suggestion, &events, &told);
        suggestion.name = unused_name(&suggestion.name, &found);
        found.push(suggestion);
    }
    if found.is_empty() {
        found.extend(of_messages(&left));
    }
    found
}

/// Returns the marker whose spans show most parts of a tool call, with its suggestion.
fn best(left: &[&SampleSpan], all: &[SampleSpan]) -> Option<(SpanMarker, DialectSuggestion)> {
    let weigh = |marker: SpanMarker| {
        let of: Vec<&SampleSpan> = left.iter().copied().filter(|it| marker.holds(it)).collect();
        let seen = places(&of);
        let call = CallPlaces::find(&marker, &seen, of.len());
        let is_call = call.name.is_some_and(|name| {
            let is_content = call.arguments.is_some() || call.result.is_some();
            is_content || call.id.is_some() || name.place != ValuePlace::SpanName
        });
        // A single span may look like a call by chance: more of them add up to 16 points.
        let weight = marker.weight() + call.weight(of.len()) + of.len().min(8) as u32 * 2;
        is_call.then_some(((weight, of.len()), marker))
    };
    let rated = markers(left, &places(left)).into_iter().filter_map(weigh);
    let (_, marker) = rated.rev().max_by_key(|(weight, _)| *weight)?;
    let suggestion = suggestion(&marker, left, all);
    Some((marker, suggestion))
}

fn suggestion(marker: &SpanMarker, left: &[&SampleSpan], all: &[SampleSpan]) -> DialectSuggestion {
    let of: Vec<&SampleSpan> = left.iter().copied().filter(|it| marker.holds(it)).collect();
    let total = of.len();
    let seen = places(&of);
    let call = CallPlaces::find(marker, &seen, total);
    let scopes: HashSet<&str> = of.iter().map(|span| span.scope.as_str()).collect();
    let traces: HashSet<TraceId> = of.iter().map(|span| span.trace_id).collect();
    let is_beside = |span: &&SampleSpan| {
        scopes.contains(span.scope.as_str()) || traces.contains(&span.trace_id)
    };
    let around: Vec<&SampleSpan> = all.iter().filter(is_beside).collect();
    let mut suggestion = DialectSuggestion {
        name: name_of(marker, &call, &of),
        span_count: total,
        span_names: names_of(&of),
        detect: Some(marker.condition()),
        call: sources(marker, &call, total),
        ..DialectSuggestion::default()
    };
    add_facts(&mut suggestion, marker, &around);
    // All spans around a call repeat it: only messages on model spans have further calls.
    if let (SpanMarker::Kind(key, _), Some(on)) = (marker, suggestion.model_span.clone()) {
        let of_models =
            |span: &SampleSpan| span.raw(key).is_some_and(|text| any_in(&words(text), MODELS));
        add_messages(&mut suggestion, &around, of_models, &format!("on: {on}"));
    }
    suggestion
}

fn sources(
    marker: &SpanMarker,
    call: &CallPlaces<'_>,
    total: usize,
) -> Vec<(&'static str, SuggestedSource)> {
    let mut sources = Vec::new();
    if let Some(name) = call.name {
        let strip = match (marker, &name.place) {
            (SpanMarker::NamePrefix(prefix), ValuePlace::SpanName) => {
                format!("strip_prefix: {}", quoted(prefix))
            }
            (_, ValuePlace::SpanName) => common_ends(&name.texts),
            _ => String::new(),
        };
        let decode = if name.has_form(ValueForm::Json) { "json" } else { "" };
        sources.push(("name", SuggestedSource::new(name, total, decode, &strip)));
    }
    if let Some(id) = call.id {
        sources.push(("id", SuggestedSource::new(id, total, "", "")));
    }
    if let Some(seen) = call.arguments {
        let decode = arguments_decoder(seen);
        sources.push(("arguments", SuggestedSource::new(seen, total, &decode, "")));
    }
    if let Some(seen) = call.result {
        let decode = result_decoder(seen);
        sources.push(("result", SuggestedSource::new(seen, total, &decode, "")));
    }
    if let Some(error) = call.error {
        let more = match error {
            ErrorPlace::Text(_) => String::new(),
            ErrorPlace::Flag(_, failed) => format!("equals_error: {failed}"),
            ErrorPlace::Word(_, word) => format!("equals_error: {}", quoted(word)),
        };
        sources.push(("error", SuggestedSource::new(error.seen(), total, "", &more)));
    }
    sources
}

/// Returns the decoder fields for the common prefix or suffix of all span names around the tool:
/// `search.run`, `fetch.run`.
fn common_ends(names: &[String]) -> String {
    let Some((first, others)) = names.split_first().filter(|(_, others)| !others.is_empty()) else {
        return String::new();
    };
    let ends = |at: &usize| first[*at..].starts_with(['.', ' ', ':', '/']);
    let suffix = (1..first.len())
        .filter(|at| first.is_char_boundary(*at) && ends(at))
        .map(|at| &first[at..])
        .find(|suffix| others.iter().all(|other| other.ends_with(suffix)));
    let prefix = (1..first.len())
        .rev()
        .filter(|at| first.is_char_boundary(*at) && first[..*at].ends_with(['.', ' ', ':', '/']))
        .map(|at| &first[..at])
        .find(|prefix| others.iter().all(|other| other.starts_with(prefix)));
    let end = |key: &str, text: Option<&str>| {
        text.filter(|text| is_writable(text)).map(|text| format!("{key}: {}", quoted(text)))
    };
    let ends = [end("strip_prefix", prefix), end("strip_suffix", suffix)];
    ends.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Adds the facts that other spans also have.
fn add_facts(suggestion: &mut DialectSuggestion, marker: &SpanMarker, around: &[&SampleSpan]) {
    let seen = places(around);
    let total = around.len();
    let mut add = |fact, seen: Option<&SeenPlace>| {
        let source = seen.map(|seen| (fact, SuggestedSource::new(seen, total, "", "")));
        suggestion.facts.extend(source);
    };
    add("session_id", roles::session(&seen, around));
    add("agent_name", roles::agent(&seen, total));
    let runs = match marker {
        SpanMarker::Kind(key, _) => {
            suggestion.agent_span = kinds(key, around, RUNS);
            suggestion.model_span = kinds(key, around, MODELS);
            suggestion.agent_span.clone()
        }
        _ => None,
    };
    let outermost: Vec<&SampleSpan> = around.iter().copied().filter(|it| it.is_root).collect();
    let on = runs.unwrap_or_else(|| "{root: true}".to_owned());
    add_talk(suggestion, &outermost, &on);
}

/// Adds the user's request and the agent's answer from the outermost spans.
fn add_talk(suggestion: &mut DialectSuggestion, outermost: &[&SampleSpan], on: &str) {
    let seen = places(outermost);
    for (fact, lists, decode) in [
        ("user_input", [INPUTS, QUESTIONS], "user_text"),
        ("final_output", [RESULTS, ANSWERS], "assistant_text"),
    ] {
        let is_said = |seen: &&SeenPlace| {
            let ValuePlace::Attribute(_) = seen.place else { return false };
            let word = seen.words.iter().rev().find(|word| !is_in(word, words::HOLDERS));
            let is_fact = word.is_some_and(|word| lists.iter().any(|list| is_in(word, list)));
            is_fact && !is_about(&seen.words)
        };
        if let Some(seen) = seen.iter().find(is_said) {
            let source = SuggestedSource::new(seen, outermost.len(), decode, &format!("on: {on}"));
            suggestion.facts.push((fact, source));
        }
    }
}

/// Returns the condition that an attribute has one of some kinds; `None` if it never does.
fn kinds(key: &str, spans: &[&SampleSpan], list: &[&str]) -> Option<String> {
    let of = |span: &&SampleSpan| span.raw(key).map(str::to_owned);
    let said: BTreeSet<String> = spans.iter().filter_map(of).collect();
    let fits = |text: &String| any_in(&words(text), list) && is_writable(text.trim_matches('"'));
    let fitting: Vec<String> =
        said.iter().filter(|text| fits(text)).take(KINDS_MAX).map(|text| quoted(text)).collect();
    (!fitting.is_empty())
        .then(|| format!("{{attr: {}, in: [{}]}}", quoted(key), fitting.join(", ")))
}

/// Adds the attributes with model messages, and the calls requested in them.
fn add_messages(
    suggestion: &mut DialectSuggestion,
    spans: &[&SampleSpan],
    is_looked_at: impl Fn(&SampleSpan) -> bool,
    on: &str,
) {
    let looked_at: Vec<&SampleSpan> =
        spans.iter().copied().filter(|span| is_looked_at(span)).collect();
    let holding = messages_of(&looked_at);
    for seen in &places(&looked_at) {
        let ValuePlace::Attribute(key) = &seen.place else { continue };
        if !holding.contains(key.as_str()) {
            continue;
        }
        let is_given = any_in(&seen.words, &["input", "inputs", "prompt", "request", "history"]);
        let part = if is_given { "input" } else { "output" };
        if suggestion.messages.iter().any(|(known, _)| *known == part) {
            continue;
        }
        let source = SuggestedSource::new(seen, looked_at.len(), "", on);
        suggestion.messages.push((part, source));
    }
    suggestion.messages.sort_by_key(|(part, _)| *part);
}

/// Returns the attributes with values that are messages with tool calls.
fn messages_of<'s>(spans: &[&'s SampleSpan]) -> HashSet<&'s str> {
    let mut holding: HashSet<&str> = HashSet::new();
    for value in spans.iter().flat_map(|span| &span.values) {
        let is_structured = value.value.as_map().is_some() || value.value.as_list().is_some();
        if holding.contains(value.key.as_str()) || !is_structured || !value.event.is_empty() {
            continue;
        }
        let messages = Messages::read(value.value.clone());
        let is_message = messages.has_author && !messages.calls.is_empty();
        if is_message {
            holding.insert(&value.key);
        }
    }
    holding
}

/// Returns a suggestion for model spans without tool spans: calls are only in messages.
fn of_messages(spans: &[&SampleSpan]) -> Option<DialectSuggestion> {
    let mut suggestion = DialectSuggestion::default();
    add_messages(&mut suggestion, spans, |_| true, "");
    let holding = messages_of(spans);
    let mut keys: Vec<&str> = holding.into_iter().collect();
    keys.sort_unstable();
    let key = *keys.first()?;
    let present: Vec<String> =
        keys.iter().map(|key| format!("{{attr_present: [{}]}}", quoted(key))).collect();
    let condition = format!("{{any: [{}]}}", present.join(", "));
    suggestion.name = unused_name(&first_word(key), &[]);
    suggestion.agent_span = Some(condition.clone());
    suggestion.model_span = Some(condition);
    let seen = places(spans);
    let total = spans.len();
    for (fact, seen) in
        [("session_id", roles::session(&seen, spans)), ("agent_name", roles::agent(&seen, total))]
    {
        suggestion.facts.extend(seen.map(|it| (fact, SuggestedSource::new(it, total, "", ""))));
    }
    Some(suggestion)
}

/// Returns the dialect's name: the first word of its spans' keys.
fn name_of(marker: &SpanMarker, call: &CallPlaces<'_>, of: &[&SampleSpan]) -> String {
    let key = |seen: Option<&SeenPlace>| match &seen?.place {
        ValuePlace::Attribute(key) | ValuePlace::Entry(key, _) => Some(first_word(key)),
        _ => None,
    };
    match marker {
        SpanMarker::Kind(key, _) | SpanMarker::Present(key) => first_word(key),
        _ => key(call.name)
            .or_else(|| key(call.arguments))
            .or_else(|| of.first().map(|span| first_word(&span.scope)))
            .unwrap_or_default(),
    }
}

fn first_word(key: &str) -> String {
    let segment = key.split(['.', ':', '/']).next().unwrap_or_default();
    let is_kind = |word: &String| is_in(word, KINDS) || is_in(word, words::TOOLS);
    let words: Vec<String> = words(segment).into_iter().filter(|word| !is_kind(word)).collect();
    if words.is_empty() { "own".to_owned() } else { words.join("-") }
}

/// Returns a name unused by built-in dialects and earlier suggestions.
fn unused_name(wanted: &str, found: &[DialectSuggestion]) -> String {
    let is_used = |name: &str| {
        Dialect::builtin().iter().any(|known| known.name == name)
            || found.iter().any(|known| known.name == name)
    };
    let numbered = (2..).map(|number| format!("{wanted}-{number}"));
    let mut names = [wanted.to_owned()].into_iter().chain(numbered);
    names.find(|name| !is_used(name)).unwrap_or_default()
}

fn names_of(spans: &[&SampleSpan]) -> String {
    let names: BTreeSet<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let shown: Vec<String> = names
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(|name| visible::line(name.chars().take(60).collect::<String>()).to_string())
        .collect();
    let more = if names.len() > shown.len() { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

impl SampleSpan {
    /// Returns the value of an attribute of the span, excluding events.
    fn attribute(&self, key: &str) -> Option<&Value<'static>> {
        self.sample(key).map(|sample| &sample.value)
    }

    /// Returns the short original text of an attribute.
    fn raw(&self, key: &str) -> Option<&str> {
        self.sample(key)?.raw.as_deref()
    }

    fn sample(&self, key: &str) -> Option<&SampleValue> {
        self.values.iter().find(|value| value.event.is_empty() && value.key == key)
    }
}
