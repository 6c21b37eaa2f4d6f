//! Config of the gateway: its sections, and the resolved settings.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::listeners;
use super::plan::Config;
use spanscore_base::settings::{HumanDuration, Node, SettingsError, Switch};
use spanscore_engine::settings::{ConfigError, Loaded, read_all, report};
use spanscore_gateway::{
    GatewayKafkaSettings, GatewayLimits, GatewayReceivers, GatewaySettings, divide,
};
use spanscore_receive::settings::ReceiversSettings;
use spanscore_telemetry::TelemetrySettings;

/// The config of `spanscore gateway`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayConfig {
    /// Receivers of data. Default: OTLP over gRPC and HTTP on the loopback address.
    pub receivers: GatewayReceivers,
    /// Kafka topic that the gateway writes to.
    pub kafka: GatewayKafkaSettings,
    /// Limits on memory.
    pub limits: GatewayLimits,
    /// Metrics, health and logs of the gateway itself.
    pub telemetry: TelemetrySettings,
    /// Longest shutdown. Requests under way get their answers. Default `20s`.
    #[default(HumanDuration::from_secs(20))]
    pub shutdown_timeout: HumanDuration,
}

impl GatewayConfig {
    /// Checks and resolves a config.
    ///
    /// # Errors
    /// All mistakes found.
    pub fn resolve(loaded: &Loaded) -> Result<GatewaySettings, ConfigError> {
        let node = &loaded.node;
        let mut errors = Vec::new();
        let config = read_all(node, &mut errors, |node| node.read::<Self>());
        let memory = config.as_ref().and_then(|config| {
            config.check(node, &mut errors);
            let divided = divide(&config.limits, &config.kafka, &config.receivers.otlp);
            let place = node.along(["limits"]).place;
            divided.map_err(|error| errors.push(error.at(place))).ok()
        });
        match (config, memory) {
            (Some(config), Some(memory)) if errors.is_empty() => Ok(GatewaySettings {
                receivers: config.receivers,
                kafka: config.kafka,
                telemetry: config.telemetry,
                memory,
                shutdown_timeout: config.shutdown_timeout,
            }),
            _ => Err(report(errors, &loaded.sources)),
        }
    }

    fn check(&self, node: &Node, errors: &mut Vec<SettingsError>) {
        let place = |key: &str| node.along(["kafka", key]).place;
        errors.extend(self.kafka.check().err().map(|(key, error)| error.at(place(key))));
        let protocols = &self.receivers.otlp.protocols;
        if protocols.grpc.is_none() && protocols.http.is_none() {
            let error = SettingsError::new("no receiver is on");
            let help = "name what is on, as in `otlp: {protocols: {grpc: , http: }}`";
            errors.push(error.with_help(help).at(node.along(["receivers"]).place));
        }
        listeners::check(&self.as_collector(), node, errors);
    }

    /// Returns the listeners in a collector's form, to share its checks.
    fn as_collector(&self) -> Config {
        let otlp = Some(self.receivers.otlp.clone());
        Config {
            receivers: ReceiversSettings { otlp, ..ReceiversSettings::default() },
            telemetry: self.telemetry.clone(),
            store: Switch(None),
            dashboard: Switch(None),
            ..Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_engine::settings::{ConfigPart, load};

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let part = ConfigPart::Text { name: "gateway.yaml".to_owned(), text: text.to_owned() };
        let loaded = load(&[part], "{}", &|_| None).expect("readable");
        let found = match GatewayConfig::resolve(&loaded) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{text}: {found}"
        );
    }

    #[test]
    fn the_example_of_the_documentation_holds() {
        let page = include_str!("../../docs/kafka.md");
        let gateway = page.split("\n## Gateway\n").nth(1).expect("a section");
        let block = gateway.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
        check(block.expect("a block"), "");
    }

    #[test]
    fn sections_are_checked_at_their_places() {
        check("kafka: {brokers: [kafka:9092], topic: traces}", "");
        check("kafka: {brokers: []}", "`brokers` is empty");
        check("kafka: {brocers: []}", "did you mean `brokers`?");
        check("evaluators: {}", "unknown setting `evaluators`");
        check("limits: {memory_mib: 64}", "raise it to 130 or more");
        check("receivers: {otlp: {protocols: {}}}", "no receiver is on");
        let exposed = "receivers: {otlp: {protocols: {grpc: {endpoint: '0.0.0.0:4317'}}}}";
        check(exposed, "insecure: true");
    }
}
