//! OTLP endpoints as written by users.
//!
//! Rules of the OTLP exporter specification (`specification/protocol/exporter.md`) and of the
//! OpenTelemetry Collector's exporters.

use http::Uri;

use super::Protocol;
use spanscore_base::otlp::Signal;
use spanscore_base::settings::{Address, SettingsError};

/// Addresses derived from an endpoint.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// Scheme and authority, for gRPC.
    Grpc(Uri),
    /// Base address without a trailing slash, for HTTP.
    Http(String),
}

/// Reads an endpoint. A gRPC endpoint without a scheme means TLS unless `insecure`; its path is
/// refused. An HTTP endpoint needs a scheme and keeps its path.
pub(super) fn resolve(
    protocol: Protocol,
    address: &Address,
    insecure: bool,
) -> Result<Endpoint, SettingsError> {
    let example = match protocol {
        Protocol::Grpc => "http://localhost:4317",
        Protocol::HttpProtobuf | Protocol::HttpJson => "http://localhost:4318",
    };
    let wrong = |text: String| SettingsError::new(text).with_help(format!("such as {example}"));
    let written = address.reveal().trim();
    if written.is_empty() {
        return Err(wrong("`endpoint` is missing".to_owned()));
    }
    // Errors show it without its password.
    let endpoint = Address::from(written);
    let with_scheme = match (written.contains("://"), protocol) {
        (true, _) => written.to_owned(),
        (false, Protocol::Grpc) if insecure => format!("http://{written}"),
        (false, Protocol::Grpc) => format!("https://{written}"),
        (false, _) => {
            let error =
                SettingsError::new(format!("endpoint `{endpoint}` has no `http://` or `https://`"));
            return Err(error.with_help(format!("write `{}`", with_http(&endpoint.to_string()))));
        }
    };
    let uri: Uri = with_scheme
        .parse()
        .map_err(|_| wrong(format!("endpoint `{endpoint}` is not an address")))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        let text = format!("endpoint `{endpoint}` is not an http or https address");
        let meant = with_http(&endpoint.to_string());
        let is_whole =
            meant.parse().is_ok_and(|uri: Uri| uri.host().is_some_and(|it| !it.is_empty()));
        let help = if is_whole { &*meant } else { "http://localhost:4318" };
        return Err(SettingsError::new(text).with_help(format!("write `{help}`")));
    }
    match protocol {
        Protocol::Grpc if uri.path().len() > 1 => {
            Err(wrong(format!("endpoint `{endpoint}` has a path, which gRPC does not take")))
        }
        Protocol::Grpc => Ok(Endpoint::Grpc(uri)),
        _ if uri.query().is_some() => {
            Err(wrong(format!("endpoint `{endpoint}` has a query, which OTLP does not take")))
        }
        _ => {
            let base = with_scheme.trim_end_matches('/');
            match Signal::ALL.iter().find_map(|signal| base.strip_suffix(signal.http_path())) {
                None => Ok(Endpoint::Http(base.to_owned())),
                Some(start) => {
                    let path = &base[start.len()..];
                    let text = format!("endpoint `{endpoint}` ends in {path}");
                    let help = format!(
                        "that is appended for each signal; write `{}`",
                        Address::from(start)
                    );
                    Err(SettingsError::new(text).with_help(help))
                }
            }
        }
    }
}

/// Adds the scheme to an address without one, or with another. A variable as other programs write
/// it, `$NAME`, `$(NAME)` or `%NAME%`, is one of the environment, which may hold the scheme.
fn with_http(shown: &str) -> String {
    let is_of_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let Some(variable) = shown.strip_prefix(['$', '%']) else {
        let (scheme, rest) = match shown.split_once(":/") {
            Some((scheme, rest)) if scheme.chars().all(is_of_name) => (scheme, rest),
            _ => ("http", shown),
        };
        let scheme = if scheme == "https" { scheme } else { "http" };
        return format!("{scheme}://{}", rest.trim_start_matches('/'));
    };
    let variable = variable.strip_prefix("env:").unwrap_or(variable).trim_start_matches('(');
    let end = variable.find(|it| !is_of_name(it)).unwrap_or(variable.len());
    let (name, rest) = variable.split_at(end);
    match (name, rest.trim_start_matches([')', '%'])) {
        ("", _) => format!("http://{shown}"),
        (name, "") => format!("${{env:{name}}}"),
        (name, rest) => format!("http://${{env:{name}}}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(protocol: Protocol, endpoint: &str, insecure: bool, expected: &str) {
        let found = match resolve(protocol, &endpoint.into(), insecure) {
            Ok(Endpoint::Grpc(uri)) => uri.to_string(),
            Ok(Endpoint::Http(base)) => base,
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{endpoint}");
    }

    #[test]
    fn grpc_endpoints_take_an_optional_scheme_and_no_path() {
        use Protocol::Grpc;
        check(Grpc, "http://h:4317", false, "http://h:4317/");
        check(Grpc, "h:4317", false, "https://h:4317/");
        check(Grpc, "h:4317", true, "http://h:4317/");
        let help = "(such as http://localhost:4317)";
        check(Grpc, "", false, &format!("`endpoint` is missing {help}"));
        check(
            Grpc,
            "http://h/x",
            false,
            &format!("endpoint `http://h/x` has a path, which gRPC does not take {help}"),
        );
        check(
            Grpc,
            "tcp://h:4317",
            false,
            "endpoint `tcp://h:4317` is not an http or https address (write `http://h:4317`)",
        );
    }

    #[test]
    fn http_endpoints_need_a_scheme_and_keep_their_path() {
        use Protocol::{HttpJson, HttpProtobuf as Http};
        check(Http, "https://h/api/public/otel/", false, "https://h/api/public/otel");
        check(HttpJson, "http://h:4318", false, "http://h:4318");
        check(
            Http,
            "h:4318",
            false,
            "endpoint `h:4318` has no `http://` or `https://` (write `http://h:4318`)",
        );
        for (written, help) in [
            ("$OTLP", "${env:OTLP}"),
            ("$COLLECTOR:4318", "http://${env:COLLECTOR}:4318"),
            ("$HOST_1/otel", "http://${env:HOST_1}/otel"),
            ("${HOST}:4318", "http://${HOST}:4318"),
            ("$(OTLP)", "${env:OTLP}"),
            ("%COLLECTOR%:4318", "http://${env:COLLECTOR}:4318"),
            ("$env:OTLP", "${env:OTLP}"),
            ("http:/h:4318", "http://h:4318"),
            ("https:/h:4318", "https://h:4318"),
        ] {
            let problem = format!("endpoint `{written}` has no `http://` or `https://`");
            check(Http, written, false, &format!("{problem} (write `{help}`)"));
        }
        check(
            Http,
            "http://b/api/v1/traces/",
            false,
            "endpoint `http://b/api/v1/traces/` ends in /v1/traces (that is appended for each \
             signal; write `http://b/api`)",
        );
    }
}
