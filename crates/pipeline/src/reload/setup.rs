//! Resolver and evaluators, replaced together with open traces.

use std::sync::Arc;

use spanscore_assemble::{LimitsSettings, SessionsSettings, TracesSettings};
use spanscore_base::model::{Reported, SpanRecord};
use spanscore_evaluate::engine::run::Evaluators;
use spanscore_extract::{Resolver, Table, Translation};

/// Resolver with its evaluators, whose facts are in its table.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) evaluators: Arc<Evaluators>,
}

/// Completion times and limits of traces and sessions.
#[derive(Clone, Copy)]
pub(crate) struct HeldSettings {
    pub(crate) traces: TracesSettings,
    pub(crate) sessions: SessionsSettings,
    pub(crate) limits: LimitsSettings,
    /// True if forwards need a notice of traces dropped without an agent.
    pub(crate) reports_ignored: bool,
}

/// Config update for a shard.
#[derive(Clone)]
pub(crate) struct ConfigUpdate {
    pub(crate) setup: Setup,
    pub(crate) held: HeldSettings,
}

impl Setup {
    /// Returns the table for the extraction of records.
    pub(crate) fn table(&self) -> &Arc<Table> {
        self.resolver.table()
    }

    /// Returns true if it needs facts that `before` did not retain.
    pub(crate) fn asks_for_more_than(&self, before: &Self) -> bool {
        let new = self.table();
        let old = before.table();
        old.facts().clone().union(new.facts()) != *old.facts() || new.dialects() != old.dialects()
    }

    /// Maps the reports of earlier evaluators to their new indexes; drops those of changed or
    /// removed evaluators.
    pub(crate) fn renumber(&self, before: &Self, reported: &mut Vec<Reported>) {
        reported.retain_mut(|said| {
            let Some(old) = before.evaluators.evaluators().get(said.evaluator) else {
                return false;
            };
            let here = self.evaluators.evaluators().iter().position(|new| {
                new.info.name == old.info.name && new.info.digest == old.info.digest
            });
            said.evaluator = here.unwrap_or(said.evaluator);
            here.is_some()
        });
    }
}

/// Translator of records between tables; caches the last translation.
#[derive(Default)]
pub(crate) struct Translator {
    last: Option<(Arc<Table>, Arc<Table>, Translation)>,
}

impl Translator {
    /// Rewrites records of one table to another; returns false if the tables are the same.
    pub(crate) fn translate(
        &mut self,
        from: &Arc<Table>,
        to: &Arc<Table>,
        arena: &mut [u8],
        spans: &[SpanRecord],
    ) -> bool {
        if Arc::ptr_eq(from, to) {
            return false;
        }
        let is_last = |last: &(Arc<Table>, Arc<Table>, Translation)| {
            Arc::ptr_eq(&last.0, from) && Arc::ptr_eq(&last.1, to)
        };
        if !self.last.as_ref().is_some_and(is_last) {
            let translation = Translation::new(from, to);
            self.last = Some((Arc::clone(from), Arc::clone(to), translation));
        }
        if let Some((.., translation)) = &self.last {
            translation.apply(arena, spans);
        }
        true
    }
}
