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

/// Inputs of the collector.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields)]
pub struct ReceiversSettings {
    /// The OTLP receiver; disabled if `receivers` has other entries without it.
    #[serde(default, deserialize_with = "named")]
    #[default(Some(OtlpReceiverSettings::default()))]
    pub otlp: Option<OtlpReceiverSettings>,
    /// Files of another process; disabled unless named.
    #[serde(default)]
    pub file: Option<FileReceiverSettings>,
    /// Kafka topics; disabled unless named.
    #[serde(default, deserialize_with = "named")]
    pub kafka: Option<KafkaReceiverSettings>,
}

/// The OTLP receiver: its protocols and their common limits.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpReceiverSettings {
    /// The protocols; unnamed ones are disabled.
    pub protocols: ProtocolsSettings,
    /// Accepted clients; all senders without it.
    pub auth: Option<AuthSettings>,
    /// Complete requests processed at the same time, over both protocols. Default 256. Further ones
    /// wait up to `wait_for_room` and are then refused as overload.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 256]
    pub max_concurrent_requests: usize,
    /// Mebibytes of `limits.memory_mib` for request bodies, compressed and decompressed together. A
    /// body beyond it is refused as overload; one connection may hold at most four times the free
    /// rest.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub max_in_flight_mib: Option<usize>,
    /// Longest wait of a request for room before it is refused. Default 1s; senders give up soon
    /// after that.
    #[default(HumanDuration::from_secs(1))]
    pub wait_for_room: HumanDuration,
    /// Limit on open connections, over both protocols. Default 4096; further ones are closed at
    /// once. Fewer if the process's limit of open files is small.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 4096]
    pub max_connections: usize,
    /// Mebibytes of `limits.memory_mib` for connections beside request bodies: 16 KiB each, and
    /// incomplete frames and headers. A connection beyond it is closed.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub max_connections_mib: Option<usize>,
    /// Minimum rate of a body in bytes a second, from five seconds after its headers. Default 4096;
    /// 0 applies only `read_timeout`.
    #[default = 4096]
    pub min_body_rate: u32,
    /// Longest time from the end of a request's headers to the end of its body. Default 30s.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(30))]
    pub read_timeout: HumanDuration,
}

/// The protocols of the OTLP receiver.
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
    /// Address and port to listen on. Default `127.0.0.1:4317`; port 0 takes a free one.
    #[serde(deserialize_with = "listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    #[default = "127.0.0.1:4317"]
    pub endpoint: String,
    /// TLS; without it the port uses plain text.
    pub tls: Option<ListenerTlsSettings>,
    /// Allows plain text beyond the loopback address, where anyone on the network path can read it.
    /// Default `false`.
    pub insecure: bool,
    /// Largest message in mebibytes, before and after decompression. Default 64; a larger one is
    /// answered RESOURCE_EXHAUSTED.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 64]
    pub max_recv_msg_size_mib: usize,
    /// Concurrent calls on one connection. Default 32; the peer delays further ones.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 32]
    pub max_concurrent_streams: u32,
    /// Mebibytes that a peer may send ahead on one call. Default 1; on the connection four times as
    /// much.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 1]
    pub initial_window_mib: u32,
    /// Largest HTTP/2 frame in kibibytes, 16 to 16383. Default 1024: a request in one frame is not
    /// copied. Incomplete frames count toward `max_connections_mib`.
    #[schemars(range(min = 16, max = 16383))]
    #[default = 1024]
    pub max_frame_kib: u32,
    /// Longest time from the connection to the end of its first request's headers. Default 20s.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(20))]
    pub read_header_timeout: HumanDuration,
    /// Pings, and the closing of idle connections.
    pub keepalive: KeepaliveSettings,
}

impl GrpcSettings {
    /// Returns `max_recv_msg_size_mib` in bytes.
    pub fn body_bytes_max(&self) -> usize {
        self.max_recv_msg_size_mib.saturating_mul(MIB)
    }
}

/// Pings, and the closing of idle connections.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeepaliveSettings {
    /// Keepalive by the server.
    pub server_parameters: ServerParameters,
    /// Limits on a peer's pings; without it only floods of pings end a connection.
    pub enforcement_policy: Option<EnforcementPolicy>,
}

/// Limit on a peer's pings; a connection with more frequent ones is ended.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct EnforcementPolicy {
    /// Shortest interval of pings. Default 5m.
    #[default(HumanDuration::from_secs(5 * 60))]
    pub min_time: HumanDuration,
    /// Allows pings at that rate without a running call. Default `false`: then one ping in two
    /// hours is allowed.
    pub permit_without_stream: bool,
}

/// Keepalive of connections by the server.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct ServerParameters {
    /// Longest time without a request before a connection is closed. Default 15m; the peer
    /// reconnects when needed.
    #[default(HumanDuration::from_secs(15 * 60))]
    pub max_connection_idle: HumanDuration,
    /// Interval of pings to the peer. Default 30s.
    #[default(HumanDuration::from_secs(30))]
    pub time: HumanDuration,
    /// Longest wait for the answer to a ping before the connection is closed. Default 20s.
    #[default(HumanDuration::from_secs(20))]
    pub timeout: HumanDuration,
}

/// OTLP/HTTP, over HTTP/1.1 and HTTP/2.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// Address and port to listen on. Default `127.0.0.1:4318`; port 0 takes a free one.
    #[serde(deserialize_with = "listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    #[default = "127.0.0.1:4318"]
    pub endpoint: String,
    /// TLS; without it the port uses plain text.
    pub tls: Option<ListenerTlsSettings>,
    /// Allows plain text beyond the loopback address, where anyone on the network path can read it.
    /// Default `false`.
    pub insecure: bool,
    /// Largest body in bytes, before and after decompression. Default 67108864 (64 MiB); a larger
    /// one is answered 413.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default(64 * MIB)]
    pub max_request_body_size: usize,
    /// Path for traces, or a list of paths. Default `/v1/traces`; longer paths with this end are
    /// accepted, too.
    #[default(UrlPaths::one("/v1/traces"))]
    pub traces_url_path: UrlPaths,
    /// Path for logs, or a list of paths. Default `/v1/logs`; longer paths with this end are
    /// accepted, too.
    #[default(UrlPaths::one("/v1/logs"))]
    pub logs_url_path: UrlPaths,
    /// Path for metrics, or a list of paths. Default `/v1/metrics`; longer paths with this end are
    /// accepted, too.
    #[default(UrlPaths::one("/v1/metrics"))]
    pub metrics_url_path: UrlPaths,
    /// Origins whose pages may send from a browser; none without it.
    pub cors: Option<CorsSettings>,
    /// Longest time for a request's headers, and longest pause between two requests of an HTTP/1.1
    /// connection. Default 60s.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(60))]
    pub read_header_timeout: HumanDuration,
    /// Longest time without a request before a connection is closed. Default 15m.
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
