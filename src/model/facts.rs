//! What the stages tell each other that they need, so that nothing else is copied or made.

/// The facts that an evaluator reads; what no evaluator reads is not copied out of the request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Arguments of tool calls.
    pub arguments: bool,
    /// Results of tool calls (errors and status are always kept).
    pub results: bool,
    /// The user's input.
    pub user_input: bool,
    /// The final output.
    pub final_output: bool,
    /// Tool definitions.
    pub tool_definitions: bool,
    /// Token counts, cost and model.
    pub usage: bool,
    /// Why models stopped: tells that calls were made where none is recorded.
    pub finish_reasons: bool,
    /// All attributes of the root span.
    pub root_attributes: bool,
    /// The id of the reply that the root span is about.
    pub response_id: bool,
    /// Attributes to keep as they came, on every span that has the first of them
    /// ([`Trajectory::kept_spans`](super::Trajectory)); each entry is one such group.
    pub attributes: Vec<Vec<String>>,
}

impl Facts {
    /// What either needs.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.arguments |= other.arguments;
        self.results |= other.results;
        self.user_input |= other.user_input;
        self.final_output |= other.final_output;
        self.tool_definitions |= other.tool_definitions;
        self.usage |= other.usage;
        self.finish_reasons |= other.finish_reasons;
        self.root_attributes |= other.root_attributes;
        self.response_id |= other.response_id;
        for group in &other.attributes {
            if !self.attributes.contains(group) {
                self.attributes.push(group.clone());
            }
        }
        self
    }

    /// Everything but kept attributes, for `inspect`.
    pub fn all() -> Self {
        Self {
            arguments: true,
            results: true,
            user_input: true,
            final_output: true,
            tool_definitions: true,
            usage: true,
            finish_reasons: true,
            root_attributes: true,
            response_id: true,
            attributes: Vec::new(),
        }
    }
}

/// What the configured exporters will show of a score; the rest need not be made.
#[derive(Default, Clone, Copy, Debug, PartialEq)]
pub struct Want {
    /// The sentence for a person.
    pub explanation: bool,
    /// The structured details.
    pub details: bool,
    /// Each evaluation by itself, with its id and session; else evaluations are only counted.
    pub records: bool,
}

impl Want {
    /// Everything.
    pub const ALL: Self = Self { explanation: true, details: true, records: true };
    /// The number alone.
    pub const SCORE: Self = Self { explanation: false, details: false, records: false };

    /// What either of two wants.
    pub fn union(self, other: Self) -> Self {
        Self {
            explanation: self.explanation || other.explanation,
            details: self.details || other.details,
            records: self.records || other.records,
        }
    }

    /// Whether anything that an evaluator says beside the number is shown.
    pub fn reasons(self) -> bool {
        self.explanation || self.details
    }
}
