//! Settings of external evaluators.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use smart_default::SmartDefault;

use crate::evaluator::CRITERIA_FROM_TRACE;
use crate::external::invocations::OutputFormat;
use crate::external::plan::Redact;
use crate::external::{ExternalPlan, ExternalTransport, ProcessPlan, RemotePlan};
use spanscore_base::settings::tls::TlsSettings;
use spanscore_base::settings::{Address, HumanDuration, Node, Secret, SettingsError};
use spanscore_base::value::{Map, Value};

/// Limit on `concurrency` and `spares`.
const AT_ONCE_MAX: u32 = 256;
/// Limit on `batch`.
const BATCH_MAX: u32 = 1_000;
/// Connection settings, which are not part of an evaluator's identity.
pub const REACHING_KEYS: [&str; 9] = [
    "endpoint", "timeout", "concurrency", "batch", "headers", "tls", "signing_key_env", "spares",
    "env",
];
/// Setting of `http` only.
const SIGNING_KEY: &str = "signing_key_env";

/// Settings of `agentevals`.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProcessSettings {
    /// Program and its arguments, such as `[python3, check.py]`. No shell is used.
    pub(super) command: Vec<String>,
    /// File of the evaluator, instead of `command`: `.py` runs with `python3`, `.js` and `.ts` with
    /// `node`. The path is relative to the working directory.
    pub(super) path: Option<String>,
    /// Settings that the evaluator receives unchanged.
    pub(super) config: Value<'static>,
    /// Environment variables of the process, in addition to `PATH`, `HOME`, `LANG` and `TMPDIR`. It
    /// sees no others.
    pub(super) env: BTreeMap<String, Secret>,
    /// Time limit of one evaluation. Then the process and all processes that it started are killed.
    /// Default `30s`.
    #[default(HumanDuration::from_secs(30))]
    pub(super) timeout: HumanDuration,
    /// Limit on concurrent evaluations, 1 to 256. Default 4.
    #[schemars(range(min = 1, max = 256))]
    #[default = 4]
    pub(super) concurrency: u32,
    /// Number of processes that are started in advance, so that an evaluation need not wait for the
    /// interpreter. 0 to 256, default 2.
    #[schemars(range(max = 256))]
    #[default = 2]
    pub(super) spares: u32,
    /// Format of structured results of tools: `json` (default) or `python_repr`, the format of
    /// agentevals' own runner.
    pub(super) output_format: OutputFormat,
    /// Data that placeholders replace before the evaluator receives a trace: `secrets` (default),
    /// `secrets_and_pii` or `none`.
    pub(super) redact: Redact,
    /// Expected turns.
    pub(super) criteria: ProcessCriteria,
}

/// Expected turns.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProcessCriteria {
    /// Expected turns in the form of the agentevals protocol. The evaluator receives them
    /// unchanged.
    pub(super) expected_invocations: Option<Vec<Value<'static>>>,
}

impl ProcessSettings {
    /// Reads and validates the settings.
    pub(super) fn read(node: &Node) -> Result<Self, SettingsError> {
        let (_, own) = node.split(|key| key == CRITERIA_FROM_TRACE);
        if let Some(command) = own.get("command")
            && let Some(line) = command.to_value().as_str()
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let error = SettingsError::new("`command` is a list of the program and its arguments");
            let is_plain = !words.is_empty() && !line.contains(['"', '\'', '\\']);
            let list = if is_plain { format!("{words:?}") } else { "[python3, check.py]".into() };
            let help = if is_plain { "write" } else { "write each word by itself, such as" };
            return Err(error.with_help(format!("{help} {list}")).at(command.place));
        }
        let settings: Self = own.read()?;
        if !matches!(settings.config, Value::Null | Value::Map(_)) {
            return Err(node.fault("config", "`config` is not a map"));
        }
        check_times(node, settings.timeout, settings.concurrency)?;
        if settings.spares > AT_ONCE_MAX {
            return Err(node.fault("spares", format!("`spares` is more than {AT_ONCE_MAX}")));
        }
        Ok(settings)
    }

    /// Returns the connection plan.
    pub(super) fn plan(&self, node: &Node) -> Result<ExternalPlan, SettingsError> {
        let command = match (&self.path, self.command.first().is_some_and(|it| !it.is_empty())) {
            (None, true) => self.command.clone(),
            (Some(path), false) if self.command.is_empty() => {
                vec![interpreter(path).map_err(|it| it.at(node.place_of("path")))?, path.clone()]
            }
            (Some(_), _) => {
                return Err(node.fault("path", "`command` and `path` exclude each other"));
            }
            (None, false) => {
                let error = node.fault("command", "`command` is missing");
                let help = "write `command: [python3, check.py]`, or `path: check.py`";
                return Err(error.with_help(help));
            }
        };
        let env = self.env.clone();
        let spares = self.spares;
        Ok(ExternalPlan {
            timeout: self.timeout.0,
            concurrency: self.concurrency,
            redact: self.redact,
            transport: ExternalTransport::Process(ProcessPlan {
                command,
                env,
                spares,
                output_format: self.output_format,
            }),
        })
    }
}

/// Returns the interpreter for a file extension.
fn interpreter(path: &str) -> Result<String, SettingsError> {
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
    match ending.as_deref() {
        Some("py") => Ok("python3".to_owned()),
        Some("js" | "ts") => Ok("node".to_owned()),
        _ => {
            let error = SettingsError::new(format!("`{path}` ends in none of .py, .js and .ts"));
            Err(error.with_help(format!("write `command: [INTERPRETER, {path}]`")))
        }
    }
}

/// Settings of `grpc`, and of `http` without its key.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RemoteSettings {
    /// Address of the evaluator: `http://` for plain text, `https://` for TLS. `grpc` also takes
    /// `unix:/path/to/socket`. Plain text to another machine requires `tls: {insecure: true}`.
    pub(super) endpoint: Address,
    /// Name of the evaluator at the server, if the server has several. Default: the one with the
    /// name of this entry, or the only one.
    pub(super) kind: Option<String>,
    /// Settings of the evaluator. The server's schema checks them.
    pub(super) settings: Value<'static>,
    /// Criteria of the evaluator, in the form that it requires.
    pub(super) criteria: Value<'static>,
    /// Time limit of one request. Default `5s`.
    #[default(HumanDuration::from_secs(5))]
    pub(super) timeout: HumanDuration,
    /// Limit on concurrent requests, 1 to 256. Default 8.
    #[schemars(range(min = 1, max = 256))]
    #[default = 8]
    pub(super) concurrency: u32,
    /// Limit on the tasks of one request, 1 to 1000. The server may set a lower limit. Default 16.
    #[schemars(range(min = 1, max = 1000))]
    #[default = 16]
    pub(super) batch: u32,
    /// Data that placeholders replace before a trace is sent: `secrets` (default),
    /// `secrets_and_pii` or `none`.
    pub(super) redact: Redact,
    /// Headers of each request (gRPC: metadata), such as an authorization. Logs never show the
    /// values.
    pub(super) headers: BTreeMap<String, Secret>,
    /// TLS of connections to the evaluator.
    pub(super) tls: TlsSettings,
}

/// Protocol of a remote evaluator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemoteProtocol {
    /// gRPC.
    Grpc,
    /// JSON over HTTP.
    Http,
}

/// Reads the settings of a remote evaluator; returns its plan, and its criteria as JSON.
pub(super) fn read_remote(
    node: &Node,
    protocol: RemoteProtocol,
) -> Result<(ExternalPlan, String), SettingsError> {
    let (_, own) = node.split(|key| key == CRITERIA_FROM_TRACE);
    let is_http = protocol == RemoteProtocol::Http;
    let (signing, own) = own.split(|key| is_http && key == SIGNING_KEY);
    let signing_key_env = match signing.get(SIGNING_KEY) {
        Some(name) => Some(name.read::<String>()?),
        None => None,
    };
    let settings: RemoteSettings = own.read()?;
    check_times(node, settings.timeout, settings.concurrency)?;
    if settings.batch == 0 || settings.batch > BATCH_MAX {
        return Err(node.fault("batch", format!("`batch` must be 1 to {BATCH_MAX}")));
    }
    check_endpoint(&settings, protocol).map_err(|error| error.at(node.place_of("endpoint")))?;
    settings.tls.check().map_err(|error| error.at(node.place_of("tls")))?;
    let criteria_json = match &settings.criteria {
        Value::Null => String::new(),
        criteria => criteria.to_string(),
    };
    let own_settings = match settings.settings {
        Value::Null => Value::Map(Map::new()),
        given @ Value::Map(_) => given,
        _ => return Err(node.fault("settings", "`settings` is not a map")),
    };
    let remote = RemotePlan {
        endpoint: settings.endpoint.trimmed(),
        kind: settings.kind,
        settings_json: own_settings.to_string(),
        batch: settings.batch,
        headers: settings.headers,
        tls: settings.tls,
        signing_key_env,
    };
    let transport = match protocol {
        RemoteProtocol::Grpc => ExternalTransport::Grpc(remote),
        RemoteProtocol::Http => ExternalTransport::Http(remote),
    };
    let RemoteSettings { timeout, concurrency, redact, .. } = settings;
    Ok((ExternalPlan { timeout: timeout.0, concurrency, redact, transport }, criteria_json))
}

fn check_times(node: &Node, timeout: HumanDuration, at_once: u32) -> Result<(), SettingsError> {
    if timeout.0.is_zero() {
        return Err(node.fault("timeout", "`timeout` must be above zero"));
    }
    if at_once == 0 || at_once > AT_ONCE_MAX {
        return Err(node.fault("concurrency", format!("`concurrency` must be 1 to {AT_ONCE_MAX}")));
    }
    Ok(())
}

fn check_endpoint(
    settings: &RemoteSettings,
    protocol: RemoteProtocol,
) -> Result<(), SettingsError> {
    let written = settings.endpoint.reveal().trim();
    // Error messages show this form, which hides a password.
    let endpoint = Address::from(written);
    let wrong = |text: String| SettingsError::new(text).with_help("such as http://127.0.0.1:9000");
    if written.is_empty() {
        return Err(wrong("`endpoint` is missing".to_owned()));
    }
    if protocol == RemoteProtocol::Grpc && written.starts_with("unix:") {
        return Ok(());
    }
    let uri: Option<http::Uri> = written.parse().ok();
    let parts = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.host()?)));
    let Some((scheme, host)) = parts.filter(|(_, host)| !host.is_empty()) else {
        return Err(wrong(format!("endpoint `{endpoint}` is not an http or https address")));
    };
    let has_path = uri.as_ref().is_some_and(|uri| !uri.path().trim_end_matches('/').is_empty());
    if protocol == RemoteProtocol::Grpc && has_path {
        return Err(wrong(format!("endpoint `{endpoint}` has a path, which gRPC does not take")));
    }
    match scheme {
        "https" => Ok(()),
        "http" if is_loopback(host) || settings.tls.insecure => Ok(()),
        "http" => {
            let text = format!("`{endpoint}` is not encrypted and on another machine");
            let help = "use https, or say `tls: {insecure: true}` if the network is yours";
            Err(SettingsError::new(text).with_help(help))
        }
        _ => Err(wrong(format!("endpoint `{endpoint}` is not an http or https address"))),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<core::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Returns the JSON Schema of the settings of `grpc`.
pub(super) fn grpc_schema() -> Schema {
    let mut schema = schemars::schema_for!(RemoteSettings);
    schema.insert("required".to_owned(), vec!["endpoint"].into());
    schema
}

/// Returns the JSON Schema of the settings of `http`.
pub(super) fn http_schema() -> Schema {
    let mut schema = grpc_schema();
    let key = serde_json::json!({
        "type": "string",
        "description": "Environment variable with the key for request signatures, which are \
                        headers of Standard Webhooks. By default requests are not signed.",
    });
    if let Some(properties) = schema.get_mut("properties").and_then(|it| it.as_object_mut()) {
        properties.insert(SIGNING_KEY.to_owned(), key);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(settings: &str, protocol: Option<RemoteProtocol>, expected: &str) {
        let node = Node::from_value(&json::parse(settings).expect("it is JSON"));
        let found = match protocol {
            Some(protocol) => read_remote(&node, protocol).map(|(plan, _)| plan),
            None => ProcessSettings::read(&node).and_then(|settings| settings.plan(&node)),
        };
        let found = match found {
            Ok(plan) => format!("{:?} at once", plan.concurrency),
            Err(error) => error.to_string(),
        };
        assert!(found.starts_with(expected), "{settings}: {found}");
    }

    #[test]
    fn a_mistake_says_what_to_do() {
        check(r#"{"command":["sh","x"]}"#, None, "4 at once");
        check(r#"{"path":"a.py"}"#, None, "4 at once");
        check(r#"{"path":"a.rb"}"#, None, "`a.rb` ends in none of .py, .js and .ts (write");
        check(r#"{"path":"a.py","command":["sh"]}"#, None, "`command` and `path` exclude");
        check("{}", None, "`command` is missing (write `command: [python3, check.py]`");
        check(r#"{"path":"a.py","timeout":"0s"}"#, None, "`timeout` must be above zero");
        let grpc = Some(RemoteProtocol::Grpc);
        let http = Some(RemoteProtocol::Http);
        check(r#"{"endpoint":"http://127.0.0.1:1"}"#, grpc, "8 at once");
        check(r#"{"endpoint":"unix:/run/e.sock"}"#, grpc, "8 at once");
        check(r#"{"endpoint":"unix:/run/e.sock"}"#, http, "endpoint `unix:/run/e.sock` is not");
        check(r#"{"endpoint":"http://127.0.0.1:1/x"}"#, grpc, "endpoint `http://127.0.0.1:1/x`");
        check(r#"{"endpoint":"http://127.0.0.1:1/x"}"#, http, "8 at once");
        check(r#"{"endpoint":"http://e:1"}"#, http, "`http://e:1` is not encrypted");
        check(r#"{"endpoint":"http://e:1","tls":{"insecure":true}}"#, http, "8 at once");
        check(r#"{"endpoint":"http://[::1]:1","signing_key_env":"K"}"#, http, "8 at once");
        check(r#"{"endpoint":"http://[::1]:1","signing_key_env":"K"}"#, grpc, "unknown");
        check("{}", grpc, "`endpoint` is missing");
    }
}
