//! Mark before each line of a record: a keyed digest (HMAC) that evidence cannot forge.
//!
//! The mark is eight hexadecimal digits that cannot be guessed outside of the process. It is equal
//! for all kinds that judge a trajectory, and never occurs in the evidence.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::inquiry::MarkKey;

/// Attempts to find a mark that does not occur in the evidence, each of which fails with the
/// probability that a text contains it.
const TRIES_MAX: u32 = 64;

/// Returns a mark for a trajectory that does not occur in the evidence.
pub(super) fn mark(key: &MarkKey, identity: &[u8], evidence: &str) -> String {
    let mut mark = String::new();
    for attempt in 0..TRIES_MAX {
        mark = digits(key, identity, attempt);
        if memchr::memmem::find(evidence.as_bytes(), mark.as_bytes()).is_none() {
            break;
        }
    }
    mark
}

fn digits(key: &MarkKey, identity: &[u8], attempt: u32) -> String {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key.0) else { return String::new() };
    mac.update(identity);
    mac.update(&attempt.to_be_bytes());
    let tag = mac.finalize().into_bytes();
    tag.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_the_same_for_a_trajectory_and_never_in_the_evidence() {
        let key = MarkKey([7; 32]);
        let first = mark(&key, b"trace", "");
        assert_eq!(first, mark(&key, b"trace", "another kind's evidence"));
        assert_eq!(first.len(), 8);
        assert_ne!(first, mark(&key, b"trace", &format!("I know {first}")));
        assert_ne!(first, mark(&MarkKey([8; 32]), b"trace", ""));
        assert_ne!(first, mark(&key, b"other", ""));
    }
}
