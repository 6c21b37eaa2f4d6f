//! Parts of a run read by evaluators, and the reasons that one differs from the original.

use strum::{EnumString, IntoStaticStr};

/// Part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum StoredPart {
    /// User's input.
    #[strum(serialize = "user input")]
    Input,
    /// Final output.
    #[strum(serialize = "final output")]
    Output,
    /// Arguments of calls.
    Arguments,
    /// Results of calls.
    Results,
    /// Errors of calls.
    Errors,
    /// Ids of calls.
    #[strum(serialize = "call ids")]
    CallIds,
    /// Names of agents.
    #[strum(serialize = "names of agents")]
    Agents,
    /// Name of the root span.
    #[strum(serialize = "name of the root span")]
    SpanName,
    /// Id of the session.
    #[strum(serialize = "session id")]
    SessionId,
    /// Attributes of the root span.
    #[strum(serialize = "attributes of the root span")]
    Attributes,
    /// Definitions of the offered tools.
    #[strum(serialize = "definitions of tools")]
    Definitions,
}

impl StoredPart {
    /// Returns its name in the file.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Reason that a stored part of a run differs from the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum StoredGap {
    /// The store or the collector omitted it.
    NotStored,
    /// A secret or personal data in it was redacted.
    Redacted,
    /// It exceeded the store's limit.
    Cut,
}

impl StoredGap {
    /// Returns its name in the file.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the phrase for it, after the name of the part.
    pub fn explained(self) -> &'static str {
        match self {
            Self::NotStored => "not stored",
            Self::Redacted => "replaced by redaction",
            Self::Cut => "cut",
        }
    }
}
