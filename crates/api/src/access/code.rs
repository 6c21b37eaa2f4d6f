//! One-time codes of links: signed with the collector's key, valid for one login.
//!
//! ```text
//! expiry, Unix seconds (8 bytes) | number (8) | HMAC-SHA-256 of both (first 16), as base64url
//! ```
//!
//! Signing needs no request, so a command with the key can create codes itself.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use parking_lot::Mutex;
use sha2::Sha256;

use spanscore_base::settings::Secret;

/// Validity of a code, seconds.
pub(super) const CODE_S: u64 = 600;
/// Limit on used codes remembered until they expire; further logins must wait.
const USED_MAX: usize = 64;
/// Signed bytes, and bytes of the signature.
const SIGNED_BYTES: usize = 16;
const MAC_BYTES: usize = 16;

/// Creates a code that is valid from now on.
pub(super) fn make(key: &Secret, now_s: u64) -> io::Result<String> {
    let mut code = [0; SIGNED_BYTES];
    code[..8].copy_from_slice(&(now_s + CODE_S).to_be_bytes());
    getrandom::fill(&mut code[8..]).map_err(io::Error::other)?;
    let mac = signer(key, &code)?.finalize().into_bytes();
    Ok(URL_SAFE_NO_PAD.encode([&code[..], &mac[..MAC_BYTES]].concat()))
}

fn signer(key: &Secret, signed: &[u8]) -> io::Result<Hmac<Sha256>> {
    let signer = Hmac::<Sha256>::new_from_slice(key.reveal().as_bytes());
    let mut signer = signer.map_err(io::Error::other)?;
    signer.update(b"login");
    signer.update(signed);
    Ok(signer)
}

/// Used, unexpired codes: their signed bytes.
#[derive(Debug, Default)]
pub(super) struct UsedCodes(Mutex<Vec<[u8; SIGNED_BYTES]>>);

impl UsedCodes {
    /// Redeems a code; returns false if it is invalid, expired, or used.
    pub(super) fn redeem(&self, key: &Secret, code: &str, now_s: u64) -> bool {
        let bytes = URL_SAFE_NO_PAD.decode(code).unwrap_or_default();
        let Some((signed, mac)) = bytes.split_first_chunk::<SIGNED_BYTES>() else { return false };
        let is_signed = mac.len() == MAC_BYTES
            && signer(key, signed).is_ok_and(|signer| signer.verify_truncated_left(mac).is_ok());
        let holds = |signed: &[u8; SIGNED_BYTES]| {
            let expiry = signed.first_chunk().map_or(0, |expiry| u64::from_be_bytes(*expiry));
            now_s < expiry && expiry <= now_s + CODE_S
        };
        if !is_signed || !holds(signed) {
            return false;
        }
        let mut used = self.0.lock();
        used.retain(holds);
        let is_fresh = !used.contains(signed) && used.len() < USED_MAX;
        if is_fresh {
            used.push(*signed);
        }
        is_fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_opens_once_within_ten_minutes() {
        let key = Secret("key".to_owned());
        let check = |code: &str, used: &UsedCodes, now_s: u64, expected: bool| {
            assert_eq!(used.redeem(&key, code, now_s), expected, "{code} at {now_s}");
        };
        let used = UsedCodes::default();
        let code = make(&key, 1_000).unwrap();
        check(&code, &used, 1_600, false);
        // Signed by a clock that was ahead.
        check(&code, &used, 999, false);
        check(&code, &used, 1_599, true);
        check(&code, &used, 1_599, false);
        let foreign = make(&Secret("other".to_owned()), 1_000).unwrap();
        for wrong in ["", "x", &code[1..], &format!("{code}AA"), &foreign] {
            check(wrong, &used, 1_000, false);
        }
        let flipped = if code.starts_with('A') { "B" } else { "A" };
        check(&format!("{flipped}{}", &code[1..]), &UsedCodes::default(), 1_000, false);
    }

    #[test]
    fn used_codes_are_remembered_up_to_a_limit_until_they_expire() {
        let key = Secret("key".to_owned());
        let used = UsedCodes::default();
        let redeem = |now_s: u64| used.redeem(&key, &make(&key, now_s).unwrap(), now_s);
        assert_eq!((0..USED_MAX).filter(|_| redeem(5)).count(), USED_MAX);
        assert!(!redeem(5));
        assert!(!redeem(4 + CODE_S));
        assert!(redeem(5 + CODE_S));
    }
}
