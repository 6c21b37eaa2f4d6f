//! Differences of scores and of pass rates, with 95 % intervals.
//!
//! Student's interval for paired differences, Welch's for two samples. Below [`PAIRS_MIN`] there is
//! no evidence whatever the numbers: four pairs all fall by chance once in sixteen times. Wilson's
//! interval for a share, and Newcombe's for the difference of two.

pub mod agreement;

/// Fewest pairs, or scores on each side, that count as evidence: 2^-5 is the first power below one
/// in twenty.
pub const PAIRS_MIN: usize = 5;

/// Mean difference and the interval that holds it in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanDifference {
    /// New minus old.
    pub mean: f64,
    /// Interval; `None` with too few scores.
    pub interval: Option<(f64, f64)>,
}

/// Evidence of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreEvidence {
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
    /// Returns its name in reports.
    pub fn as_str(self) -> &'static str {
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
    pub fn paired(differences: &[f64]) -> Self {
        let count = differences.len();
        let Moments { mean, variance, .. } = Moments::of(differences);
        let interval = (count >= PAIRS_MIN).then(|| {
            let half = student(count as f64 - 1.0) * (variance / count as f64).sqrt();
            (mean - half, mean + half)
        });
        Self { mean, interval }
    }

    /// Computes the difference of two samples' means.
    pub fn unpaired(old: &[f64], new: &[f64]) -> Self {
        Self::welch(Moments::of(old), Moments::of(new))
    }

    /// Computes the difference of two samples' means from their moments.
    pub fn welch(old: Moments, new: Moments) -> Self {
        let mean = new.mean - old.mean;
        let a = old.variance / old.count;
        let b = new.variance / new.count;
        let enough = old.count >= PAIRS_MIN as f64 && new.count >= PAIRS_MIN as f64;
        let interval = enough.then(|| {
            let n = old.count - 1.0;
            let m = new.count - 1.0;
            // Welch-Satterthwaite. Without any spread the interval is a point, at any freedom.
            let spread = a * a / n + b * b / m;
            let freedom = if spread > 0.0 { (a + b) * (a + b) / spread } else { n + m };
            let half = student(freedom) * (a + b).sqrt();
            (mean - half, mean + half)
        });
        Self { mean, interval }
    }

    /// Returns the evidence.
    pub fn evidence(&self) -> ScoreEvidence {
        match self.interval {
            Some((_, high)) if high < 0.0 => ScoreEvidence::Worse,
            Some((low, _)) if low > 0.0 => ScoreEvidence::Better,
            _ => ScoreEvidence::None,
        }
    }
}

/// Number of values with their mean and unbiased variance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Number.
    pub count: f64,
    /// Mean; 0 without values.
    pub mean: f64,
    /// Variance; 0 with fewer than two values.
    pub variance: f64,
}

impl Moments {
    /// Computes the moments of values.
    pub fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        Self { count, mean, variance: squares / (count - 1.0).max(1.0) }
    }

    /// Computes moments from the sum and the sum of squares of values from 0 to 1.
    pub fn of_sums(count: f64, sum: f64, squares: f64) -> Self {
        if count < 1.0 {
            return Self::default();
        }
        let mean = sum / count;
        let spread = (squares - sum * mean).max(0.0);
        Self { count, mean, variance: spread / (count - 1.0).max(1.0) }
    }
}

/// Hits among trials.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Hits.
    pub hits: f64,
    /// Trials.
    pub count: f64,
}

/// Difference of two shares, new minus old, and the interval that holds it in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareDifference {
    /// New minus old.
    pub value: f64,
    /// Interval.
    pub interval: (f64, f64),
}

/// Two-sided 95 % of the normal distribution.
const NORMAL: f64 = 1.959_963_985;

impl Share {
    /// Makes a share of counts.
    pub fn new(hits: i64, count: i64) -> Self {
        Self { hits: hits as f64, count: count as f64 }
    }

    /// Returns the share; `None` without trials.
    pub fn rate(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.hits / self.count)
    }

    /// Computes Wilson's 95 % score interval; `None` without trials.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let rate = self.rate()?;
        let z = NORMAL * NORMAL / self.count;
        let centre = (rate + z / 2.0) / (1.0 + z);
        let half = (z * (rate * (1.0 - rate) + z / 4.0)).sqrt() / (1.0 + z);
        // At 0 and 1 rounding puts a bound outside of the range.
        Some(((centre - half).max(0.0), (centre + half).min(1.0)))
    }

    /// Computes the difference to a newer share, with Newcombe's 95 % interval; `None` if a side
    /// has no trials.
    pub fn difference(&self, new: &Self) -> Option<ShareDifference> {
        let old_rate = self.rate()?;
        let new_rate = new.rate()?;
        let (old_low, old_high) = self.interval()?;
        let (new_low, new_high) = new.interval()?;
        let value = new_rate - old_rate;
        let below = (new_rate - new_low).hypot(old_high - old_rate);
        let above = (new_high - new_rate).hypot(old_rate - old_low);
        Some(ShareDifference { value, interval: (value - below, value + above) })
    }
}

/// Student's t for 95 %, two-sided, by degrees of freedom 1 to 30 (from any table).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

fn student(freedom: f64) -> f64 {
    // Rounded down to an entry, which is wider, so the evidence is never overstated.
    let place = freedom.floor().max(1.0) as usize;
    match STUDENT.get(place - 1) {
        Some(value) => *value,
        // Above 30 the normal distribution's 1.960 with two corrections, exact to 0.001.
        None => 1.96 + 2.372 / freedom + 2.8 / (freedom * freedom),
    }
}

impl ShareDifference {
    /// Returns the probability of this difference or a larger one between equal shares: below 0.05
    /// if the interval excludes 0.
    pub fn p_value(&self) -> f64 {
        let nearer = if self.value < 0.0 { self.interval.1 } else { self.interval.0 };
        let half = (self.value - nearer).abs();
        if self.value == 0.0 { 1.0 } else { two_tails(NORMAL * self.value.abs() / half) }
    }
}

/// Returns the probability of a standard normal value at least this far from 0, exact to 2e-7
/// (Abramowitz and Stegun 7.1.26).
fn two_tails(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    sum * (-x * x).exp()
}

/// Marks the differences that are evidence, with a false discovery rate of at most `share`
/// (Benjamini and Hochberg).
pub fn discoveries(p_values: &[f64], share: f64) -> Vec<bool> {
    let mut sorted = p_values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let step = share / sorted.len().max(1) as f64;
    let ranked = sorted.iter().zip(1..);
    let limit = ranked.filter(|(p, rank)| **p <= step * f64::from(*rank)).map(|(p, _)| *p).last();
    p_values.iter().map(|p| limit.is_some_and(|limit| *p <= limit)).collect()
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
    fn moments_of_sums_are_those_of_the_values() {
        let values = [0.25, 0.5, 1.0, 1.0];
        let squares = values.iter().map(|it| it * it).sum();
        let found = Moments::of_sums(4.0, values.iter().sum(), squares);
        let expected = Moments::of(&values);
        assert!((found.variance - expected.variance).abs() < 1e-12 && found.mean == expected.mean);
        assert_eq!(Moments::of_sums(0.0, 0.0, 0.0), Moments::of(&[]));
    }

    /// Published by Newcombe (1998): score intervals without continuity correction.
    #[test]
    fn intervals_of_shares_are_wilson_s() {
        let check = |hits, count, low, high| near(Share::new(hits, count).interval(), low, high);
        check(81, 263, 0.2553, 0.3662);
        check(15, 148, 0.0624, 0.1605);
        check(0, 20, 0.0, 0.1611);
        check(1, 29, 0.0061, 0.1718);
        check(20, 20, 0.8389, 1.0);
        assert_eq!(Share::new(0, 0).interval(), None);
    }

    /// Published by Newcombe (1998): differences by method 10.
    #[test]
    fn intervals_of_differences_are_newcombe_s() {
        let check = |new: (i64, i64), old: (i64, i64), low, high| {
            let found = Share::new(old.0, old.1).difference(&Share::new(new.0, new.1));
            near(found.map(|it| it.interval), low, high);
        };
        check((56, 70), (48, 80), 0.0524, 0.3339);
        check((9, 10), (3, 10), 0.1705, 0.8090);
        check((6, 7), (2, 7), 0.0582, 0.8062);
        check((5, 56), (0, 29), -0.0381, 0.1926);
        assert_eq!(Share::new(1, 2).difference(&Share::new(0, 0)), None);
    }

    #[test]
    fn p_values_fall_below_a_twentieth_where_the_interval_leaves_out_zero() {
        for (z, p) in [(0.0, 1.0), (1.0, 0.317_311), (1.959_964, 0.05), (3.290_527, 0.001)] {
            assert!((two_tails(z) - p).abs() < 1e-6, "{z}");
        }
        for new in 0..=40 {
            let found = Share::new(20, 40).difference(&Share::new(new, 40)).expect("trials");
            let leaves_out = found.interval.0 > 0.0 || found.interval.1 < 0.0;
            assert_eq!(found.p_value() < 0.05, leaves_out, "{new}");
        }
    }

    /// Published by Benjamini and Hochberg (1995): 4 of 15 stand at 5 %.
    #[test]
    fn of_many_differences_few_that_are_none_are_called_evidence() {
        let p_values = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let found = discoveries(&p_values, 0.05);
        assert_eq!(found.iter().filter(|it| **it).count(), 4);
        assert!(found[3] && !found[4] && discoveries(&[], 0.05).is_empty());
        assert_eq!(discoveries(&[0.04], 0.05), [true]);
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
