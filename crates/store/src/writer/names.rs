//! Row numbers of evaluators, sources and tools, by their names.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use rusqlite::{Connection, OptionalExtension, params};

use spanscore_base::model::EvaluatorInfo;

use super::content::ContentPolicy;
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
}

/// Rows of one table.
struct KnownRows<K> {
    ids: HashMap<K, i64>,
    /// Rows in the file, once they were counted.
    count: Option<usize>,
}

impl<K> Default for KnownRows<K> {
    fn default() -> Self {
        Self { ids: HashMap::new(), count: None }
    }
}

impl<K: Eq + Hash> KnownRows<K> {
    /// Returns true if a table has so many rows; asks the file once.
    fn is_full(
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
    fn keep(&mut self, key: K, id: i64, most: usize) -> i64 {
        if self.ids.len() >= most {
            self.ids.clear();
        }
        self.ids.insert(key, id);
        id
    }

    fn added(&mut self) {
        self.count = self.count.map(|count| count + 1);
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
        let rows = &mut self.evaluators;
        let find = |name: &str, version: [u8; 16]| {
            connection
                .prepare_cached("SELECT id FROM evaluators WHERE name = ?1 AND version = ?2")?
                .query_row(params![name, version], |row| row.get(0))
                .optional()
        };
        let name = cut(&info.name);
        match find(name, info.digest)? {
            Some(id) => Ok(id),
            None if !rows.is_full(connection, "evaluators", EVALUATORS_MAX)? => {
                rows.added();
                add_evaluator(connection, info, (info.kind, name, info.digest))
            }
            None => match find(OTHER, [0; 16])? {
                Some(id) => Ok(id),
                None => add_evaluator(connection, info, (OTHER, OTHER, [0; 16])),
            },
        }
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
        let shown = policy.source(source);
        let find = |source: &RunSource| {
            let RunSource { service, agent, version, environment } = source;
            connection
                .prepare_cached(
                    "SELECT id FROM sources WHERE service = ?1 AND agent = ?2 AND version = ?3
                     AND environment = ?4",
                )?
                .query_row(params![service, agent, version, environment], |row| row.get(0))
                .optional()
        };
        let id = match find(&shown)? {
            Some(id) => id,
            None if !rows.is_full(connection, "sources", SOURCES_MAX)? => {
                rows.added();
                add_source(connection, &shown)?
            }
            None => match find(&RunSource::other())? {
                Some(id) => id,
                None => add_source(connection, &RunSource::other())?,
            },
        };
        Ok(rows.keep(source.clone(), id, SOURCES_MAX))
    }

    /// Returns the row of a tool.
    pub(super) fn tool(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        let name = cut(name);
        let rows = &mut self.tools;
        if let Some(id) = rows.ids.get(name) {
            return Ok(*id);
        }
        let find = |name: &str| {
            connection
                .prepare_cached("SELECT id FROM tools WHERE name = ?1")?
                .query_row([name], |row| row.get(0))
                .optional()
        };
        let id = match find(name)? {
            Some(id) => id,
            None if !rows.is_full(connection, "tools", TOOLS_MAX)? => {
                rows.added();
                add_tool(connection, name)?
            }
            None => match find(OTHER)? {
                Some(id) => id,
                None => add_tool(connection, OTHER)?,
            },
        };
        Ok(rows.keep(name.into(), id, TOOLS_MAX))
    }
}

fn add_evaluator(
    connection: &Connection,
    info: &EvaluatorInfo,
    (kind, name, version): (&str, &str, [u8; 16]),
) -> rusqlite::Result<i64> {
    let own_version = info.own_version.as_deref().map(cut);
    connection
        .prepare_cached(
            "INSERT INTO evaluators (kind, name, version, own_version, level, threshold)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .insert(params![kind, name, version, own_version, info.level.as_str(), info.threshold])
}

fn add_source(connection: &Connection, source: &RunSource) -> rusqlite::Result<i64> {
    let RunSource { service, agent, version, environment } = source;
    connection
        .prepare_cached(
            "INSERT INTO sources (service, agent, version, environment) VALUES (?1, ?2, ?3, ?4)",
        )?
        .insert(params![service, agent, version, environment])
}

fn add_tool(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached("INSERT INTO tools (name) VALUES (?1)")?.insert([name])
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
