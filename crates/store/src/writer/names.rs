//! Row numbers of evaluators, sources and tools, by their names.
//!
//! Tables of names are small, and whoever invents names would fill them for all: of what a table
//! still takes each sender has a part, as in the queues. Beyond it its new names share a row.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use rusqlite::{Connection, params};
use smart_default::SmartDefault;

use spanscore_base::model::{EvaluatorInfo, Sender, SenderShares};

use super::content::ContentPolicy;
use super::definitions::DefinitionsDigest;
use super::statements::{find, insert};
use crate::source::RunSource;

/// Most evaluators, each version of one counted; those beyond share a row.
const EVALUATORS_MAX: usize = 10_000;
/// Most sources; those beyond share a row.
const SOURCES_MAX: usize = 2_000;
/// Most tools; those beyond share a row.
pub(crate) const TOOLS_MAX: usize = 5_000;
/// Longest name, bytes.
const NAME_BYTES_MAX: usize = 200;
/// Name of the row that those beyond a limit share.
const OTHER: &str = "other";

/// Known row numbers, as they are in the file.
#[derive(Default)]
pub(super) struct KnownNames {
    evaluators: KnownRows<[u8; 16]>,
    sources: KnownRows<RunSource>,
    tools: KnownRows<Box<str>>,
    pub(super) definitions: KnownRows<DefinitionsDigest>,
    /// Names that were to be stored and share a row with others, since somebody last took it.
    pub(super) left_out: usize,
}

impl KnownNames {
    /// Forgets what may have changed in the file; who added which row is known on.
    pub(super) fn forget(&mut self) {
        self.evaluators.forget();
        self.sources.forget();
        self.tools.forget();
        self.definitions.forget();
    }
}

/// Rows of one table.
// `SmartDefault` asks no `Default` of `K`, as std's derive would.
#[derive(SmartDefault)]
pub(super) struct KnownRows<K> {
    pub(super) ids: HashMap<K, i64>,
    /// Rows in the file, once they were counted.
    count: Option<usize>,
    /// Senders of the rows that this process added.
    owners: HashMap<i64, Sender>,
    shares: SenderShares,
}

impl<K: Eq + Hash> KnownRows<K> {
    /// Returns true if a table of so many rows at most takes one more of a sender; asks the file
    /// once.
    pub(super) fn has_room(
        &mut self,
        connection: &Connection,
        (table, most): (&str, usize),
        sender: Sender,
    ) -> rusqlite::Result<bool> {
        let count = match self.count {
            Some(count) => count,
            None => self.count_anew(connection, table)?,
        };
        Ok(self.shares.fits(most.saturating_sub(count), sender, 1))
    }

    /// Counts the rows in the file; those that are gone are nobody's any more.
    fn count_anew(&mut self, connection: &Connection, table: &str) -> rusqlite::Result<usize> {
        let mut query = connection.prepare(&format!("SELECT id FROM {table}"))?;
        let ids = query.query_map([], |row| row.get(0))?;
        let ids: HashSet<i64> = ids.collect::<rusqlite::Result<_>>()?;
        self.owners.retain(|id, _| ids.contains(id));
        self.shares = SenderShares::default();
        self.owners.values().for_each(|owner| self.shares.add(*owner, 1));
        self.count = Some(ids.len());
        Ok(ids.len())
    }

    /// Counts a row that was added for a sender.
    pub(super) fn added(&mut self, id: i64, sender: Sender) {
        self.count = self.count.map(|count| count + 1);
        // A row of a transaction that failed may have had the number.
        if let Some(before) = self.owners.insert(id, sender) {
            self.shares.remove(before, 1);
        }
        self.shares.add(sender, 1);
    }

    fn forget(&mut self) {
        self.ids.clear();
        self.count = None;
    }

    /// Remembers a row, at most as many as the table may have.
    pub(super) fn keep(&mut self, key: K, id: i64, most: usize) -> i64 {
        if self.ids.len() >= most {
            self.ids.clear();
        }
        self.ids.insert(key, id);
        id
    }

    /// Returns the row of a name and true: that which is there, or a new one while there is room
    /// for one of the sender. Else that which all others share, which the name does not keep:
    /// another sender may have room for it.
    fn row<T: Copy>(
        &mut self,
        connection: &Connection,
        (table, sender): ((&str, usize), Sender),
        [own, other]: [T; 2],
        find: impl Fn(T) -> rusqlite::Result<Option<i64>>,
        add: impl Fn(T) -> rusqlite::Result<i64>,
    ) -> rusqlite::Result<(i64, bool)> {
        if let Some(id) = find(own)? {
            return Ok((id, true));
        }
        if self.has_room(connection, table, sender)? {
            let id = add(own)?;
            self.added(id, sender);
            return Ok((id, true));
        }
        let shared = find(other)?.map_or_else(|| add(other), Ok)?;
        Ok((shared, false))
    }
}

impl KnownNames {
    /// Returns the row of an evaluator of this process.
    pub(super) fn evaluator(
        &mut self,
        connection: &Connection,
        info: &Arc<EvaluatorInfo>,
    ) -> rusqlite::Result<i64> {
        if let Some(id) = self.evaluators.ids.get(&info.digest) {
            return Ok(*id);
        }
        let id = self.evaluator_elsewhere(connection, info, Sender::default())?;
        Ok(self.evaluators.keep(info.digest, id, EVALUATORS_MAX))
    }

    /// Returns the row of an evaluator of a sender's process, which may have said any digest: it is
    /// not remembered under that.
    pub(super) fn evaluator_elsewhere(
        &mut self,
        connection: &Connection,
        info: &EvaluatorInfo,
        sender: Sender,
    ) -> rusqlite::Result<i64> {
        let query = "SELECT id FROM evaluators WHERE name = ?1 AND version = ?2";
        let (id, is_own) = self.evaluators.row(
            connection,
            (("evaluators", EVALUATORS_MAX), sender),
            [(info.kind, cut(&info.name), info.digest), (OTHER, OTHER, [0; 16])],
            |(_, name, version)| find(connection, query, params![name, version]),
            |row| add_evaluator(connection, info, row),
        )?;
        self.left_out += usize::from(!is_own);
        Ok(id)
    }

    /// Returns the row of a source that a sender says.
    pub(super) fn source(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        (source, sender): (&RunSource, Sender),
    ) -> rusqlite::Result<i64> {
        let rows = &mut self.sources;
        if let Some(id) = rows.ids.get(source) {
            return Ok(*id);
        }
        let query = "SELECT id FROM sources WHERE service = ?1 AND agent = ?2 AND version = ?3
            AND environment = ?4";
        let (id, is_own) = rows.row(
            connection,
            (("sources", SOURCES_MAX), sender),
            [&*policy.source(source), &RunSource::other()],
            |RunSource { service, agent, version, environment }| {
                find(connection, query, params![service, agent, version, environment])
            },
            |source| add_source(connection, source),
        )?;
        if is_own {
            rows.keep(source.clone(), id, SOURCES_MAX);
        }
        self.left_out += usize::from(!is_own);
        Ok(id)
    }

    /// Returns the row of a tool that a sender says.
    pub(super) fn tool(
        &mut self,
        connection: &Connection,
        (name, sender): (&str, Sender),
    ) -> rusqlite::Result<i64> {
        let name = cut(name);
        let rows = &mut self.tools;
        if let Some(id) = rows.ids.get(name) {
            return Ok(*id);
        }
        let (id, is_own) = rows.row(
            connection,
            (("tools", TOOLS_MAX), sender),
            [name, OTHER],
            |name| find(connection, "SELECT id FROM tools WHERE name = ?1", [name]),
            |name| insert(connection, "INSERT INTO tools (name) VALUES (?1)", [name]),
        )?;
        if is_own {
            rows.keep(name.into(), id, TOOLS_MAX);
        }
        self.left_out += usize::from(!is_own);
        Ok(id)
    }
}

fn add_evaluator(
    connection: &Connection,
    info: &EvaluatorInfo,
    (kind, name, version): (&str, &str, [u8; 16]),
) -> rusqlite::Result<i64> {
    let own_version = info.own_version.as_deref().map(cut);
    let query = "INSERT INTO evaluators (kind, name, version, own_version, level, threshold)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let level = info.level.as_str();
    insert(connection, query, params![kind, name, version, own_version, level, info.threshold])
}

fn add_source(connection: &Connection, source: &RunSource) -> rusqlite::Result<i64> {
    let RunSource { service, agent, version, environment } = source;
    let query =
        "INSERT INTO sources (service, agent, version, environment) VALUES (?1, ?2, ?3, ?4)";
    insert(connection, query, params![service, agent, version, environment])
}

/// Cuts a name to its limit.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_BYTES_MAX)]
}

/// Returns true if a stored name may be the beginning of a longer one: a cut leaves out whole
/// characters, of up to four bytes.
pub(crate) fn may_be_cut(name: &str) -> bool {
    name.len() > NAME_BYTES_MAX - 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(peer: u32) -> Sender {
        Sender { peer, ..Sender::default() }
    }

    #[test]
    fn names_beyond_a_senders_part_share_a_row_and_those_of_another_do_not() {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut connection).unwrap();
        let tool = |number: usize, peer: u32, names: &mut KnownNames| {
            names.tool(&connection, (&format!("tool {number}"), sender(peer))).unwrap()
        };
        let mut names = KnownNames::default();
        let rows: HashSet<_> = (0..TOOLS_MAX).map(|at| tool(at, 1, &mut names)).collect();
        assert!(rows.len() < TOOLS_MAX / 5 * 4 + 2, "{}", rows.len());
        let left_out = TOOLS_MAX + 1 - rows.len();
        assert_eq!(names.left_out, left_out);
        let last = TOOLS_MAX - 1;
        let shared = tool(last, 1, &mut names);
        assert_eq!(shared, tool(TOOLS_MAX, 1, &mut names));
        assert_eq!(tool(0, 2, &mut names), tool(0, 1, &mut names));
        let own = tool(last, 2, &mut names);
        assert_ne!(own, shared, "another sender has room for it");
        assert_eq!(tool(last, 1, &mut names), own);
        // After a failed transaction the parts are as the file has them.
        names.forget();
        assert_eq!(shared, tool(TOOLS_MAX, 1, &mut names));
        connection.execute("DELETE FROM tools WHERE name <> 'other'", []).unwrap();
        names.forget();
        assert_ne!(shared, tool(TOOLS_MAX, 1, &mut names), "rows that went leave room");
    }
}
