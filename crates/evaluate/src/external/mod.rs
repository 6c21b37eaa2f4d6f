//! Evaluators that are not of this process: what they are sent about a trajectory, and what their
//! answers mean.
//!
//! Everything here is pure. An evaluator turns a trajectory into an [`ExternalInquiry`], which owns
//! all it needs and can wait; the lane of the room `external` sends it and hands the answer back.
//! Two protocols are spoken: `spanscore.evaluator.v1` ([`proto`], over gRPC or as [`json`]) and
//! that of agentevals ([`invocations`]).

pub mod answer;
pub(crate) mod content;
mod evaluator;
pub mod invocations;
pub mod json;
mod leaving;
mod message;
pub mod plan;
pub mod proto;
#[rustfmt::skip]
#[expect(missing_docs, reason = "generated from a file where not every field needs words")]
pub mod v1;

pub use evaluator::{ExternalEvaluator, MessageBuilder};
pub use leaving::ready;
pub use message::prune;
pub use plan::{ExternalPlan, ExternalTransport, ProcessPlan, RemotePlan};

use std::fmt;
use std::sync::Arc;

use self::proto::TaskMessage;
use spanscore_base::model::{Outcome, Reason, Trajectory, Want};
pub use spanscore_detect::redactor::RedactionGaps;

/// The kinds of evaluators that are not of this process.
pub const EXTERNAL_KINDS: [&str; 3] = ["agentevals", "grpc", "http"];

/// Returns true if evaluators of a kind run outside of this process.
pub fn is_external(kind: &str) -> bool {
    EXTERNAL_KINDS.contains(&kind)
}

/// Most bytes of telemetry of a trajectory that is sent.
pub(crate) const SENT_BYTES_MAX: usize = 8 << 20;

/// Inquiry about one target to an external evaluator. Owned, so that it can wait.
pub struct ExternalInquiry {
    /// Whom to ask, and how.
    pub plan: Arc<ExternalPlan>,
    /// Message about the target.
    pub body: ExternalBody,
    /// Parts of the answer that exporters show.
    pub want: Want,
}

/// Message about one target, by protocol.
pub enum ExternalBody {
    /// The input of a process, without the name of the evaluator, which stands before it.
    Invocations(String),
    /// A task without its id.
    Task(Box<TaskMessage>),
}

impl ExternalInquiry {
    /// Bytes that it holds while it waits, about.
    pub fn bytes(&self) -> usize {
        let body = match &self.body {
            ExternalBody::Invocations(text) => text.len(),
            ExternalBody::Task(task) => prost::Message::encoded_len(&**task) * 2,
        };
        size_of::<Self>() + body
    }
}

/// Never what is sent.
impl fmt::Debug for ExternalInquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalInquiry({} bytes)", self.bytes())
    }
}

/// Returns the outcome of a trajectory that is too large to send, if it is.
pub(crate) fn too_large(trajectory: &Trajectory<'_>) -> Option<Outcome> {
    (trajectory.bytes > SENT_BYTES_MAX).then(|| Outcome::NotEvaluable {
        reason: Reason::TrajectoryTooLarge,
        explanation: format!(
            "the trace holds {} bytes, more than the {SENT_BYTES_MAX} that are sent",
            trajectory.bytes
        ),
    })
}
