//! Records of finished requests for the observer of the lane.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::core::{LaneAction, LaneCore};
use crate::judge::call::JudgeCall;
use spanscore_base::model::{EvaluationId, SpanId, TraceId};

impl LaneCore {
    /// Builds the record of a request that has just ended, from its `Asked` action; `None` for
    /// other actions.
    pub(super) fn call_of(
        &self,
        action: &LaneAction,
        (evaluation, trace_id, span_id): (EvaluationId, TraceId, SpanId),
        took: Duration,
    ) -> Option<JudgeCall> {
        let LaneAction::Asked { judge, evaluator, outcome, usage, cost_nano } = action else {
            return None;
        };
        let settings = self.judges.get(*judge)?;
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Some(JudgeCall {
            judge: self.names.get(*judge)?.clone(),
            api: settings.api,
            base_url: settings.base_url.clone(),
            model: settings.model.clone(),
            max_tokens: settings.max_tokens,
            evaluator: evaluator.clone(),
            evaluation,
            trace_id,
            span_id,
            start_ns: ns(end.saturating_sub(took)),
            end_ns: ns(end),
            outcome,
            input_tokens: usage.input,
            cached_tokens: usage.cached,
            output_tokens: usage.output,
            cost_usd: *cost_nano as f64 / 1e9,
        })
    }
}
