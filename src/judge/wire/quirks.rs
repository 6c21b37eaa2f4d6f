//! What a judge does not take: parameters are not universal, and models refuse what others need.
//! What was refused is remembered for as long as the process runs.

use super::JudgeQuestion;
use crate::judge::settings::StructuredOutput;

/// How the form of an answer is asked for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::judge) enum Shape {
    /// A JSON Schema.
    Schema,
    /// A tool that must be called.
    Tool,
    /// Any JSON object.
    JsonObject,
    /// Nothing.
    Free,
}

/// Parameters that can be left out, or said otherwise.
pub(super) const PARAMETERS: [&str; 7] = [
    "temperature",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "store",
    "cache_control",
];

/// Words by which servers name the request for a form.
pub(super) const SHAPE_WORDS: [&str; 9] = [
    "response_format",
    "json_schema",
    "output_config",
    "output_format",
    "text.format",
    "tool_choice",
    "tools",
    "structured",
    "schema",
];

/// What one judge does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::judge) struct Quirks {
    refused: Vec<&'static str>,
    shape: Shape,
    /// The user has said which; it is not changed.
    is_fixed: bool,
    /// It was taken once: an unexplained refusal means something else.
    is_proven: bool,
}

impl Quirks {
    /// Nothing is known yet.
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

    /// Whether a parameter may be sent.
    pub(super) fn takes(&self, parameter: &str) -> bool {
        !self.refused.contains(&parameter)
    }

    /// How the form is asked for; not at all where the prompt has no schema.
    pub(super) fn shape(&self, question: &JudgeQuestion) -> Shape {
        if question.prompt.schema.is_some() { self.shape } else { Shape::Free }
    }

    /// Remembers a parameter as refused; false where it is already.
    pub(in crate::judge) fn refuse(&mut self, parameter: &'static str) -> bool {
        let is_new = self.takes(parameter);
        if is_new {
            self.refused.push(parameter);
            // One of the two names for the same has to go with it.
            let other = match parameter {
                "max_tokens" => Some("max_completion_tokens"),
                "max_completion_tokens" => Some("max_tokens"),
                _ => None,
            };
            self.refused.retain(|known| Some(*known) != other);
        }
        is_new
    }

    /// How the form is asked for now.
    pub(in crate::judge) fn current(&self) -> Shape {
        self.shape
    }

    /// Whether another form can be tried.
    pub(in crate::judge) fn may_step_down(&self) -> bool {
        !self.is_fixed && self.shape != Shape::Free
    }

    /// Whether the form has not been taken yet.
    pub(super) fn is_unproven(&self) -> bool {
        !self.is_proven && self.may_step_down()
    }

    /// Asks for the form in the next way; false where there is none.
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

    /// A request was taken.
    pub(in crate::judge) fn proven(&mut self) {
        self.is_proven = true;
    }
}
