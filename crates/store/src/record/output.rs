//! State of the final output of a run.

use strum::{IntoStaticStr, VariantNames};

use spanscore_base::model::Content;
use spanscore_base::value::Value;

/// State of a final output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum OutputState {
    /// The telemetry holds it, or a part or placeholder of it.
    Recorded,
    /// It is a blank text, or null.
    Empty,
    /// The telemetry holds none.
    NotRecorded,
    /// Unread, or read by an older version.
    Unknown,
}

impl OutputState {
    /// Returns the state of an output; unknown without content, which then may be unread.
    pub(super) fn of(output: &Content<'_>, with_content: bool) -> Self {
        if !with_content {
            return Self::Unknown;
        }
        match output {
            Content::NotRecorded => Self::NotRecorded,
            Content::Redacted | Content::Unreadable(_) => Self::Recorded,
            Content::Recorded(value) => match value.get() {
                Value::Null => Self::Empty,
                Value::String(text) if text.trim().is_empty() => Self::Empty,
                _ => Self::Recorded,
            },
        }
    }

    /// Returns its name in the file.
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_output_is_recorded_but_empty() {
        let check = |output: Content<'_>, expected: OutputState| {
            assert_eq!(OutputState::of(&output, true), expected, "{expected:?}");
            assert_eq!(OutputState::of(&output, false), OutputState::Unknown, "{expected:?}");
        };
        check(Content::NotRecorded, OutputState::NotRecorded);
        check(Content::Redacted, OutputState::Recorded);
        check(Content::Unreadable("{".into()), OutputState::Recorded);
        check(Content::ready(Value::Null), OutputState::Empty);
        check(Content::ready(Value::from(" \n")), OutputState::Empty);
        check(Content::ready(Value::from("no")), OutputState::Recorded);
        check(Content::ready(Value::List(Vec::new())), OutputState::Recorded);
    }
}
