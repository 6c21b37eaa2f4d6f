//! Reload of the exporters while the process runs.
//!
//! ```text
//! prepare: starts new or changed exporters, without input   (an error changes nothing)
//! take:    switches evaluations to the new ones between two batches
//!          changed: the new queue inherits the load of the old one; scores continue
//!          removed: delivers for some time, then gives up and counts the rest
//! ```
//!
//! Exporters with unchanged settings keep running.

use std::mem::take;

use super::retire::Retired;
use super::starting::{Started, Starting};
use super::{Exporters, RunningExporter};
use crate::ExporterStartError;
use crate::settings::{EXPORTERS_MAX, ExporterSettings};
use spanscore_base::model::Want;

/// Limit on replaced or removed exporters that have not ended.
const RETIRED_MAX: usize = 4 * EXPORTERS_MAX;

/// Prepared change: exporters of another config, started but unused. Dropping it changes nothing.
pub struct ExportersChange {
    /// Exporters in the order of the config; nothing is started for an unchanged one.
    next: Vec<(ExporterSettings, Option<Started>)>,
    want: Want,
}

impl ExportersChange {
    /// Returns the parts of a score that they will show.
    pub fn want(&self) -> Want {
        self.want
    }
}

impl Drop for ExportersChange {
    fn drop(&mut self) {
        for started in self.next.iter().filter_map(|(_, started)| started.as_ref()) {
            started.tasks.iter().for_each(|(_, task)| task.abort());
            if let Some(task) = started.queue.as_ref().and_then(|end| end.task.as_ref()) {
                task.abort();
            }
        }
    }
}

impl Exporters {
    /// Waits for removed exporters with the name of a new one: both would use the same files.
    pub async fn wait_for_names(&self, settings: &[ExporterSettings]) {
        let ends: Vec<_> = {
            let running = self.running.read();
            let runs = |name: &str| running.iter().any(|it| it.settings.name == name);
            let retired = self.retired.lock();
            let waits =
                |it: &&Retired| !runs(&it.name) && settings.iter().any(|next| next.name == it.name);
            retired.iter().filter(waits).map(|it| it.ended.clone()).collect()
        };
        for end in ends {
            end.cancelled().await;
        }
    }

    /// Starts all new or changed exporters without giving them evaluations. Must be called in a
    /// Tokio runtime.
    ///
    /// # Errors
    /// The first exporter that cannot start, with the reason.
    pub fn prepare(
        &self,
        settings: &[ExporterSettings],
    ) -> Result<ExportersChange, ExporterStartError> {
        let count = self.count_of_retired();
        if count > RETIRED_MAX {
            return Err(ExporterStartError::Busy { count });
        }
        let running = self.running.read();
        let mut change = ExportersChange { next: Vec::new(), want: Want::SCORE };
        for settings in settings {
            let ExporterSettings { name, exporter, .. } = settings;
            let before = running.iter().find(|it| it.settings.name == *name);
            if let Some(same) = before.filter(|before| before.settings.is_like(settings)) {
                change.want = change.want.union(same.started.want);
                change.next.push((settings.clone(), None));
                continue;
            }
            let before = before.map(|before| &before.started);
            let started = Started::default();
            let mut starting = Starting { name, exporters: self, before, started };
            let result = exporter.start(&mut starting);
            let started = starting.started;
            change.want = change.want.union(started.want);
            // Pushed before the error is returned, so that dropping the change stops what has
            // started.
            change.next.push((settings.clone(), Some(started)));
            result?;
        }
        Ok(change)
    }

    /// Applies a prepared change: evaluations now go to the new exporters. Changes must be applied
    /// in the order of their preparation.
    pub fn take(&self, mut change: ExportersChange) {
        let mut running = self.running.write();
        let mut before = take(&mut *running);
        let mut replaced = Vec::new();
        for (settings, started) in take(&mut change.next) {
            let place = before.iter().position(|it| it.settings.name == settings.name);
            let old = place.map(|place| before.remove(place));
            let Some(started) = started else {
                running.extend(old);
                continue;
            };
            let mut new = RunningExporter { settings, started };
            self.begin(&mut new, old.as_ref());
            running.push(new);
            replaced.extend(old);
        }
        let shown = running.iter().find(|it| it.started.shows_scores);
        self.shown_scores.show(shown.and_then(|it| it.started.scores.clone()));
        drop(running);
        replaced.into_iter().for_each(|it| self.retire(it, false));
        before.into_iter().for_each(|it| self.retire(it, true));
    }

    /// Starts delivery of an exporter, with the load of its predecessor, if any.
    fn begin(&self, new: &mut RunningExporter, old: Option<&RunningExporter>) {
        for act in new.started.when_taken.drain(..) {
            act(&self.instruments);
        }
        let Some(end) = &mut new.started.queue else { return };
        let old = old.and_then(|old| old.started.queue.as_ref());
        // Without a predecessor, dropping `begin` starts it.
        if let (Some(begin), Some(old)) = (end.begin.take(), old) {
            old.queue.hand_over(begin);
        }
    }
}
