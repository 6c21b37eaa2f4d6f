//! Evaluations of other processes beside own ones: marked by client, never current in their place.

use hashbrown::HashMap;
use rusqlite::Connection;

use spanscore_base::model::{Evaluation, EvaluationId, fingerprint};

use super::names::cut;
use super::rows::{RowWriter, SHED_ALL};
use super::statements::run;
use super::traces::{KnownEvaluation, KnownTrace};
use crate::counters::StoreCount;

/// Limit on a client's evaluations of a trace.
const CLIENT_COLLECTED_MAX: usize = 1_000;
/// Limit on all clients' evaluations of a trace.
const COLLECTED_MAX: usize = 10_000;

/// Process that judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bringer<'a> {
    /// This one; true if passes are only counted, for lack of room.
    This(bool),
    /// A client's process.
    Client(&'a str),
}

impl<'a> Bringer<'a> {
    pub(super) fn client(self) -> Option<&'a str> {
        match self {
            Self::This(_) => None,
            Self::Client(name) => Some(name),
        }
    }
}

/// Numbers of the evaluations of a trace that other processes gave: by the hash of their client,
/// and of all clients under `None`.
pub(super) type CollectedNumbers = HashMap<Option<u32>, usize>;

/// Returns true if a client, or all of them, have given as many of a trace as they may.
pub(super) fn is_full_of(numbers: &CollectedNumbers, client: u32) -> bool {
    let limits = [(Some(client), CLIENT_COLLECTED_MAX), (None, COLLECTED_MAX)];
    limits.iter().any(|(key, most)| numbers.get(key).is_some_and(|number| number >= most))
}

impl RowWriter {
    /// Returns true if an evaluation of another process is current: no own one of that evaluator is
    /// known for the trace, nor one that revises it. Its predecessor is then retired, unless this
    /// process judged it.
    pub(super) fn stands_collected(
        &mut self,
        connection: &Connection,
        it: &Evaluation,
        trace: &mut KnownTrace,
    ) -> rusqlite::Result<bool> {
        let name = hash_of_name(&it.evaluator.name);
        let has_own = trace.shed == SHED_ALL || trace.own_names.contains(&name);
        self.counts.add(StoreCount::CollectedBesideOwn, usize::from(has_own));
        let revised = it.revises.filter(|_| !has_own);
        let is_collected = |id: &EvaluationId| {
            trace.evaluations.get(id).is_some_and(KnownEvaluation::is_collected)
        };
        if let Some(id) = revised.filter(is_collected) {
            self.retire(connection, id, trace)?;
        }
        let is_revised = trace.revised.contains(&it.id) || trace.revised_elsewhere.contains(&it.id);
        Ok(!has_own && !is_revised)
    }

    /// Retires other processes' evaluations by an evaluator of this name.
    pub(super) fn retire_collected(
        &mut self,
        connection: &Connection,
        name: &str,
        trace: &mut KnownTrace,
    ) -> rusqlite::Result<()> {
        for id in trace.collected_by_name.remove(&hash_of_name(name)).unwrap_or_default() {
            // Under its id may stand an own one by now.
            if trace.evaluations.get(&id).is_some_and(KnownEvaluation::is_collected) {
                self.retire(connection, id, trace)?;
            }
        }
        Ok(())
    }

    /// Removes another process's evaluation with the id of an own one.
    pub(super) fn take_over(
        &mut self,
        connection: &Connection,
        id: EvaluationId,
        trace: &mut KnownTrace,
    ) -> rusqlite::Result<()> {
        self.retire(connection, id, trace)?;
        let Some(known) = trace.evaluations.remove(&id) else { return Ok(()) };
        for key in [known.client, None] {
            trace.collected.entry(key).and_modify(|number| *number -= 1);
        }
        for table in ["evaluation_details", "evaluations"] {
            run(connection, &format!("DELETE FROM {table} WHERE seq = ?1"), [known.seq])?;
        }
        Ok(())
    }
}

/// Returns the hash of an evaluator's name, as it is stored.
pub(super) fn hash_of_name(name: &str) -> u32 {
    fingerprint(cut(name).as_bytes())
}
