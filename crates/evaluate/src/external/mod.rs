//! External evaluators: the messages sent about a trajectory, and the meaning of answers.
//!
//! All functions are pure. An evaluator turns a trajectory into an [`ExternalInquiry`], which owns
//! its data and can wait; the external dispatcher sends it and returns the answer. There are two
//! protocols: `spanscore.evaluator.v1` ([`proto`], over gRPC or as [`json`]) and that of agentevals
//! ([`invocations`]).

pub mod answer;
pub(crate) mod content;
mod evaluator;
pub mod invocations;
pub mod json;
mod message;
pub mod plan;
pub mod proto;
mod redaction;
#[rustfmt::skip]
#[expect(missing_docs, reason = "generated from a file where not every field needs words")]
pub mod v1;

pub use evaluator::{ExternalEvaluator, MessageBuilder};
pub use message::prune;
pub use plan::{ExternalPlan, ExternalTransport, ProcessPlan, RemotePlan};
pub use redaction::ready;

use std::fmt;
use std::sync::Arc;

use self::proto::TaskMessage;
use spanscore_base::model::{Outcome, Reason, Trajectory, Want};
pub use spanscore_detect::redactor::RedactionGaps;

/// Kinds of external evaluators.
pub const EXTERNAL_KINDS: [&str; 3] = ["agentevals", "grpc", "http"];

/// Returns true if a kind is external.
pub fn is_external(kind: &str) -> bool {
    EXTERNAL_KINDS.contains(&kind)
}

/// Limit on the bytes of a trajectory to be sent.
pub(crate) const SENT_BYTES_MAX: usize = 8 << 20;

/// Inquiry about one target to an external evaluator. It owns its data to wait in a queue.
pub struct ExternalInquiry {
    /// Plan to reach the evaluator.
    pub plan: Arc<ExternalPlan>,
    /// Message about the target.
    pub body: ExternalBody,
    /// Parts of the answer shown by exporters.
    pub want: Want,
}

/// Message about one target, by protocol.
pub enum ExternalBody {
    /// Input of a process, without the evaluator's name that precedes it.
    Invocations(String),
    /// A task without its id.
    Task(Box<TaskMessage>),
}

impl ExternalInquiry {
    /// Returns the approximate bytes held while waiting.
    pub fn bytes(&self) -> usize {
        let body = match &self.body {
            ExternalBody::Invocations(text) => text.len(),
            ExternalBody::Task(task) => prost::Message::encoded_len(&**task) * 2,
        };
        size_of::<Self>() + body
    }
}

/// Hides the message.
impl fmt::Debug for ExternalInquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalInquiry({} bytes)", self.bytes())
    }
}

/// Returns the outcome of a trajectory that is too large to send, if so.
pub(crate) fn too_large(trajectory: &Trajectory<'_>) -> Option<Outcome> {
    (trajectory.bytes > SENT_BYTES_MAX).then(|| Outcome::NotEvaluable {
        reason: Reason::TrajectoryTooLarge,
        explanation: format!(
            "the trace holds {} bytes, more than the {SENT_BYTES_MAX} that are sent",
            trajectory.bytes
        ),
    })
}
