//! gRPC transport to evaluator servers.

use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::ExternalFault;
use spanscore_base::otlp::status::{RetryInfo, RpcStatus};
use spanscore_evaluate::external::RemotePlan;
use spanscore_evaluate::external::answer::shown;
use spanscore_evaluate::external::proto::{
    DescribeRequest, DescribeResponse, EvaluateRequest, EvaluateResponse,
};
use spanscore_net::client::{self, Withheld};

/// Name of the service in health checks.
const SERVICE: &str = "spanscore.evaluator.v1.Evaluator";
const DESCRIBE: &str = "/spanscore.evaluator.v1.Evaluator/Describe";
const EVALUATE: &str = "/spanscore.evaluator.v1.Evaluator/Evaluate";
const HEALTH: &str = "/grpc.health.v1.Health/Check";
/// `grpc.health.v1.HealthCheckResponse.ServingStatus.SERVING`.
const SERVING: i32 = 1;
/// Error text of the transport for a timeout.
const TIMEOUT_WORDS: &str = "Timeout expired";
/// Longest answer, bytes; a longer one is an error.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Longest retry delay accepted from a server.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// gRPC client of one server.
pub(in crate::external) struct GrpcEvaluator {
    grpc: tonic::client::Grpc<Channel>,
    headers: MetadataMap,
    timeout: Duration,
    withheld: Withheld,
}

impl GrpcEvaluator {
    /// Returns a client without connecting.
    pub(super) fn new(remote: &RemotePlan, timeout: Duration) -> Result<Self, String> {
        let channel = match remote.endpoint.reveal().strip_prefix("unix:") {
            Some(path) => over_socket(path.trim_start_matches("//").to_owned(), timeout)?,
            None => {
                let uri =
                    remote.endpoint.reveal().parse().map_err(|_| "`endpoint` is no address")?;
                client::channel(uri, timeout, &remote.tls)?
            }
        };
        let headers = client::headers(
            remote.headers.iter().map(|(name, value)| (name.as_str(), value.reveal())),
        );
        let headers = headers.map_err(|error| error.to_string())?;
        let grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let withheld = Withheld::of(&headers, &remote.endpoint);
        Ok(Self { grpc, headers: MetadataMap::from_headers(headers), timeout, withheld })
    }

    /// Queries the description of a healthy server.
    pub(super) async fn describe(
        &self,
        request: &DescribeRequest,
    ) -> Result<DescribeResponse, ExternalFault> {
        self.check_health().await?;
        let described = self.call(DESCRIBE, request).await;
        described.map_err(|status| fault(&status).of_describing())
    }

    /// Checks the server's health; one without health checks is healthy.
    async fn check_health(&self) -> Result<(), ExternalFault> {
        let check = |service: &str| HealthCheckRequest { service: service.to_owned() };
        let mut checked = self.call(HEALTH, &check(SERVICE)).await;
        if checked.as_ref().is_err_and(|status| status.code() == Code::NotFound) {
            checked = self.call(HEALTH, &check("")).await;
        }
        match checked {
            Ok(HealthCheckResponse { status: SERVING }) => Ok(()),
            Ok(HealthCheckResponse { status }) => {
                Err(ExternalFault::Unavailable(format!("its health is {status}, not SERVING (1)")))
            }
            Err(status) if matches!(status.code(), Code::Unimplemented | Code::NotFound) => Ok(()),
            Err(status) => Err(ExternalFault::Unavailable(words(&status))),
        }
    }

    /// Sends tasks once.
    pub(super) async fn evaluate(
        &self,
        request: &EvaluateRequest,
    ) -> Result<EvaluateResponse, ExternalFault> {
        self.call(EVALUATE, request).await.map_err(|status| fault(&status))
    }

    async fn call<Q, A>(&self, path: &'static str, message: &Q) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut request = Request::new(message.clone());
        *request.metadata_mut() = self.headers.clone();
        request.set_timeout(self.timeout);
        let mut grpc = self.grpc.clone();
        let call = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(request, PathAndQuery::from_static(path), ProstCodec::default()).await
        };
        let late = || Status::deadline_exceeded(format!("no answer within {:?}", self.timeout));
        let answered = tokio::time::timeout(self.timeout, call).await;
        let answered = answered.map_err(|_| late())?;
        let answered = answered.map_err(|status| self.withheld.without_status(status));
        answered.map(tonic::Response::into_inner)
    }
}

/// Returns a channel over a local socket.
fn over_socket(path: String, timeout: Duration) -> Result<Channel, String> {
    let endpoint = Endpoint::try_from("http://localhost").map_err(|error| error.to_string())?;
    let connect = move |_: http::Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    };
    let endpoint = endpoint.connect_timeout(timeout);
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(connect)))
}

/// Converts a status to a fault.
fn fault(status: &Status) -> ExternalFault {
    let after = RpcStatus::decode(status.details()).ok().and_then(|status| status.retry_delay());
    let trailer = status.metadata().get_bin(spanscore_base::otlp::status::RETRY_INFO_TRAILER);
    let trailer = trailer.and_then(|value| value.to_bytes().ok());
    let after = after.or_else(|| RetryInfo::decode(trailer?).ok()?.delay());
    let after = after.map(|after| after.min(WAIT_MAX));
    let retryable =
        |error_type| ExternalFault::Retryable { after, error_type, error: words(status) };
    let is_broken = std::error::Error::source(status).is_some();
    let is_late = status.message().contains(TIMEOUT_WORDS);
    match status.code() {
        // Either side ends the request at its deadline with this code.
        Code::Cancelled if is_late => retryable("external_timeout"),
        Code::Unavailable if after.is_some() => retryable("external_overloaded"),
        Code::Unavailable => ExternalFault::Unavailable(words(status)),
        // The connection broke.
        Code::Unknown | Code::Cancelled if is_broken => ExternalFault::Unavailable(words(status)),
        Code::DeadlineExceeded => retryable("external_timeout"),
        Code::ResourceExhausted => retryable("external_overloaded"),
        Code::Aborted => retryable("external_rejected"),
        _ => ExternalFault::Final("external_rejected", words(status)),
    }
}

fn words(status: &Status) -> String {
    let text = status.message();
    match std::error::Error::source(status) {
        Some(cause) if text.is_empty() => shown(&format!("{:?}: {cause}", status.code())),
        _ => shown(&format!("{:?}: {text}", status.code())),
    }
}
