//! Repeated runs of a case: pass^k and pass@k with intervals, and flaky cases.
//!
//! For a case with `n` runs, `c` of which passed, C(c,k)/C(n,k) is the unbiased estimate of pass^k,
//! that `k` further runs all pass; 1 - C(n-c,k)/C(n,k) that of pass@k, that at least one does. An
//! evaluator's figure is the mean over its cases. The interval is Student's over the cases; for a
//! single case Wilson's of its pass rate, raised to `k` runs.

use super::baseline::listed;
use spanscore_base::statistics::{MeanDifference, Share};

/// Runs of one case.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CaseRuns {
    pub(super) runs: usize,
    pub(super) passed: usize,
}

/// Repeated cases of one evaluator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RepeatedRuns {
    pub(super) evaluator: String,
    /// Number of cases with at least two runs.
    pub(super) cases: usize,
    /// Runs of the case with the fewest, the `k` of the figures.
    pub(super) k: usize,
    /// pass^k.
    pub(super) all: PassEstimate,
    /// pass@k.
    pub(super) any: PassEstimate,
    /// Cases that passed in some runs and failed in others, with their counts.
    pub(super) flaky: Vec<String>,
}

/// Share with its 95 % interval, if any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PassEstimate {
    pub(super) mean: f64,
    pub(super) interval: Option<(f64, f64)>,
}

impl CaseRuns {
    fn is_flaky(self) -> bool {
        self.passed > 0 && self.passed < self.runs
    }

    /// Estimates that `k` runs all pass.
    fn all_of(self, k: usize) -> f64 {
        chance(self.passed, self.runs, k)
    }

    /// Estimates that one of `k` runs passes.
    fn any_of(self, k: usize) -> f64 {
        1.0 - chance(self.runs - self.passed, self.runs, k)
    }
}

/// Returns the probability that `k` drawn of `count` are all among `hits` of them.
fn chance(hits: usize, count: usize, k: usize) -> f64 {
    (0..k).map(|at| hits.saturating_sub(at) as f64 / (count - at) as f64).product()
}

impl RepeatedRuns {
    /// Summarises the cases of an evaluator; `None` if none was run twice.
    pub(super) fn of<'c>(
        evaluator: &str,
        cases: impl Iterator<Item = (&'c str, CaseRuns)>,
    ) -> Option<Self> {
        let cases: Vec<_> = cases.filter(|(_, case)| case.runs > 1).collect();
        let repeated = || cases.iter().map(|(_, case)| *case);
        let k = repeated().map(|case| case.runs).min()?;
        let mean = |of: fn(CaseRuns, usize) -> f64| {
            let values: Vec<f64> = repeated().map(|case| of(case, k)).collect();
            PassEstimate::of_cases(&values)
        };
        let mut found = Self {
            evaluator: evaluator.to_owned(),
            cases: cases.len(),
            k,
            all: mean(CaseRuns::all_of),
            any: mean(CaseRuns::any_of),
            flaky: flaky(&cases),
        };
        if let [(_, only)] = cases[..] {
            found.take_interval(only);
        }
        Some(found)
    }

    /// Sets the intervals from the only case.
    fn take_interval(&mut self, case: CaseRuns) {
        let share = Share { hits: case.passed as f64, count: case.runs as f64 };
        let k = i32::try_from(self.k).unwrap_or(i32::MAX);
        let interval = share.interval();
        self.all.interval = interval.map(|(low, high)| (low.powi(k), high.powi(k)));
        let any = |rate: f64| 1.0 - (1.0 - rate).powi(k);
        self.any.interval = interval.map(|(low, high)| (any(low), any(high)));
    }

    /// Formats the change from these runs to later ones, each with its number of runs.
    pub(super) fn change_to(&self, new: &Self) -> String {
        let figure = |it: &Self| format!("pass^{} {:.3}", it.k, it.all.mean);
        format!("{} -> {}", figure(self), figure(new))
    }

    /// Formats the figures as one line.
    pub(super) fn sentence(&self) -> String {
        let Self { evaluator, cases, k, all, any, flaky } = self;
        let plural = if *cases == 1 { "" } else { "s" };
        let flaky = match flaky.as_slice() {
            [] => String::new(),
            flaky => format!("; flaky: {}", listed(flaky)),
        };
        format!(
            "runs: {evaluator}: {cases} case{plural} run {k} times or more: pass^{k} {}, \
             pass@{k} {}{flaky}",
            all.text(),
            any.text()
        )
    }
}

fn flaky(cases: &[(&str, CaseRuns)]) -> Vec<String> {
    let flaky = cases.iter().filter(|(_, case)| case.is_flaky());
    flaky.map(|(name, case)| format!("{name} ({} of {})", case.passed, case.runs)).collect()
}

impl PassEstimate {
    fn of_cases(values: &[f64]) -> Self {
        let MeanDifference { mean, interval } = MeanDifference::paired(values);
        Self { mean, interval: interval.map(|(low, high)| (low.max(0.0), high.min(1.0))) }
    }

    fn text(&self) -> String {
        match self.interval {
            Some((low, high)) => format!("{:.3} (95 %: {low:.3} to {high:.3})", self.mean),
            None => format!("{:.3}", self.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(usize, usize)], sentence: Option<&str>) {
        let runs = cases.iter().map(|(passed, runs)| CaseRuns { runs: *runs, passed: *passed });
        let found = RepeatedRuns::of("e", ["a", "b", "c", "d", "f", "g"].into_iter().zip(runs));
        assert_eq!(found.map(|it| it.sentence()).as_deref(), sentence, "{cases:?}");
    }

    /// Worked by hand: C(3,2)/C(4,2) is 1/2, 1 - C(1,2)/C(4,2) is 1, 1 - C(3,2)/C(4,2) is 1/2.
    #[test]
    fn runs_of_a_case_are_summed_up_by_what_all_and_any_of_them_give() {
        check(&[(1, 1), (0, 1)], None);
        check(
            &[(3, 4), (1, 4), (2, 2), (1, 1)],
            Some(
                "runs: e: 3 cases run 2 times or more: pass^2 0.500, pass@2 0.833; \
                 flaky: `a (3 of 4)`, `b (1 of 4)`",
            ),
        );
        check(
            &[(2, 2); 6],
            Some(
                "runs: e: 6 cases run 2 times or more: pass^2 1.000 (95 %: 1.000 to 1.000), \
                 pass@2 1.000 (95 %: 1.000 to 1.000)",
            ),
        );
    }

    /// Wilson's interval of 20 of 20 begins at 0.8389, whose 20th power is 0.0298.
    #[test]
    fn a_single_case_has_the_interval_of_its_pass_rate() {
        check(
            &[(20, 20)],
            Some(
                "runs: e: 1 case run 20 times or more: pass^20 1.000 (95 %: 0.030 to 1.000), \
                 pass@20 1.000 (95 %: 1.000 to 1.000)",
            ),
        );
    }
}
