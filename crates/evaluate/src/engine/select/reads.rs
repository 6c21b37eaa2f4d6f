//! Variables of an expression with values built on demand.

/// Variables that need a copy or decoding, built only if an expression reads them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reads {
    /// The list of tool names.
    pub tool_names: bool,
    /// The user's words.
    pub user_input: bool,
    /// The answer.
    pub final_output: bool,
    /// All spans.
    pub spans: bool,
}

impl Reads {
    /// Returns the union of both.
    pub fn union(self, other: Self) -> Self {
        Self {
            tool_names: self.tool_names || other.tool_names,
            user_input: self.user_input || other.user_input,
            final_output: self.final_output || other.final_output,
            spans: self.spans || other.spans,
        }
    }
}
