//! Evaluator common to all external kinds: converts a target to a message.

use std::sync::Arc;

use super::{ExternalBody, ExternalInquiry, ExternalPlan, too_large};
use spanscore_base::model::{Facts, Outcome, Trajectory, Want};

/// Builder of the message about a trajectory; the number is the threshold.
pub type MessageBuilder = dyn Fn(&Trajectory<'_>, f64) -> ExternalBody + Send + Sync;

/// External evaluator.
pub struct ExternalEvaluator {
    /// Address, limits and protocol.
    pub plan: Arc<ExternalPlan>,
    /// Facts in the message.
    pub facts: Facts,
    /// Builder of the message about a trajectory.
    pub message: Box<MessageBuilder>,
}

impl ExternalEvaluator {
    /// Builds the message about a target. `threshold` is the lowest passing score.
    ///
    /// # Errors
    /// Returns the outcome for a trajectory that is too large to send.
    pub fn inquire(
        &self,
        trajectory: &Trajectory<'_>,
        threshold: f64,
        want: Want,
    ) -> Result<ExternalInquiry, Outcome> {
        if let Some(outcome) = too_large(trajectory) {
            return Err(outcome);
        }
        let plan = Arc::clone(&self.plan);
        let body = (self.message)(trajectory, threshold);
        Ok(ExternalInquiry { plan, body, want })
    }
}
