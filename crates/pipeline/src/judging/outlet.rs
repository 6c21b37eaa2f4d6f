//! Outlet of a dispatcher: counts its evaluations, marks superseded verdicts, and informs the
//! forwards and the dead letters.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{PendingTraces, UnansweredLetters};
use crate::Outlet;
use crate::metrics::PipelineMetrics;
use spanscore_base::model::{Evaluation, EvaluationId, GivenVerdict, Outcome, Receipt, Recent};

/// Limit on remembered verdicts, by which a revision names its predecessor.
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

    /// Passes on the evaluations of one inquiry. An unanswered inquiry is not reported if another
    /// process now reads its records and repeats the question under the same identity.
    fn emit(&self, mut evaluations: Vec<Evaluation>, receipt: Option<Receipt>) {
        let left = receipt.as_ref().filter(|receipt| receipt.claims().are_retired());
        let is_answered = evaluations.iter().any(|it| matches!(it.outcome, Outcome::Scored(_)));
        if let Some(receipt) = left.filter(|_| !is_answered) {
            receipt.leave();
            return self.pending.told(&evaluations);
        }
        self.count_repeated(&evaluations, receipt.as_ref());
        self.supersede(&mut evaluations);
        self.metrics.evaluations(&evaluations);
        self.pending.told(&evaluations);
        if let Some(letters) = &self.letters {
            letters.keep(&evaluations);
        }
        (self.outlet)(evaluations, receipt);
    }

    /// Counts judge answers on records that another process had read, with their cost.
    fn count_repeated(&self, evaluations: &[Evaluation], receipt: Option<&Receipt>) {
        if !receipt.is_some_and(|receipt| receipt.claims().were_read_before()) {
            return;
        }
        let uses = evaluations.iter().filter_map(|it| it.judge.as_ref());
        // Evaluations of one inquiry share its use, and its cost.
        let mut last = None;
        for judge in
            uses.filter(|judge| last.replace(Arc::as_ptr(judge)) != Some(Arc::as_ptr(judge)))
        {
            self.metrics.stages.asked_again.add(1);
            self.metrics.stages.asked_again_cost.add(judge.cost_usd);
        }
    }

    /// Sets the superseded verdict of each evaluation, if it is remembered.
    fn supersede(&self, evaluations: &mut [Evaluation]) {
        let mut given = self.given.lock();
        for evaluation in evaluations {
            let revised = evaluation.revises.and_then(|id| given.get(&id).copied());
            evaluation.supersedes = evaluation.supersedes.or(revised);
            given.keep(evaluation.id, evaluation.verdict(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::WorkerContext;
    use spanscore_base::model::{
        Completion, EvaluatorInfo, Explanation, Level, Reason, Resource, Score, Sender, Source,
        SpanId, Target, TraceId,
    };
    use spanscore_base::value::Value;
    use spanscore_telemetry::Telemetry;

    fn evaluation(outcome: Outcome) -> Evaluation {
        let target = Target {
            trace_id: TraceId([1; 16]),
            sender: Sender::default(),
            session_id: None,
            resource: Arc::new(Resource::default()),
            agent_name: None,
            response: None,
            completion: Completion::RootEnded,
            is_partial: false,
            time_ns: 0,
            started_ns: 0,
            ended_ns: 0,
        };
        let evaluator = EvaluatorInfo {
            kind: "rubric",
            name: "rubric".into(),
            threshold: 1.0,
            level: Level::Trace,
            digest: [0; 16],
            case: None,
            own_version: None,
        };
        Evaluation {
            id: EvaluationId([1; 16]),
            evaluator: Arc::new(evaluator),
            target: Arc::new(target),
            span_id: SpanId([1; 8]),
            outcome,
            revision: 0,
            revises: None,
            supersedes: None,
            judge: None,
        }
    }

    #[test]
    fn unanswered_inquiry_is_left_to_whoever_reads_its_records() {
        let telemetry = Telemetry::without_endpoints().unwrap();
        let (context, _) = WorkerContext::of(&telemetry, Vec::new());
        let told = Arc::new(Mutex::new(0));
        let count = Arc::clone(&told);
        let outlet: Outlet = Arc::new(move |evaluations, _| {
            *count.lock() += evaluations.len();
        });
        let pending = Arc::new(PendingTraces::new(Arc::clone(&context.forwards)));
        let emit = AskedOutlet::new(&context.metrics, &outlet, &pending, None).into_outlet();
        let unanswered =
            || Outcome::NotEvaluable { reason: Reason::Shutdown, explanation: String::new() };
        let score = Outcome::Scored(Score {
            value: 1.0,
            explanation: Explanation::default(),
            details: Value::Null,
            label: None,
        });
        let [here, elsewhere]: [Arc<Source>; 2] = Default::default();
        elsewhere.retire();
        for (source, outcome, expected) in
            [(&here, unanswered(), 1), (&elsewhere, score, 2), (&elsewhere, unanswered(), 2)]
        {
            let receipt = Receipt::new(source.claim(1, 0).into(), || ());
            emit(vec![evaluation(outcome)], Some(receipt));
            assert_eq!((*told.lock(), source.lowest()), (expected, None));
        }
    }
}
