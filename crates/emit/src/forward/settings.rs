//! Settings of the `forward:` map: backends that receive accepted requests.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use smart_default::SmartDefault;

use spanscore_base::otlp::Signal;
use spanscore_base::settings::{
    Address, HumanDuration, Node, NodeKind, Secret, SettingsError, meant_or,
};
use spanscore_net::client::Connection;
use spanscore_net::client::retry::RetrySettings;
use spanscore_net::client::{Compression, Protocol, TlsSettings};

/// Limit on forwards of one process; each has a queue.
const FORWARDS_MAX: usize = 16;

/// Kinds of forwards: name, alias and description.
pub const FORWARD_KINDS: [(&str, &str, &str); 2] = [
    ("otlp_grpc", "otlp", "Forwards received requests to an OTLP backend over gRPC."),
    ("otlp_http", "otlphttp", "Forwards received requests to an OTLP backend over HTTP."),
];

/// One backend that gets what was received.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardSettings {
    /// `kind` or `kind/name` as written: the `forward` label of its metrics.
    pub name: String,
    pub(super) protocol: Protocol,
    pub(super) backend: ForwardBackendSettings,
}

impl ForwardSettings {
    /// Returns the bytes that its queue may hold, if its settings limit them.
    pub fn queue_bytes(&self) -> Option<usize> {
        let queue = &self.backend.sending_queue;
        queue.queue_size.filter(|_| queue.enabled)
    }

    /// Returns true if it leads back to a receiver of this process that listens at `address`.
    pub fn leads_to(&self, address: &str) -> bool {
        let endpoint = self.backend.endpoint.reveal().trim();
        let endpoint = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
        let authority = endpoint.split('/').next().unwrap_or_default();
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let (Some((host, port)), Some((own, own_port))) =
            (authority.rsplit_once(':'), address.rsplit_once(':'))
        else {
            return false;
        };
        let is_here = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        let is_any = |host: &str| matches!(host, "0.0.0.0" | "[::]");
        let is_same = host == own || is_here(host) && (is_here(own) || is_any(own));
        port == own_port && port != "0" && is_same
    }
}

/// Forwards received requests to an OTLP backend.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ForwardBackendSettings {
    /// Address of the backend. With gRPC: `http://host:4317` (plain text), `https://host:4317`
    /// (TLS), or `host:4317` (TLS unless `tls.insecure`). With HTTP: the base address, such as
    /// `http://host:4318`, to which `/v1/traces`, `/v1/logs` and `/v1/metrics` are appended.
    pub(super) endpoint: Address,
    /// Headers of each request (gRPC: metadata), such as an authorization. Logs never show the
    /// values. Headers of the sender are not forwarded.
    pub(super) headers: BTreeMap<String, Secret>,
    /// Compression of requests to the backend: `gzip` (default), `zstd` or `none`. A body that
    /// arrived over HTTP in the same compression is forwarded as it is.
    #[default(Compression::Gzip)]
    pub(super) compression: Compression,
    /// Time limit of one request. Default `10s`.
    #[default(HumanDuration::from_secs(10))]
    pub(super) timeout: HumanDuration,
    /// TLS of connections to the backend.
    pub(super) tls: TlsSettings,
    /// Forwarded signals: `traces`, `logs`, `metrics`. Default: all three.
    #[schemars(length(min = 1))]
    #[default(vec![ForwardedSignal::Traces, ForwardedSignal::Logs, ForwardedSignal::Metrics])]
    pub(super) signals: Vec<ForwardedSignal>,
    /// Forwarded traces: `all` (default), `agent` or `fail`. With `agent` and `fail`, log records
    /// are forwarded if they carry the id of such a trace.
    pub(super) traces: ForwardedTraces,
    /// Queue of requests to the backend.
    pub(super) sending_queue: ForwardQueueSettings,
    /// Retries of failed requests. With a log and without `max_elapsed_time`, retries have no time
    /// limit.
    pub(super) retry_on_failure: RetrySettings,
}

impl ForwardBackendSettings {
    /// Checks the settings; an error comes with the key that it is about.
    fn check(&self, protocol: Protocol) -> Result<(), (&'static str, SettingsError)> {
        let error = |key, text: &str| Err((key, SettingsError::new(text)));
        self.connection(protocol).check()?;
        if self.signals.is_empty() {
            return error("signals", "`signals` names nothing: write traces, logs or metrics");
        }
        let queue = &self.sending_queue;
        if !(1..=1000).contains(&queue.num_consumers) {
            return error("sending_queue", "`num_consumers` must be 1 to 1000");
        }
        if queue.queue_size == Some(0) {
            return error("sending_queue", "`queue_size` must be above zero");
        }
        self.retry_on_failure.check()
    }

    pub(super) fn connection(&self, protocol: Protocol) -> Connection<'_> {
        let Self { endpoint, headers, tls, .. } = self;
        let compression = self.compression;
        let timeout = self.timeout;
        Connection { protocol, endpoint, headers, compression, timeout, tls }
    }

    /// Returns true if a signal is forwarded.
    pub(super) fn has(&self, signal: Signal) -> bool {
        self.signals.iter().any(|own| own.signal() == signal)
    }
}

/// Forwarded signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ForwardedSignal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Metrics. The collector only forwards them.
    Metrics,
}

impl ForwardedSignal {
    fn signal(self) -> Signal {
        match self {
            Self::Traces => Signal::Traces,
            Self::Logs => Signal::Logs,
            Self::Metrics => Signal::Metrics,
        }
    }
}

/// Forwarded traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ForwardedTraces {
    /// All traces, as soon as they arrive.
    #[default]
    All,
    /// Traces with an agent, after they are judged.
    Agent,
    /// Traces with an evaluation labelled `fail`, after they are judged.
    Fail,
}

/// Queue of requests to a backend. Receivers never wait for it. Without room, a request stays in
/// the log. Without a log, requests of the sender with most waiting are dropped and counted.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ForwardQueueSettings {
    /// Queues requests. `false` holds only the requests that are being sent. Default `true`.
    #[default = true]
    pub(super) enabled: bool,
    /// Limit on concurrent requests, 1 to 1000. With 1, requests of one connection stay in order.
    /// Default 10.
    #[schemars(range(min = 1, max = 1000))]
    #[default = 10]
    pub(super) num_consumers: usize,
    /// Limit on the bytes in the queue and in requests under way. Default: the room of
    /// `limits.forward_mib`; one queue may hold at most four times the bytes that are free.
    pub(super) queue_size: Option<usize>,
    /// Unit of `queue_size`: `bytes`.
    pub(super) sizer: ForwardSizer,
}

/// Unit of the size of a forward's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ForwardSizer {
    /// Bytes.
    #[default]
    Bytes,
}

/// Returns the schema of one backend's settings.
pub fn forward_schema() -> Schema {
    schemars::schema_for!(ForwardBackendSettings)
}

/// Reads the `forward:` map, in the order written.
///
/// # Errors
/// The first mistake, with its place.
pub fn read_forwards(forwards: &Node) -> Result<Vec<ForwardSettings>, SettingsError> {
    if !matches!(forwards.kind, NodeKind::Map(_) | NodeKind::Null) {
        let error = SettingsError::new("`forward` takes a map keyed `kind` or `kind/name`");
        let help = "write `otlp_http/backend: {endpoint: ADDRESS}` below it";
        return Err(error.with_help(help).at(forwards.place));
    }
    let mut read = Vec::new();
    for (key, node) in forwards.entries() {
        let protocol = protocol_of(&key.text).map_err(|error| error.at(key.place))?;
        let backend: ForwardBackendSettings = node.read().map_err(|e| e.at(key.place))?;
        let checked = backend.check(protocol);
        checked.map_err(|(wrong, error)| error.at(node.place_of(wrong)).at(key.place))?;
        read.push(ForwardSettings { name: key.text.clone(), protocol, backend });
    }
    if read.len() > FORWARDS_MAX {
        let error = SettingsError::new(format!("more than {FORWARDS_MAX} forwards"));
        return Err(error.at(forwards.place));
    }
    Ok(read)
}

fn protocol_of(name: &str) -> Result<Protocol, SettingsError> {
    let word = name.split_once('/').map_or(name, |(word, _)| word);
    match word {
        "otlp_grpc" | "otlp" => Ok(Protocol::Grpc),
        "otlp_http" | "otlphttp" => Ok(Protocol::HttpProtobuf),
        _ => {
            let words = FORWARD_KINDS.iter().flat_map(|(name, alias, _)| [*name, *alias]);
            let error = SettingsError::new(format!("unknown kind of backend `{word}`"));
            let known = || "known are otlp_grpc, otlp_http".to_owned();
            Err(error.with_help(meant_or(word, words, known)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(text: &str, expected: &str) {
        let node = Node::from_value(&json::parse(text).unwrap());
        let found = match read_forwards(&node) {
            Ok(read) => read.into_iter().map(|it| it.name).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn backends_are_keyed_by_kind_and_name() {
        check("{}", "");
        check(
            r#"{"otlp_grpc/tempo": {"endpoint": "http://h:4317", "traces": "fail"},
                "otlphttp": {"endpoint": "http://h:4318", "signals": ["traces"]}}"#,
            "otlp_grpc/tempo otlphttp",
        );
    }

    #[test]
    fn mistakes_name_the_nearest_word_or_the_remedy() {
        check(
            "[]",
            "`forward` takes a map keyed `kind` or `kind/name` (write `otlp_http/backend: \
             {endpoint: ADDRESS}` below it)",
        );
        check(
            r#"{"otlp_rpc": {}}"#,
            "unknown kind of backend `otlp_rpc` (did you mean `otlp_grpc`?)",
        );
        check(
            r#"{"kafka": {}}"#,
            "unknown kind of backend `kafka` (known are otlp_grpc, otlp_http)",
        );
        let with = |setting: &str, expected: &str| {
            check(&format!(r#"{{"otlp": {{"endpoint": "http://h:4317", {setting}}}}}"#), expected);
        };
        with(r#""signals": []"#, "`signals` names nothing: write traces, logs or metrics");
        with(r#""traces": "agents""#, "unknown value `agents` (did you mean `agent`?)");
        with(r#""sending_queue": {"queue_size": 0}"#, "`queue_size` must be above zero");
    }

    #[test]
    fn a_forward_that_leads_back_is_known() {
        let leads = |endpoint: &str, address: &str| {
            let text = format!(r#"{{"otlp_http": {{"endpoint": "{endpoint}"}}}}"#);
            let read = read_forwards(&Node::from_value(&json::parse(&text).unwrap())).unwrap();
            read[0].leads_to(address)
        };
        assert!(leads("http://localhost:4318/base", "127.0.0.1:4318"));
        assert!(leads("http://127.0.0.1:4318", "0.0.0.0:4318"));
        assert!(leads("http://shop:4318", "shop:4318"));
        assert!(leads("http://bob:key@shop:4318", "shop:4318"));
        assert!(!leads("http://localhost:4319", "127.0.0.1:4318"));
        assert!(!leads("http://tempo:4318", "0.0.0.0:4318"));
        assert!(!leads("http://localhost:0", "127.0.0.1:0"));
    }

    #[test]
    fn headers_are_never_printed() {
        let text = r#"{"otlp": {"endpoint": "http://h", "headers": {"authorization": "key-1"}}}"#;
        let node = Node::from_value(&json::parse(text).unwrap());
        assert!(!format!("{:?}", read_forwards(&node)).contains("key-1"));
    }
}
