//! Transports to external evaluators: processes, gRPC and HTTP.

mod description;
mod grpc;
mod http;
mod process;

use std::sync::Arc;
use std::time::Duration;

pub(super) use description::{Description, task_level};

use self::grpc::GrpcEvaluator;
use self::http::HttpEvaluator;
use self::process::ProcessEvaluator;
use spanscore_base::model::Outcome;
use spanscore_evaluate::external::proto::{
    DescribeRequest, EvaluateRequest, EvaluateResponse, MINOR,
};
use spanscore_evaluate::external::{
    ExternalPlan, ExternalTransport, RedactionGaps, invocations, ready,
};

/// Payload of one exchange.
#[derive(Debug)]
pub(super) enum ExternalPayload {
    /// The input of a process.
    Input(String),
    /// Tasks for a server.
    Tasks(Box<EvaluateRequest>),
}

impl ExternalPayload {
    /// Prepares the message: redacts secrets and truncates long texts; returns the gaps of
    /// redaction. Takes longer for more content.
    pub(super) fn ready(
        mut self,
        plan: &ExternalPlan,
    ) -> Result<(Self, RedactionGaps), ExternalFault> {
        let done = match (&mut self, &plan.transport) {
            (Self::Tasks(request), _) => ready(request, plan.redact),
            (Self::Input(input), ExternalTransport::Process(process)) => {
                let made = invocations::ready(input, plan.redact, process.output_format);
                made.map(|(text, gaps)| {
                    *input = text;
                    gaps
                })
            }
            (Self::Input(_), _) => Ok(RedactionGaps::default()),
        };
        let internal = |error| ExternalFault::Final("internal_error", error);
        done.map(|gaps| (self, gaps)).map_err(internal)
    }
}

/// Reply to a payload.
#[derive(Debug)]
pub(super) enum ExternalReply {
    /// Output of a process, and the end of its standard error.
    Output(Vec<u8>, String),
    /// Response of a server.
    Response(EvaluateResponse),
}

/// Fault of an exchange without a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExternalFault {
    /// Unreachable: nothing was evaluated.
    Unavailable(String),
    /// A retry may succeed.
    Retryable {
        /// The requested retry delay.
        after: Option<Duration>,
        /// `error.type` of the evaluation after the last attempt.
        error_type: &'static str,
        /// Error text.
        error: String,
    },
    /// The evaluator does not support the config.
    Unfit {
        /// `error.type` of the evaluation.
        error_type: &'static str,
        /// Unsupported demand.
        error: String,
        /// The setting in question: keys below the evaluator's entry.
        at: Vec<String>,
    },
    /// Permanent failure: `error.type` of the evaluation, and the error text.
    Final(&'static str, String),
}

impl ExternalFault {
    /// Returns the outcome of an evaluation that fails by it.
    pub(super) fn outcome(&self) -> Outcome {
        let (error_type, error) = self.told();
        Outcome::Failed { error_type, error: error.to_owned() }
    }

    /// Converts it to the fault of a description query: the evaluator counts as unreachable, unless
    /// the server refuses for good.
    fn of_describing(self) -> Self {
        match self {
            Self::Final(..) => self,
            other => Self::Unavailable(other.told().1.to_owned()),
        }
    }

    /// Returns `error.type` and text of the failed evaluation.
    pub(super) fn told(&self) -> (&'static str, &str) {
        match self {
            Self::Unavailable(error) => ("external_unreachable", error),
            Self::Retryable { error_type, error, .. }
            | Self::Unfit { error_type, error, .. }
            | Self::Final(error_type, error) => (error_type, error),
        }
    }
}

/// Returns the name of an evaluator without its kind.
pub(super) fn own_name(evaluator: &str) -> &str {
    evaluator.split_once('/').map_or(evaluator, |(_, name)| name)
}

/// Client of one evaluator.
pub(super) enum ExternalClient {
    Process(ProcessEvaluator),
    Grpc(GrpcEvaluator),
    Http(HttpEvaluator),
}

impl ExternalClient {
    /// Creates a client and starts its spare processes.
    ///
    /// # Errors
    /// An unusable setting, such as an unreadable file.
    pub(super) fn new(plan: &ExternalPlan) -> Result<Arc<Self>, String> {
        Ok(Arc::new(match &plan.transport {
            ExternalTransport::Process(process) => {
                Self::Process(ProcessEvaluator::new(process.clone(), plan.timeout))
            }
            ExternalTransport::Grpc(remote) => {
                Self::Grpc(GrpcEvaluator::new(remote, plan.timeout)?)
            }
            ExternalTransport::Http(remote) => {
                Self::Http(HttpEvaluator::new(remote, plan.timeout)?)
            }
        }))
    }

    /// Queries an evaluator's description; if no setting names its kind, its own name does.
    pub(super) async fn describe(
        &self,
        plan: &ExternalPlan,
        evaluator: &str,
    ) -> Result<Description, ExternalFault> {
        let request = DescribeRequest {
            minor: MINOR,
            collector_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let (response, remote) = match (self, &plan.transport) {
            (Self::Grpc(client), ExternalTransport::Grpc(remote)) => {
                (Some(client.describe(&request).await?), remote)
            }
            (Self::Http(client), ExternalTransport::Http(remote)) => {
                (client.describe(&request).await?, remote)
            }
            _ => return Ok(Description::of_process()),
        };
        Description::of(response, remote, own_name(evaluator))
    }

    /// Sends a request once.
    pub(super) async fn evaluate(
        &self,
        request: &ExternalPayload,
    ) -> Result<ExternalReply, ExternalFault> {
        match (self, request) {
            (Self::Process(client), ExternalPayload::Input(input)) => client.run(input).await,
            (Self::Grpc(client), ExternalPayload::Tasks(request)) => {
                client.evaluate(request).await.map(ExternalReply::Response)
            }
            (Self::Http(client), ExternalPayload::Tasks(request)) => {
                client.evaluate(request).await.map(ExternalReply::Response)
            }
            _ => {
                let error = "the evaluator does not speak this protocol".to_owned();
                Err(ExternalFault::Final("internal_error", error))
            }
        }
    }
}
