//! Record of one finished request to a judge, for observers such as our own traces.

use std::sync::Arc;
use std::time::Duration;

use super::settings::JudgeApi;
use spanscore_base::model::{EvaluationId, SpanId, TraceId};
use spanscore_base::settings::Address;

/// Callback for each finished request. Must not block.
pub type CallWatch = Arc<dyn Fn(JudgeCall) + Send + Sync>;

/// One finished request to a judge, without prompt or reply.
#[derive(Clone, Debug)]
pub struct JudgeCall {
    /// Name of the judge in the config.
    pub judge: String,
    /// Protocol.
    pub api: JudgeApi,
    /// Base URL from the config; `None` is the provider's default.
    pub base_url: Option<Address>,
    /// Model.
    pub model: String,
    /// Limit of the answer, tokens.
    pub max_tokens: u32,
    /// Evaluator that asked.
    pub evaluator: String,
    /// Evaluation that it asked for.
    pub evaluation: EvaluationId,
    /// Judged trace.
    pub trace_id: TraceId,
    /// Judged span of that trace.
    pub span_id: SpanId,
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// End, Unix nanoseconds.
    pub end_ns: u64,
    /// `replied`, or the `error.type` of the fault.
    pub outcome: &'static str,
    /// Tokens of the request, cached ones included.
    pub input_tokens: u64,
    /// Tokens of the request that came from the provider's prompt cache.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Cost, US dollars; 0 without a known price.
    pub cost_usd: f64,
}

impl JudgeCall {
    /// Shifts the times of the call to this end, Unix time.
    pub(super) fn ended_at(self, end: Duration) -> Self {
        let end_ns = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        let took_ns = self.end_ns.saturating_sub(self.start_ns);
        Self { start_ns: end_ns.saturating_sub(took_ns), end_ns, ..self }
    }
}
