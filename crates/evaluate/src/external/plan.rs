//! Plan to reach an external evaluator, from its settings.

use std::collections::BTreeMap;
use std::time::Duration;

use super::invocations::OutputFormat;
use spanscore_base::settings::tls::TlsSettings;
use spanscore_base::settings::{Address, Secret};
pub use spanscore_detect::redactor::Redact;

/// Plan of one configured evaluator: address, limits and redaction. Equal plans of one name share
/// connections and processes.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalPlan {
    /// Time limit of one request, or one process.
    pub timeout: Duration,
    /// Limit on simultaneous requests or processes.
    pub concurrency: u32,
    /// Redaction before anything is sent.
    pub redact: Redact,
    /// Recipient.
    pub transport: ExternalTransport,
}

/// Process or server that evaluates.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternalTransport {
    /// A process for each evaluation.
    Process(ProcessPlan),
    /// A server over gRPC.
    Grpc(RemotePlan),
    /// A server over HTTP.
    Http(RemotePlan),
}

/// Command run once per evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessPlan {
    /// Program and arguments, without a shell.
    pub command: Vec<String>,
    /// Variables in addition to those of every process.
    pub env: BTreeMap<String, Secret>,
    /// Number of idle processes started in advance.
    pub spares: u32,
    /// Format of structured results.
    pub output_format: OutputFormat,
}

/// Server with the protocol `spanscore.evaluator.v1`.
#[derive(Clone, Debug, PartialEq)]
pub struct RemotePlan {
    /// Address.
    pub endpoint: Address,
    /// Kind of the server to use, if configured.
    pub kind: Option<String>,
    /// Settings of the evaluator, a JSON object.
    pub settings_json: String,
    /// Limit on the tasks per request.
    pub batch: u32,
    /// Headers of every request.
    pub headers: BTreeMap<String, Secret>,
    /// TLS settings.
    pub tls: TlsSettings,
    /// Environment variable with the signing key of requests; HTTP only.
    pub signing_key_env: Option<String>,
}
