//! Ids of users as the content policy has them.
//!
//! An id that may not be stored becomes a pseudonym, which keeps users apart: a placeholder such as
//! `[EMAIL_1]` would make one of all users with an address. It is a hash with a key of the file,
//! since without one, ids could be guessed by it in every list and export.

use std::borrow::Cow;

use data_encoding::HEXLOWER;
use rusqlite::Connection;
use sha2::{Digest, Sha256};

use spanscore_base::model::TraceId;
use spanscore_base::value::Value;

use super::content::ContentPolicy;
use super::names::cut;
use super::rows::RowWriter;
use crate::record::TrajectoryRecord;
use crate::settings::StoredContent;

/// Bytes of the hash in a pseudonym.
const PSEUDONYM_BYTES: usize = 8;

/// Key of the pseudonyms in a file.
pub(super) type UserKey = [u8; 16];

impl RowWriter {
    /// Returns the storable user of a run.
    pub(super) fn user<'r>(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        record: &'r TrajectoryRecord,
    ) -> rusqlite::Result<Option<Cow<'r, str>>> {
        let Some(id) = &record.user_id else { return Ok(None) };
        if policy.shows_user(record.trace.0, id) {
            return Ok(Some(Cow::Borrowed(cut(id))));
        }
        let key = match self.user_key {
            Some(key) => key,
            None => connection.query_row("SELECT key FROM user_key", [], |row| row.get(0))?,
        };
        self.user_key = Some(key);
        let hash = Sha256::new().chain_update(key).chain_update(&**id).finalize();
        Ok(Some(Cow::Owned(format!("user-{}", HEXLOWER.encode(&hash[..PSEUDONYM_BYTES])))))
    }
}

impl ContentPolicy {
    /// Returns true if the id of a user may be stored unchanged.
    fn shows_user(&self, trace: TraceId, id: &str) -> bool {
        let shown = self.redacted(trace, &[&Value::from(id)]);
        let is_same = |shown: Vec<Value<'_>>| shown.first().and_then(Value::as_str) == Some(id);
        self.content != StoredContent::None && shown.is_none_or(is_same)
    }
}
