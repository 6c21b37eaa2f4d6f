//! Record of one finished request to a judge, for observers such as our own traces.

use std::sync::Arc;

use super::wire::{Finish, JudgeQuestion, Reply, user_text};
use spanscore_base::model::{EvaluationId, SpanId, TraceId};
use spanscore_base::settings::Address;

/// Callback for each finished request. Must not block.
pub type CallWatch = Arc<dyn Fn(JudgeCall) + Send + Sync>;

/// One finished request to a judge.
#[derive(Clone, Debug)]
pub struct JudgeCall {
    /// Name of the judge in the config.
    pub judge: String,
    /// Name of the provider in the GenAI conventions.
    pub provider: &'static str,
    /// Base URL.
    pub base_url: Address,
    /// Model.
    pub model: String,
    /// Limit of the answer, tokens.
    pub max_tokens: u32,
    /// Evaluator that asked.
    pub evaluator: String,
    /// Evaluation that it asked for.
    pub evaluation: EvaluationId,
    /// The judged trace.
    pub trace_id: TraceId,
    /// Judged span of that trace.
    pub span_id: SpanId,
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// End, Unix nanoseconds.
    pub end_ns: u64,
    /// `replied`, or the `error.type` of the fault.
    pub outcome: &'static str,
    /// Tokens of the request, including cached ones.
    pub input_tokens: u64,
    /// Tokens of the request from the provider's prompt cache.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Cost, US dollars; 0 without a known price.
    pub cost_usd: f64,
    /// Prompt and reply, if the observer requires them.
    pub content: Option<Box<CallTexts>>,
}

/// Prompt and reply of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct CallTexts {
    /// System prompt.
    pub system: String,
    /// User message: record, statements, and any request for a repair.
    pub user: String,
    /// Reply and finish reason in OpenTelemetry's terms; `None` without a reply.
    pub reply: Option<(String, &'static str)>,
}

impl CallTexts {
    /// Copies the texts of a question and its reply.
    pub(super) fn of(question: &JudgeQuestion, reply: Option<&Reply>) -> Self {
        let reply = reply.map(|reply| {
            let finish = match reply.finish {
                Finish::Stop => "stop",
                Finish::Length | Finish::Overflow => "length",
                Finish::Refused => "content_filter",
            };
            (reply.text.clone(), finish)
        });
        let system = question.prompt.system.clone();
        Self { system, user: user_text(question), reply }
    }
}

impl JudgeCall {
    /// Shifts the times of the call to this end, Unix nanoseconds.
    pub(super) fn ended_at(self, end_ns: u64) -> Self {
        let took_ns = self.end_ns.saturating_sub(self.start_ns);
        Self { start_ns: end_ns.saturating_sub(took_ns), end_ns, ..self }
    }
}
