//! Secret texts.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// Secret text. Log lines, errors and debug output never show it.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(pub String);

impl Secret {
    /// Returns the text for its one use.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_show_it() {
        let secret = Secret("planted-1".to_owned());
        assert_eq!(format!("{secret:?} {secret:#?}"), "[redacted] [redacted]");
        assert_eq!(secret.reveal(), "planted-1");
    }
}
