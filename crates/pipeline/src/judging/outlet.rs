//! Outlet of a dispatcher: counts its evaluations like all others, marks superseded verdicts, and
//! informs the forwards and the dead letters.

use std::sync::{Arc, Mutex, PoisonError};

use super::{PendingTraces, UnansweredLetters};
use crate::Outlet;
use crate::metrics::PipelineMetrics;
use spanscore_base::model::{Evaluation, EvaluationId, GivenVerdict, Receipt, Recent};

/// Limit of remembered verdicts, by which a revision names the one that it supersedes.
const GIVEN_MAX: usize = 65_536;

pub(super) struct AskedOutlet {
    metrics: Arc<PipelineMetrics>,
    outlet: Outlet,
    pending: Arc<PendingTraces>,
    letters: Option<UnansweredLetters>,
    /// Last verdict, by evaluation.
    given: Mutex<Recent<EvaluationId, GivenVerdict>>,
}

impl AskedOutlet {
    pub(super) fn new(
        metrics: &Arc<PipelineMetrics>,
        outlet: &Outlet,
        pending: &Arc<PendingTraces>,
        letters: Option<UnansweredLetters>,
    ) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            outlet: Arc::clone(outlet),
            pending: Arc::clone(pending),
            letters,
            given: Mutex::new(Recent::new(GIVEN_MAX)),
        }
    }

    pub(super) fn into_outlet(self) -> Outlet {
        Arc::new(move |evaluations: Vec<_>, receipt| self.emit(evaluations, receipt))
    }

    /// Passes on the evaluations of one inquiry.
    fn emit(&self, mut evaluations: Vec<Evaluation>, receipt: Option<Receipt>) {
        self.supersede(&mut evaluations);
        self.metrics.evaluations(&evaluations);
        self.pending.told(&evaluations);
        if let Some(letters) = &self.letters {
            letters.keep(&evaluations);
        }
        (self.outlet)(evaluations, receipt);
    }

    /// Sets the superseded verdict of each evaluation, if it is remembered.
    fn supersede(&self, evaluations: &mut [Evaluation]) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        for evaluation in evaluations {
            let revised = evaluation.revises.and_then(|id| given.get(&id).copied());
            evaluation.supersedes = evaluation.supersedes.or(revised);
            given.keep(evaluation.id, evaluation.verdict(), 1);
        }
    }
}
