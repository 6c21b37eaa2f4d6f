//! Row numbers of evaluators, sources and tools, by name.
//!
//! Tables of names are small, and a sender that invents names could fill them. So each sender has a
//! share of the free rows, as in the queues. Beyond it new names share a row.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use rusqlite::{Connection, params};
use smart_default::SmartDefault;

use spanscore_base::model::{EvaluatorInfo, Sender, SenderShares};

use super::content::ContentPolicy;
use super::definitions::DefinitionsDigest;
use super::statements::{find, insert};
use crate::source::RunSource;

/// Limit on evaluators, counting each version; others share a row.
const EVALUATORS_MAX: usize = 10_000;
/// Limit on sources; others share a row.
const SOURCES_MAX: usize = 2_000;
/// Limit on tools; others share a row.
pub(crate) const TOOLS_MAX: usize = 5_000;
/// Limit on remembered names of a table without a row.
const LEFT_OUT_MAX: usize = 10_000;
/// Longest name, bytes.
const NAME_BYTES_MAX: usize = 200;
/// Name of the shared row.
const OTHER: &str = "other";

/// Known row numbers in the file.
#[derive(Default)]
pub(super) struct KnownNames {
    evaluators: KnownRows<[u8; 16]>,
    sources: KnownRows<RunSource>,
    tools: KnownRows<Box<str>>,
    pub(super) definitions: KnownRows<DefinitionsDigest>,
}

impl KnownNames {
    /// Forgets rows that may have changed in the file, but not their senders.
    pub(super) fn forget(&mut self) {
        self.evaluators.forget();
        self.sources.forget();
        self.tools.forget();
        self.definitions.forget();
    }

    /// Takes the number of names newly sharing a row.
    pub(super) fn take_left_out(&mut self) -> usize {
        let Self { evaluators, sources, tools, .. } = self;
        let new =
            [&mut evaluators.new_left_out, &mut sources.new_left_out, &mut tools.new_left_out];
        new.into_iter().map(std::mem::take).sum()
    }
}

/// Name from a sender, or from this process, by hash.
type NameOf = (Option<Sender>, u64);

/// Rows of one table.
// `SmartDefault` requires no `Default` of `K`, unlike std's derive.
#[derive(SmartDefault)]
pub(super) struct KnownRows<K> {
    pub(super) ids: HashMap<K, i64>,
    /// Rows in the file, after counting them.
    count: Option<usize>,
    /// Senders of rows added by this process.
    owners: HashMap<i64, Sender>,
    shares: SenderShares,
    /// Rows added since the cache was last cleared.
    changes: u64,
    /// Row shared by names beyond the limit.
    other: Option<i64>,
    /// Names that share it, with the number of changes at that time.
    left_out: HashMap<NameOf, u64>,
    /// New ones among these that are not counted yet.
    new_left_out: usize,
}

impl<K: Eq + Hash> KnownRows<K> {
    /// Returns true if a table with this limit has room for a row of a sender; this process may use
    /// all free rows. Queries the file once.
    pub(super) fn has_room(
        &mut self,
        connection: &Connection,
        (table, most): (&str, usize),
        sender: Option<Sender>,
    ) -> rusqlite::Result<bool> {
        let count = match self.count {
            Some(count) => count,
            None => self.count_anew(connection, table)?,
        };
        let left = most.saturating_sub(count);
        Ok(sender.map_or(left > 0, |sender| self.shares.fits(left, sender, 1)))
    }

    /// Counts the rows in the file; deleted ones no longer belong to a sender.
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

    /// Counts a row added for a sender, or for this process.
    pub(super) fn added(&mut self, id: i64, sender: Option<Sender>) {
        self.count = self.count.map(|count| count + 1);
        self.changes += 1;
        // A row of a failed transaction may have had the number.
        if let Some(before) = self.owners.remove(&id) {
            self.shares.remove(before, 1);
        }
        if let Some(sender) = sender {
            self.owners.insert(id, sender);
            self.shares.add(sender, 1);
        }
    }

    fn forget(&mut self) {
        self.ids.clear();
        self.count = None;
        self.other = None;
        self.left_out.clear();
        // Those of a failed transaction will be counted again.
        self.new_left_out = 0;
    }

    /// Returns the name from a sender, or from this process.
    fn name_of(&self, name: impl Hash, sender: Option<Sender>) -> NameOf {
        (sender.map(Sender::without_group), self.left_out.hasher().hash_one(name))
    }

    /// Returns the shared row, if a name is known to have no other.
    fn shared(&self, name: &NameOf) -> Option<i64> {
        self.other.filter(|_| self.left_out.get(name) == Some(&self.changes))
    }

    /// Remembers that a name shares a row.
    fn leave_out(&mut self, name: NameOf) {
        if self.left_out.len() >= LEFT_OUT_MAX {
            self.left_out.clear();
        }
        let is_new = self.left_out.insert(name, self.changes).is_none();
        self.new_left_out += usize::from(is_new);
    }

    /// Remembers a row, up to the table's limit.
    pub(super) fn keep(&mut self, key: K, id: i64, most: usize) -> i64 {
        if self.ids.len() >= most {
            self.ids.clear();
        }
        self.ids.insert(key, id);
        id
    }

    /// Returns the row of a name and true: the existing one, or a new one if the sender has room.
    /// Otherwise returns the shared row and false; the name is retried later, since another sender
    /// may have room.
    fn row<T: Copy>(
        &mut self,
        connection: &Connection,
        (table, name): ((&str, usize), NameOf),
        [own, other]: [T; 2],
        find: impl Fn(T) -> rusqlite::Result<Option<i64>>,
        add: impl Fn(T) -> rusqlite::Result<i64>,
    ) -> rusqlite::Result<(i64, bool)> {
        if let Some(id) = find(own)? {
            return Ok((id, true));
        }
        let (sender, _) = name;
        if self.has_room(connection, table, sender)? {
            let id = add(own)?;
            self.added(id, sender);
            return Ok((id, true));
        }
        let shared = match self.other {
            Some(id) => id,
            None => find(other)?.map_or_else(|| add(other), Ok)?,
        };
        self.other = Some(shared);
        self.leave_out(name);
        Ok((shared, false))
    }
}

impl KnownNames {
    /// Returns the row of an evaluator in this process.
    pub(super) fn evaluator(
        &mut self,
        connection: &Connection,
        info: &Arc<EvaluatorInfo>,
    ) -> rusqlite::Result<i64> {
        if let Some(id) = self.evaluators.ids.get(&info.digest) {
            return Ok(*id);
        }
        let (id, is_own) = self.evaluator_of(connection, info, None)?;
        if is_own {
            self.evaluators.keep(info.digest, id, EVALUATORS_MAX);
        }
        Ok(id)
    }

    /// Returns the row of an evaluator in a sender's process. Its digest is untrusted, so the row
    /// is not remembered by it.
    pub(super) fn evaluator_elsewhere(
        &mut self,
        connection: &Connection,
        info: &EvaluatorInfo,
        sender: Sender,
    ) -> rusqlite::Result<i64> {
        self.evaluator_of(connection, info, Some(sender)).map(|(id, _)| id)
    }

    fn evaluator_of(
        &mut self,
        connection: &Connection,
        info: &EvaluatorInfo,
        sender: Option<Sender>,
    ) -> rusqlite::Result<(i64, bool)> {
        let rows = &mut self.evaluators;
        let name = rows.name_of((cut(&info.name), info.digest), sender);
        if let Some(id) = rows.shared(&name) {
            return Ok((id, false));
        }
        let query = "SELECT id FROM evaluators WHERE name = ?1 AND version = ?2";
        rows.row(
            connection,
            (("evaluators", EVALUATORS_MAX), name),
            [(info.kind, cut(&info.name), info.digest), (OTHER, OTHER, [0; 16])],
            |(_, name, version)| find(connection, query, params![name, version]),
            |row| add_evaluator(connection, info, row),
        )
    }

    /// Returns the row of a sender's source.
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
        let name = rows.name_of(source, Some(sender));
        if let Some(id) = rows.shared(&name) {
            return Ok(id);
        }
        let query = "SELECT id FROM sources WHERE service = ?1 AND agent = ?2 AND version = ?3
            AND environment = ?4";
        let (id, is_own) = rows.row(
            connection,
            (("sources", SOURCES_MAX), name),
            [&*policy.source(source), &RunSource::other()],
            |RunSource { service, agent, version, environment }| {
                find(connection, query, params![service, agent, version, environment])
            },
            |source| add_source(connection, source),
        )?;
        if is_own {
            rows.keep(source.clone(), id, SOURCES_MAX);
        }
        Ok(id)
    }

    /// Returns the row of a sender's tool.
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
        let named = rows.name_of(name, Some(sender));
        if let Some(id) = rows.shared(&named) {
            return Ok(id);
        }
        let (id, is_own) = rows.row(
            connection,
            (("tools", TOOLS_MAX), named),
            [name, OTHER],
            |name| find(connection, "SELECT id FROM tools WHERE name = ?1", [name]),
            |name| insert(connection, "INSERT INTO tools (name) VALUES (?1)", [name]),
        )?;
        if is_own {
            rows.keep(name.into(), id, TOOLS_MAX);
        }
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

/// Truncates a name to its limit.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_BYTES_MAX)]
}

/// Returns true if a stored name may be truncated: truncation removes whole characters, of up to
/// four bytes.
pub(crate) fn may_be_cut(name: &str) -> bool {
    name.len() > NAME_BYTES_MAX - 4
}

#[cfg(test)]
mod tests {
    use spanscore_base::model::Level;

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
        assert_eq!(names.take_left_out(), left_out);
        let last = TOOLS_MAX - 1;
        let shared = tool(last, 1, &mut names);
        assert_eq!(names.take_left_out(), 0, "a name is counted once");
        assert_eq!(shared, tool(TOOLS_MAX, 1, &mut names));
        assert_eq!(tool(0, 2, &mut names), tool(0, 1, &mut names));
        let own = tool(last, 2, &mut names);
        assert_ne!(own, shared, "another sender has room for it");
        assert_eq!(tool(last, 1, &mut names), own);
        // After a failed transaction the shares are as in the file.
        names.forget();
        for _ in 0..3 {
            assert_eq!(shared, tool(TOOLS_MAX, 1, &mut names));
        }
        assert_eq!(names.take_left_out(), 1);
        names.forget();
        connection.execute("DELETE FROM tools WHERE name <> 'other'", []).unwrap();
        names.forget();
        assert_ne!(shared, tool(TOOLS_MAX, 1, &mut names), "rows that went leave room");
    }

    #[test]
    fn evaluator_of_this_process_has_a_row_while_there_is_any() {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut connection).unwrap();
        let info = |number: usize| {
            let mut digest = [1; 16];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            Arc::new(EvaluatorInfo {
                kind: "tool_success",
                name: "tool_success".to_owned(),
                threshold: 0.5,
                level: Level::Call,
                digest,
                case: None,
                own_version: None,
            })
        };
        let mut names = KnownNames::default();
        let of_another = names.evaluator_elsewhere(&connection, &info(0), sender(1)).unwrap();
        let own = |number: usize, names: &mut KnownNames| {
            names.evaluator(&connection, &info(number)).unwrap()
        };
        let rows: HashSet<_> = (0..EVALUATORS_MAX).map(|at| own(at, &mut names)).collect();
        assert_eq!(rows.len(), EVALUATORS_MAX, "beside the one of another, which is the first");
        assert!(rows.contains(&of_another));
        for (expected, number) in [(1, EVALUATORS_MAX), (0, EVALUATORS_MAX)] {
            assert!(!rows.contains(&own(number, &mut names)), "there is none");
            assert_eq!(names.take_left_out(), expected);
        }
    }
}
