//! Access of programs and browsers: tokens, cookies, one-time codes, files for commands.
//!
//! A collector creates a key at each start, and stores it in a folder that only its user can read.
//! Programs with the key may query, and create the one-time code of a link. A browser that opens
//! the link exchanges the code for a cookie. Configured tokens are for programs elsewhere.

mod code;
mod keys;
mod local;

pub(crate) use keys::{Access, AccessKeys, bearer_of};
pub use local::{LeftAccess, LocalAccess, LocalAccessError, access_folder};

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use spanscore_base::settings::Secret;

/// Bytes of keys and of the secrets in cookies.
const KEY_BYTES: usize = 32;

/// Returns a random secret in hexadecimal.
fn random_secret() -> io::Result<Secret> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Returns the time, Unix seconds.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
