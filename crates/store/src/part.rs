//! Parts of a run that evaluators read, and the reasons why one is not stored as it was.

/// Part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoredPart {
    /// User's input.
    Input,
    /// Final output.
    Output,
    /// Arguments of calls.
    Arguments,
    /// Results of calls.
    Results,
    /// Errors of calls.
    Errors,
    /// Ids of calls.
    CallIds,
    /// Names of agents.
    Agents,
    /// Name of the root span.
    SpanName,
    /// Id of the session.
    SessionId,
    /// Attributes of the root span.
    Attributes,
}

impl StoredPart {
    /// All parts.
    pub const ALL: [Self; 10] = [
        Self::Input,
        Self::Output,
        Self::Arguments,
        Self::Results,
        Self::Errors,
        Self::CallIds,
        Self::Agents,
        Self::SpanName,
        Self::SessionId,
        Self::Attributes,
    ];

    /// Returns the word for it in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "user input",
            Self::Output => "final output",
            Self::Arguments => "arguments",
            Self::Results => "results",
            Self::Errors => "errors",
            Self::CallIds => "call ids",
            Self::Agents => "names of agents",
            Self::SpanName => "name of the root span",
            Self::SessionId => "session id",
            Self::Attributes => "attributes of the root span",
        }
    }

    /// Returns the part of a word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == word)
    }
}

/// Reason why a part of a run is not stored as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredGap {
    /// The store, or the collector at that time, did not keep it.
    NotStored,
    /// Redaction replaced a secret or personal data in it.
    Redacted,
    /// It was longer than the store keeps.
    Cut,
}

impl StoredGap {
    /// Returns the words for it, after the name of the part.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStored => "not stored",
            Self::Redacted => "replaced by redaction",
            Self::Cut => "cut",
        }
    }
}
