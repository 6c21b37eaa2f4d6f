//! Receiver of a build without the client, which never starts.

use std::future::Future;
use std::sync::Arc;

use super::settings::KafkaReceiverSettings;
use super::{KafkaReceiver, KafkaStartError, RecordSink};
use spanscore_base::model::MemoryQuota;
use spanscore_net::metrics::Meter;

impl KafkaReceiver {
    /// Refuses to start, if enabled.
    ///
    /// # Errors
    /// [`KafkaStartError::NotBuiltIn`].
    pub async fn start<S: RecordSink>(
        settings: Option<&KafkaReceiverSettings>,
        _has_sessions: bool,
        _sink: Arc<S>,
        _memory: &Arc<MemoryQuota>,
        _meter: &Meter,
    ) -> Result<Self, KafkaStartError> {
        settings.map_or(Ok(Self::default()), |_| Err(KafkaStartError::NotBuiltIn))
    }

    /// Returns false, since no topic is read.
    pub fn is_divided(&self) -> bool {
        false
    }

    /// Returns a probe that is always true.
    pub fn works(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        || true
    }

    /// Does nothing.
    pub async fn stop(&self, _no_more_time: impl Future<Output = ()>) {}
}
