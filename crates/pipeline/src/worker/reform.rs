//! Config update of a shard with open traces.

use std::sync::Arc;

use super::Worker;
use super::context::empty_shard;
use crate::reload::setup::{ConfigUpdate, Setup};
use crate::sessions::SessionMessage;
use spanscore_base::model::{Reported, SpanBatch};
use spanscore_extract::Table;

impl Worker {
    /// Applies a config update. Records of open traces are translated to the new table; the traces
    /// are marked as lacking newly needed facts.
    pub(super) async fn update(&mut self, update: Arc<ConfigUpdate>) {
        let ConfigUpdate { setup, held } = &*update;
        let before = self.context.setup.clone();
        let lacks = setup.asks_for_more_than(&before);
        let heartbeats = &self.context.heartbeats;
        let index = self.index;
        let translator = &mut self.translator;
        self.shard.reform(lacks, |trace, reported| {
            heartbeats.beat(index);
            translator.translate(before.table(), setup.table(), &mut trace.arena, &trace.spans);
            setup.renumber(&before, reported);
        });
        self.shard.watch_if(setup.evaluators.reports_early());
        self.shard.watch_ignored_if(held.reports_ignored);
        self.shard.limit(held.traces, held.limits, self.context.shard_count);
        self.context.trace_steps = u64::from(held.limits.trace_steps);
        let is_watched = setup.evaluators.reports_early();
        self.empty = Box::new(empty_shard(*held, self.context.shard_count, is_watched));
        self.context.setup = setup.clone();
        if let Some(sessions) = &mut self.sessions {
            sessions.fields = held.sessions.key;
        }
        // One shard is enough to pass it on to the session worker.
        if let Some(sessions) = self.sessions.as_ref().filter(|_| self.index == 0) {
            // Never fails: the session worker ends after the shards.
            let _ = sessions.queue.send(SessionMessage::ConfigUpdate(update)).await;
        }
    }

    /// Maps reports from before the last updates to the current evaluators.
    pub(super) fn renumber_since(&self, before: &Setup, reported: &mut Vec<Reported>) {
        if !Arc::ptr_eq(&before.evaluators, &self.context.setup.evaluators) {
            self.context.setup.renumber(before, reported);
        }
    }

    /// Translates a batch to the current table; returns true if it had another one.
    pub(super) fn bring_up_to_date(&mut self, batch: &mut SpanBatch, table: &Arc<Table>) -> bool {
        let today = self.context.setup.resolver.table();
        self.translator.translate(table, today, &mut batch.arena, &batch.spans)
    }
}
