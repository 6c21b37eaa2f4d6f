//! Evaluations of other processes beside own ones: marked by client, never current in their place.

use hashbrown::HashMap;
use rusqlite::{Connection, params};

use spanscore_base::model::{Evaluation, EvaluationId};

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

/// Number of a trace's evaluations from other processes.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectedNumbers {
    /// By hash of the client.
    of_clients: HashMap<u32, usize>,
    all: usize,
}

impl CollectedNumbers {
    /// Counts an evaluation of a client.
    pub(super) fn add(&mut self, client: u32) {
        *self.of_clients.entry(client).or_default() += 1;
        self.all += 1;
    }

    /// Removes an evaluation of a client from the count.
    fn remove(&mut self, client: u32) {
        if let Some(own) = self.of_clients.get_mut(&client) {
            *own -= 1;
            self.all -= 1;
        }
    }

    /// Returns true if a client, or all together, have reached the limit.
    pub(super) fn is_full_of(&self, client: u32) -> bool {
        let own = self.of_clients.get(&client).copied().unwrap_or(0);
        own >= CLIENT_COLLECTED_MAX || self.all >= COLLECTED_MAX
    }
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
        let has_own = trace.shed == SHED_ALL
            || !ids_of(connection, trace.seq, &it.evaluator.name, false)?.is_empty();
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
        if !trace.evaluations.values().any(|it| it.is_collected() && it.is_current) {
            return Ok(());
        }
        for id in ids_of(connection, trace.seq, name, true)? {
            self.retire(connection, id, trace)?;
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
        known.client.into_iter().for_each(|client| trace.collected.remove(client));
        for table in ["evaluation_details", "evaluations"] {
            run(connection, &format!("DELETE FROM {table} WHERE seq = ?1"), [known.seq])?;
        }
        Ok(())
    }
}

/// Returns a trace's evaluations by evaluators of a name, of other processes or of this one.
fn ids_of(
    connection: &Connection,
    trajectory: i64,
    name: &str,
    is_collected: bool,
) -> rusqlite::Result<Vec<EvaluationId>> {
    let mut query = connection.prepare_cached(
        "SELECT e.id FROM evaluations e JOIN evaluators v ON v.id = e.evaluator
         WHERE e.trajectory = ?1 AND v.name = ?2 AND (e.client IS NOT NULL) = ?3",
    )?;
    let ids = query.query_map(params![trajectory, cut(name), is_collected], |row| row.get(0))?;
    ids.map(|id| id.map(EvaluationId)).collect()
}
