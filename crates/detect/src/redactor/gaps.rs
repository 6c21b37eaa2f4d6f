//! Counts of a redactor's failed replacements and withheld texts.

/// Withheld texts, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithheldTexts {
    /// Withheld since the redaction steps were used up.
    pub steps: u64,
    /// Withheld since placeholders would have made them too long.
    pub size: u64,
    /// Withheld since a detector gave up before their end.
    pub unread: u64,
}

impl WithheldTexts {
    /// Reasons, as label values of counters.
    pub const REASONS: [&'static str; 3] = ["redaction_steps", "size", "unread"];

    /// Returns each reason with its count.
    pub fn by_reason(self) -> [(&'static str, u64); 3] {
        let [steps, size, unread] = Self::REASONS;
        [(steps, self.steps), (size, self.size), (unread, self.unread)]
    }

    /// Adds the counts of another redactor.
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.size += other.size;
        self.unread += other.unread;
    }
}

/// Failures of a redactor, for counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedactionGaps {
    /// Values of secret keys that are replaced there but not searched elsewhere, since the limit of
    /// remembered values was reached.
    pub unfollowed: u64,
    /// Withheld texts.
    pub withheld: WithheldTexts,
}

impl RedactionGaps {
    /// Adds the counts of another redactor.
    pub fn add(&mut self, other: Self) {
        self.unfollowed += other.unfollowed;
        self.withheld.add(other.withheld);
    }
}
