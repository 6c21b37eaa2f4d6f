//! Groups of clients whose data is isolated.

use sha2::{Digest, Sha256};

use super::TraceId;

/// Digits of a group in hexadecimal.
const HEX_DIGITS: usize = 16;

/// Client group, identified by a hash of its name. The default is the group of all clients where
/// clients are unknown.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientGroup(u64);

impl ClientGroup {
    /// Returns the group of that name.
    pub fn named(name: &str) -> Self {
        Self(first_half(&Sha256::digest(name)).max(1))
    }

    /// Returns the group with these bytes, the inverse of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }

    /// Returns the stored bytes.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Returns the group with these 16 hexadecimal digits, the inverse of [`to_hex`](Self::to_hex).
    pub fn from_hex(digits: &[u8]) -> Option<Self> {
        let is_hex = digits.len() == HEX_DIGITS && digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
        u64::from_str_radix(digits, 16).ok().map(Self)
    }

    /// Returns the stored bytes in hexadecimal.
    pub fn to_hex(self) -> String {
        format!("{:0HEX_DIGITS$x}", self.0)
    }

    /// Returns true for the default group.
    pub fn is_everybody(self) -> bool {
        self.0 == 0
    }

    /// Returns the internal id of a trace of the group. The default group uses the id as sent; no
    /// group can reach an id of another. The second half stays the same, and so does the shard.
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
            assert_eq!(ClientGroup::from_hex(group.to_hex().as_bytes()), Some(*group));
        }
    }

    #[test]
    fn hexadecimal_form_has_sixteen_digits_and_nothing_else() {
        for (digits, expected) in [
            (&b"00000000000000ff"[..], Some(ClientGroup(255))),
            (b"00000000000000FF", Some(ClientGroup(255))),
            (b"", None),
            (b"ff", None),
            (b"+0000000000000ff", None),
            (b"00000000000000ff0", None),
            (b"00000000000000f\xff", None),
        ] {
            assert_eq!(ClientGroup::from_hex(digits), expected, "{digits:?}");
        }
    }
}
