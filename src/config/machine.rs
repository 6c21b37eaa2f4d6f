//! Checks of what the config names on this host: folders, certificates, keys, tokens.

use std::{env, fs};

use super::plan::{Config, ResolvedConfig};
use spanscore_base::settings::tls::{ListenerTlsSettings, TlsSettings};
use spanscore_base::settings::{Node, NodeKind, SettingsError};
use spanscore_emit::settings::ExporterSettings;
use spanscore_engine::settings::{ConfigError, Loaded, report};
use spanscore_net::tls::{ClientTls, ServerTls};

/// Keys of files in `tls`, of a listener or of a client.
const TLS_FILES: [&str; 4] = ["cert_file", "key_file", "ca_file", "client_ca_file"];

impl ResolvedConfig {
    /// Checks the files and folders that the config names on this host: a mistake where the config
    /// is to run, none where it is only read.
    ///
    /// # Errors
    /// All that is missing or cannot be used, with its place.
    pub fn check_machine(&self, loaded: &Loaded) -> Result<(), ConfigError> {
        let mut errors = Vec::new();
        for ExporterSettings { name, exporter, .. } in &self.exporters {
            let place = loaded.node.along(["exporters", name, "path"]).place;
            errors.extend(exporter.missing().map(|missing| missing.at(place)));
        }
        check_tls(&loaded.node, &mut errors);
        check_tokens(&self.config, &loaded.node, &mut errors);
        if errors.is_empty() { Ok(()) } else { Err(report(errors, &loaded.sources)) }
    }
}

impl ResolvedConfig {
    /// Returns warnings about keys of judges that the environment lacks here.
    pub fn missing_keys(&self) -> Vec<String> {
        let judges = self.config.judges.iter();
        let named = judges.filter_map(|(name, judge)| Some((name, judge.api_key_env.as_deref()?)));
        let unset = named.filter(|(_, variable)| env::var_os(variable).is_none());
        unset
            .map(|(name, variable)| {
                format!(
                    "judge `{name}`: the environment variable {variable}, which `api_key_env` \
                     names, is not set here: `serve` would not start"
                )
            })
            .collect()
    }
}

/// Adds the first mistake in the files of each `tls`.
fn check_tls(node: &Node, errors: &mut Vec<SettingsError>) {
    if let NodeKind::List(items) = &node.kind {
        items.iter().for_each(|item| check_tls(item, errors));
    }
    for (key, value) in node.entries() {
        if key.text == "tls" {
            errors.extend(unusable_tls(value));
        } else {
            check_tls(value, errors);
        }
    }
}

/// Returns the mistake in the files of a `tls`, at the file that it names.
fn unusable_tls(tls: &Node) -> Option<SettingsError> {
    TLS_FILES.iter().find_map(|key| tls.get(key))?;
    // A certificate with its key alone may be a listener's or a client's: both read it alike.
    let unusable = match tls.read::<ListenerTlsSettings>() {
        Ok(settings) => ServerTls::new(settings, "", &[]).err(),
        Err(_) => ClientTls::new(&tls.read::<TlsSettings>().ok()?, &[]).err(),
    };
    let error = unusable?.to_string();
    let is_named =
        |file: &&Node| file.read::<String>().is_ok_and(|path| error.contains(&format!("`{path}`")));
    let file = TLS_FILES.iter().filter_map(|key| tls.get(key)).find(is_named);
    let place = file.unwrap_or(tls).place;
    Some(unreadable(error).at(place))
}

/// Adds the files with tokens of senders that cannot be read.
fn check_tokens(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    let auth = config.receivers.otlp.as_ref().and_then(|otlp| otlp.auth.as_ref());
    for (name, client) in auth.into_iter().flat_map(|auth| &auth.clients) {
        let Some(path) = client.file.as_deref() else { continue };
        if let Err(error) = fs::File::open(path) {
            let keys = ["receivers", "otlp", "auth", "clients", name, "file"];
            let error = unreadable(format!("cannot read `{path}`: {error}"));
            errors.push(error.at(node.along(keys).place));
        }
    }
}

/// Returns the mistake of a file, with a remedy where it cannot be read at all.
fn unreadable(error: String) -> SettingsError {
    let is_unread = error.starts_with("cannot read");
    let mistake = SettingsError::new(error);
    if is_unread {
        mistake.with_help(
            "paths begin at the working directory; the user of the process must be able to read it",
        )
    } else {
        mistake
    }
}
