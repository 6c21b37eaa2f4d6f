//! Settings of the receivers, in the OpenTelemetry Collector's shape.
//!
//! Without `receivers` in the config, both protocols listen on the loopback address. Otherwise only
//! the named protocols are enabled; a name without settings means the defaults.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use smart_default::SmartDefault;

pub use super::auth::settings::{AuthSettings, KnownClientSettings, SenderLimits};
pub use super::follow::settings::FileReceiverSettings;
pub use super::http::cors::CorsSettings;
pub use super::http::url_paths::UrlPaths;
use spanscore_base::settings::tls::ListenerTlsSettings;
use spanscore_base::settings::{HumanDuration, above_zero, listen_address, some_above_zero};
use spanscore_kafka::KafkaReceiverSettings;

/// Bytes in a mebibyte.
const MIB: usize = 1 << 20;

/// Receivers of the collector.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields)]
pub struct ReceiversSettings {
    /// Receives OTLP over gRPC and HTTP. Off if `receivers` has other entries and not this one.
    #[serde(default, deserialize_with = "named")]
    #[default(Some(OtlpReceiverSettings::default()))]
    pub otlp: Option<OtlpReceiverSettings>,
    /// Follows files that another process writes. Off without this entry.
    #[serde(default)]
    pub file: Option<FileReceiverSettings>,
    /// Reads OTLP requests from Kafka topics. Off without this entry.
    #[serde(default, deserialize_with = "named")]
    pub kafka: Option<KafkaReceiverSettings>,
}

/// Receives OTLP over gRPC and HTTP.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpReceiverSettings {
    /// Protocols of the receiver: `grpc` and `http`. A protocol without an entry is off.
    pub protocols: ProtocolsSettings,
    /// Accepted clients. Without this section, every client is accepted.
    pub auth: Option<AuthSettings>,
    /// Limit on requests that are processed at the same time, over both protocols. Further requests
    /// wait up to `wait_for_room`, then they are refused as overload. Default 256.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 256]
    pub max_concurrent_requests: usize,
    /// Part of `limits.memory_mib` for request bodies, compressed and decompressed, in mebibytes.
    /// Requests above it are refused as overload. One connection may hold at most four times the
    /// free rest.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub max_in_flight_mib: Option<usize>,
    /// Longest wait of a request for room before it is refused. Senders give up soon after a
    /// second. Default `1s`.
    #[default(HumanDuration::from_secs(1))]
    pub wait_for_room: HumanDuration,
    /// Limit on open connections, over both protocols. Further connections are closed at once. The
    /// limit is lower if the process may open few files. Default 4096.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 4096]
    pub max_connections: usize,
    /// Part of `limits.memory_mib` for connections without their request bodies, in mebibytes: 16
    /// KiB each, and incomplete frames and headers. A connection above it is closed.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub max_connections_mib: Option<usize>,
    /// Lowest rate of a body, in bytes per second, from five seconds after the headers. 0 applies
    /// only `read_timeout`. Default 4096.
    #[default = 4096]
    pub min_body_rate: u32,
    /// Time limit for the body of a request, from the end of its headers. Default `30s`.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(30))]
    pub read_timeout: HumanDuration,
}

/// Protocols of the OTLP receiver.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields)]
pub struct ProtocolsSettings {
    /// OTLP/gRPC.
    #[serde(default, deserialize_with = "named")]
    #[default(Some(GrpcSettings::default()))]
    pub grpc: Option<GrpcSettings>,
    /// OTLP/HTTP.
    #[serde(default, deserialize_with = "named")]
    #[default(Some(HttpSettings::default()))]
    pub http: Option<HttpSettings>,
}

/// OTLP/gRPC.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct GrpcSettings {
    /// Address and port to listen on. Port 0 takes a free port. Default `127.0.0.1:4317`.
    #[serde(deserialize_with = "listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    #[default = "127.0.0.1:4317"]
    pub endpoint: String,
    /// TLS of the port. Without this section the port uses plain text.
    pub tls: Option<ListenerTlsSettings>,
    /// Allows plain text on an address other than loopback, where anyone on the network path can
    /// read it. Default `false`.
    pub insecure: bool,
    /// Limit on the size of a message, in mebibytes, before and after decompression. A larger
    /// message is answered with RESOURCE_EXHAUSTED. Default 64.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 64]
    pub max_recv_msg_size_mib: usize,
    /// Limit on concurrent calls of one connection. The client delays further calls. Default 32.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 32]
    pub max_concurrent_streams: u32,
    /// Mebibytes that a client may send ahead on one call. A connection allows four times as much.
    /// Default 1.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 1]
    pub initial_window_mib: u32,
    /// Limit on the size of an HTTP/2 frame, in kibibytes, 16 to 16383. A request in one frame is
    /// not copied. Incomplete frames count toward `max_connections_mib`. Default 1024.
    #[schemars(range(min = 16, max = 16383))]
    #[default = 1024]
    pub max_frame_kib: u32,
    /// Time limit from the start of a connection to the headers of its first request. Default
    /// `20s`.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(20))]
    pub read_header_timeout: HumanDuration,
    /// Keepalive pings, and the end of idle connections.
    pub keepalive: KeepaliveSettings,
}

impl GrpcSettings {
    /// Returns `max_recv_msg_size_mib` in bytes.
    pub fn body_bytes_max(&self) -> usize {
        self.max_recv_msg_size_mib.saturating_mul(MIB)
    }
}

/// Keepalive pings, and the end of idle connections.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeepaliveSettings {
    /// Keepalive by the server.
    pub server_parameters: ServerParameters,
    /// Limits on pings of the client. Without this section, only a flood of pings ends a
    /// connection.
    pub enforcement_policy: Option<EnforcementPolicy>,
}

/// Limits on pings of the client. A connection above them is ended.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct EnforcementPolicy {
    /// Shortest interval between pings. Default `5m`.
    #[default(HumanDuration::from_secs(5 * 60))]
    pub min_time: HumanDuration,
    /// Allows pings without a running call. Without it, one ping in two hours is allowed then.
    /// Default `false`.
    pub permit_without_stream: bool,
}

/// Keepalive by the server.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct ServerParameters {
    /// Time without a request after which a connection is closed. The client reconnects when it
    /// needs to. Default `15m`.
    #[default(HumanDuration::from_secs(15 * 60))]
    pub max_connection_idle: HumanDuration,
    /// Interval between pings to the client. Default `30s`.
    #[default(HumanDuration::from_secs(30))]
    pub time: HumanDuration,
    /// Time limit for the answer to a ping. After it, the connection is closed. Default `20s`.
    #[default(HumanDuration::from_secs(20))]
    pub timeout: HumanDuration,
}

/// OTLP/HTTP, over HTTP/1.1 and HTTP/2.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// Address and port to listen on. Port 0 takes a free port. Default `127.0.0.1:4318`.
    #[serde(deserialize_with = "listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    #[default = "127.0.0.1:4318"]
    pub endpoint: String,
    /// TLS of the port. Without this section the port uses plain text.
    pub tls: Option<ListenerTlsSettings>,
    /// Allows plain text on an address other than loopback, where anyone on the network path can
    /// read it. Default `false`.
    pub insecure: bool,
    /// Limit on the size of a body, in bytes, before and after decompression. A larger body is
    /// answered with 413. Default 67108864 (64 MiB).
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default(64 * MIB)]
    pub max_request_body_size: usize,
    /// Path of traces, or a list of paths. Longer paths with this end are accepted, too. Default
    /// `/v1/traces`.
    #[default(UrlPaths::one("/v1/traces"))]
    pub traces_url_path: UrlPaths,
    /// Path of logs, or a list of paths. Longer paths with this end are accepted, too. Default
    /// `/v1/logs`.
    #[default(UrlPaths::one("/v1/logs"))]
    pub logs_url_path: UrlPaths,
    /// Path of metrics, or a list of paths. Longer paths with this end are accepted, too. Default
    /// `/v1/metrics`.
    #[default(UrlPaths::one("/v1/metrics"))]
    pub metrics_url_path: UrlPaths,
    /// Web pages that may send from a browser (CORS). Default: none.
    pub cors: Option<CorsSettings>,
    /// Time limit for the headers of a request, and for the pause between two requests of an
    /// HTTP/1.1 connection. Default `60s`.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(60))]
    pub read_header_timeout: HumanDuration,
    /// Time without a request after which a connection is closed. Default `15m`.
    #[default(HumanDuration::from_secs(15 * 60))]
    pub idle_timeout: HumanDuration,
}

/// Reads a section that its name alone enables.
fn named<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(deserializer).map(|section| Some(section.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::settings::Node;
    use spanscore_base::value::json;

    fn read(text: &str) -> ReceiversSettings {
        Node::from_value(&json::parse(text).unwrap()).read().unwrap()
    }

    #[test]
    fn without_a_config_both_protocols_are_on() {
        let otlp = ReceiversSettings::default().otlp.unwrap();
        assert!(otlp.protocols.grpc.is_some() && otlp.protocols.http.is_some());
    }

    #[test]
    fn only_named_protocols_are_on() {
        let otlp = read(r#"{"otlp": {"protocols": {"grpc": null}}}"#).otlp.unwrap();
        assert_eq!(otlp.protocols.grpc, Some(GrpcSettings::default()));
        assert_eq!(otlp.protocols.http, None);
        assert_eq!(read("{}").otlp, None);
    }

    #[test]
    fn settings_keep_the_collectors_names() {
        let text = r#"{"otlp": {"protocols": {"http": {"endpoint": "[::1]:0",
            "max_request_body_size": 100}, "grpc": {"max_recv_msg_size_mib": 4,
            "keepalive": {"server_parameters": {"time": "1m"}}}}}}"#;
        let protocols = read(text).otlp.unwrap().protocols;
        assert_eq!(protocols.http.unwrap().max_request_body_size, 100);
        let grpc = protocols.grpc.unwrap();
        assert_eq!(grpc.body_bytes_max(), 4 << 20);
        assert_eq!(grpc.keepalive.server_parameters.time, HumanDuration::from_secs(60));
    }
}
