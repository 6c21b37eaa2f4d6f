//! URL of a trace in another system.

use schemars::JsonSchema;
use serde::Deserialize;

/// Placeholder of the id in a URL.
const PLACE: &str = "{trace_id}";
/// Longest URL, bytes.
const BYTES_MAX: usize = 1_000;

/// URL with the placeholder `{trace_id}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("pattern" = "^https?://[^/?#]+[/?#].*\\{trace_id\\}"))]
pub struct TraceLink(String);

/// Error of a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`trace_url` {0}: write it as `https://HOST/PATH/{{trace_id}}`")]
pub struct TraceLinkError(&'static str);

impl TraceLink {
    /// Returns the URL of a trace.
    pub fn of(&self, trace_id: &str) -> String {
        self.0.replace(PLACE, trace_id)
    }
}

impl TryFrom<String> for TraceLink {
    type Error = TraceLinkError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let Some(rest) = rest else { return Err(TraceLinkError("is no http(s) address")) };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let is_plain = |it: char| it.is_ascii_graphic() && !"\"<>\\^`|".contains(it);
        if host.is_empty() || host.contains(['@', '{', '}']) {
            return Err(TraceLinkError("names no host, or one with a user or a place in it"));
        }
        if !rest.contains(PLACE) {
            return Err(TraceLinkError("has no place for the id of the trace"));
        }
        if !text.chars().all(is_plain) || text.len() > BYTES_MAX {
            return Err(TraceLinkError(
                "is over 1000 bytes, or has characters that no address has",
            ));
        }
        Ok(Self(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_the_web_and_have_a_place_for_the_id() {
        let check = |text: &str, expected: Option<&str>| {
            let link = TraceLink::try_from(text.to_owned());
            assert_eq!(link.ok().map(|link| link.of("0a")).as_deref(), expected, "{text}");
        };
        check("https://jaeger.example/trace/{trace_id}", Some("https://jaeger.example/trace/0a"));
        check("http://[::1]:3000/t?id={trace_id}#x", Some("http://[::1]:3000/t?id=0a#x"));
        check("javascript:alert(1)//{trace_id}", None);
        check("HTTPS://x/{trace_id}", None);
        check("//x/{trace_id}", None);
        check("https:///{trace_id}", None);
        check("https://{trace_id}.example/", None);
        check("https://good.example@evil.example/{trace_id}", None);
        check("https://x/trace", None);
        check("https://x/{trace_id}\u{202e}", None);
        check("https://x/ {trace_id}", None);
        check(&format!("https://x/{{trace_id}}{}", "y".repeat(1_000)), None);
    }
}
