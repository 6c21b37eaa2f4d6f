//! Connection to a backend, set up alike for exporters, forwards and our own metrics.

use std::collections::BTreeMap;

use super::{Client, ClientSettings, Compression, Protocol, TlsSettings, check_endpoint, headers};
use spanscore_base::settings::{Address, HumanDuration, Secret, SettingsError};

/// Connection settings of an exporter or forward.
pub struct Connection<'a> {
    /// gRPC or HTTP.
    pub protocol: Protocol,
    /// Address of the backend.
    pub endpoint: &'a Address,
    /// Headers of each request.
    pub headers: &'a BTreeMap<String, Secret>,
    /// Compression of bodies.
    pub compression: Compression,
    /// Longest wait for an answer.
    pub timeout: HumanDuration,
    /// TLS of the connection.
    pub tls: &'a TlsSettings,
}

impl Connection<'_> {
    /// Checks the settings; an error comes with its key.
    pub fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        let error = |key, text: &str| Err((key, SettingsError::new(text)));
        check_endpoint(self.protocol, self.endpoint, self.tls.insecure)
            .map_err(|wrong| ("endpoint", wrong))?;
        if self.timeout.0.is_zero() {
            return error("timeout", "`timeout` must be longer than zero");
        }
        self.client().map_err(|wrong| ("headers", wrong))?;
        self.tls.check().map_err(|wrong| ("tls", wrong))
    }

    /// Prepares a client without connecting.
    ///
    /// # Errors
    /// A fault of the settings, or of a file that they name.
    pub fn open(&self) -> Result<Client, String> {
        Client::new(&self.client().map_err(|error| error.to_string())?)
    }

    /// Returns the client settings for it; an error is in one of the headers.
    pub fn client(&self) -> Result<ClientSettings, SettingsError> {
        let pairs = self.headers.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        Ok(ClientSettings {
            protocol: self.protocol,
            endpoint: self.endpoint.clone(),
            headers: headers(pairs)?,
            compression: self.compression,
            timeout: self.timeout.0,
            tls: self.tls.clone(),
        })
    }
}
