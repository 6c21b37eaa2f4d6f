//! Verdicts on sessions, by which a revision names its predecessors.

use std::sync::Arc;

use spanscore_assemble::{DueSession, SessionsSettings};
use spanscore_base::model::{Evaluation, GivenVerdicts, MemoryQuota, Recent, SessionKey};

/// Bytes of an entry in a growing table, beside its key and verdicts.
const ENTRY_BYTES: usize = 200;
/// Inverse of the verdicts' share of the sessions' memory.
const SHARE_PARTS: usize = 16;

/// Verdicts on the most recently judged sessions.
pub(crate) struct SessionVerdicts {
    by_key: Recent<Arc<SessionKey>, GivenVerdicts>,
    /// Smallest charge of an entry, which bounds entries by the allowed sessions.
    bytes_min: usize,
}

impl SessionVerdicts {
    /// Returns an empty cache; beyond its quota the oldest entries are evicted.
    pub(crate) fn new(settings: &SessionsSettings, share: &MemoryQuota) -> Self {
        let bytes_max = share.limit() / SHARE_PARTS;
        let bytes_min = bytes_max / (settings.open_sessions_max as usize).max(1);
        Self { by_key: Recent::new(bytes_max), bytes_min }
    }

    /// Changes the limits.
    pub(super) fn limit(&mut self, settings: &SessionsSettings, share: &MemoryQuota) {
        let bytes_max = share.limit() / SHARE_PARTS;
        self.by_key.limit(bytes_max);
        self.bytes_min = bytes_max / (settings.open_sessions_max as usize).max(1);
    }

    /// Returns the bytes of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.by_key.weight()
    }

    /// Returns the number of evicted sessions since the last call.
    pub(super) fn take_forgotten(&mut self) -> u64 {
        self.by_key.take_forgotten()
    }

    /// Sets the verdicts superseded by evaluations of a session, and remembers the new ones.
    pub(super) fn supersede(&mut self, due: &DueSession, evaluations: &mut [Evaluation]) {
        let known = self.by_key.remove(&due.key);
        let mut verdicts = known.filter(|_| due.revision > 0).unwrap_or_default();
        verdicts.supersede(evaluations);
        let bytes = bytes_of(&due.key, &verdicts).max(self.bytes_min);
        self.by_key.keep(Arc::clone(&due.key), verdicts, bytes);
    }
}

fn bytes_of(key: &SessionKey, verdicts: &GivenVerdicts) -> usize {
    let name = key.service_name.as_ref().map_or(0, |name| name.len());
    ENTRY_BYTES + name + key.session_id.len() + verdicts.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::model::Completion;

    fn judge(verdicts: &mut SessionVerdicts, id: &str, revision: u32) {
        let key = Arc::new(SessionKey {
            service_name: None,
            session_id: id.into(),
            group: Default::default(),
        });
        let due = DueSession {
            key,
            number: 1,
            traces: Vec::new(),
            sender: Default::default(),
            completion: Completion::Idle,
            digest: [0; 16],
            revised: None,
            revision,
        };
        verdicts.supersede(&due, &mut []);
    }

    #[test]
    fn verdicts_keep_within_their_bytes() {
        let share = MemoryQuota::new("sessions", SHARE_PARTS * 5 * ENTRY_BYTES);
        let mut verdicts = SessionVerdicts::new(&SessionsSettings::default(), &share);
        judge(&mut verdicts, "a", 0);
        let one = verdicts.bytes();
        judge(&mut verdicts, "a", 1);
        assert_eq!(verdicts.bytes(), one, "counted once");
        for id in ["b", "c", "d", "e"] {
            judge(&mut verdicts, id, 0);
        }
        assert_eq!((verdicts.bytes(), verdicts.take_forgotten()), (3 * one, 2), "the oldest two");
        judge(&mut verdicts, &"long".repeat(1000), 0);
        assert_eq!(verdicts.bytes(), 3 * one, "more than there may be is not kept");
    }
}
