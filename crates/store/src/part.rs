//! Parts of a run that evaluators read, and the reasons why one is not stored as it was.

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
    /// Definitions of the tools that were offered.
    #[strum(serialize = "definitions of tools")]
    Definitions,
}

impl StoredPart {
    /// Returns the word for it in the file.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Reason why a part of a run is not stored as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum StoredGap {
    /// The store, or the collector at that time, did not keep it.
    NotStored,
    /// Redaction replaced a secret or personal data in it.
    Redacted,
    /// It was longer than the store keeps.
    Cut,
}

impl StoredGap {
    /// Returns the word for it in the file.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the words for it, after the name of the part.
    pub fn explained(self) -> &'static str {
        match self {
            Self::NotStored => "not stored",
            Self::Redacted => "replaced by redaction",
            Self::Cut => "cut",
        }
    }
}
