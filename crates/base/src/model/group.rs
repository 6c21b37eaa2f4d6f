//! Groups of clients whose data is kept apart.

use sha2::{Digest, Sha256};

use super::TraceId;

/// A group of clients by its name, of which only a hash is held; the default is that of everybody,
/// where clients are not known.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct ClientGroup(u64);

impl ClientGroup {
    /// Returns the group of that name.
    pub fn named(name: &str) -> Self {
        Self(first_half(&Sha256::digest(name)).max(1))
    }

    /// Returns the group with these bytes, as [`to_bytes`](Self::to_bytes) gave them.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }

    /// Returns the bytes that it is stored as.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Returns true if it is that of everybody.
    pub fn is_everybody(self) -> bool {
        self.0 == 0
    }

    /// Returns the id under which a trace of the group is held: for everybody the one that was
    /// sent, else one that no other group can reach by the ids that it sends. The second half is
    /// the same, so that its shard is.
    pub fn key(self, sent: TraceId) -> TraceId {
        if self.is_everybody() {
            return sent;
        }
        let hash = Sha256::new().chain_update(self.to_bytes()).chain_update(sent.0).finalize();
        sent.with_first_half(first_half(&hash))
    }
}

fn first_half(hash: &[u8]) -> u64 {
    hash.first_chunk().map_or(0, |half| u64::from_be_bytes(*half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_one_trace_id_apart_and_everybody_as_it_came() {
        let sent = TraceId(*b"0123456789abcdef");
        let groups = [ClientGroup::default(), ClientGroup::named("a"), ClientGroup::named("b")];
        let keys = groups.map(|group| group.key(sent));
        assert_eq!(keys[0], sent);
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
        for (group, key) in groups.iter().zip(keys) {
            assert_eq!(key.0[8..], sent.0[8..]);
            assert_eq!(group.key(sent), key);
            assert_eq!(ClientGroup::from_bytes(group.to_bytes()), *group);
        }
    }
}
