//! Token for `OAUTHBEARER`: the password of the settings.

use std::error::Error;
use std::time::{Duration, SystemTime};

use rdkafka::client::OAuthToken;

use crate::settings::SaslSettings;

/// Time after which the client requests it again.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Returns the sign-in token of these settings.
///
/// # Errors
/// They have none.
pub(crate) fn of(sasl: Option<&SaslSettings>) -> Result<OAuthToken, Box<dyn Error>> {
    let sasl = sasl.ok_or("`auth.sasl.password` holds no token")?;
    let until = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + LIFETIME;
    Ok(OAuthToken {
        token: sasl.password.reveal().to_owned(),
        principal_name: sasl.username.clone(),
        lifetime_ms: i64::try_from(until.as_millis())?,
    })
}
