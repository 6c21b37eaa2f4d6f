//! Tool definitions: each distinct set is stored once, by the hash of its text.

use std::borrow::Cow;

use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use spanscore_base::model::Sender;
use spanscore_base::value::{Value, json};

use super::content::ContentPolicy;
use super::rows::RowWriter;
use super::statements::{find, insert, packed};
use crate::counters::StoreCount;
use crate::part::StoredGap;
use crate::record::TrajectoryRecord;

/// Limit on sets of definitions, of which each sender has a share; others are not stored.
pub(super) const DEFINITIONS_MAX: usize = 10_000;

/// SHA-256 of a set.
pub(super) type DefinitionsDigest = [u8; 32];

impl RowWriter {
    /// Returns the row of a run's definitions; `None` if they are not stored.
    pub(super) fn definitions(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        record: &TrajectoryRecord,
    ) -> rusqlite::Result<Option<i64>> {
        let Some(recorded) = &record.definitions else { return Ok(None) };
        let set = (&*recorded.text, record.sender);
        let row = self.definitions_row(connection, policy, set)?;
        let is_left_out = recorded.is_cut || row.is_none();
        self.counts.add(StoreCount::DefinitionsLeftOut, usize::from(is_left_out));
        Ok(row)
    }

    fn definitions_row(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        (text, sender): (&str, Sender),
    ) -> rusqlite::Result<Option<i64>> {
        let rows = &mut self.names.definitions;
        let came = digest(text);
        if let Some(id) = rows.ids.get(&came) {
            return Ok(Some(*id));
        }
        let shown = policy.definitions(text);
        // Of the redacted text, since a secret could be guessed by its hash.
        let digest = digest(&shown);
        let table = ("definitions", DEFINITIONS_MAX);
        let sender = Some(sender);
        let id = match find(connection, "SELECT id FROM definitions WHERE digest = ?1", [digest])? {
            Some(id) => id,
            None if !rows.has_room(connection, table, sender)? => return Ok(None),
            None => {
                let query = "INSERT INTO definitions (digest, content) VALUES (?1, ?2)";
                let id = insert(connection, query, params![digest, packed(&shown)?])?;
                rows.added(id, sender);
                id
            }
        };
        Ok(Some(rows.keep(came, id, DEFINITIONS_MAX)))
    }
}

impl ContentPolicy {
    /// Returns storable definitions. Runs share them, and so the redaction names.
    fn definitions<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Ok(read) = json::parse(text) else {
            self.counters.add(StoreCount::Withheld, 1);
            return Cow::Borrowed(r#"{"gap":"not_stored","tools":[]}"#);
        };
        let shown = self.redacted(Default::default(), &[&read]).and_then(|mut shown| shown.pop());
        let Some(shown) = shown.filter(|shown| *shown != read) else { return Cow::Borrowed(text) };
        let has_gap = read.get("gap").is_some();
        let text = shown.to_string();
        if has_gap || is_same(&read, &shown) {
            return Cow::Owned(text);
        }
        let gap = StoredGap::Redacted.as_str();
        Cow::Owned(text.replacen('{', &format!(r#"{{"gap":"{gap}","#), 1))
    }
}

/// Returns true if two values differ only in descriptions, which are for the model: no call is
/// judged by them.
fn is_same(read: &Value<'_>, shown: &Value<'_>) -> bool {
    match (read, shown) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let mut fields = a.iter().zip(b.iter());
            a.len() == b.len()
                && fields.all(|((key, a), (other, b))| {
                    let is_words = key == "description" && a.as_str().is_some();
                    key == other && (is_words || is_same(a, b))
                })
        }
        (a, b) => a == b,
    }
}

fn digest(text: &str) -> DefinitionsDigest {
    Sha256::digest(text).into()
}
