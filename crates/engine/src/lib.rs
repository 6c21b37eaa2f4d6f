//! Evaluation of OTLP requests without a server: bytes in, evaluations out.
//!
//! [`Engine`] is built from the text of a config's `evaluators:`. Each input is a
//! [`Batch`]: requests are added in any order, then all of their traces are judged.
//! Evaluators that ask a judge or another process do not answer here: their requests come out with
//! each group ([`JudgedGroup::asked`](batch::JudgedGroup::asked)), for the caller to send. No
//! network and no async runtime; large inputs spill to a temporary file.
//!
//! ```
//! use spanscore_base::otlp::Signal;
//! use spanscore_engine::{Engine, batch::BatchProgress};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let criteria = r#"{tool_calls_count: {search: ["=", 1]}}"#;
//! let engine = Engine::new(&format!("tool_call_count: {{criteria: {criteria}}}"))?;
//! let mut batch = engine.batch(0);
//! let request = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{
//!     "traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331",
//!     "name":"execute_tool search","startTimeUnixNano":"1","endTimeUnixNano":"2",
//!     "attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},
//!         {"key":"gen_ai.tool.name","value":{"stringValue":"search"}}]}]}]}]}"#;
//! batch.add(Signal::Traces, &spanscore_base::otlp::json::transcode(Signal::Traces, request)?)?;
//! let mut scores = Vec::new();
//! batch.judge(&BatchProgress::default(), &mut |group| {
//!     scores.extend(group.evaluations);
//!     true
//! })?;
//! assert_eq!(scores[0].evaluator.name, "tool_call_count");
//! # Ok(())
//! # }
//! ```

pub mod batch;
pub mod call_rows;
pub mod inspect;
pub mod replay;
pub mod session;
pub mod settings;

use std::sync::Arc;

use spanscore_assemble::{LimitsSettings, SessionKeyFields};
use spanscore_base::model::{Facts, Want};
use spanscore_evaluate::engine::run::Evaluators;
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table, TableError};

use batch::{Batch, BatchPlan};
use settings::evaluators::{Surroundings, configure};
use settings::{ConfigError, ConfigPart, load, report};

/// Evaluators with the built-in dialects, ready to judge inputs.
pub struct Engine {
    resolver: Resolver,
    evaluators: Evaluators,
}

/// Error of building an [`Engine`].
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Mistakes in the settings.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// The dialects do not fit into one table.
    #[error(transparent)]
    Dialects(#[from] TableError),
}

impl Engine {
    /// Builds the evaluators of a text: the map below `evaluators:` of a config, in YAML or JSON.
    ///
    /// # Errors
    /// All mistakes of the settings, each with its place.
    pub fn new(evaluators: &str) -> Result<Self, EngineError> {
        let text = ConfigPart::Text { name: "evaluators".to_owned(), text: evaluators.to_owned() };
        let loaded = load(&[text], "{}", &|_| None)?;
        let sources = &loaded.sources;
        let mut errors = Vec::new();
        let around = Surroundings { failures: None, judges: None, sources };
        let configured = configure(Some(&loaded.node), around, &mut errors);
        if !errors.is_empty() {
            return Err(report(errors, sources).into());
        }
        let facts = configured.iter().fold(Facts::default(), |facts, e| facts.union(&e.facts()));
        let table = Table::compile(Dialect::with_builtin(Vec::new()), &facts)?;
        let resolver = Resolver::new(Arc::new(table));
        Ok(Self { resolver, evaluators: Evaluators::new(configured, Want::ALL) })
    }

    /// Returns an empty input, judged on one core; `now_ns` is the time of its evaluations, Unix
    /// nanoseconds.
    pub fn batch(&self, now_ns: u64) -> Batch<'_> {
        Batch::new(BatchPlan {
            resolver: &self.resolver,
            limits: LimitsSettings::default(),
            session_key: SessionKeyFields::default(),
            evaluators: &self.evaluators,
            now_ns,
            cores: 1,
        })
    }
}
