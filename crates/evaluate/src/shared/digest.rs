//! Digests for identities and caches: the first half of a SHA-256.

use sha2::{Digest, Sha256};

/// Returns the first half of the hash of joined parts.
pub fn of_parts(parts: &[&[u8]]) -> [u8; 16] {
    first_half(parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)))
}

/// Returns the first half of a hash.
pub fn first_half(hash: Sha256) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.finalize()[..16]);
    half
}
