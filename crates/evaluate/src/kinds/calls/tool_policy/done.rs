//! Tools that have succeeded so far, for `required_before`.

use hashbrown::HashMap;

use crate::shared::failure::{CallOutcome, FailureRules};
use crate::shared::glob::{is_glob, matches_glob};
use spanscore_base::model::{ToolCall, WorkBudget};

/// Steps to compare one name with a glob.
pub(super) const STEPS_PER_GLOB: usize = 16;

/// End of the first success of each tool, Unix nanoseconds; 0 where no end is recorded.
pub(super) struct Done<'c, 'e> {
    pub(super) rules: &'c FailureRules,
    pub(super) ends: HashMap<&'c str, u64>,
    pub(super) effort: &'e WorkBudget,
}

impl<'c> Done<'c, '_> {
    pub(super) fn add(&mut self, call: &'c ToolCall<'_>) {
        let outcome = self.rules.outcome(call, self.effort);
        if matches!(outcome, CallOutcome::Succeeded | CallOutcome::NotRecorded) {
            let first = self.ends.entry(&call.name).or_insert(call.end_ns);
            *first = call.end_ns.min(*first);
        }
    }

    /// Returns true if a tool that the pattern names had succeeded when `later` began.
    pub(super) fn before(&self, pattern: &str, later: &ToolCall<'_>) -> bool {
        if !is_glob(pattern) {
            return self.ends.get(pattern).is_some_and(|end_ns| *end_ns <= later.start_ns);
        }
        self.effort.spend(self.ends.len() * STEPS_PER_GLOB);
        let mut all = self.ends.iter();
        all.any(|(tool, end_ns)| *end_ns <= later.start_ns && matches_glob(pattern, tool))
    }
}
