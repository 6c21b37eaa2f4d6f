//! Mean difference of two runs' scores, with its 95 % interval.
//!
//! Student's interval of paired differences, or Welch's of two samples if nothing pairs them. Below
//! [`PAIRS_MIN`] there is no evidence whatever the numbers: four pairs all fall by chance once in
//! sixteen times.

/// Fewest pairs, or scores on each side, that can be evidence: 2^-5 is the first power below one in
/// twenty.
pub(super) const PAIRS_MIN: usize = 5;

/// Mean difference and the interval that holds it in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MeanDifference {
    /// New minus old.
    pub(super) mean: f64,
    /// Interval; `None` with too few scores.
    pub(super) interval: Option<(f64, f64)>,
}

/// Evidence of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScoreEvidence {
    /// The scores got worse.
    Worse,
    /// The scores got better.
    Better,
    /// None: the interval holds 0, or there are too few scores.
    None,
    /// Every pair has equal scores.
    Same,
}

impl ScoreEvidence {
    /// Returns the word in reports.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::None => "no evidence",
            Self::Same => "same",
        }
    }
}

impl MeanDifference {
    /// Computes the mean of paired differences, each new minus old.
    pub(super) fn paired(differences: &[f64]) -> Self {
        let count = differences.len();
        let (mean, variance) = moments(differences);
        let interval = (count >= PAIRS_MIN).then(|| {
            let half = student(count as f64 - 1.0) * (variance / count as f64).sqrt();
            (mean - half, mean + half)
        });
        Self { mean, interval }
    }

    /// Computes the difference of two samples' means.
    pub(super) fn unpaired(old: &[f64], new: &[f64]) -> Self {
        let (old_mean, old_variance) = moments(old);
        let (new_mean, new_variance) = moments(new);
        let mean = new_mean - old_mean;
        let a = old_variance / old.len() as f64;
        let b = new_variance / new.len() as f64;
        let enough = old.len() >= PAIRS_MIN && new.len() >= PAIRS_MIN;
        let interval = enough.then(|| {
            let n = old.len() as f64 - 1.0;
            let m = new.len() as f64 - 1.0;
            // Welch-Satterthwaite. Without any spread the interval is a point, at any freedom.
            let spread = a * a / n + b * b / m;
            let freedom = if spread > 0.0 { (a + b) * (a + b) / spread } else { n + m };
            let half = student(freedom) * (a + b).sqrt();
            (mean - half, mean + half)
        });
        Self { mean, interval }
    }

    /// Returns the evidence.
    pub(super) fn evidence(&self) -> ScoreEvidence {
        match self.interval {
            Some((_, high)) if high < 0.0 => ScoreEvidence::Worse,
            Some((low, _)) if low > 0.0 => ScoreEvidence::Better,
            _ => ScoreEvidence::None,
        }
    }
}

/// Returns mean and unbiased variance.
fn moments(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, squares / (values.len() as f64 - 1.0).max(1.0))
}

/// Student's t for 95 %, two-sided, by degrees of freedom 1 to 30 (from any table).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

fn student(freedom: f64) -> f64 {
    // Rounded down to an entry, which is wider: it never overstates the evidence.
    let place = freedom.floor().max(1.0) as usize;
    match STUDENT.get(place - 1) {
        Some(value) => *value,
        // Above 30 the normal distribution's 1.960 with two corrections, exact to 0.001.
        None => 1.96 + 2.372 / freedom + 2.8 / (freedom * freedom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<(f64, f64)>, low: f64, high: f64) {
        let (a, b) = found.expect("an interval");
        assert!((a - low).abs() < 5e-4 && (b - high).abs() < 5e-4, "{a} {b}");
    }

    /// Worked by hand: -0.3 and 2.776 standard errors of 0.0935; -0.28 and 2.365 of 0.1020.
    #[test]
    fn intervals_are_student_s_and_welch_s() {
        near(MeanDifference::paired(&[-0.5, -0.25, 0.0, -0.25, -0.5]).interval, -0.5597, -0.0403);
        let old = [1.0, 0.8, 0.9, 1.0, 0.7];
        let new = [0.5, 0.6, 0.9, 0.4, 0.6];
        let found = MeanDifference::unpaired(&old, &new);
        assert!((found.mean + 0.28).abs() < 1e-9);
        near(found.interval, -0.5212, -0.0388);
        assert!((student(1000.0) - 1.9623).abs() < 1e-3 && (student(40.0) - 2.0211).abs() < 1e-3);
    }

    #[test]
    fn few_scores_are_no_evidence_and_many_that_fell_are() {
        assert_eq!(MeanDifference::paired(&[-1.0; 4]).evidence(), ScoreEvidence::None);
        assert_eq!(MeanDifference::paired(&[-1.0; 5]).evidence(), ScoreEvidence::Worse);
        assert_eq!(MeanDifference::paired(&[0.1; 9]).evidence(), ScoreEvidence::Better);
        assert_eq!(
            MeanDifference::paired(&[-1.0, 0.0, 0.0, 0.0, 0.0]).evidence(),
            ScoreEvidence::None
        );
        assert_eq!(MeanDifference::unpaired(&[1.0; 5], &[]).evidence(), ScoreEvidence::None);
    }
}
