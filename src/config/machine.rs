//! Checks of a config's references on this host: folders, certificates, keys, tokens.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use super::plan::{Config, ResolvedConfig};
use spanscore_ask::judge::{JudgeApi, missing_key};
use spanscore_base::settings::tls::{ListenerTlsSettings, TlsSettings};
use spanscore_base::settings::{Node, NodeKind, SettingsError};
use spanscore_emit::settings::ExporterSettings;
use spanscore_engine::settings::{ConfigError, ConfigProblem, Loaded, report};
use spanscore_net::tls::{ClientTls, ServerTls};

/// Keys of files in `tls`, of a listener or of a client.
const TLS_FILES: [&str; 4] = ["cert_file", "key_file", "ca_file", "client_ca_file"];

impl ResolvedConfig {
    /// Checks the files, folders and variables that the config names on this host, where it will
    /// run. Returns warnings about those that may come later with the host: files that cannot be
    /// opened, and keys of judges.
    ///
    /// # Errors
    /// All unusable ones, with their place.
    pub fn check_machine(&self, loaded: &Loaded) -> Result<Vec<String>, ConfigError> {
        let mut findings = MachineFindings::default();
        for ExporterSettings { name, exporter, .. } in &self.exporters {
            let place = loaded.node.along(["exporters", name, "path"]).place;
            findings.errors.extend(exporter.missing().map(|missing| missing.at(place)));
        }
        findings.check_tls(&loaded.node, TlsReader::Own);
        findings.check_tokens(&self.config, &loaded.node);
        findings.check_ports(&loaded.node);
        findings.check_judges(&self.config, &loaded.node);
        let MachineFindings { errors, doubtful } = findings;
        if !errors.is_empty() {
            return Err(report(errors, &loaded.sources));
        }
        let files = report(doubtful, &loaded.sources).problems.into_iter().map(|problem| {
            let ConfigProblem { at, message, .. } = problem;
            let at = at.map(|at| format!("{at}: ")).unwrap_or_default();
            format!("{at}{message}")
        });
        let keys = self.config.judges.iter().filter_map(|(name, judge)| missing_key(name, judge));
        Ok(files.chain(keys.map(|error| format!("{error}: `serve` would not start"))).collect())
    }
}

/// Reader of the files of a `tls`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TlsReader {
    /// This program.
    Own,
    /// Kafka's client with OpenSSL, which accepts more: folders, other keys.
    Kafka,
}

/// Problems of the named files and addresses.
#[derive(Default)]
struct MachineFindings {
    /// Faults of files that exist here.
    errors: Vec<SettingsError>,
    /// Files that cannot be opened here, and suspicious addresses.
    doubtful: Vec<SettingsError>,
}

impl MachineFindings {
    /// Checks the files of each used `tls`.
    fn check_tls(&mut self, node: &Node, reader: TlsReader) {
        if let NodeKind::List(items) = &node.kind {
            items.iter().for_each(|item| self.check_tls(item, reader));
        }
        for (key, value) in node.entries() {
            let is_kafka = key.text == "kafka" || key.text.starts_with("kafka/");
            let reader = if is_kafka { TlsReader::Kafka } else { reader };
            if key.text != "tls" {
                self.check_tls(value, reader);
            } else if is_used(node, value) {
                self.check_tls_files(value, reader);
            } else if TLS_FILES.iter().any(|key| value.get(key).is_some()) {
                let text =
                    "its files are not used: `http://` or `insecure: true` sends in the clear";
                self.doubtful.push(SettingsError::new(text).at(value.place));
            }
        }
    }

    fn check_tls_files(&mut self, tls: &Node, reader: TlsReader) {
        let named: Vec<_> = TLS_FILES.iter().filter_map(|key| tls.get(key)).collect();
        let before = self.doubtful.len();
        for file in &named {
            let Ok(path) = file.read::<String>() else { continue };
            let missing = match reader {
                TlsReader::Own => unopened(&path),
                TlsReader::Kafka => fs::metadata(&path).err().map(|error| unread(&path, &error)),
            };
            self.doubtful.extend(missing.map(|missing| missing.at(file.place)));
        }
        let are_here = !named.is_empty() && self.doubtful.len() == before;
        if are_here && reader == TlsReader::Own {
            self.errors.extend(unusable_tls(tls, &named));
        }
    }

    /// Checks the files with senders' tokens.
    fn check_tokens(&mut self, config: &Config, node: &Node) {
        let auth = config.receivers.otlp.as_ref().and_then(|otlp| otlp.auth.as_ref());
        for (name, client) in auth.into_iter().flat_map(|auth| &auth.clients) {
            let Some(path) = client.file.as_deref() else { continue };
            let keys = ["receivers", "otlp", "auth", "clients", name, "file"];
            let place = node.along(keys).place;
            if let Some(missing) = unopened(path) {
                self.doubtful.push(missing.at(place));
            } else if let Err(error) = client.check_file() {
                self.errors.push(SettingsError::new(error).at(place));
            }
        }
    }

    /// Checks that the address of a judge has the usual path.
    fn check_judges(&mut self, config: &Config, node: &Node) {
        for (name, judge) in &config.judges {
            let is_elsewhere = judge.azure.is_some() || judge.aws.is_some();
            if judge.api == JudgeApi::Anthropic || judge.base_url.is_none() || is_elsewhere {
                continue;
            }
            let address = judge.base_url();
            let host = address.split_once("://").map(|(_, host)| host);
            if host.is_some_and(|host| !host.contains('/')) {
                let text = "`base_url` has no path, and most servers have the interface at `/v1`";
                let place = node.along(["judges", name, "base_url"]).place;
                self.doubtful.push(SettingsError::new(text).at(place));
            }
        }
    }

    /// Checks that no exporter or forward of one OTLP protocol uses the usual port of the other.
    fn check_ports(&mut self, node: &Node) {
        let sections = ["exporters", "forward"].into_iter().filter_map(|it| node.get(it));
        for (key, settings) in sections.flat_map(Node::entries) {
            let (usual, other) = match key.text.split('/').next().unwrap_or_default() {
                "otlp_http" | "otlphttp" => ("4318", "4317"),
                "otlp_grpc" | "otlp" => ("4317", "4318"),
                _ => continue,
            };
            let Some(endpoint) = settings.get("endpoint") else { continue };
            let address = endpoint.read::<String>().unwrap_or_default();
            if address.trim_end_matches('/').ends_with(&format!(":{other}")) {
                let protocol = if other == "4317" { "OTLP/gRPC" } else { "OTLP/HTTP" };
                let text = format!(
                    "`{}` is sent to port {other}, which is mostly that of {protocol}: its own is \
                     {usual}",
                    key.text
                );
                self.doubtful.push(SettingsError::new(text).at(endpoint.place));
            }
        }
    }
}

/// Returns true if the owner of a `tls` is a listener, or an address with TLS.
fn is_used(owner: &Node, tls: &Node) -> bool {
    let has_scheme = |scheme: &str| {
        owner.entries().any(|(_, value)| {
            let text = value.read::<String>().unwrap_or_default();
            let start = text.trim_start().get(..scheme.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
    };
    let is_insecure = tls.get("insecure").is_some_and(|it| it.read::<bool>() == Ok(true));
    !has_scheme("http://") && (!is_insecure || has_scheme("https://"))
}

/// Returns the mistake in the files of a `tls`, at the affected file.
fn unusable_tls(tls: &Node, named: &[&Node]) -> Option<SettingsError> {
    // A certificate with only its key may be a listener's or a client's; both parse it alike.
    let unusable = match tls.read::<ListenerTlsSettings>() {
        Ok(settings) => ServerTls::new(settings, "", &[]).err(),
        Err(_) => ClientTls::new(&tls.read::<TlsSettings>().ok()?, &[]).err(),
    };
    let error = unusable?.to_string();
    let is_named = |file: &&&Node| {
        file.read::<String>().is_ok_and(|path| error.contains(&format!("`{path}`")))
    };
    let place = named.iter().find(is_named).map_or(tls.place, |file| file.place);
    Some(SettingsError::new(error).at(place))
}

/// Returns the reason why a file cannot be opened. Opening a pipe would wait for its writer.
fn unopened(path: &str) -> Option<SettingsError> {
    let is_pipe = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    if is_pipe {
        let text =
            format!("`{path}` is a named pipe, whose content can be read only once: `check`");
        return Some(SettingsError::new(format!("{text} does not read it, and a reload cannot")));
    }
    fs::File::open(path).err().map(|error| unread(path, &error))
}

fn unread(path: &str, error: &std::io::Error) -> SettingsError {
    let remedy = "`serve` would not start (paths begin at the working directory)";
    SettingsError::new(format!("cannot read `{path}`: {error}: {remedy}"))
}
