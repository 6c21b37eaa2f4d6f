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
    /// Makes of it what leaves: secrets replaced, what is too long cut; with what redaction
    /// could not do as it should. Takes the longer the more there is.
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
    /// Nobody is there: nothing was evaluated.
    Unavailable(String),
    /// Another try may help.
    Retryable {
        /// The wait that is asked for.
        after: Option<Duration>,
        /// `error.type` of the evaluation, once there are no more tries.
        error_type: &'static str,
        /// Error in words.
        error: String,
    },
    /// The evaluator cannot do what the config wants of it.
    Unfit {
        /// `error.type` of the evaluation.
        error_type: &'static str,
        /// Demand that it cannot meet, in words.
        error: String,
        /// The setting in question: keys below the entry of the evaluator.
        at: Vec<String>,
    },
    /// It will never be answered: `error.type` of the evaluation, and the error in words.
    Final(&'static str, String),
}

impl ExternalFault {
    /// Returns the outcome of an evaluation that fails by it.
    pub(super) fn outcome(&self) -> Outcome {
        let (error_type, error) = self.told();
        Outcome::Failed { error_type, error: error.to_owned() }
    }

    /// Returns the same as the fault of asking for a description: without one nobody is there,
    /// unless the server refuses for good.
    fn of_describing(self) -> Self {
        match self {
            Self::Final(..) => self,
            other => Self::Unavailable(other.told().1.to_owned()),
        }
    }

    /// Returns `error.type` and words of an evaluation that fails by it.
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

/// One evaluator, reached.
pub(super) enum ExternalClient {
    Process(ProcessEvaluator),
    Grpc(GrpcEvaluator),
    Http(HttpEvaluator),
}

impl ExternalClient {
    /// Prepares a client; processes that wait are started.
    ///
    /// # Errors
    /// A setting that cannot be used, such as a file that cannot be read.
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

    /// Asks an evaluator to describe itself; where no setting names its kind, its own name does.
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
