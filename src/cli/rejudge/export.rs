//! Delivery of answered evaluations to the exporters of the config.

use crate::cli::{CommandError, started};
use spanscore_base::model::{Evaluation, Memory};
use spanscore_emit::Exporters;
use tokio::runtime::Builder;

/// Delivers evaluations to exporters, and waits for their arrival.
pub(super) fn export(
    settings: &[spanscore_emit::settings::ExporterSettings],
    memory: &Memory,
    within: std::time::Duration,
    evaluations: &[Evaluation],
) -> Result<(), CommandError> {
    use opentelemetry::metrics::MeterProvider;
    let runtime = started(Builder::new_multi_thread().worker_threads(1))?;
    let meter = opentelemetry_sdk::metrics::SdkMeterProvider::default().meter("spanscore");
    let registry = prometheus::Registry::new();
    let lost = runtime.block_on(async {
        let exporters = Exporters::start(settings, memory, &meter, &registry, None)?;
        evaluations.chunk_by(|a, b| a.target.trace_id == b.target.trace_id).for_each(|some| {
            exporters.offer(some.to_vec(), None);
        });
        exporters.shutdown(tokio::time::sleep(within)).await;
        Ok::<_, spanscore_emit::ExporterStartError>(exporters.lost())
    });
    let lost = lost.map_err(anyhow::Error::new)?;
    let lost: Vec<String> = lost
        .into_iter()
        .filter(|unsent| unsent.count > 0)
        .map(|unsent| format!("{} of {}", unsent.count, unsent.name))
        .collect();
    if !lost.is_empty() {
        let lost = lost.join(", ");
        let error = anyhow::anyhow!("evaluations that were not delivered: {lost}; run it again");
        return Err(CommandError::Runtime(error));
    }
    Ok(())
}
