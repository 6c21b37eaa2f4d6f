//! Capabilities of a judge, learnt from its refusals, since models refuse parameters that others
//! require. Remembered for the life of the process.

use super::JudgeQuestion;
use crate::judge::settings::{JudgeSettings, StructuredOutput};

/// Structured-output modes, strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::judge) enum Shape {
    /// JSON Schema.
    Schema,
    /// Forced tool call.
    Tool,
    /// Any JSON object.
    JsonObject,
    /// No constraint.
    Free,
}

/// Parameters that can be omitted or renamed.
pub(super) const PARAMETERS: [&str; 7] = [
    "temperature", "seed", "max_tokens", "max_completion_tokens", "reasoning_effort", "store",
    "cache_control",
];

/// Terms for structured output in servers' error messages.
pub(super) const SHAPE_WORDS: [&str; 9] = [
    "response_format", "json_schema", "output_config", "output_format", "text.format",
    "tool_choice", "tools", "structured", "schema",
];

/// Refused parameters and structured-output mode of one judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::judge) struct ProviderCapabilities {
    refused: Vec<&'static str>,
    shape: Shape,
    /// True if the config sets the mode, which then never steps down.
    is_fixed: bool,
    /// True after a successful request in this mode: an unexplained refusal then has another cause.
    is_proven: bool,
}

impl ProviderCapabilities {
    /// Returns capabilities without refusals, in the configured mode.
    pub(in crate::judge) fn new(wish: StructuredOutput) -> Self {
        let shape = match wish {
            StructuredOutput::Auto | StructuredOutput::Schema => Shape::Schema,
            StructuredOutput::Tool => Shape::Tool,
            StructuredOutput::JsonObject => Shape::JsonObject,
            StructuredOutput::None => Shape::Free,
        };
        let is_fixed = wish != StructuredOutput::Auto;
        Self { refused: Vec::new(), shape, is_fixed, is_proven: is_fixed }
    }

    /// Returns true if a parameter may be sent.
    pub(super) fn takes(&self, parameter: &str) -> bool {
        !self.refused.contains(&parameter)
    }

    /// Returns the effort of a reasoning model, if configured and supported.
    pub(super) fn effort<'j>(&self, judge: &'j JudgeSettings) -> Option<&'j str> {
        judge.reasoning_effort.as_deref().filter(|_| self.takes("reasoning_effort"))
    }

    /// Returns the mode for a question; [`Shape::Free`] if its prompt has no schema.
    pub(super) fn shape(&self, question: &JudgeQuestion) -> Shape {
        if question.prompt.schema.is_some() { self.shape } else { Shape::Free }
    }

    /// Marks a parameter as refused; returns false if it was already.
    pub(in crate::judge) fn refuse(&mut self, parameter: &'static str) -> bool {
        let is_new = self.takes(parameter);
        if is_new {
            self.refused.push(parameter);
            // Two names of one parameter: one of them must stay allowed.
            let other = match parameter {
                "max_tokens" => Some("max_completion_tokens"),
                "max_completion_tokens" => Some("max_tokens"),
                _ => None,
            };
            self.refused.retain(|known| Some(*known) != other);
        }
        is_new
    }

    /// Returns the current mode.
    pub(in crate::judge) fn current(&self) -> Shape {
        self.shape
    }

    /// Returns true if a weaker mode remains.
    pub(in crate::judge) fn may_step_down(&self) -> bool {
        !self.is_fixed && self.shape != Shape::Free
    }

    /// Returns true if no request has succeeded in this mode yet, and a weaker one remains.
    pub(super) fn is_unproven(&self) -> bool {
        !self.is_proven && self.may_step_down()
    }

    /// Steps down to the next weaker mode; returns false if none remains.
    pub(in crate::judge) fn step_down(&mut self) -> bool {
        if !self.may_step_down() {
            return false;
        }
        self.is_proven = false;
        self.shape = match self.shape {
            Shape::Schema => Shape::Tool,
            Shape::Tool => Shape::JsonObject,
            Shape::JsonObject | Shape::Free => Shape::Free,
        };
        true
    }

    /// Notes a successful request in this mode.
    pub(in crate::judge) fn proven(&mut self) {
        self.is_proven = true;
    }
}
