//! Digests for identities and caches: the first half of a SHA-256.

use sha2::{Digest, Sha256};

/// Returns the first half of a hash.
pub fn first_half(hash: Sha256) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.finalize()[..16]);
    half
}
