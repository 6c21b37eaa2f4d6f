//! Name of a run in all reports: the case of its trace, from the first evaluator with one in the
//! config. Further runs of a case are numbered, `Oslo #2`.

use std::fmt::Write as _;
use std::sync::Arc;

use hashbrown::HashMap;

use spanscore_base::model::{Evaluation, EvaluatorInfo};
use spanscore_base::value::json;
use spanscore_base::visible;
use spanscore_engine::batch::BatchOrder;

/// Name of the run of one trace or session; its number is known at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct RunName {
    /// Evaluator info with the case, if any.
    info: Option<Arc<EvaluatorInfo>>,
    /// Number among the runs of the case, from 1.
    number: u32,
}

impl RunName {
    /// Finds the case among the evaluations of a trace or session.
    pub(super) fn of(evaluations: &[Evaluation], evaluators: &[String]) -> Self {
        let named = evaluations.iter().map(|it| &it.evaluator).filter(|it| it.case.is_some());
        let place = |info: &Arc<EvaluatorInfo>| evaluators.iter().position(|it| *it == info.name);
        let first = named.min_by_key(|info| place(info).unwrap_or(usize::MAX));
        Self { info: first.map(Arc::clone), number: 1 }
    }

    /// Returns true if its case has an earlier run.
    pub(super) fn is_again(&self) -> bool {
        self.number > 1
    }

    fn case(&self) -> Option<&str> {
        self.info.as_ref()?.case.as_deref()
    }

    /// Completes the record of an evaluation as far as known before the end: with the duration, and
    /// for a run without a case with no name.
    pub(super) fn begin(&self, evaluation: &Evaluation, record: &mut String) {
        let target = &evaluation.target;
        let nanos = target.ended_ns.saturating_sub(target.started_ns);
        let seconds = nanos as f64 / 1e9;
        let name = if self.info.is_some() { "" } else { r#","run":null}"# };
        record.pop();
        // Writing to a `String` cannot fail.
        let _ = writeln!(record, r#","run_seconds":{seconds:.3}{name}"#);
    }

    /// Appends the records completed by [`begin`](Self::begin), with the name.
    pub(super) fn finish(&self, records: &str, out: &mut String) {
        let Some(case) = self.case() else { return out.push_str(records) };
        let name = match self.number {
            1 => case.to_owned(),
            number => format!("{case} #{number}"),
        };
        let mut tail = String::from(r#","run":"#);
        // Writing to a `String` cannot fail.
        let _ = json::write_string(&name, &mut tail);
        let tail = visible::json(tail).to_string();
        for record in records.lines() {
            let _ = writeln!(out, "{record}{tail}}}");
        }
    }
}

/// Numbers the runs of each case in order. Sessions are numbered separately; a trace that was
/// judged twice is one run.
pub(super) fn number<'n>(names: impl Iterator<Item = (BatchOrder, &'n mut RunName)>) {
    let mut runs: HashMap<(bool, String), u32> = HashMap::new();
    let mut last: Option<BatchOrder> = None;
    for (order, name) in names {
        let is_session = matches!(order, BatchOrder::Session(_));
        let is_again = last.replace(order) == Some(order);
        let Some(case) = name.case() else { continue };
        let count = runs.entry((is_session, case.to_owned())).or_default();
        *count += u32::from(!is_again || *count == 0);
        name.number = *count;
    }
}
