//! Redaction of a request's secrets in answers, since some backends echo requests and some programs
//! print their environment.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use percent_encoding::percent_decode_str;
use tonic::Status;

use spanscore_base::settings::{Address, REDACTED};

/// Shorter secrets are not searched for: they occur anywhere.
const BYTES_MIN: usize = 4;

/// Shorter lines of a secret are not searched for by themselves.
const LINE_BYTES_MIN: usize = 8;

/// Secrets of a request: header values, user and password, in each encoding in which an answer may
/// repeat them.
#[derive(Clone, Default)]
pub struct Withheld(Vec<String>);

impl Withheld {
    /// Returns the secrets of requests with these headers to this address.
    pub fn of(headers: &HeaderMap, address: &Address) -> Self {
        Self::of_values(headers.values().filter_map(|value| value.to_str().ok()), address)
    }

    /// Returns the secrets of requests with these header values to this address.
    pub fn of_values<'a>(values: impl IntoIterator<Item = &'a str>, address: &Address) -> Self {
        let mut all: Vec<String> = values.into_iter().flat_map(forms_of_header).collect();
        if let Some(user) = address.user() {
            let plain = percent_decode_str(user).decode_utf8_lossy().into_owned();
            all.push(STANDARD.encode(&plain));
            all.extend(forms_of_user(user));
            all.extend(forms_of_user(&plain));
        }
        Self::of_all(all)
    }

    /// Returns redaction for these texts and for the lines of multi-line ones.
    pub fn of_secrets<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let forms = |secret: &'a str| {
            let lines = secret.lines().map(str::trim);
            std::iter::once(secret).chain(lines.filter(|line| line.len() >= LINE_BYTES_MIN))
        };
        Self::of_all(secrets.into_iter().flat_map(forms).map(str::to_owned).collect())
    }

    fn of_all(mut all: Vec<String>) -> Self {
        let escaped: Vec<_> = all.iter().flat_map(|text| escaped(text)).collect();
        all.extend(escaped);
        all.retain(|text| text.len() >= BYTES_MIN);
        // The longest first, since one may contain another.
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self(all)
    }

    /// Returns the end of a text without a leading remainder of a truncated secret.
    pub fn without_cut_secret<'t>(&self, end: &'t str) -> &'t str {
        if self.0.iter().any(|secret| secret.contains(end)) {
            return "";
        }
        let begun = |secret: &String| {
            let ends = secret.char_indices().map(|(at, _)| &secret[at..]);
            ends.skip(1).find(|rest| end.starts_with(rest)).map_or(0, str::len)
        };
        let longest = self.0.iter().map(begun).max().unwrap_or(0);
        &end[longest..]
    }

    /// Returns a text with the secrets redacted.
    pub fn without<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        self.0.iter().fold(text.into(), |text, secret| {
            if text.contains(secret) { Cow::Owned(text.replace(secret, REDACTED)) } else { text }
        })
    }

    /// Returns a body with the secrets redacted, if it is text.
    pub fn without_bytes(&self, body: Vec<u8>) -> Vec<u8> {
        let found = |secret: &String| memchr::memmem::find(&body, secret.as_bytes()).is_some();
        if !self.0.iter().any(found) {
            return body;
        }
        self.without(String::from_utf8_lossy(&body)).into_owned().into_bytes()
    }

    /// Returns a status with the secrets in its message redacted.
    pub fn without_status(&self, status: Status) -> Status {
        match self.without(status.message()) {
            Cow::Borrowed(_) => status,
            Cow::Owned(message) => Status::with_details_and_metadata(
                status.code(),
                message,
                status.details().to_vec().into(),
                status.metadata().clone(),
            ),
        }
    }
}

/// Returns the JSON escapes of a text if different: some writers escape `/`, some do not.
fn escaped(text: &str) -> Vec<String> {
    let json = serde_json::Value::from(text).to_string();
    let json = json[1..json.len() - 1].to_owned();
    let forms = [json.replace('/', "\\/"), json];
    forms.into_iter().filter(|form| form != text).collect()
}

/// Returns a header's value, the part after its scheme, and the decoded part.
fn forms_of_header(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    if let Some((scheme, rest)) = value.split_once(' ') {
        let rest = rest.trim();
        forms.push(rest.to_owned());
        let decoded = STANDARD.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(user) = decoded.filter(|_| scheme.eq_ignore_ascii_case("basic")) {
            forms.extend(forms_of_user(&user));
        }
    }
    forms
}

/// Returns `user:password` and the password; a user without one is a token.
fn forms_of_user(user: &str) -> Vec<String> {
    let password = user.split_once(':').map_or(user, |(_, password)| password);
    vec![user.to_owned(), password.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, address: &str, echo: &str, shown: &str) {
        let mut headers = HeaderMap::new();
        headers.insert("x", header.parse().unwrap());
        let withheld = Withheld::of(&headers, &address.into());
        assert_eq!(withheld.without(echo), shown);
        assert_eq!(withheld.without_bytes(echo.into()), shown.as_bytes());
        assert_eq!(withheld.without_status(Status::aborted(echo)).message(), shown);
    }

    #[test]
    fn what_was_sent_is_left_out_in_each_form() {
        check("k3y-1", "http://h", "x: k3y-1\nhost: h", "x: [REDACTED]\nhost: h");
        check("Bearer t0k-1", "h", "token t0k-1, Bearer t0k-1", "token [REDACTED], [REDACTED]");
        // bob:p4ss-1
        check("Basic Ym9iOnA0c3MtMQ==", "h", "p4ss-1 of bob", "[REDACTED] of bob");
        check("none", "http://bob:p4ss%2D1@h", "Basic Ym9iOnA0c3MtMQ==", "Basic [REDACTED]");
        check("none", "http://bob:p4ss%2D1@h", "p4ss-1 p4ss%2D1", "[REDACTED] [REDACTED]");
        check("none", "http://t0ken@h", "user t0ken", "user [REDACTED]");
        check("abc", "http://h", "abc is short", "abc is short");
        check("Bearer s/k+1=", "h", r#"{"error":"s\/k+1="}"#, r#"{"error":"[REDACTED]"}"#);
        check(r#"a"b\c"#, "h", r#"{"key":"a\"b\\c"}"#, r#"{"key":"[REDACTED]"}"#);
    }

    #[test]
    fn secrets_are_left_out_line_by_line_and_behind_a_cut() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n";
        let withheld = Withheld::of_secrets(["hunter22-long", key]);
        let printed = format!("{{'KEY': '{}', 'P': 'hunter22-long'}}", key.replace('\n', "\\n"));
        let shown = withheld.without(&*printed);
        assert!(!shown.contains("MII") && !shown.contains("hunter"), "{shown}");
        assert_eq!(withheld.without_cut_secret("er22-long, and more"), ", and more");
        assert_eq!(withheld.without_cut_secret("nter22-lo"), "");
        assert_eq!(withheld.without_cut_secret("all is well"), "all is well");
    }
}
