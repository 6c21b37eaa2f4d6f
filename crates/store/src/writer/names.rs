//! Row numbers of evaluators, sources and tools, by their names.

use std::sync::Arc;

use hashbrown::HashMap;
use rusqlite::{Connection, OptionalExtension, params};

use spanscore_base::model::EvaluatorInfo;

use crate::source::RunSource;

/// Most evaluators, each version of one counted; those beyond share a row.
const EVALUATORS_MAX: usize = 10_000;
/// Most sources; those beyond share a row.
const SOURCES_MAX: usize = 2_000;
/// Most tools; those beyond share a row.
const TOOLS_MAX: usize = 5_000;
/// Longest name, bytes.
const NAME_BYTES_MAX: usize = 200;
/// Name of the row that those beyond a limit share.
const OTHER: &str = "other";

/// Known row numbers, as they are in the file.
#[derive(Default)]
pub(super) struct KnownNames {
    evaluators: HashMap<[u8; 16], i64>,
    sources: HashMap<RunSource, i64>,
    tools: HashMap<Box<str>, i64>,
}

impl KnownNames {
    /// Returns the row of an evaluator.
    pub(super) fn evaluator(
        &mut self,
        connection: &Connection,
        info: &Arc<EvaluatorInfo>,
    ) -> rusqlite::Result<i64> {
        if let Some(id) = self.evaluators.get(&info.digest) {
            return Ok(*id);
        }
        let is_full = self.evaluators.len() >= EVALUATORS_MAX;
        let name = if is_full { OTHER } else { cut(&info.name) };
        let version = if is_full { [0; 16] } else { info.digest };
        let kind = if is_full { OTHER } else { info.kind };
        let own_version = info.own_version.as_deref().map(cut);
        let id = connection
            .prepare_cached(
                "INSERT INTO evaluators (kind, name, version, own_version, level, threshold)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (name, version) DO UPDATE SET threshold = threshold RETURNING id",
            )?
            .query_row(
                params![kind, name, version, own_version, info.level.as_str(), info.threshold],
                |row| row.get(0),
            )?;
        if !is_full {
            self.evaluators.insert(info.digest, id);
        }
        Ok(id)
    }

    /// Returns the row of a source.
    pub(super) fn source(
        &mut self,
        connection: &Connection,
        source: &RunSource,
    ) -> rusqlite::Result<i64> {
        if let Some(id) = self.sources.get(source) {
            return Ok(*id);
        }
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
        let id = match find(source)? {
            Some(id) => id,
            None if count(connection, "sources")? < SOURCES_MAX => add_source(connection, source)?,
            None => match find(&RunSource::other())? {
                Some(id) => return Ok(id),
                None => return add_source(connection, &RunSource::other()),
            },
        };
        self.sources.insert(source.clone(), id);
        Ok(id)
    }

    /// Returns the row of a tool.
    pub(super) fn tool(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        let name = cut(name);
        if let Some(id) = self.tools.get(name) {
            return Ok(*id);
        }
        let is_full = self.tools.len() >= TOOLS_MAX;
        let id = connection
            .prepare_cached(
                "INSERT INTO tools (name) VALUES (?1)
                 ON CONFLICT (name) DO UPDATE SET name = name RETURNING id",
            )?
            .query_row([if is_full { OTHER } else { name }], |row| row.get(0))?;
        if !is_full {
            self.tools.insert(name.into(), id);
        }
        Ok(id)
    }
}

fn add_source(connection: &Connection, source: &RunSource) -> rusqlite::Result<i64> {
    let RunSource { service, agent, version, environment } = source;
    connection
        .prepare_cached(
            "INSERT INTO sources (service, agent, version, environment) VALUES (?1, ?2, ?3, ?4)
             RETURNING id",
        )?
        .query_row(params![service, agent, version, environment], |row| row.get(0))
}

fn count(connection: &Connection, table: &str) -> rusqlite::Result<usize> {
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_BYTES_MAX)]
}
