//! `spanscore send`: replays recorded traces to a collector.

pub(super) mod certs;
mod destination;
mod fresh;
pub(super) mod typed;
mod words;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use tokio::runtime::Builder;

use self::destination::{Destination, Sent};
use self::fresh::Fresh;
use self::words::{CompressionWord, ProtocolWord};
use super::{CommandError, Exit, inputs, output, started};
use spanscore_base::otlp::Signal;
use spanscore_base::settings::{Address, Secret, SettingsError};
use spanscore_base::visible;
use spanscore_net::client::{ClientSettings, Protocol, TlsSettings, headers};
use spanscore_recordings::{FileError, read_requests};

/// Recorded run for `--sample`: an agent that refunds an order, with a failed and a repeated tool
/// call.
const SAMPLE: &str = include_str!("../../../examples/traces/refund_agent.json");

/// Sends recorded traces to a collector
///
/// Reads the same files as `score`. Prints what was sent, and what the collector refused.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore send --sample
  spanscore send --fresh-ids examples/traces/*.json
  spanscore send --endpoint http://collector:4317 --protocol grpc --rate 50/s traces.jsonl

--sample sends under fresh ids and with the present time, as if the agent ran now.")]
pub(super) struct SendArgs {
    /// Files, folders or patterns to send; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "sample")]
    files: Vec<PathBuf>,
    /// Sends a sample run of an agent
    #[arg(long)]
    sample: bool,
    /// Address of the collector. For HTTP the base URL, to which /v1/traces is appended
    #[arg(
        long,
        value_name = "URL",
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        hide_env_values = true,
        default_value = "http://127.0.0.1:4318"
    )]
    endpoint: Address,
    /// Protocol. Default: gRPC for port 4317, else HTTP with protobuf
    #[arg(long, value_enum, env = "OTEL_EXPORTER_OTLP_PROTOCOL")]
    protocol: Option<ProtocolWord>,
    /// Compression of requests
    #[arg(
        long,
        value_enum,
        default_value_t = CompressionWord::None,
        env = "OTEL_EXPORTER_OTLP_COMPRESSION"
    )]
    compression: CompressionWord,
    /// Header of each request, such as --header authorization="Bearer ...". May be repeated
    #[arg(
        long = "header",
        value_name = "NAME=VALUE",
        env = "OTEL_EXPORTER_OTLP_HEADERS",
        value_delimiter = ',',
        hide_env_values = true
    )]
    headers: Vec<Header>,
    /// PEM file with trusted authorities instead of those of the system, for https://
    #[arg(long, value_name = "FILE", env = "OTEL_EXPORTER_OTLP_CERTIFICATE")]
    ca: Option<String>,
    /// PEM file with the client certificate
    #[arg(long, value_name = "FILE", env = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")]
    cert: Option<String>,
    /// PEM file with the key of the client certificate
    #[arg(long, value_name = "FILE", env = "OTEL_EXPORTER_OTLP_CLIENT_KEY")]
    key: Option<String>,
    /// Limit on requests per second, or per minute as in 30/m
    #[arg(long, value_name = "N/s")]
    rate: Option<Rate>,
    /// Gives traces and spans new ids, and moves the times so that the last span ends now
    #[arg(long)]
    fresh_ids: bool,
    /// Time limit of one request, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    timeout: u16,
}

/// Header of requests.
#[derive(Clone, Debug)]
struct Header {
    name: String,
    value: Secret,
}

impl From<String> for Header {
    /// Parses a header. Never fails, since clap would print the header; one without a name is
    /// reported later.
    fn from(text: String) -> Self {
        let (name, value) = text.split_once('=').unwrap_or(("", &text));
        Self { name: name.trim().to_lowercase(), value: Secret(value.trim().to_owned()) }
    }
}

/// Least interval between two requests.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Rate(Duration);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, seconds) = match text.split_once('/') {
            None => (text, 1.0),
            Some((count, "s")) => (count, 1.0),
            Some((count, "m")) => (count, 60.0),
            Some(_) => return Err("write a number per second or minute: 50/s, 30/m".into()),
        };
        let count: f64 = count.trim().parse().map_err(|_| "not a number")?;
        if !(1e-3..=1e6).contains(&count) {
            return Err("must be between 0.001 and 1000000".into());
        }
        Ok(Self(Duration::from_secs_f64(seconds / count)))
    }
}

impl SendArgs {
    /// Builds the settings of the client.
    fn client(&self) -> Result<ClientSettings, SettingsError> {
        if self.headers.iter().any(|header| header.name.is_empty()) {
            return Err(SettingsError::new("a header has no name: write --header name=value"));
        }
        let pairs = self.headers.iter().map(|header| (&*header.name, header.value.reveal()));
        Ok(ClientSettings {
            protocol: self.protocol(),
            endpoint: self.endpoint.clone(),
            headers: headers(pairs)?,
            compression: self.compression.into(),
            timeout: Duration::from_secs(self.timeout.into()),
            tls: self.tls()?,
        })
    }

    /// Builds the settings of TLS; an empty environment variable counts as unset.
    fn tls(&self) -> Result<TlsSettings, SettingsError> {
        let named = |file: &Option<String>| file.clone().filter(|file| !file.is_empty());
        let cert_file = named(&self.cert);
        let key_file = named(&self.key);
        if cert_file.is_some() != key_file.is_some() {
            return Err(SettingsError::new("a client certificate needs both --cert and --key"));
        }
        Ok(TlsSettings { ca_file: named(&self.ca), cert_file, key_file, ..TlsSettings::default() })
    }

    fn protocol(&self) -> Protocol {
        let grpc_port = self.endpoint.reveal().trim_end_matches('/').ends_with(":4317");
        self.protocol.map(Protocol::from).unwrap_or(if grpc_port {
            Protocol::Grpc
        } else {
            Protocol::HttpProtobuf
        })
    }

    /// Returns the requests in order, read as they are sent. Only fresh ids need all of them at
    /// once, to find the end of the last span.
    fn requests(&self) -> Result<Box<dyn Iterator<Item = ReadRequest>>, CommandError> {
        let sample = if self.sample { Some(Ok((Signal::Traces, sample()?))) } else { None };
        let files = inputs::expand(&self.files)?.into_iter();
        let read = sample.into_iter().chain(files.flat_map(|path| read_requests(&path)));
        if !self.sample && !self.fresh_ids {
            return Ok(Box::new(read));
        }
        let mut read: Vec<ReadRequest> = read.collect();
        let fresh = Fresh::new(read.iter().flatten());
        for (signal, body) in read.iter_mut().flatten() {
            fresh.rewrite(*signal, body).context("cannot give fresh ids")?;
        }
        Ok(Box::new(read.into_iter()))
    }
}

/// Request, or the error of reading it.
type ReadRequest = Result<(Signal, Bytes), FileError>;

/// Returns the sample run as an encoded request.
fn sample() -> Result<Bytes, CommandError> {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message;
    let request: ExportTraceServiceRequest =
        serde_json::from_str(SAMPLE).context("the sample is not OTLP/JSON")?;
    Ok(request.encode_to_vec().into())
}

pub(super) fn run(args: &SendArgs) -> Result<Exit, CommandError> {
    let runtime = started(&mut Builder::new_current_thread())?;
    let started = Instant::now();
    let (sent, unreadable) = runtime.block_on(send(args)).map_err(explain_refusal)?;
    output::line(format_args!(
        "sent {} to {} in {:.1}s",
        sent.sentence(),
        args.endpoint,
        started.elapsed().as_secs_f64()
    ))?;
    let whole = unreadable == 0 && sent.rejected == 0;
    Ok(if whole { Exit::Success } else { Exit::Failure })
}

/// Adds a hint to the error of a refused connection.
fn explain_refusal(error: CommandError) -> CommandError {
    match error {
        CommandError::Runtime(error) if format!("{error:#}").contains("Connection refused") => {
            CommandError::Runtime(anyhow::anyhow!(
                "{error:#}; nothing listens there: start `spanscore`, or name the collector with \
                 --endpoint"
            ))
        }
        other => other,
    }
}

/// Sends everything; returns the counts, and the number of unreadable requests.
async fn send(args: &SendArgs) -> Result<(Sent, usize), CommandError> {
    let destination = Destination::new(args).await?;
    let mut total = Sent::default();
    let mut unreadable = 0;
    let mut ticks = args.rate.map(|Rate(period)| {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks
    });
    for request in args.requests()? {
        let (signal, body) = match request {
            Ok(request) => request,
            Err(error) => {
                unreadable += 1;
                output::note(visible::line(error));
                continue;
            }
        };
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        let sent = destination
            .send(signal, body)
            .await
            .with_context(|| format!("cannot send to {} ({})", args.endpoint, total.sentence()))?;
        if sent.rejected > 0 {
            let Sent { rejected, message, .. } = &sent;
            output::note(format_args!("the collector rejected {rejected} items: {message}"));
        }
        total.add(&sent);
    }
    Ok((total, unreadable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_or_minute() {
        let period = |text: &str| text.parse::<Rate>().map(|rate| rate.0.as_millis()).ok();
        assert_eq!(period("10/s"), Some(100));
        assert_eq!(period("30/m"), Some(2000));
        assert_eq!(period("4"), Some(250));
        assert_eq!(period("0/s"), None);
        assert_eq!(period("10/h"), None);
    }

    #[test]
    fn the_sample_is_a_trace() {
        let body = sample().expect("the sample reads");
        assert!(!body.is_empty());
    }
}
