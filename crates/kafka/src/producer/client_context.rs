//! Client callbacks: log, errors, and the sign-in token.

use std::error::Error;
use std::sync::mpsc::SyncSender;

use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::settings::SaslSettings;
use crate::token;

/// Callbacks of one producer.
pub(super) struct ProducerCallbacks {
    pub(super) topic: String,
    pub(super) sasl: Option<SaslSettings>,
    /// Wakes the probe.
    pub(super) wake: SyncSender<()>,
}

impl ClientContext for ProducerCallbacks {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    /// Logs the client's messages at a low level: the probe reports unavailable brokers once.
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(topic = %self.topic, facility, message, "client of Kafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(topic = %self.topic, %error, reason, "client of Kafka");
        let code = error.rdkafka_error_code();
        let is_urgent = matches!(
            code,
            Some(
                RDKafkaErrorCode::AllBrokersDown
                    | RDKafkaErrorCode::Fatal
                    | RDKafkaErrorCode::Authentication
            )
        );
        if is_urgent {
            // A woken probe sees it anyway.
            let _ = self.wake.try_send(());
        }
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        token::of(self.sasl.as_ref())
    }
}
