//! Early verdicts on open traces.

use super::Worker;
use spanscore_assemble::{ChargedSteps, RunningTrace};
use spanscore_base::model::{Claims, Completion, Evaluation, Reported, WorkBudget};
use spanscore_base::panics::caught;
use spanscore_evaluate::engine::run::Evidence;
use spanscore_net::clock::now_ns;

/// Inverse of the additional share of a trace's work budget for early verdicts. The final judgement
/// must not depend on how the spans arrive.
const EARLY_SHARE: u64 = 4;

impl Worker {
    /// Judges the running traces extended by the last batch, if an evaluator gives early verdicts;
    /// returns the steps taken.
    pub(super) fn judge_running(&mut self) -> u64 {
        let running = self.shard.take_running();
        if running.is_empty() {
            return 0;
        }
        let mut taken = 0;
        let now_ns = now_ns();
        let mut evaluations = Vec::new();
        let mut said = Vec::new();
        let mut claims = Claims::default();
        for running in running {
            let before = evaluations.len();
            let (reported, steps) = self.evaluate_early(running, now_ns, &mut evaluations);
            self.supersede(running.handle, &mut evaluations[before..]);
            claims.join(&self.shard.claims(running.handle));
            self.shard.charge_steps(running.handle, ChargedSteps { judged: 0, early: steps });
            taken += steps;
            said.extend(reported.map(|reported| (running.handle, reported)));
        }
        self.hand_out(evaluations, claims, Vec::new());
        for (handle, reported) in said {
            self.shard.keep_reported(handle, reported);
        }
        taken
    }

    /// Appends early verdicts to `out`; returns the reports on the trace, `None` if nothing was
    /// added, and the steps taken.
    fn evaluate_early(
        &self,
        running: RunningTrace,
        now_ns: u64,
        out: &mut Vec<Evaluation>,
    ) -> (Option<Vec<Reported>>, u64) {
        let mut reported = self.shard.reported(running.handle).to_vec();
        let steps_max = (self.context.trace_steps / EARLY_SHARE)
            .saturating_sub(self.shard.steps(running.handle).early);
        let asks = steps_max > 0 && self.context.setup.evaluators.may_report(&reported);
        let Some(trace) = self.shard.trace(running.handle).filter(|_| asks) else {
            return (None, 0);
        };
        let evidence = Evidence::first(running.digest, Completion::Open, now_ns);
        let before = out.len();
        let Some(_reading) = self.reserve(trace) else { return (None, steps_max) };
        let judged = caught(|| {
            let mut trajectory =
                self.context.setup.resolver.resolve_within(trace, WorkBudget::new(steps_max));
            self.context
                .setup
                .evaluators
                .evaluate_early(&mut trajectory, evidence, &mut reported, out);
            trajectory.effort.taken()
        });
        if judged.is_err() {
            out.truncate(before);
            self.context.metrics.stages.panics.add(1);
            tracing::error!(trace_id = %trace.sent_id(), "judging an open trace panicked");
        }
        let reported = (out.len() > before).then_some(reported);
        (reported, judged.unwrap_or(steps_max))
    }
}
