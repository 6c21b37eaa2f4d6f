//! Nobody gets in, nothing leaks: TLS, tokens, content, secrets, and a config that changes.

mod content;
mod fuzz;
mod groups;
mod hostile;
pub(crate) mod pki;
mod reload;
mod reload_exporters;
mod reload_forwards;
mod reload_judges;
mod secrets;
mod secrets_at_work;
mod senders;
mod smuggling;
mod transport;
