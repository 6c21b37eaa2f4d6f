//! Another config while the collector runs: evaluators, dialects, exporters, clients and what files
//! hold.
//!
//! All of it is built before any of it is used, so a config that cannot be used changes nothing.
//! Open traces, queues, the log and connections go on; what else a config says is for the next
//! start.

pub(super) mod setup;

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};

use self::setup::Setup;
use super::Collector;
use crate::config::ResolvedConfig;
use crate::emit::ExporterStartError;
use crate::evaluate::engine::run::Evaluators;
use crate::extract::dialect::Dialect;
use crate::extract::{Resolver, Table, TableError};
use crate::model::Want;

/// Why a config that was checked cannot be used now.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The dialects cannot be compiled with what its evaluators ask for.
    #[error("cannot compile the dialects: {0}")]
    Dialects(#[from] TableError),
    /// An exporter cannot start.
    #[error(transparent)]
    Exporter(#[from] ExporterStartError),
    /// A file of tokens cannot be used.
    #[error("cannot read the tokens of receivers.otlp.auth: {0}")]
    Tokens(String),
}

/// What became of a change of the config.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadOutcome {
    /// It is in use.
    Taken,
    /// It has a mistake, or cannot be used now: the one before goes on.
    Refused,
}

/// How often the config was changed.
pub(super) struct ReloadCounter(Counter<u64>);

impl ReloadCounter {
    pub(super) fn new(meter: &Meter) -> Self {
        let counter = meter
            .u64_counter("spanscore.config.reloads")
            .with_unit("{reload}")
            .with_description("Changes of the config while the process ran")
            .build();
        let own = Self(counter);
        own.add(ReloadOutcome::Taken, 0);
        own.add(ReloadOutcome::Refused, 0);
        own
    }

    fn add(&self, outcome: ReloadOutcome, count: u64) {
        let word = match outcome {
            ReloadOutcome::Taken => "taken",
            ReloadOutcome::Refused => "refused",
        };
        self.0.add(count, &[KeyValue::new("outcome", word)]);
    }
}

impl Collector {
    /// Takes what can change while it runs from another config: evaluators with their datasets,
    /// dialects, exporters, clients; and reads certificates and tokens again. On an error nothing
    /// changes.
    ///
    /// # Errors
    /// Why the config cannot be used now.
    pub async fn reload(&self, plan: ResolvedConfig) -> Result<(), ReloadError> {
        let reloaded = self.try_reload(plan).await;
        let taken = reloaded.is_ok();
        self.count_reload(if taken { ReloadOutcome::Taken } else { ReloadOutcome::Refused });
        reloaded
    }

    /// Counts a change of the config, such as one that has a mistake.
    pub fn count_reload(&self, outcome: ReloadOutcome) {
        self.reloads.add(outcome, 1);
    }

    async fn try_reload(&self, plan: ResolvedConfig) -> Result<(), ReloadError> {
        self.exporters.wait_for_names(&plan.exporters).await;
        let exporters = self.exporters.prepare(&plan.exporters)?;
        let want = exporters.want();
        let auth = plan.config.receivers.otlp.as_ref().and_then(|otlp| otlp.auth.clone());
        let building = tokio::task::spawn_blocking(move || setup(plan, want));
        let setup = building.await.map_err(|_| ReloadError::Tokens("interrupted".to_owned()))??;
        // The last that can fail.
        self.receivers.replace_auth(auth).map_err(ReloadError::Tokens)?;
        self.pipeline.reform(setup).await;
        self.exporters.take(exporters);
        self.rereader.read_all().await;
        Ok(())
    }
}

fn setup(plan: ResolvedConfig, want: Want) -> Result<Setup, ReloadError> {
    let evaluators = Evaluators::new(plan.evaluators, want);
    let dialects = Dialect::with_builtin(plan.config.dialects);
    let table = Table::compile(dialects, &evaluators.facts())?;
    let resolver = Arc::new(Resolver::new(Arc::new(table)));
    Ok(Setup { resolver, evaluators: Arc::new(evaluators) })
}
