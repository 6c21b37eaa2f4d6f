//! A client for OTLP over gRPC and HTTP.
//!
//! A refusal that OTLP calls retryable is tried again up to [`TRIES_MAX`] times, after the delay
//! that the collector names or one that doubles.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client as metrics_client;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request};

use super::{Compression, Protocol, SendArgs};
use crate::otlp::Signal;
use crate::otlp::metrics::count_points;
use crate::visible;

/// How often a request is sent at most.
const TRIES_MAX: u32 = 5;
/// The longest pause before another try.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What became of what was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sent {
    /// Requests.
    pub(super) requests: u64,
    /// Spans, log records and data points of metrics: the units in which a collector counts what
    /// it rejects.
    pub(super) items: u64,
    /// Those that the collector did not take.
    pub(super) rejected: u64,
    /// What the collector said of them.
    pub(super) message: String,
}

impl Sent {
    /// Adds up.
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.items += other.items;
        // A number that the collector chose.
        self.rejected = self.rejected.saturating_add(other.rejected);
    }

    /// `2 requests with 11 items, 1 rejected`.
    pub(super) fn sentence(&self) -> String {
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let rejected = match self.rejected {
            0 => String::new(),
            rejected => format!(", {rejected} rejected"),
        };
        format!(
            "{} request{} with {} item{}{rejected}",
            self.requests,
            plural(self.requests),
            self.items,
            plural(self.items)
        )
    }
}

/// A request that was not taken.
enum Refusal {
    /// Another try may help, after this time if the collector says so.
    Retry(Option<Duration>, anyhow::Error),
    /// It will not.
    Final(anyhow::Error),
}

/// A connection to a collector.
pub(super) struct Client {
    transport: Transport,
}

enum Transport {
    Grpc(Grpc),
    Http(Http),
}

impl Client {
    /// Connects, or gets ready to.
    pub(super) async fn new(args: &SendArgs) -> anyhow::Result<Self> {
        let transport = match args.protocol() {
            Protocol::Grpc => Transport::Grpc(Grpc::connect(args).await?),
            protocol => Transport::Http(Http::new(args, protocol == Protocol::HttpJson)?),
        };
        Ok(Self { transport })
    }

    /// Sends one request, more than once if need be.
    pub(super) async fn send(&mut self, signal: Signal, body: Bytes) -> anyhow::Result<Sent> {
        let message = Decoded::new(signal, &body).context("the request is not OTLP")?;
        let mut pause = Duration::from_millis(200);
        for attempt in 1.. {
            let refusal = match &mut self.transport {
                Transport::Grpc(grpc) => grpc.send(&message).await,
                Transport::Http(http) => http.send(&message, &body).await,
            };
            let (named, error) = match refusal {
                Ok((rejected, said)) => {
                    let rejected = u64::try_from(rejected).unwrap_or(0);
                    let items = message.item_count(&body);
                    return Ok(Sent { requests: 1, items, rejected, message: said });
                }
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Retry(named, error)) => (named, error),
            };
            if attempt >= TRIES_MAX {
                return Err(error.context(format!("gave up after {TRIES_MAX} tries")));
            }
            tokio::time::sleep(named.unwrap_or(pause).min(PAUSE_MAX)).await;
            pause *= 2;
        }
        Err(anyhow!("not sent"))
    }
}

/// A request in its typed form.
enum Decoded {
    Traces(ExportTraceServiceRequest),
    Logs(ExportLogsServiceRequest),
    Metrics(ExportMetricsServiceRequest),
}

impl Decoded {
    fn new(signal: Signal, body: &Bytes) -> Result<Self, prost::DecodeError> {
        Ok(match signal {
            Signal::Traces => Self::Traces(Message::decode(body.clone())?),
            Signal::Logs => Self::Logs(Message::decode(body.clone())?),
            Signal::Metrics => Self::Metrics(Message::decode(body.clone())?),
        })
    }

    /// Spans, log records or data points; `body` is the request as encoded.
    fn item_count(&self, body: &[u8]) -> u64 {
        let count = match self {
            Self::Traces(request) => {
                let scopes = request.resource_spans.iter().flat_map(|r| &r.scope_spans);
                scopes.map(|scope| scope.spans.len()).sum::<usize>()
            }
            Self::Logs(request) => {
                let scopes = request.resource_logs.iter().flat_map(|r| &r.scope_logs);
                scopes.map(|scope| scope.log_records.len()).sum()
            }
            // It was decoded, so it is well-formed.
            Self::Metrics(_) => return count_points(body).unwrap_or(0),
        };
        count as u64
    }

    fn path(&self) -> &'static str {
        match self {
            Self::Traces(_) => "v1/traces",
            Self::Logs(_) => "v1/logs",
            Self::Metrics(_) => "v1/metrics",
        }
    }

    fn json(&self) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::Traces(request) => serde_json::to_vec(request),
            Self::Logs(request) => serde_json::to_vec(request),
            Self::Metrics(request) => serde_json::to_vec(request),
        }
    }
}

/// How many items were rejected, and why.
type Answer = Result<(i64, String), Refusal>;

struct Grpc {
    channel: Channel,
    metadata: MetadataMap,
    compression: Option<CompressionEncoding>,
}

impl Grpc {
    async fn connect(args: &SendArgs) -> anyhow::Result<Self> {
        let mut endpoint = Endpoint::from_shared(args.endpoint.clone())
            .with_context(|| format!("{} is not a URL", args.endpoint))?
            .timeout(Duration::from_secs(args.timeout.into()))
            .connect_timeout(Duration::from_secs(args.timeout.into()));
        if args.endpoint.starts_with("https:") {
            endpoint = endpoint.tls_config(ClientTlsConfig::new().with_native_roots())?;
        }
        let channel = endpoint
            .connect()
            .await
            .with_context(|| format!("cannot connect to {}", args.endpoint))?;
        let compression = match args.compression {
            Compression::None => None,
            Compression::Gzip => Some(CompressionEncoding::Gzip),
            Compression::Zstd => Some(CompressionEncoding::Zstd),
        };
        Ok(Self { channel, metadata: MetadataMap::from_headers(headers(args)?), compression })
    }

    async fn send(&mut self, message: &Decoded) -> Answer {
        let answer = match message {
            Decoded::Traces(request) => {
                let mut client = TraceServiceClient::new(self.channel.clone())
                    .max_encoding_message_size(usize::MAX);
                if let Some(compression) = self.compression {
                    client = client.send_compressed(compression);
                }
                let answer = client.export(self.request(request.clone())).await;
                answer.map(|answer| trace_answer(answer.into_inner()))
            }
            Decoded::Logs(request) => {
                let mut client = LogsServiceClient::new(self.channel.clone())
                    .max_encoding_message_size(usize::MAX);
                if let Some(compression) = self.compression {
                    client = client.send_compressed(compression);
                }
                let answer = client.export(self.request(request.clone())).await;
                answer.map(|answer| logs_answer(answer.into_inner()))
            }
            Decoded::Metrics(request) => {
                let mut client = metrics_client::MetricsServiceClient::new(self.channel.clone())
                    .max_encoding_message_size(usize::MAX);
                if let Some(compression) = self.compression {
                    client = client.send_compressed(compression);
                }
                let answer = client.export(self.request(request.clone())).await;
                answer.map(|answer| metrics_answer(answer.into_inner()))
            }
        };
        answer.map_err(|status| {
            let error = anyhow!("{:?}: {}", status.code(), visible::line(status.message()));
            match status.code() {
                Code::Cancelled
                | Code::DeadlineExceeded
                | Code::Aborted
                | Code::OutOfRange
                | Code::Unavailable
                | Code::DataLoss => Refusal::Retry(None, error),
                _ => Refusal::Final(error),
            }
        })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        *request.metadata_mut() = self.metadata.clone();
        request
    }
}

struct Http {
    client: reqwest::Client,
    base: String,
    headers: HeaderMap,
    json: bool,
    compression: Compression,
}

impl Http {
    fn new(args: &SendArgs, json: bool) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(args.timeout.into()))
            .build()
            .context("cannot make an HTTP client")?;
        let base = args.endpoint.trim_end_matches('/').to_owned();
        let mut headers = headers(args)?;
        let content = if json { "application/json" } else { "application/x-protobuf" };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content));
        match args.compression {
            Compression::None => None,
            Compression::Gzip => headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip")),
            Compression::Zstd => headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd")),
        };
        Ok(Self { client, base, headers, json, compression: args.compression })
    }

    async fn send(&mut self, message: &Decoded, body: &Bytes) -> Answer {
        let body = if self.json {
            message.json().map_err(|error| Refusal::Final(error.into()))?
        } else {
            body.to_vec()
        };
        let body = compressed(body, self.compression).map_err(Refusal::Final)?;
        let url = format!("{}/{}", self.base, message.path());
        let sent = self.client.post(&url).headers(self.headers.clone()).body(body).send().await;
        let response = sent.map_err(|error| {
            let unreachable = error.is_connect() || error.is_builder();
            let error = anyhow::Error::new(error);
            if unreachable { Refusal::Final(error) } else { Refusal::Retry(None, error) }
        })?;
        let status = response.status();
        let retry_after = response.headers().get("retry-after");
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let is_json = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let body = response.bytes().await.map_err(|error| Refusal::Retry(None, error.into()))?;
        if status.is_success() {
            return answer(message, &body, is_json).map_err(Refusal::Final);
        }
        let error = anyhow!("{status}: {}", visible::line(words(&body, is_json)));
        match status.as_u16() {
            429 | 502 | 503 | 504 => {
                Err(Refusal::Retry(retry_after.map(Duration::from_secs), error))
            }
            _ => Err(Refusal::Final(error)),
        }
    }
}

fn headers(args: &SendArgs) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for header in &args.headers {
        let name = HeaderName::try_from(&header.name)
            .with_context(|| format!("`{}` is not the name of a header", header.name))?;
        let Ok(mut value) = HeaderValue::try_from(&header.value) else {
            bail!("the value of header `{}` has characters that no header holds", header.name);
        };
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

fn compressed(body: Vec<u8>, compression: Compression) -> anyhow::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(body),
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&body)?;
            Ok(encoder.finish()?)
        }
        Compression::Zstd => Ok(zstd::encode_all(body.as_slice(), 0)?),
    }
}

/// Reads the answer to a request that was taken.
fn answer(message: &Decoded, body: &Bytes, is_json: bool) -> anyhow::Result<(i64, String)> {
    let read = || -> anyhow::Result<(i64, String)> {
        Ok(match message {
            _ if is_json => json_answer(message, &serde_json::from_slice(body)?),
            Decoded::Traces(_) => trace_answer(Message::decode(body.clone())?),
            Decoded::Logs(_) => logs_answer(Message::decode(body.clone())?),
            Decoded::Metrics(_) => metrics_answer(Message::decode(body.clone())?),
        })
    };
    read().context("the request was taken, but the answer cannot be read")
}

/// The JSON form of an answer. Protobuf's JSON writes numbers of 64 bits as texts; some collectors
/// write them as numbers.
fn json_answer(message: &Decoded, answer: &serde_json::Value) -> (i64, String) {
    let rejected = match message {
        Decoded::Traces(_) => "rejectedSpans",
        Decoded::Logs(_) => "rejectedLogRecords",
        Decoded::Metrics(_) => "rejectedDataPoints",
    };
    let partial = &answer["partialSuccess"];
    let rejected = &partial[rejected];
    let rejected = rejected.as_i64().or_else(|| rejected.as_str()?.parse().ok());
    (rejected.unwrap_or(0), partial["errorMessage"].as_str().unwrap_or_default().to_owned())
}

fn trace_answer(answer: ExportTraceServiceResponse) -> (i64, String) {
    answer.partial_success.map(|p| (p.rejected_spans, p.error_message)).unwrap_or_default()
}

fn logs_answer(answer: ExportLogsServiceResponse) -> (i64, String) {
    answer.partial_success.map(|p| (p.rejected_log_records, p.error_message)).unwrap_or_default()
}

fn metrics_answer(answer: ExportMetricsServiceResponse) -> (i64, String) {
    answer.partial_success.map(|p| (p.rejected_data_points, p.error_message)).unwrap_or_default()
}

/// Longest part of an error's body that is shown, characters.
const WORDS_MAX: usize = 300;

/// The message of an error's body: `google.rpc.Status` in JSON, in protobuf, or plain text.
fn words(body: &Bytes, is_json: bool) -> String {
    let from_json = || {
        let status: serde_json::Value = serde_json::from_slice(body).ok()?;
        Some(status.get("message")?.as_str()?.to_owned())
    };
    let text = if is_json {
        from_json()
    } else {
        RpcStatus::decode(body.clone()).ok().map(|status| status.message)
    };
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    text.chars().take(WORDS_MAX).collect()
}

/// The parts of `google.rpc.Status` that are read.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(string, tag = "2")]
    message: String,
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::metrics::v1::{
        Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric::Data,
    };

    use super::*;

    #[test]
    fn metrics_are_counted_by_their_points_as_collectors_count_them() {
        let points = |count| Metric {
            data: Some(Data::Gauge(Gauge { data_points: vec![NumberDataPoint::default(); count] })),
            ..Metric::default()
        };
        let scope = ScopeMetrics { metrics: vec![points(3), points(2)], ..Default::default() };
        let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![resource] };
        let body: Bytes = request.encode_to_vec().into();
        let message = Decoded::new(Signal::Metrics, &body).expect("OTLP");
        assert_eq!(message.item_count(&body), 5);
    }

    #[test]
    fn what_was_rejected_is_read_as_a_text_and_as_a_number() {
        let message = Decoded::Traces(ExportTraceServiceRequest::default());
        for (rejected, read) in [(r#""3""#, 3), ("3", 3), ("null", 0)] {
            let body = format!(
                r#"{{"partialSuccess": {{"rejectedSpans": {rejected}, "errorMessage": "x"}}}}"#
            );
            let read_from = answer(&message, &body.into(), true).expect("JSON");
            assert_eq!(read_from, (read, "x".to_owned()));
        }
        assert_eq!(answer(&message, &Bytes::from("{}"), true).expect("JSON"), (0, String::new()));
        assert!(answer(&message, &Bytes::from("}"), true).is_err());
    }

    #[test]
    fn numbers_that_a_collector_chose_do_not_wrap_around() {
        let mut total = Sent::default();
        for _ in 0..3 {
            total.add(&Sent { requests: 1, rejected: i64::MAX as u64, ..Sent::default() });
        }
        assert_eq!((total.requests, total.rejected), (3, u64::MAX));
    }
}
