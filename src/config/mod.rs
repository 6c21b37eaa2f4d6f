//! Config as written, and the plan it resolves to.
//!
//! In: YAML files, `--set` values and the environment. Out: a [`ResolvedConfig`] that the pipeline
//! builds its stages from, or every mistake with its file, line, column and the nearest valid word.
//! Each stage keeps its settings beside its code; [`Config`] only names the sections.

mod changes;
mod dataset;
mod evaluators;
mod expect;
mod exporters;
mod expression;
mod judged;
mod listeners;
mod load;
mod memory;
mod plan;
mod print;
mod read;
mod schema;
mod secrets;
mod sources;
mod substitute;
mod tools_file;

pub use changes::{needs_restart, texts};
pub use evaluators::{EvaluatorsConfig, LevelSetting, SharedSettings, own_settings};
pub use expect::ExpectSettings;
pub use exporters::{ExportersConfig, ForwardConfig};
pub use load::{BUILT_IN, ConfigPart, Loaded, environment, load};
pub use plan::{Config, ResolvedConfig};
pub use print::redacted;
pub use schema::{schema, shared_schema};
pub use sources::{ConfigError, ConfigProblem, ConfigSources};
pub use substitute::Lookup;
