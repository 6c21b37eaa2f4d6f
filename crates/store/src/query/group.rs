//! Figures of a group of evaluations with their intervals, for answers.

use serde::Serialize;
use spanscore_base::statistics::{Share, ShareDifference};

use super::list::StoredGroup;

/// Interval, lower and upper bound.
pub type FigureInterval = Option<(f64, f64)>;

/// Figures of evaluations.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupFigures {
    /// Evaluations.
    pub count: i64,
    /// Passes.
    pub passed: i64,
    /// Fails.
    pub failed: i64,
    /// Not evaluable ones.
    pub not_evaluable: i64,
    /// Evaluations whose evaluator broke.
    pub broken: i64,
    /// Share of passes among passes and fails.
    pub pass_rate: Option<f64>,
    /// Its Wilson interval.
    pub pass_interval: FigureInterval,
    /// Mean score.
    pub mean: Option<f64>,
    /// Cost of judges, US dollars.
    pub cost_usd: f64,
}

impl GroupFigures {
    /// Computes the figures of a group.
    pub fn new(group: &StoredGroup) -> Self {
        Self {
            count: group.count(),
            passed: group.passed,
            failed: group.failed,
            not_evaluable: group.not_evaluable,
            broken: group.broken,
            pass_rate: group.pass_rate(),
            pass_interval: Share::new(group.passed, group.passed + group.failed).interval(),
            mean: group.mean,
            cost_usd: group.cost_usd,
        }
    }

    /// Computes the figures of the only group, or of none.
    pub fn of_all(groups: &[StoredGroup]) -> Self {
        groups.first().map(Self::new).unwrap_or_default()
    }
}

/// Difference, new minus old, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IntervalDifference {
    /// New minus old.
    pub value: f64,
    /// Interval.
    pub interval: FigureInterval,
}

impl From<ShareDifference> for IntervalDifference {
    fn from(it: ShareDifference) -> Self {
        Self { value: it.value, interval: Some(it.interval) }
    }
}
