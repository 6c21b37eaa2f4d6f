//! Config reload in a running collector: evaluators, dialects, exporters, forwards, judges, limits,
//! clients, certificates and tokens.
//!
//! Everything is built before it is used, so an unusable config changes nothing. Open traces,
//! queues, the log and connections continue; other settings apply at the next start.

pub(super) mod setup;

use std::sync::Arc;

use strum::{IntoStaticStr, VariantArray};

use self::setup::{ConfigUpdate, HeldSettings, Setup};
use super::Collector;
use super::collector::{CollectorSettings, hold_times};
use crate::store;
use spanscore_ask::judge::JudgeStartError;
use spanscore_base::model::Facts;
use spanscore_emit::ExporterStartError;
use spanscore_emit::forward::ForwardStartError;
use spanscore_evaluate::engine::run::Evaluators;
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table, TableError};
use spanscore_net::metrics;

/// Reason that a checked config is unusable.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The dialects do not compile with the facts that the evaluators need.
    #[error("cannot compile the dialects: {0}")]
    Dialects(#[from] TableError),
    /// An exporter cannot start.
    #[error(transparent)]
    Exporter(#[from] ExporterStartError),
    /// A forward cannot start.
    #[error(transparent)]
    Forward(#[from] ForwardStartError),
    /// A judge has no key or no client.
    #[error(transparent)]
    Judge(#[from] JudgeStartError),
    /// Building the evaluators and dialects was aborted.
    #[error("cannot build the evaluators and dialects: {0}; please report it, with the config")]
    Build(#[from] tokio::task::JoinError),
    /// Sessions cannot span several partitions.
    #[error(
        "evaluators of `level: session` need all traces of a session in one process, and the \
             topics of `receivers.kafka` have several partitions"
    )]
    Sessions,
    /// A token file is unusable.
    #[error("cannot read the tokens of receivers.otlp.auth: {0}")]
    Tokens(String),
}

/// Outcome of a reload, a metric label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ReloadOutcome {
    /// The config is in use.
    Taken,
    /// The config is wrong or unusable: the previous one stays in use.
    Refused,
}

metrics! {
    /// Counter of reloads.
    pub(super) struct ReloadMetrics {
        reloads: CounterBy("spanscore.config.reloads", "{reload}",
            "Changes of the config while the process ran",
            "outcome", ReloadOutcome::VARIANTS.iter().map(Into::into));
    }
}

impl Collector {
    /// Applies the reloadable settings of a config: evaluators with their datasets, dialects,
    /// exporters, forwards, judges, limits, clients. Also reloads certificates and tokens. On an
    /// error nothing changes.
    ///
    /// # Errors
    /// The config is unusable.
    pub async fn reload(&self, settings: CollectorSettings) -> Result<(), ReloadError> {
        let reloaded = self.try_reload(settings).await;
        let taken = reloaded.is_ok();
        self.count_reload(if taken { ReloadOutcome::Taken } else { ReloadOutcome::Refused });
        reloaded
    }

    /// Counts a reload, including one of a wrong config.
    pub fn count_reload(&self, outcome: ReloadOutcome) {
        self.reloads.add(outcome.into(), 1);
    }

    async fn try_reload(&self, mut settings: CollectorSettings) -> Result<(), ReloadError> {
        self.exporters.wait_for_names(&settings.exporters).await;
        self.forwards.wait_for_names(&settings.forward).await;
        let exporters = self.exporters.prepare(&settings.exporters)?;
        let forwards = self.forwards.prepare(&settings.forward, hold_times(&settings))?;
        let evaluators = std::mem::take(&mut settings.evaluators);
        let dialects = std::mem::take(&mut settings.dialects);
        let evaluators = store::evaluators(evaluators, exporters.want(), &self.store);
        if evaluators.has_session_level() && self.kafka.is_divided() {
            return Err(ReloadError::Sessions);
        }
        let facts = store::facts(&evaluators, &self.store);
        let judges = (&settings.judges, &settings.judging);
        let judges = self.dispatchers.prepare(judges, &evaluators)?;
        let building = tokio::task::spawn_blocking(move || setup(evaluators, &facts, dialects));
        let setup = building.await??;
        let auth = settings.receivers.otlp.and_then(|otlp| otlp.auth);
        // The last fallible step: everything after it is applied.
        self.receivers.replace_auth(auth).map_err(ReloadError::Tokens)?;
        self.memory.resize(&settings.memory);
        *self.shutdown_timeout.lock() = settings.shutdown_timeout;
        self.dispatchers.take(judges, &settings.judging);
        let held = HeldSettings {
            traces: settings.traces,
            sessions: settings.sessions,
            limits: settings.limits,
            reports_ignored: forwards.wants_judgements(),
        };
        self.pipeline.update(ConfigUpdate { setup, held }).await;
        self.exporters.take(exporters);
        self.forwards.take(forwards);
        self.rereader.read_all().await;
        Ok(())
    }
}

fn setup(
    evaluators: Evaluators,
    facts: &Facts,
    dialects: Vec<Dialect>,
) -> Result<Setup, ReloadError> {
    let table = Table::compile(dialects, facts)?;
    let resolver = Arc::new(Resolver::new(Arc::new(table)));
    Ok(Setup { resolver, evaluators: Arc::new(evaluators) })
}
