//! Whom an external evaluator asks, and how: what its settings tell the lane.

use std::collections::BTreeMap;
use std::time::Duration;

use super::invocations::OutputFormat;
use spanscore_base::settings::tls::TlsSettings;
use spanscore_base::settings::{Address, Secret};
pub use spanscore_detect::redactor::Redact;

/// Plan of one configured evaluator: address, limits and redaction. Two of one name that are equal
/// share their connections and processes.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalPlan {
    /// Time limit of one request, or one process.
    pub timeout: Duration,
    /// Requests, or processes, at the same time.
    pub concurrency: u32,
    /// Redaction before anything is sent.
    pub redact: Redact,
    /// Process or server to ask.
    pub transport: ExternalTransport,
}

/// Process or server to ask.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternalTransport {
    /// A process for each evaluation.
    Process(ProcessPlan),
    /// A server over gRPC.
    Grpc(RemotePlan),
    /// A server over HTTP.
    Http(RemotePlan),
}

/// A command that is run once for each evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessPlan {
    /// The program and its arguments; no shell reads them.
    pub command: Vec<String>,
    /// Variables beside those that every process gets.
    pub env: BTreeMap<String, Secret>,
    /// Processes that wait started, for the next evaluations.
    pub spares: u32,
    /// Form in which structured results are written.
    pub output_format: OutputFormat,
}

/// A server that speaks `spanscore.evaluator.v1`.
#[derive(Clone, Debug, PartialEq)]
pub struct RemotePlan {
    /// Its address.
    pub endpoint: Address,
    /// Kind to ask among those of the server, if the config names one.
    pub kind: Option<String>,
    /// The evaluator's settings, a JSON object.
    pub settings_json: String,
    /// Tasks of one request at most.
    pub batch: u32,
    /// Headers of every request.
    pub headers: BTreeMap<String, Secret>,
    /// TLS on the way.
    pub tls: TlsSettings,
    /// Environment variable with the key that requests are signed with; HTTP only.
    pub signing_key_env: Option<String>,
}
