//! Evaluator of all external kinds: turns a target into a message.

use std::sync::Arc;

use crate::evaluator::Evaluator;
use crate::external::{ExternalBody, ExternalInquiry, ExternalPlan, too_large};
use crate::inquiry::{Conclusion, Inquired};
use spanscore_base::model::{Facts, Outcome, Trajectory, Want};

/// Builds the message about a trajectory; the number is the threshold.
pub(super) type SentBody<'s> = dyn Fn(&Trajectory<'_>, f64) -> ExternalBody + Send + Sync + 's;

/// Evaluator outside of this process.
pub(super) struct ExternalEvaluator {
    pub(super) plan: Arc<ExternalPlan>,
    pub(super) facts: Facts,
    /// Builder of the message about a trajectory.
    pub(super) body: Box<SentBody<'static>>,
}

impl Evaluator for ExternalEvaluator {
    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    /// Never called: the external evaluator is asked.
    fn evaluate(&self, _: &Trajectory<'_>, _: Want) -> Outcome {
        Outcome::Failed {
            error_type: "external_not_asked",
            error: "the evaluator is outside of this process and was not asked".to_owned(),
        }
    }

    fn inquire(&self, trajectory: &Trajectory<'_>, threshold: f64, want: Want) -> Option<Inquired> {
        if let Some(outcome) = too_large(trajectory) {
            return Some(Inquired::Known(Conclusion::of(outcome)));
        }
        let plan = Arc::clone(&self.plan);
        let body = (self.body)(trajectory, threshold);
        Some(Inquired::External(ExternalInquiry { plan, body, want }))
    }

    fn external(&self) -> Option<&Arc<ExternalPlan>> {
        Some(&self.plan)
    }
}
