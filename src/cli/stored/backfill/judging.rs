//! Judgement of stored runs by a config's evaluators, compared with the stored verdicts.

use hashbrown::HashMap;
use serde::Serialize;

use super::needs::EvaluatorNeeds;
use super::tally::{EvaluatorTally, VerdictWord};
use spanscore_base::model::{Completion, Evaluation, Level, SpanId, Want};
use spanscore_evaluate::engine::run::{Configured, Evaluators, Evidence};
use spanscore_store::query::{KnownVerdict, RestoredRun};

/// Verdict on a target, with the stored one.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct BackfilledVerdict {
    /// Trace, 32 digits.
    pub(super) trace_id: String,
    /// Span of the judged call, or of the trace.
    pub(super) span_id: String,
    /// Full name of the evaluator.
    pub(super) evaluator: String,
    /// Case of a dataset.
    pub(super) case: Option<String>,
    /// Stored verdict.
    pub(super) before: Option<VerdictWord>,
    /// Verdict by the config.
    pub(super) now: VerdictWord,
    /// Stored score.
    pub(super) score_before: Option<f64>,
    /// Score by the config.
    pub(super) score_now: Option<f64>,
    /// Explanation, error, or reason.
    pub(super) why: String,
    /// True if it changes, or fails without a stored verdict: then it is reported.
    #[serde(skip)]
    pub(super) is_told: bool,
}

/// Evaluators of a config that can judge stored runs, with counts of all.
pub(super) struct Backfill {
    evaluators: Evaluators,
    needs: Vec<EvaluatorNeeds>,
    /// Their counts, in the order of `needs`.
    tallies: Vec<EvaluatorTally>,
    /// Counts of evaluators that cannot judge stored runs.
    unable: Vec<(EvaluatorTally, &'static str)>,
    steps: u64,
    now_ns: u64,
    /// Number of runs read.
    pub(super) runs: u64,
}

impl Backfill {
    /// Sorts the evaluators; `steps` is the limit per run.
    pub(super) fn new(configured: Vec<Configured>, steps: u64, now_ns: u64) -> Self {
        let mut able = Vec::new();
        let mut needs = Vec::new();
        let mut unable = Vec::new();
        for configured in configured {
            match EvaluatorNeeds::of(&configured) {
                Ok(its) => {
                    needs.push(its);
                    able.push(configured);
                }
                Err(reason) => unable.push((EvaluatorTally::new(&configured.info.name), reason)),
            }
        }
        let tallies = able.iter().map(|it| EvaluatorTally::new(&it.info.name)).collect();
        let want = Want { explanation: true, ..Want::SCORE };
        let evaluators = Evaluators::new(able, want);
        Self { evaluators, needs, tallies, unable, steps, now_ns, runs: 0 }
    }

    /// Judges a run; passes each verdict to `visit`.
    pub(super) fn judge<E>(
        &mut self,
        run: &RestoredRun,
        mut visit: impl FnMut(BackfilledVerdict) -> Result<(), E>,
    ) -> Result<(), E> {
        self.runs += 1;
        let mut trajectory = match run.trajectory(self.steps) {
            Ok(trajectory) => trajectory,
            Err(reason) => {
                self.tallies.iter_mut().for_each(|tally| tally.add_not_judged(reason, 1));
                return Ok(());
            }
        };
        let mut evaluations = Vec::new();
        let evidence = Evidence::first([0; 16], Completion::EndOfInput, self.now_ns);
        let reported = &mut Vec::new();
        let skips =
            self.evaluators.evaluate_trace(&mut trajectory, evidence, reported, &mut evaluations);
        let mut by_name: HashMap<&str, Vec<&Evaluation>> = HashMap::new();
        for it in &evaluations {
            by_name.entry(it.evaluator.name.as_str()).or_default().push(it);
        }
        let configured = self.evaluators.evaluators().iter().zip(&self.needs);
        for (at, ((configured, needs), tally)) in configured.zip(&mut self.tallies).enumerate() {
            if let Some(reason) = needs.unmet_by(run) {
                tally.add_not_judged(&reason, 1);
                continue;
            }
            if skips.iter().any(|(index, _)| *index == at) {
                tally.unselected += 1;
                continue;
            }
            tally.runs += 1;
            let mut earlier = VerdictsBefore::of(run, configured);
            for it in by_name.remove(configured.info.name.as_str()).unwrap_or_default() {
                let before = earlier.take(it.span_id).map(|it| (it.verdict, it.score));
                visit(compared(it, before, tally))?;
            }
        }
        Ok(())
    }

    /// Returns the counts of all evaluators.
    pub(super) fn finish(mut self) -> Vec<EvaluatorTally> {
        for (tally, reason) in &mut self.unable {
            tally.add_not_judged(reason, self.runs);
        }
        let unable = self.unable.into_iter().map(|(tally, _)| tally);
        self.tallies.into_iter().chain(unable).collect()
    }
}

/// Stored verdicts of one evaluator on a run.
struct VerdictsBefore<'r> {
    of_trace: Option<&'r KnownVerdict>,
    /// Verdicts on calls by span, the last stored first.
    of_calls: HashMap<SpanId, Vec<&'r KnownVerdict>>,
}

impl<'r> VerdictsBefore<'r> {
    fn of(run: &'r RestoredRun, configured: &Configured) -> Self {
        let is_of_call = configured.info.level == Level::Call;
        let its = |it: &&KnownVerdict| {
            it.is_of_call == is_of_call && it.evaluator == configured.info.name
        };
        let mut earlier = Self { of_trace: None, of_calls: HashMap::new() };
        for verdict in run.verdicts.iter().rev().filter(its) {
            if is_of_call {
                earlier.of_calls.entry(verdict.span_id).or_default().push(verdict);
            } else {
                earlier.of_trace = Some(verdict);
            }
        }
        earlier
    }

    /// Takes the verdict on a target.
    fn take(&mut self, span_id: SpanId) -> Option<&'r KnownVerdict> {
        self.of_trace.take().or_else(|| self.of_calls.get_mut(&span_id)?.pop())
    }
}

/// Pairs an evaluation with the earlier verdict and score, and counts both.
pub(in crate::cli) fn compared(
    it: &Evaluation,
    before: Option<(VerdictWord, Option<f64>)>,
    tally: &mut EvaluatorTally,
) -> BackfilledVerdict {
    let now = it.verdict().as_str();
    let (before, score_before) = before.unzip();
    BackfilledVerdict {
        trace_id: it.target.trace_id.to_string(),
        span_id: it.span_id.to_string(),
        evaluator: it.evaluator.name.clone(),
        case: it.evaluator.case.as_deref().map(str::to_owned),
        before,
        now,
        score_before: score_before.flatten(),
        score_now: it.outcome.score().map(|score| score.value),
        why: it.outcome.words().to_owned(),
        is_told: tally.add(before, now),
    }
}
