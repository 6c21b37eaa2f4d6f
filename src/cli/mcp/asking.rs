//! Tool `evaluate`: asks judges about pending evaluations.

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::answers::McpAnswer;
use super::store::{RunStore, StoredEvaluation};
use super::tools::{EvaluateArgs, TRACES_MAX};
use super::trim::{ANSWER_BYTES_MAX, fitted, page};
use crate::cli::score::replies::CommandJudges;
use spanscore_base::model::{Evaluation, TraceId};
use spanscore_emit::{ContentFilter, ShownContent};
use spanscore_evaluate::AskedTarget;

/// Limit on inquiries in one call; the answer counts the others.
const ASKED_MAX: usize = 100;
/// Limit on each text of an evaluation, bytes.
const TEXT_BYTES: usize = 500;

/// Judges for one call at a time, within budgets over the life of the process.
pub(super) struct JudgeAsking {
    judges: CommandJudges,
    turn: Mutex<()>,
}

impl JudgeAsking {
    pub(super) fn new(judges: CommandJudges) -> Self {
        Self { judges, turn: Mutex::new(()) }
    }

    /// Asks judges about the traces and returns their evaluations; blocks until they have answered.
    pub(super) fn evaluate(
        &self,
        store: &Mutex<RunStore>,
        args: &EvaluateArgs,
        (shown, filter): (ShownContent, &ContentFilter),
    ) -> McpAnswer {
        let ids = ids_of(&store.lock(), args)?;
        let _turn = self.turn.lock();
        let (places, asked, left) = take_waiting(&mut store.lock(), &ids, args);
        let count = asked.len();
        let answers = self.judges.ask_all(asked).map_err(|error| error.to_string())?;
        let mut store = store.lock();
        let kept = keep(&mut store, places, answers, (shown, filter));
        kept.map_err(|error| format!("failed to keep the evaluations: {error}"))?;
        let of_traces = store.evaluations.iter().filter(|it| is_meant(it, &ids, args));
        let cost: f64 = of_traces.clone().map(|it| it.cost_usd).sum();
        let found = of_traces.clone().count();
        let room = (found.max(1), ANSWER_BYTES_MAX / 2);
        let page = page(of_traces, 0, room, |evaluation| {
            let record = store.record(evaluation).unwrap_or(Value::Null);
            Ok(fitted(&record, TEXT_BYTES, ANSWER_BYTES_MAX / 2))
        })?;
        Ok(json!({
            "asked": count,
            "not_asked_yet": left,
            "cost_usd": cost,
            "evaluations": page.items,
            "evaluations_left_out": page.next.map_or(0, |next| found - next),
        }))
    }
}

fn ids_of(store: &RunStore, args: &EvaluateArgs) -> Result<Vec<TraceId>, String> {
    let count = args.trace_ids.len();
    if !(1..=TRACES_MAX).contains(&count) {
        return Err(format!("`trace_ids` names {count} traces; name 1 to {TRACES_MAX}"));
    }
    args.trace_ids.iter().map(|id| store.known_id(id)).collect()
}

fn is_meant(it: &StoredEvaluation, ids: &[TraceId], args: &EvaluateArgs) -> bool {
    it.is_named(args.evaluator.as_deref()) && ids.contains(&it.target.trace_id)
}

/// Takes pending inquiries; returns the indexes of their evaluations, the inquiries, and the number
/// beyond the limit.
fn take_waiting(
    store: &mut RunStore,
    ids: &[TraceId],
    args: &EvaluateArgs,
) -> (Vec<usize>, Vec<AskedTarget>, usize) {
    let mut places = Vec::new();
    let mut asked = Vec::new();
    let mut left = 0;
    for (place, evaluation) in store.evaluations.iter_mut().enumerate() {
        if !is_meant(evaluation, ids, args) || evaluation.inquiry.is_none() {
            continue;
        }
        if asked.len() == ASKED_MAX {
            left += 1;
        } else if let Some(inquiry) = evaluation.inquiry.take() {
            places.push(place);
            asked.push(*inquiry);
        }
    }
    (places, asked, left)
}

/// Replaces pending evaluations by answers; evaluations of single calls are appended.
fn keep(
    store: &mut RunStore,
    places: Vec<usize>,
    answers: Vec<Vec<Evaluation>>,
    (shown, filter): (ShownContent, &ContentFilter),
) -> std::io::Result<()> {
    for (place, answer) in places.into_iter().zip(answers) {
        for (index, evaluation) in answer.iter().enumerate() {
            let stored = store.stored(&filter.apply(evaluation), shown.is_shown(), None)?;
            match store.evaluations.get_mut(place).filter(|_| index == 0) {
                Some(waiting) => *waiting = stored,
                None => store.evaluations.push(stored),
            }
        }
    }
    store.finish()
}
