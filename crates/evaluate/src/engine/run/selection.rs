//! Selected evaluators of a trajectory with their views of the calls.

use std::sync::Arc;

use super::asking::open_outcome;
use super::{Against, Configured};
use crate::engine::expect::Expectation;
use crate::evaluator::{CodeEvaluator, Evaluator};
use crate::shared::within_group::by_message;
use spanscore_base::model::{EvaluatorInfo, Outcome, Trajectory};

/// Selection of one evaluator for a trajectory.
pub(super) enum Selection {
    /// Selected: judges by its settings.
    Settings,
    /// Selected: judges by this trajectory's expectation, or gives the outcome for a missing one.
    Expectation(Result<Arc<Expectation>, Outcome>),
    /// Not selected.
    Passed,
}

/// Selection of each evaluator by its index; empty if all judge by their settings.
pub(super) struct Selections(pub(super) Vec<Selection>);

impl Selections {
    /// Returns the evaluator with that index, if selected.
    pub(super) fn get<'c>(
        &'c self,
        index: usize,
        configured: &'c Configured,
    ) -> Option<SelectedEvaluator<'c>> {
        let expectation = match self.0.get(index) {
            None | Some(Selection::Settings) => None,
            Some(Selection::Expectation(found)) => Some(found),
            Some(Selection::Passed) => return None,
        };
        Some(SelectedEvaluator { configured, expectation })
    }
}

/// Selected evaluator of a trajectory.
#[derive(Clone, Copy)]
pub(super) struct SelectedEvaluator<'c> {
    pub(super) configured: &'c Configured,
    /// Expectation of the trajectory, if the evaluator has one per trajectory.
    expectation: Option<&'c Result<Arc<Expectation>, Outcome>>,
}

impl SelectedEvaluator<'_> {
    pub(super) fn info(&self) -> &Arc<EvaluatorInfo> {
        match self.expectation {
            Some(Ok(expectation)) => &expectation.info,
            _ => &self.configured.info,
        }
    }

    /// Runs `run` with only the calls visible to the evaluator, grouped as it requires.
    pub(super) fn narrow<'a, T>(
        &self,
        trajectory: &mut Trajectory<'a>,
        run: impl FnOnce(&mut Trajectory<'a>) -> T,
    ) -> T {
        let named = match self.expectation {
            Some(Ok(expectation)) => &expectation.named[..],
            _ => &[],
        };
        let asks_message_order = self.evaluator().is_ok_and(Evaluator::asks_message_order);
        let run = |seen: &mut Trajectory<'a>| {
            if asks_message_order { by_message(seen, run) } else { run(seen) }
        };
        self.configured.tools.narrow(trajectory, named, run)
    }

    /// Returns a code evaluator; for others the outcome of an unanswered one.
    #[inline]
    pub(super) fn code(&self) -> Result<&dyn CodeEvaluator, Outcome> {
        self.evaluator()?.as_code().ok_or_else(open_outcome)
    }

    #[inline]
    pub(super) fn evaluator(&self) -> Result<&Evaluator, Outcome> {
        match (&self.configured.against, self.expectation) {
            (_, Some(Ok(expectation))) => Ok(&expectation.evaluator),
            (_, Some(Err(outcome))) => Err(outcome.clone()),
            (Against::Settings(evaluator), None) => Ok(evaluator),
            (Against::Expectations(_), None) => Err(Outcome::Failed {
                error_type: "internal_error",
                error: "the expectation was not looked up".to_owned(),
            }),
        }
    }
}
