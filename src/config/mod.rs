//! Config as written, and the plan that it resolves to.
//!
//! In: YAML files, `--set` values and the environment. Out: a [`ResolvedConfig`] for the pipeline,
//! or every mistake with its file, line, column and the nearest valid word. Each stage keeps its
//! settings beside its code; [`Config`] only names the sections.

mod changes;
mod collector;
mod container;
mod gateway;
mod listeners;
mod load;
mod machine;
mod memory;
mod plan;
mod print;
mod schema;
mod sections;

pub use changes::{needs_restart, texts};
pub use collector::BUILD;
pub use gateway::GatewayConfig;
pub use load::{BUILT_IN, load};
pub use plan::{Config, ResolvedConfig};
pub use print::redacted;
pub use schema::{schema, shared_schema};
pub use spanscore_engine::settings::{
    ConfigError, ConfigPart, ConfigProblem, ConfigSources, ExpectSettings, LevelSetting, Loaded,
    Lookup, SharedSettings, environment, own_settings,
};
