//! Rollups: sums of evaluations by minute, evaluator and source, which support subtraction.

use spanscore_base::model::{Evaluation, GivenVerdict, Outcome};

use crate::histogram::{SCORE_BINS, score_bin};

/// Resolution of sums: integer billionths add up exactly, in any order.
const BILLIONTHS: f64 = 1e9;
/// Longest time between the end of a target and its arrival, milliseconds: 400 days.
const PAST_MAX_MS: i64 = 400 * 24 * 3_600_000;
/// Longest accepted lead of a sender's clock, milliseconds.
const FUTURE_MAX_MS: i64 = 60_000;

/// Figures of one evaluation for sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EvaluationFigures {
    pub(crate) verdict: GivenVerdict,
    pub(crate) score: Option<f64>,
    pub(crate) cost: Option<f64>,
    /// End of the target, clamped, Unix milliseconds.
    pub(crate) time_ms: i64,
}

impl EvaluationFigures {
    /// Reads the figures of an evaluation that arrived at `now_ms`.
    pub(crate) fn new(evaluation: &Evaluation, now_ms: i64) -> Self {
        let score = match &evaluation.outcome {
            Outcome::Scored(score) => Some(score.value),
            _ => None,
        };
        Self {
            verdict: evaluation.verdict(),
            score,
            cost: evaluation.judge.as_ref().map(|judge| judge.cost_usd),
            time_ms: clamp(evaluation.target.ended_ns, now_ms),
        }
    }

    /// Returns the minute since 1970.
    pub(crate) fn minute(&self) -> i64 {
        self.time_ms.div_euclid(60_000)
    }

    /// Returns true for a pass with the full score.
    pub(crate) fn is_perfect(&self) -> bool {
        self.verdict == GivenVerdict::Pass && self.score.is_none_or(|score| score >= 1.0)
    }
}

/// Clamps a sender's time to a plausible range by our clock, milliseconds; our time if absent.
pub(crate) fn clamp(time_ns: u64, now_ms: i64) -> i64 {
    clamp_us(time_ns, now_ms).div_euclid(1_000)
}

fn clamp_us(time_ns: u64, now_ms: i64) -> i64 {
    let micros = |ms: i64| ms.saturating_mul(1_000);
    match i64::try_from(time_ns / 1_000) {
        Ok(..1_000) | Err(_) => micros(now_ms),
        Ok(us) => us.clamp(
            micros(now_ms.saturating_sub(PAST_MAX_MS)),
            micros(now_ms.saturating_add(FUTURE_MAX_MS)),
        ),
    }
}

/// Returns the microseconds between a run's bounds, each clamped by itself, so that a wrong one
/// does not shift the other; 0 without both. A page's cursor holds them exactly as `f64`.
pub(crate) fn clamped_duration_us(start_ns: u64, end_ns: u64, now_ms: i64) -> i64 {
    if start_ns == 0 || end_ns <= start_ns {
        return 0;
    }
    (clamp_us(end_ns, now_ms) - clamp_us(start_ns, now_ms)).max(0)
}

/// Sums of evaluations, or a change of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RollupSums {
    pub(crate) passed: i64,
    pub(crate) failed: i64,
    pub(crate) not_evaluable: i64,
    pub(crate) broken: i64,
    pub(crate) sum: i64,
    pub(crate) squares: i64,
    pub(crate) cost: i64,
    pub(crate) bins: [i64; SCORE_BINS],
}

impl RollupSums {
    /// Adds an evaluation, or subtracts it if `sign` is -1.
    pub(crate) fn count(&mut self, figures: &EvaluationFigures, sign: i64) {
        let counter = match figures.verdict {
            GivenVerdict::Pass => &mut self.passed,
            GivenVerdict::Fail => &mut self.failed,
            GivenVerdict::NotEvaluable => &mut self.not_evaluable,
            GivenVerdict::Failed => &mut self.broken,
        };
        *counter += sign;
        if let Some(score) = figures.score.filter(|score| score.is_finite()) {
            self.sum += sign * (score * BILLIONTHS).round() as i64;
            self.squares += sign * (score * score * BILLIONTHS).round() as i64;
            self.bins[score_bin(score)] += sign;
        }
        self.cost += sign * (figures.cost.unwrap_or(0.0) * BILLIONTHS).round() as i64;
    }

    /// Returns the number of evaluations.
    pub(crate) fn evaluations(&self) -> i64 {
        self.passed + self.failed + self.not_evaluable + self.broken
    }

    /// Adds other sums.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.not_evaluable += other.not_evaluable;
        self.broken += other.broken;
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
        self.cost = self.cost.saturating_add(other.cost);
        self.bins.iter_mut().zip(other.bins).for_each(|(bin, more)| *bin += more);
    }
}
