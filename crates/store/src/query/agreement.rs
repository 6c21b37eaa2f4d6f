//! Labels that people gave, beside the verdicts of the evaluators that they are about.

use rusqlite::{Row, params_from_iter};

use super::filter::StoreFilter;
use super::list::verdict_of;
use super::page::{CALLED, RUNS};
use super::{StoreQueryError, StoreReader};
use spanscore_base::model::Level;

/// Most labels of an answer, the newest.
pub const LABELS_MAX: usize = 20_000;

/// Label of a person on a run, a call, an evaluation or a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonLabel {
    /// Trace, 32 digits.
    pub trace_id: String,
    /// Subject, the same for all people who judge it.
    pub subject: String,
    /// Evaluation that it is about.
    pub evaluation_id: Option<String>,
    /// Evaluator of that.
    pub evaluator: Option<String>,
    /// Kind of target that it judged.
    pub level: Option<Level>,
    /// `pass`, `fail`, `not_evaluable` or `failed`: verdict of that evaluator.
    pub verdict: Option<&'static str>,
    /// Person.
    pub author: String,
    /// `pass` or `fail`.
    pub label: &'static str,
}

impl PersonLabel {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let is_pass = row.get::<_, String>(6)? == "pass";
        Ok(Self {
            trace_id: row.get(0)?,
            subject: row.get(1)?,
            evaluation_id: row.get(2)?,
            evaluator: row.get(3)?,
            verdict: row.get::<_, Option<_>>(4)?.map(|it| verdict_of(it).as_str()),
            level: row.get::<_, Option<String>>(8)?.and_then(|word| word.parse().ok()),
            author: row.get(5)?,
            label: if is_pass { "pass" } else { "fail" },
        })
    }
}

impl StoreReader {
    /// Lists the labels of people on runs that fit, the newest first; of each person the last on a
    /// subject.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn labels(&self, filter: &StoreFilter) -> Result<Vec<PersonLabel>, StoreQueryError> {
        let connection = self.begin();
        let (condition, mut values) = filter.of_runs(CALLED);
        let (of_evaluator, names) = filter.of_evaluator("ifnull(w.name, '')");
        values.extend(names);
        let query = format!(
            "SELECT lower(hex(t.trace_id)),
             printf('%s %d %s %d %s', a.target, ifnull(a.session, a.trajectory),
                 ifnull(hex(a.evaluation), ''), ifnull(a.position, -1), a.name),
             lower(hex(x.id)), w.name, x.outcome, a.author, a.label,
             max((a.changed << 20) + a.seq) AS place, w.level
             FROM annotations a CROSS JOIN {RUNS}
             LEFT JOIN evaluations x ON x.trajectory = a.trajectory AND x.id = a.evaluation
             LEFT JOIN evaluators w ON w.id = x.evaluator
             WHERE t.seq = a.trajectory AND a.label IS NOT NULL AND {condition}
             AND {of_evaluator} GROUP BY 2, a.author ORDER BY place DESC LIMIT {LABELS_MAX}"
        );
        let mut query = connection.prepare(&query)?;
        Ok(query
            .query_map(params_from_iter(values), PersonLabel::read)?
            .collect::<rusqlite::Result<_>>()?)
    }
}
