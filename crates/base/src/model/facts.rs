//! Facts that later stages need from earlier ones, so that nothing else is copied or computed.

/// Facts that an evaluator reads; others are not copied out of the request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Arguments of tool calls.
    pub arguments: bool,
    /// Results of tool calls (errors and status are always retained).
    pub results: bool,
    /// The user's input.
    pub user_input: bool,
    /// Texts given to models ([`Trajectory::heard`](super::Trajectory)).
    pub heard: bool,
    /// The final output.
    pub final_output: bool,
    /// Tool definitions.
    pub tool_definitions: bool,
    /// Token counts, cost and model.
    pub usage: bool,
    /// Id of the user.
    pub user_id: bool,
    /// Finish reasons of model calls, which reveal tool calls that nothing else records.
    pub finish_reasons: bool,
    /// All attributes of the root span.
    pub root_attributes: bool,
    /// Name, kind, status and all attributes of every span.
    pub spans: bool,
    /// The id of the reply that the root span describes.
    pub response_id: bool,
    /// Groups of attributes, each to retain unchanged on every span that has its first
    /// ([`Trajectory::kept_spans`](super::Trajectory)).
    pub attributes: Vec<Vec<String>>,
}

impl Facts {
    /// Returns the union of both.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.arguments |= other.arguments;
        self.results |= other.results;
        self.user_input |= other.user_input;
        self.heard |= other.heard;
        self.final_output |= other.final_output;
        self.tool_definitions |= other.tool_definitions;
        self.usage |= other.usage;
        self.user_id |= other.user_id;
        self.finish_reasons |= other.finish_reasons;
        self.root_attributes |= other.root_attributes;
        self.spans |= other.spans;
        self.response_id |= other.response_id;
        for group in &other.attributes {
            if !self.attributes.contains(group) {
                self.attributes.push(group.clone());
            }
        }
        self
    }

    /// Returns all facts except spans and raw attributes, for `inspect`.
    pub fn all() -> Self {
        Self {
            arguments: true,
            results: true,
            user_input: true,
            heard: true,
            final_output: true,
            tool_definitions: true,
            usage: true,
            user_id: true,
            finish_reasons: true,
            root_attributes: true,
            spans: false,
            response_id: true,
            attributes: Vec::new(),
        }
    }
}

/// Parts of an evaluation that the configured exporters show; others are not computed.
#[derive(Default, Clone, Copy, Debug, PartialEq)]
pub struct Want {
    /// The sentence for a person.
    pub explanation: bool,
    /// The structured details.
    pub details: bool,
    /// Each evaluation as a record with id and session; otherwise evaluations are only counted.
    pub records: bool,
}

impl Want {
    /// All parts.
    pub const ALL: Self = Self { explanation: true, details: true, records: true };
    /// Only the number.
    pub const SCORE: Self = Self { explanation: false, details: false, records: false };

    /// Returns the union of both.
    pub fn union(self, other: Self) -> Self {
        Self {
            explanation: self.explanation || other.explanation,
            details: self.details || other.details,
            records: self.records || other.records,
        }
    }

    /// Returns true if explanation or details are shown.
    pub fn reasons(self) -> bool {
        self.explanation || self.details
    }
}
