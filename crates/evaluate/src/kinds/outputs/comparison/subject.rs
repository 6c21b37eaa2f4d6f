//! Subject of a comparison: the final output, tools' arguments or results, or a part of them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;

use super::key::{OutputKey, Path};
use crate::shared::pairing::read_text;
use spanscore_base::model::{CallStatus, Facts, Reason, ToolCall};
use spanscore_base::settings::{Place, SettingsError};
use spanscore_base::value::Value;

/// Compared content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ComparisonTarget {
    /// Final output of the agent.
    #[default]
    FinalOutput,
    /// Arguments of tool calls, each call by itself.
    ToolArguments,
    /// Results of tool calls, each call by itself. For a failed call, the text of the error.
    ToolResults,
}

/// Subject of a comparison.
#[derive(Debug, Default)]
pub(crate) struct ComparisonSubject {
    /// Judged content.
    pub(crate) target: ComparisonTarget,
    /// Tools with judged calls; empty for all tools.
    pub(crate) tools: Vec<String>,
    /// Path to the compared value in the content.
    pub(crate) path: Option<Path>,
}

/// Judged content of a call.
pub(super) enum CallContent<'c, 'a> {
    /// A value.
    Value(Cow<'c, Value<'a>>),
    /// No content: the call failed without an error text.
    Nothing,
    /// Unrecorded content.
    NotRecorded,
}

impl ComparisonSubject {
    /// Checks that the settings are compatible.
    pub(crate) fn checked(self, key: &OutputKey, place: Place) -> Result<Self, SettingsError> {
        let of_calls = self.target != ComparisonTarget::FinalOutput;
        if !of_calls && !self.tools.is_empty() {
            let message = "`tools` goes only with `target: tool_arguments` or `tool_results`";
            return Err(SettingsError::new(message).at(place));
        }
        if !key.is_whole() && (of_calls || self.path.is_some()) {
            let message = "`target_output_key` goes only with the final output, without `path`";
            return Err(SettingsError::new(message).with_help("write `path`").at(place));
        }
        Ok(self)
    }

    /// Returns the facts needed.
    pub(super) fn facts(&self) -> Facts {
        Facts {
            final_output: self.target == ComparisonTarget::FinalOutput,
            arguments: self.target == ComparisonTarget::ToolArguments,
            results: self.target == ComparisonTarget::ToolResults,
            ..Facts::default()
        }
    }

    /// Returns true if a call is judged.
    pub(super) fn includes(&self, call: &ToolCall<'_>) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|tool| *tool == call.name)
    }

    /// Returns the judged content of a call: arguments, or result or error.
    pub(super) fn content<'c, 'a>(&self, call: &'c ToolCall<'a>) -> CallContent<'c, 'a> {
        let content = match self.target {
            ComparisonTarget::ToolArguments => &call.arguments,
            _ => &call.result,
        };
        match (content.value(), &call.error) {
            (Some(value), _) => CallContent::Value(Cow::Borrowed(value)),
            (None, _) if self.target == ComparisonTarget::ToolArguments => CallContent::NotRecorded,
            (None, Some(error)) => CallContent::Value(Cow::Owned(Value::String(error.clone()))),
            (None, None) if call.status == CallStatus::Error => CallContent::Nothing,
            (None, None) => CallContent::NotRecorded,
        }
    }

    /// Returns the reason for unrecorded content.
    pub(super) fn reason(&self) -> Reason {
        match self.target {
            ComparisonTarget::FinalOutput => Reason::FinalOutputNotRecorded,
            ComparisonTarget::ToolArguments => Reason::ArgumentsNotRecorded,
            ComparisonTarget::ToolResults => Reason::ResultNotRecorded,
        }
    }

    /// Returns the name of the judged content, for messages.
    pub(super) fn word(&self) -> &'static str {
        match self.target {
            ComparisonTarget::FinalOutput => "final output",
            ComparisonTarget::ToolArguments => "arguments",
            ComparisonTarget::ToolResults => "result",
        }
    }

    /// Returns the compared part of a content; `None` if the path has no value. A text of JSON, or
    /// of a Python object or list, is parsed if a path leads into it or `keeps_text` is false.
    pub(crate) fn part<'v>(
        &self,
        content: &'v Value<'_>,
        keeps_text: bool,
    ) -> Option<Cow<'v, Value<'v>>> {
        let found = match &self.path {
            None => Cow::Borrowed(content),
            Some(path) => Cow::Owned(path.find(read_text(content).as_ref().unwrap_or(content))?),
        };
        if keeps_text {
            return Some(found);
        }
        let read = read_text(&found).map(Value::into_owned);
        Some(read.map_or(found, Cow::Owned))
    }
}
