//! Counts of what a redactor could not replace or show.

/// Texts that were withheld as a whole, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithheldTexts {
    /// Withheld as the steps for redaction were used up.
    pub steps: u64,
    /// Withheld as placeholders would have made them too long.
    pub size: u64,
    /// Withheld as a detector gave up before their end.
    pub unread: u64,
}

impl WithheldTexts {
    /// Reasons, as counters name them.
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

/// Shortcomings of a redactor, for counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedactionGaps {
    /// Values of keys for secrets that are replaced there but not looked for elsewhere, as too many
    /// others came before them.
    pub unfollowed: u64,
    /// Texts of which nothing is shown.
    pub withheld: WithheldTexts,
}

impl RedactionGaps {
    /// Adds the counts of another redactor.
    pub fn add(&mut self, other: Self) {
        self.unfollowed += other.unfollowed;
        self.withheld.add(other.withheld);
    }
}
