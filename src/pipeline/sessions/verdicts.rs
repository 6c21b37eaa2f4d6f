//! The verdicts that were given of sessions, to tell which of them a revision takes back.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::assemble::{DueSession, SessionsSettings};
use crate::model::{Evaluation, GivenVerdicts, SessionKey, Share};

/// Bytes of a session in a table that grows, beside its key and its verdicts.
const ENTRY_BYTES: usize = 200;
/// They may take one of so many parts of what sessions may hold.
const SHARE_PARTS: usize = 16;

/// The verdicts of the sessions that were judged last.
pub(in crate::pipeline) struct SessionVerdicts {
    by_key: HashMap<Arc<SessionKey>, GivenVerdicts>,
    bytes: usize,
    bytes_max: usize,
    sessions_max: usize,
}

impl SessionVerdicts {
    /// None yet; when those of all sessions would be more than may be held, none again.
    pub(in crate::pipeline) fn new(settings: &SessionsSettings, share: &Share) -> Self {
        let bytes_max = share.limit() / SHARE_PARTS;
        let sessions_max = settings.open_sessions_max as usize;
        Self { by_key: HashMap::new(), bytes: 0, bytes_max, sessions_max }
    }

    /// Bytes held for all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tells evaluations of a session which verdicts they take back.
    pub(super) fn supersede(&mut self, due: &DueSession, evaluations: &mut [Evaluation]) {
        let known = self.by_key.remove(&due.key);
        self.bytes -= known.as_ref().map_or(0, |known| bytes_of(&due.key, known));
        let mut verdicts = known.filter(|_| due.revision > 0).unwrap_or_default();
        verdicts.supersede(evaluations);
        let bytes = bytes_of(&due.key, &verdicts);
        if self.by_key.len() >= self.sessions_max || self.bytes + bytes > self.bytes_max {
            (self.by_key, self.bytes) = (HashMap::new(), 0);
        }
        if bytes <= self.bytes_max {
            self.bytes += bytes;
            self.by_key.insert(Arc::clone(&due.key), verdicts);
        }
    }
}

fn bytes_of(key: &SessionKey, verdicts: &GivenVerdicts) -> usize {
    let name = key.service_name.as_ref().map_or(0, |name| name.len());
    ENTRY_BYTES + name + key.session_id.len() + verdicts.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Completion;

    fn judge(verdicts: &mut SessionVerdicts, id: &str, revision: u32) {
        let key = Arc::new(SessionKey { service_name: None, session_id: id.into() });
        let due = DueSession {
            key,
            traces: Vec::new(),
            completion: Completion::Idle,
            digest: [0; 16],
            revised: None,
            revision,
        };
        verdicts.supersede(&due, &mut []);
    }

    #[test]
    fn verdicts_keep_within_their_bytes() {
        let share = Share::new("sessions", SHARE_PARTS * 3 * ENTRY_BYTES);
        let mut verdicts = SessionVerdicts::new(&SessionsSettings::default(), &share);
        judge(&mut verdicts, "a", 0);
        let one = verdicts.bytes();
        judge(&mut verdicts, "a", 1);
        assert_eq!(verdicts.bytes(), one, "counted once");
        judge(&mut verdicts, "b", 0);
        assert_eq!(verdicts.bytes(), 2 * one);
        judge(&mut verdicts, "c", 0);
        assert_eq!(verdicts.bytes(), one, "those of the others are forgotten");
        judge(&mut verdicts, &"long".repeat(1000), 0);
        assert_eq!(verdicts.bytes(), 0, "more than there may be is not kept");
    }
}
