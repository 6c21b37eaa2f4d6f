//! Bearer tokens, stored as hashes only.

use std::io::Read as _;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::settings::{KnownClientSettings, is_token};

/// Largest file of tokens, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Limit on the tokens of one client.
const TOKENS_MAX: usize = 16;

/// SHA-256 hash of a token: the time of a comparison reveals nothing about the token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(super) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Returns true if the list contains it, in a time independent of the contents.
    pub(super) fn is_among(self, known: &[Self]) -> bool {
        let found =
            known.iter().fold(Choice::from(0), |found, other| found | self.0.ct_eq(&other.0));
        found.into()
    }
}

/// Reads the current tokens of a client from its settings or file.
pub(super) fn read(client: &KnownClientSettings) -> Result<Vec<TokenHash>, String> {
    if let Some(token) = &client.token {
        return Ok(vec![TokenHash::of(token.reveal().trim().as_bytes())]);
    }
    let Some(path) = &client.file else { return Ok(Vec::new()) };
    let failed = |error| format!("cannot read `{path}`: {error}");
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    let tokens: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match tokens.len() {
        0 => Err(format!("`{path}` holds no token")),
        1..=TOKENS_MAX if tokens.iter().all(|token| is_token(token)) => {
            Ok(tokens.iter().map(|token| TokenHash::of(token.as_bytes())).collect())
        }
        1..=TOKENS_MAX => Err(format!("`{path}` has a line that is no bearer token")),
        _ => Err(format!("`{path}` holds more than {TOKENS_MAX} tokens")),
    }
}
