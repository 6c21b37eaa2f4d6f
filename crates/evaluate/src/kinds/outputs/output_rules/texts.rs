//! Extraction of the judged texts of a target.

use std::borrow::Cow;

use super::OutputRules;
use super::answer::is_open_structure;
use super::limits::{CONVERSATION_BYTES, TEXTS_MAX};
use super::settings::TextTarget;
use spanscore_base::model::{CallStatus, Content, Reason, ToolCall, Trajectory};
use spanscore_base::value::Value;

/// Judged texts of one trajectory.
pub(super) struct Texts<'t> {
    /// Each text after its name, such as `search #2`; the name is empty if the target has one text.
    pub(super) list: Vec<(Cow<'t, str>, Cow<'t, str>)>,
    /// Reason why a relevant text is missing.
    pub(super) missing: Option<Reason>,
}

/// Returns the text of a value: strings unchanged, others as compact JSON.
pub(super) fn text<'t>(value: &'t Value<'_>) -> Cow<'t, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        // A recorded `null` has no text.
        Value::Null => Cow::Borrowed(""),
        other => Cow::Owned(other.to_string()),
    }
}

/// Returns the text of a content, if it is recorded.
pub(super) fn content<'t>(content: &'t Content<'_>) -> Option<Cow<'t, str>> {
    content.value().map(text)
}

/// Returns the text of a content, or the available part of unreadable content. Also returns true if
/// that part ends within its structure: the rest could have failed any rule.
fn judged<'t>(found: &'t Content<'_>) -> Option<(Cow<'t, str>, bool)> {
    match found {
        Content::Unreadable(text) if !is_conversation(text) => {
            Some((Cow::Borrowed(text), is_open_structure(text)))
        }
        found => content(found).map(|text| (text, false)),
    }
}

/// Returns true if unreadable content starts like a list of messages, most of which are by other
/// authors.
fn is_conversation(text: &str) -> bool {
    const KEYS: [&str; 4] = ["\"role\"", "\"messages\"", "\"lc\"", "\"inputs\""];
    let (start, _) = text.split_at(text.floor_char_boundary(CONVERSATION_BYTES));
    KEYS.iter().any(|key| start.contains(key))
}

impl OutputRules {
    /// Collects the texts to judge.
    pub(super) fn texts<'t>(
        &self,
        trajectory: &'t Trajectory<'_>,
        calls: &'t [ToolCall<'_>],
    ) -> Texts<'t> {
        let one = |found: &'t Content<'_>, reason: Reason| match judged(found) {
            Some((text, is_cut)) => {
                Texts { list: vec![(Cow::Borrowed(""), text)], missing: is_cut.then_some(reason) }
            }
            None => Texts { list: Vec::new(), missing: Some(reason) },
        };
        match self.target {
            TextTarget::FinalOutput => {
                one(&trajectory.final_output, Reason::FinalOutputNotRecorded)
            }
            TextTarget::UserInput => one(&trajectory.user_input, Reason::UserInputNotRecorded),
            TextTarget::ToolArguments | TextTarget::ToolResults => self.call_texts(calls),
            TextTarget::Attribute => self.attribute_texts(trajectory),
        }
    }

    fn call_texts<'t>(&self, calls: &'t [ToolCall<'_>]) -> Texts<'t> {
        let mut texts = Texts { list: Vec::new(), missing: None };
        let mut any = false;
        for (index, call) in calls.iter().enumerate() {
            if !self.tools.is_empty() && !self.tools.iter().any(|tool| *tool == call.name) {
                continue;
            }
            any = true;
            let place = || Cow::Owned(format!("{} #{}", call.name, index + 1));
            let (found, reason) = match self.target {
                TextTarget::ToolArguments => {
                    (judged(&call.arguments), Reason::ArgumentsNotRecorded)
                }
                _ => {
                    let error = || Some((Cow::Borrowed(call.error.as_deref()?), false));
                    (judged(&call.result).or_else(error), Reason::ResultNotRecorded)
                }
            };
            match found {
                Some(_) if texts.list.len() == TEXTS_MAX => {
                    texts.missing = Some(Reason::TrajectoryTooLarge);
                }
                Some((text, is_cut)) => {
                    texts.list.push((place(), text));
                    texts.missing = is_cut.then_some(reason).or(texts.missing);
                }
                // A failed call without an error text has no result to judge.
                None if reason == Reason::ResultNotRecorded && call.status == CallStatus::Error => {
                }
                None => texts.missing = Some(reason),
            }
        }
        if !any || (texts.list.is_empty() && texts.missing.is_none()) {
            texts.missing = Some(Reason::NoToolCalls);
        }
        texts
    }

    fn attribute_texts<'t>(&self, trajectory: &'t Trajectory<'_>) -> Texts<'t> {
        let mut texts = Texts { list: Vec::new(), missing: None };
        let Some(key) = &self.attribute else { return texts };
        let root = trajectory.attributes.iter().map(|entry| (trajectory.span_id, entry));
        let kept = trajectory
            .kept_spans
            .iter()
            .filter(|span| span.span_id != trajectory.span_id)
            .flat_map(|span| span.attributes.iter().map(|entry| (span.span_id, entry)));
        for (span_id, (_, value)) in root.chain(kept).filter(|(_, (name, _))| name == key) {
            if texts.list.len() == TEXTS_MAX {
                texts.missing = Some(Reason::TrajectoryTooLarge);
                break;
            }
            let text = match (value.as_str(), value.to_value()) {
                (Some(text), _) => Cow::Borrowed(text),
                (None, Ok(value)) => Cow::Owned(text(&value).into_owned()),
                (None, Err(_)) => {
                    texts.missing = Some(Reason::InsufficientData);
                    continue;
                }
            };
            texts.list.push((Cow::Owned(format!("span {span_id}")), text));
        }
        if texts.list.is_empty() && texts.missing.is_none() {
            texts.missing = Some(Reason::InsufficientData);
        }
        texts
    }
}
