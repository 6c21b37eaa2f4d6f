//! Labels of people, with the verdicts of the evaluators on the same subject.

use rusqlite::params_from_iter;

use super::field::StoreField;
use super::filter::StoreFilter;
use super::list::verdict_word;
use super::page::{CALLED, RUNS};
use super::row::{all, stored_row};
use super::{StoreQueryError, StoreReader};
use spanscore_base::model::Level;

/// Limit on labels in an answer, newest first.
pub const LABELS_MAX: usize = 20_000;

stored_row! {
    /// Label of a person on a run, a call, an evaluation or a session.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PersonLabel: LABEL_COLUMNS {
        /// Trace, 32 digits.
        pub trace_id: String = "lower(hex(t.trace_id))";
        /// Judged subject, the same for all people.
        pub subject: String =
            "printf('%s %d %s %d %s', a.target, ifnull(a.session, a.trajectory),
                ifnull(hex(a.evaluation), ''), ifnull(a.position, -1), a.name) AS subject";
        /// Judged evaluation.
        pub evaluation_id: Option<String> = "lower(hex(x.id))";
        /// Its evaluator.
        pub evaluator: Option<String> = "w.name";
        /// Its kind of target.
        pub level: Option<Level> = "w.level" => level_of;
        /// `pass`, `fail`, `not_evaluable` or `failed`: that evaluator's verdict.
        pub verdict: Option<&'static str> = "x.outcome" => known_verdict;
        /// Author.
        pub author: String = "a.author";
        /// `pass` or `fail`.
        pub label: &'static str = "a.label" => label_of;
    }
}

fn level_of(word: Option<String>) -> Option<Level> {
    word?.parse().ok()
}

fn known_verdict(number: Option<usize>) -> Option<&'static str> {
    number.map(verdict_word)
}

fn label_of(label: String) -> &'static str {
    if label == "pass" { "pass" } else { "fail" }
}

impl StoreReader {
    /// Lists people's labels on matching runs, newest first; for each person the last one on a
    /// subject.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn labels(&self, filter: &StoreFilter) -> Result<Vec<PersonLabel>, StoreQueryError> {
        let connection = self.begin();
        let (condition, mut values) = filter.of_runs(CALLED);
        let (of_evaluator, names) = filter.of_field(StoreField::Evaluator, "ifnull(w.name, '')");
        values.extend(names);
        let query = format!(
            "SELECT {LABEL_COLUMNS}, max((a.changed << 20) + a.seq) AS place
             FROM annotations a CROSS JOIN {RUNS}
             LEFT JOIN evaluations x ON x.trajectory = a.trajectory AND x.id = a.evaluation
             LEFT JOIN evaluators w ON w.id = x.evaluator
             WHERE t.seq = a.trajectory AND a.label IS NOT NULL AND {condition}
             AND {of_evaluator} GROUP BY subject, a.author
             ORDER BY place DESC LIMIT {LABELS_MAX}"
        );
        Ok(all(connection, &query, params_from_iter(values), PersonLabel::read)?)
    }
}
