//! The texts that a target stands for.

use std::borrow::Cow;

use super::OutputRules;
use super::limits::TEXTS_MAX;
use super::settings::TextTarget;
use crate::model::{CallStatus, Content, Reason, ToolCall, Trajectory};
use crate::value::Value;

/// The texts of one trajectory.
pub(super) struct Texts<'t> {
    /// Each text with where it stands, such as `search #2`; empty for a target of one text.
    pub(super) list: Vec<(Cow<'t, str>, Cow<'t, str>)>,
    /// Why some text that matters is not there.
    pub(super) missing: Option<Reason>,
}

/// A text stands for itself, any other value for its compact JSON.
pub(super) fn text<'t>(value: &'t Value<'_>) -> Cow<'t, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        // What was recorded as nothing shows nothing.
        Value::Null => Cow::Borrowed(""),
        other => Cow::Owned(other.to_string()),
    }
}

/// The text of a content, if it is recorded.
pub(super) fn content<'t>(content: &'t Content<'_>) -> Option<Cow<'t, str>> {
    content.value().map(text)
}

impl OutputRules {
    /// The texts to judge.
    pub(super) fn texts<'t>(
        &self,
        trajectory: &'t Trajectory<'_>,
        calls: &'t [ToolCall<'_>],
    ) -> Texts<'t> {
        let one = |found: &'t Content<'_>, reason| match content(found) {
            Some(text) => Texts { list: vec![(Cow::Borrowed(""), text)], missing: None },
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
                    (content(&call.arguments), Reason::ArgumentsNotRecorded)
                }
                _ => {
                    let error = || call.error.as_deref().map(Cow::Borrowed);
                    (content(&call.result).or_else(error), Reason::ResultNotRecorded)
                }
            };
            match found {
                Some(_) if texts.list.len() == TEXTS_MAX => {
                    texts.missing = Some(Reason::TrajectoryTooLarge);
                }
                Some(text) => texts.list.push((place(), text)),
                // A failed call without words returned nothing that could be judged.
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
