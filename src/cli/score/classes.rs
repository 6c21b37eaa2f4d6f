//! Metrics of a classifier over all runs: precision, recall and F-score, by class and as means.
//!
//! Counted from the details of `classification`, by the classes of its settings. Semantics follow
//! UiPath's package (`uipath` 2.14, `classification_dataset_evaluators.py`): an output of no class
//! misses the expected one, the macro mean covers all classes, present or not, and a quotient with
//! divisor 0 is 0.

use spanscore_base::model::{Evaluation, Outcome};
use spanscore_base::value::Value;
use spanscore_evaluate::ClassifierClasses;

/// Limit on listed classes, those with the lowest F-score.
const TOLD_MAX: usize = 20;

/// Runs of one evaluator by class.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClassCounts {
    /// Each class with its runs, in the order of the settings.
    classes: Vec<(String, ClassRuns)>,
    /// Weight of recall in the F-score.
    f_value: f64,
    runs: usize,
}

/// Runs about one class, or about all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ClassRuns {
    hits: usize,
    /// Runs that wrongly named it.
    wrong: usize,
    /// Runs that wrongly did not name it.
    missed: usize,
}

/// Precision, recall and F-score.
type ClassMetrics = [f64; 3];

impl ClassRuns {
    fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.wrong += other.wrong;
        self.missed += other.missed;
    }

    fn metrics(self, f_value: f64) -> ClassMetrics {
        let share = |all: usize| self.hits as f64 / all.max(1) as f64;
        let precision = share(self.hits + self.wrong);
        let recall = share(self.hits + self.missed);
        let weight = f_value * f_value;
        let divisor = weight * precision + recall;
        let score = (1.0 + weight) * precision * recall / divisor;
        [precision, recall, if divisor > 0.0 { score } else { 0.0 }]
    }
}

impl ClassCounts {
    /// Returns counts without runs.
    pub(super) fn new(told: ClassifierClasses) -> Self {
        let classes = told.names.into_iter().map(|class| (class, ClassRuns::default())).collect();
        Self { classes, f_value: told.f_value, runs: 0 }
    }

    /// Counts an evaluation.
    pub(super) fn add(&mut self, evaluation: &Evaluation) {
        let Outcome::Scored(score) = &evaluation.outcome else { return };
        let side = |side| score.details.get(side).and_then(Value::as_str);
        let expected = side("expected");
        let actual = side("actual");
        self.runs += 1;
        for (class, runs) in &mut self.classes {
            let is_expected = expected == Some(class.as_str());
            let is_actual = actual == Some(class.as_str());
            runs.add(ClassRuns {
                hits: usize::from(is_expected && is_actual),
                wrong: usize::from(is_actual && !is_expected),
                missed: usize::from(is_expected && !is_actual),
            });
        }
    }

    /// Adds other runs of the same evaluator.
    pub(super) fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        for ((_, own), (_, more)) in self.classes.iter_mut().zip(&other.classes) {
            own.add(*more);
        }
    }

    /// Formats the figures: the means of several classes, then each class; empty without runs.
    pub(super) fn lines(&self, evaluator: &str) -> Vec<String> {
        if self.runs == 0 {
            return Vec::new();
        }
        let mut each: Vec<(String, ClassMetrics)> = self
            .classes
            .iter()
            .map(|(class, runs)| (format!("`{class}`"), runs.metrics(self.f_value)))
            .collect();
        let mut told = if each.len() > 1 { self.means(&each) } else { Vec::new() };
        each.sort_by(|(_, one), (_, other)| one[2].total_cmp(&other[2]));
        let more = each.len().saturating_sub(TOLD_MAX);
        told.extend(each.into_iter().take(TOLD_MAX));
        let runs = self.runs;
        let plural = if runs == 1 { "" } else { "s" };
        let line = |(what, [precision, recall, score]): (String, ClassMetrics)| {
            format!(
                "classes: {evaluator}: {what}: precision {precision:.3}, recall {recall:.3}, \
                 F{} {score:.3}, {runs} run{plural}",
                self.f_value
            )
        };
        let rest = (more > 0).then(|| format!("classes: {evaluator}: and {more} with higher ones"));
        told.into_iter().map(line).chain(rest).collect()
    }

    fn means(&self, each: &[(String, ClassMetrics)]) -> Vec<(String, ClassMetrics)> {
        let mut all = ClassRuns::default();
        self.classes.iter().for_each(|(_, runs)| all.add(*runs));
        let mean = |at: usize| each.iter().map(|(_, it)| it[at]).sum::<f64>() / each.len() as f64;
        let word = |word: &str| format!("{word} mean of {} classes", each.len());
        vec![(word("macro"), [0, 1, 2].map(mean)), (word("micro"), all.metrics(self.f_value))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(f_value: f64, classes: &[(&str, [usize; 3])], runs: usize, lines: &[&str]) {
        let counted = |(class, [hits, wrong, missed]): &(&str, [usize; 3])| {
            let runs = ClassRuns { hits: *hits, wrong: *wrong, missed: *missed };
            ((*class).to_owned(), runs)
        };
        let names = classes.iter().map(|(class, _)| (*class).to_owned()).collect();
        let mut counts = ClassCounts::new(ClassifierClasses { names, f_value });
        assert!(counts.lines("c").is_empty());
        let classes = classes.iter().map(counted).collect();
        counts.merge(&ClassCounts { classes, f_value, runs });
        assert_eq!(counts.lines("c"), lines);
    }

    /// Compares with the figures of `uipath` 2.14.44 for the same runs.
    #[test]
    fn figures_are_those_of_the_package() {
        check(
            1.0,
            &[("spam", [3, 1, 2])],
            10,
            &["classes: c: `spam`: precision 0.750, recall 0.600, F1 0.667, 10 runs"],
        );
        // One class never occurred, one output was of no class.
        check(
            2.0,
            &[("a", [2, 0, 1]), ("b", [1, 1, 1]), ("d", [0, 0, 0])],
            5,
            &[
                "classes: c: macro mean of 3 classes: precision 0.500, recall 0.389, \
                 F2 0.405, 5 runs",
                "classes: c: micro mean of 3 classes: precision 0.750, recall 0.600, \
                 F2 0.625, 5 runs",
                "classes: c: `d`: precision 0.000, recall 0.000, F2 0.000, 5 runs",
                "classes: c: `b`: precision 0.500, recall 0.500, F2 0.500, 5 runs",
                "classes: c: `a`: precision 1.000, recall 0.667, F2 0.714, 5 runs",
            ],
        );
    }
}
