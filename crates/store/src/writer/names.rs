//! Row numbers of evaluators, sources and tools, by their names.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use rusqlite::{Connection, params};
use smart_default::SmartDefault;

use spanscore_base::model::EvaluatorInfo;

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
}

/// Rows of one table.
// `SmartDefault` asks no `Default` of `K`, as std's derive would.
#[derive(SmartDefault)]
pub(super) struct KnownRows<K> {
    pub(super) ids: HashMap<K, i64>,
    /// Rows in the file, once they were counted.
    pub(super) count: Option<usize>,
}

impl<K: Eq + Hash> KnownRows<K> {
    /// Returns true if a table has so many rows; asks the file once.
    pub(super) fn is_full(
        &mut self,
        connection: &Connection,
        table: &str,
        most: usize,
    ) -> rusqlite::Result<bool> {
        let count = match self.count {
            Some(count) => count,
            None => {
                let query = format!("SELECT count(*) FROM {table}");
                connection.query_row(&query, [], |row| row.get(0))?
            }
        };
        self.count = Some(count);
        Ok(count >= most)
    }

    /// Remembers a row, at most as many as the table may have: those beyond share one.
    pub(super) fn keep(&mut self, key: K, id: i64, most: usize) -> i64 {
        if self.ids.len() >= most {
            self.ids.clear();
        }
        self.ids.insert(key, id);
        id
    }

    /// Returns the row of a name: that which is there, a new one while there is room, or that which
    /// all others share.
    fn row<T: Copy>(
        &mut self,
        connection: &Connection,
        (table, most): (&str, usize),
        [own, other]: [T; 2],
        find: impl Fn(T) -> rusqlite::Result<Option<i64>>,
        add: impl Fn(T) -> rusqlite::Result<i64>,
    ) -> rusqlite::Result<i64> {
        if let Some(id) = find(own)? {
            return Ok(id);
        }
        if !self.is_full(connection, table, most)? {
            self.count = self.count.map(|count| count + 1);
            return add(own);
        }
        find(other)?.map_or_else(|| add(other), Ok)
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
        let id = self.evaluator_elsewhere(connection, info)?;
        Ok(self.evaluators.keep(info.digest, id, EVALUATORS_MAX))
    }

    /// Returns the row of an evaluator of another process, which may have said any digest: it is
    /// not remembered under that.
    pub(super) fn evaluator_elsewhere(
        &mut self,
        connection: &Connection,
        info: &EvaluatorInfo,
    ) -> rusqlite::Result<i64> {
        let query = "SELECT id FROM evaluators WHERE name = ?1 AND version = ?2";
        self.evaluators.row(
            connection,
            ("evaluators", EVALUATORS_MAX),
            [(info.kind, cut(&info.name), info.digest), (OTHER, OTHER, [0; 16])],
            |(_, name, version)| find(connection, query, params![name, version]),
            |row| add_evaluator(connection, info, row),
        )
    }

    /// Returns the row of a source.
    pub(super) fn source(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        source: &RunSource,
    ) -> rusqlite::Result<i64> {
        let rows = &mut self.sources;
        if let Some(id) = rows.ids.get(source) {
            return Ok(*id);
        }
        let query = "SELECT id FROM sources WHERE service = ?1 AND agent = ?2 AND version = ?3
            AND environment = ?4";
        let id = rows.row(
            connection,
            ("sources", SOURCES_MAX),
            [&*policy.source(source), &RunSource::other()],
            |RunSource { service, agent, version, environment }| {
                find(connection, query, params![service, agent, version, environment])
            },
            |source| add_source(connection, source),
        )?;
        Ok(rows.keep(source.clone(), id, SOURCES_MAX))
    }

    /// Returns the row of a tool.
    pub(super) fn tool(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        let name = cut(name);
        let rows = &mut self.tools;
        if let Some(id) = rows.ids.get(name) {
            return Ok(*id);
        }
        let id = rows.row(
            connection,
            ("tools", TOOLS_MAX),
            [name, OTHER],
            |name| find(connection, "SELECT id FROM tools WHERE name = ?1", [name]),
            |name| insert(connection, "INSERT INTO tools (name) VALUES (?1)", [name]),
        )?;
        Ok(rows.keep(name.into(), id, TOOLS_MAX))
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

    #[test]
    fn tools_beyond_the_limit_share_a_row_also_after_names_were_forgotten() {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut connection).unwrap();
        let tool = |number: usize, names: &mut KnownNames| {
            names.tool(&connection, &format!("tool {number}")).unwrap()
        };
        let mut names = KnownNames::default();
        let first = tool(0, &mut names);
        for number in 1..TOOLS_MAX {
            tool(number, &mut names);
        }
        let mut anew = KnownNames::default();
        let other = tool(TOOLS_MAX, &mut anew);
        assert_eq!(other, tool(TOOLS_MAX + 1, &mut anew));
        assert_eq!(first, tool(0, &mut anew));
        assert_ne!(first, other);
    }
}
