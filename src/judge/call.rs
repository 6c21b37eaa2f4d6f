//! What is known of one request to a judge, for whoever watches.

use std::sync::Arc;

use super::settings::JudgeApi;
use crate::model::{EvaluationId, SpanId, TraceId};
use crate::settings::Address;

/// Told of each request that has ended. Must not wait.
pub type CallWatch = Arc<dyn Fn(JudgeCall) + Send + Sync>;

/// One request to a judge that has ended. Nothing of what was asked or said.
#[derive(Clone, Debug)]
pub struct JudgeCall {
    /// The judge, as the config names it.
    pub judge: String,
    /// The protocol.
    pub api: JudgeApi,
    /// Where it was asked, as the config says; `None` is the provider's own address.
    pub base_url: Option<Address>,
    /// The model.
    pub model: String,
    /// Tokens of the answer at most.
    pub max_tokens: u32,
    /// Who asked.
    pub evaluator: String,
    /// For which evaluation.
    pub evaluation: EvaluationId,
    /// The trace that is judged.
    pub trace_id: TraceId,
    /// Its span that is judged.
    pub span_id: SpanId,
    /// When it began, Unix nanoseconds.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// `replied`, or the `error.type` of what went wrong.
    pub outcome: &'static str,
    /// Tokens of the request, cached ones among them.
    pub input_tokens: u64,
    /// Tokens that the provider still had.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// What it cost, US dollars; 0 where prices are not known.
    pub cost_usd: f64,
}
