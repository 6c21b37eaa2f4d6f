//! Settings of the gateway, and the division of its memory.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use spanscore_base::model::MemoryLimits;
use spanscore_base::settings::tls::TlsSettings;
use spanscore_base::settings::{HumanDuration, SettingsError};
use spanscore_kafka::{ClusterSettings, ProducerSettings, SignInSettings, check_topic};
use spanscore_receive::settings::OtlpReceiverSettings;
use spanscore_telemetry::TelemetrySettings;

const MIB: usize = 1 << 20;
/// Fixed memory of the process, not divided.
const OWN: usize = 16 * MIB;
/// Least memory for connections, bodies and split requests.
const DIVIDED_MIN: usize = 16 * MIB;

/// Checked settings of a gateway.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// OTLP receiver.
    pub receivers: GatewayReceivers,
    /// Topic.
    pub kafka: GatewayKafkaSettings,
    /// Metrics, health and logs.
    pub telemetry: TelemetrySettings,
    /// Quotas.
    pub memory: MemoryLimits,
    /// Longest shutdown.
    pub shutdown_timeout: HumanDuration,
}

/// Receivers of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayReceivers {
    /// OTLP receiver, with the settings of the collector.
    pub otlp: OtlpReceiverSettings,
}

/// Kafka topic that the gateway writes to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayKafkaSettings {
    /// Addresses of brokers, as `host:port`. The client learns the other brokers of the cluster
    /// from them. Default `localhost:9092`.
    #[default(ClusterSettings::default().brokers)]
    pub brokers: Vec<String>,
    /// Client name in the logs and quotas of the brokers. Default `spanscore`.
    #[default(ClusterSettings::default().client_id)]
    pub client_id: String,
    /// TLS of connections to the brokers. Without this section connections use plain text.
    pub tls: Option<TlsSettings>,
    /// Authentication at the brokers.
    pub auth: SignInSettings,
    /// Name of the topic for spans and log records. Default `otlp_spans`.
    #[default = "otlp_spans"]
    pub topic: String,
    /// Producer settings: message size, compression and partitioning.
    pub producer: ProducerSettings,
    /// Time limit for the brokers' acknowledgement of a request. After it, the sender is told to
    /// retry. Default `5s`.
    #[default(HumanDuration::from_secs(5))]
    pub timeout: HumanDuration,
}

impl GatewayKafkaSettings {
    /// Checks the settings; the error comes with its key.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        check_topic(&self.cluster(), &self.topic, self.timeout, &self.producer)
    }

    /// Returns the connection to the brokers.
    pub fn cluster(&self) -> ClusterSettings {
        let Self { brokers, client_id, tls, auth, .. } = self.clone();
        ClusterSettings { brokers, client_id, tls, auth }
    }
}

/// Limits of the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayLimits {
    /// Limit on the memory for received data, in mebibytes, 32 or more. It includes
    /// `kafka.producer.queue_mib`. Default 512.
    #[schemars(range(min = 32))]
    #[default = 512]
    pub memory_mib: u32,
}

/// Divides the memory, after deducting the process itself and the messages waiting for the brokers.
/// Connections get a part, bodies of requests half, and split requests the rest.
///
/// # Errors
/// The memory is too small.
pub fn divide(
    limits: &GatewayLimits,
    kafka: &GatewayKafkaSettings,
    otlp: &OtlpReceiverSettings,
) -> Result<MemoryLimits, SettingsError> {
    let total = limits.memory_mib as usize * MIB;
    let rest = total.saturating_sub(OWN + kafka.producer.memory_bytes());
    let given = |mib: Option<usize>, else_bytes: usize| {
        mib.map_or(else_bytes, |mib| mib.saturating_mul(MIB))
    };
    let connections = given(otlp.max_connections_mib, rest / 8);
    let requests = given(otlp.max_in_flight_mib, rest / 2);
    let split = rest.saturating_sub(connections).saturating_sub(requests);
    if rest < DIVIDED_MIN || split < rest / 8 {
        let needed = OWN + kafka.producer.memory_bytes() + DIVIDED_MIN;
        let named = otlp.max_connections_mib.unwrap_or(0) + otlp.max_in_flight_mib.unwrap_or(0);
        let error = "`limits.memory_mib` has no room for `kafka.producer.queue_mib` and the \
                     receivers' shares";
        let least = needed.div_ceil(MIB) + named.saturating_mul(8).div_ceil(7);
        return Err(SettingsError::new(error).with_help(format!("raise it to {least} or more")));
    }
    Ok(MemoryLimits { total, connections, requests, queue: split, ..MemoryLimits::none() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(memory_mib: u32, in_flight: Option<usize>, fits: bool) {
        let otlp = OtlpReceiverSettings { max_in_flight_mib: in_flight, ..Default::default() };
        let divided = divide(&GatewayLimits { memory_mib }, &Default::default(), &otlp);
        assert_eq!(divided.is_ok(), fits, "{memory_mib} {in_flight:?}: {divided:?}");
        if let Ok(limits) = divided {
            let sum = limits.connections + limits.requests + limits.queue + OWN + 97 * MIB;
            assert!(sum <= limits.total, "{limits:?}");
        }
    }

    #[test]
    fn memory_is_divided_where_it_is_enough() {
        check(512, None, true);
        check(130, None, true);
        check(129, None, false);
        check(512, Some(256), true);
        check(512, Some(400), false);
    }
}
