//! Store of loaded traces and evaluations: an index in memory, their JSON in a spool file.

use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use smart_default::SmartDefault;

use spanscore_base::model::{
    Evaluation, EvaluatorInfo, GivenVerdict, Outcome, SpanId, Target, TraceId,
};
use spanscore_base::value::{Value as OwnValue, json};
use spanscore_emit::record;
use spanscore_engine::batch::spool::{MEMORY_BYTES_MAX, Spool, SpoolPlace};
use spanscore_evaluate::AskedTarget;

/// Least number of digits that identify an id.
const ID_DIGITS_MIN: usize = 4;
/// Limit on ids listed for an ambiguous prefix.
const IDS_NAMED_MAX: usize = 5;
/// Limit on nesting of values read.
const DEPTH_MAX: usize = 96;

/// Index entry of an evaluation: query keys, and the position of its record.
pub(super) struct StoredEvaluation {
    pub(super) evaluator: Arc<EvaluatorInfo>,
    pub(super) target: Arc<Target>,
    pub(super) span_id: SpanId,
    /// `None` while it is pending for a judge, which only `evaluate` asks.
    pub(super) verdict: Option<GivenVerdict>,
    pub(super) score: Option<f64>,
    /// Reason or error type of an evaluation without a score.
    pub(super) reason: Option<&'static str>,
    pub(super) cost_usd: f64,
    place: SpoolPlace,
    /// Inquiry to a judge, until sent.
    pub(super) inquiry: Option<Box<AskedTarget>>,
}

impl StoredEvaluation {
    /// Returns the word for its verdict in answers.
    pub(super) fn outcome(&self) -> &'static str {
        self.verdict.map_or("not_asked", GivenVerdict::as_str)
    }

    /// Returns true if its evaluator, or that evaluator's kind, has the requested name.
    pub(super) fn is_named(&self, requested: Option<&str>) -> bool {
        requested.is_none_or(|requested| {
            requested == self.evaluator.name || requested == self.evaluator.kind
        })
    }
}

/// Index entry of a trace: its name, and the position of its trajectory.
pub(super) struct StoredTrace {
    pub(super) trace_id: TraceId,
    pub(super) name: Box<str>,
    pub(super) calls: usize,
    place: SpoolPlace,
}

/// Index and spool of all loaded data.
#[derive(SmartDefault)]
pub(super) struct RunStore {
    #[default(Spool::new(MEMORY_BYTES_MAX))]
    spool: Spool,
    pub(super) evaluations: Vec<StoredEvaluation>,
    pub(super) traces: Vec<StoredTrace>,
    by_id: HashMap<TraceId, usize>,
    /// Calls and failed calls, by tool.
    pub(super) tools: HashMap<String, (u64, u64)>,
    /// Configured evaluators, in the order of the config.
    pub(super) evaluators: Vec<Value>,
    /// Reports of traces and evaluators without a verdict, one line each.
    pub(super) silence: Vec<String>,
    /// True if a part could not be read, or a trace exceeds a limit.
    pub(super) is_broken: bool,
}

impl RunStore {
    /// Adds a trajectory as JSON.
    pub(super) fn add_trace(
        &mut self,
        trace_id: TraceId,
        name: &str,
        calls: usize,
        json: &str,
    ) -> std::io::Result<()> {
        let place = self.spool.push(json.as_bytes())?;
        self.by_id.insert(trace_id, self.traces.len());
        self.traces.push(StoredTrace { trace_id, name: name.into(), calls, place });
        Ok(())
    }

    /// Writes the record of an evaluation; returns its index entry.
    pub(super) fn stored(
        &mut self,
        evaluation: &Evaluation,
        with_content: bool,
        inquiry: Option<Box<AskedTarget>>,
    ) -> std::io::Result<StoredEvaluation> {
        let mut line = String::new();
        record::write(evaluation, with_content, &mut line);
        let place = self.spool.push(line.as_bytes())?;
        let verdict = inquiry.is_none().then(|| evaluation.verdict());
        let (score, reason) = match &evaluation.outcome {
            Outcome::Scored(score) => (Some(score.value), None),
            Outcome::NotEvaluable { reason, .. } => (None, Some(reason.as_str())),
            Outcome::Failed { error_type, .. } => (None, Some(*error_type)),
        };
        Ok(StoredEvaluation {
            evaluator: Arc::clone(&evaluation.evaluator),
            target: Arc::clone(&evaluation.target),
            span_id: evaluation.span_id,
            verdict,
            score,
            reason: reason.filter(|_| verdict.is_some()),
            cost_usd: evaluation.judge.as_ref().map_or(0.0, |judge| judge.cost_usd),
            place,
            inquiry,
        })
    }

    /// Flushes the spool, so that added entries can be read.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        self.spool.finish()
    }

    /// Finds a trace by its id, or by its first digits, as other commands print them.
    ///
    /// # Errors
    /// Text for the assistant: an invalid id, or digits of no trace or of several.
    pub(super) fn known_id(&self, text: &str) -> Result<TraceId, String> {
        if let Some(id) = TraceId::from_hex(text) {
            return Ok(id);
        }
        let digits = text.to_ascii_lowercase();
        let is_head = (ID_DIGITS_MIN..32).contains(&digits.len())
            && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_head {
            return Err(format!(
                "{text:?} is no trace id: that has 32 hexadecimal digits, of which the first \
                 {ID_DIGITS_MIN} may do"
            ));
        }
        let ids = self.traces.iter().map(|trace| trace.trace_id);
        let of_evaluations = self.evaluations.iter().map(|it| it.target.trace_id);
        let mut found: Vec<TraceId> =
            ids.chain(of_evaluations).filter(|id| id.to_string().starts_with(&*digits)).collect();
        found.sort_unstable();
        found.dedup();
        match *found {
            [id] => Ok(id),
            [] => Err(format!("no trace begins with {digits}")),
            _ => {
                let some = found.iter().take(IDS_NAMED_MAX).map(TraceId::to_string);
                let some = some.collect::<Vec<_>>().join(", ");
                Err(format!("{} traces begin with {digits}, such as {some}", found.len()))
            }
        }
    }

    /// Returns the trace with an id.
    pub(super) fn trace(&self, id: TraceId) -> Option<&StoredTrace> {
        self.by_id.get(&id).and_then(|at| self.traces.get(*at))
    }

    /// Reads the trajectory of a trace.
    ///
    /// # Errors
    /// A temporary file that cannot be read.
    pub(super) fn trajectory(&self, trace: &StoredTrace) -> anyhow::Result<Value> {
        self.read(trace.place)
    }

    /// Reads the record of an evaluation.
    ///
    /// # Errors
    /// A temporary file that cannot be read.
    pub(super) fn record(&self, evaluation: &StoredEvaluation) -> anyhow::Result<Value> {
        let mut record = self.read(evaluation.place)?;
        if evaluation.verdict.is_none()
            && let Some(map) = record.as_object_mut()
        {
            map.insert("outcome".to_owned(), Value::from(evaluation.outcome()));
            for key in ["error", "error_type", "reason", "explanation"] {
                map.insert(key.to_owned(), Value::Null);
            }
        }
        Ok(record)
    }

    fn read(&self, place: SpoolPlace) -> anyhow::Result<Value> {
        let mut bytes = Vec::new();
        self.spool.read(place, &mut bytes)?;
        if let Ok(value) = serde_json::from_slice(&bytes) {
            return Ok(value);
        }
        // Deeper than the recursion limit of serde_json.
        let value = shallow(&json::parse(std::str::from_utf8(&bytes)?)?, DEPTH_MAX);
        Ok(serde_json::from_str(&value.to_string())?)
    }
}

/// Copies a value down to a depth.
fn shallow(value: &OwnValue<'_>, depth: usize) -> OwnValue<'static> {
    let Some(below) = depth.checked_sub(1) else {
        return OwnValue::from("[deeper values left out]");
    };
    match value {
        OwnValue::List(items) => {
            OwnValue::List(items.iter().map(|item| shallow(item, below)).collect())
        }
        OwnValue::Map(map) => OwnValue::Map(
            map.iter().map(|(key, value)| (key.to_owned(), shallow(value, below))).collect(),
        ),
        other => other.clone().into_owned(),
    }
}
