//! Settings as text: YAML with places, environment references, and the `evaluators:` map.
//!
//! In: YAML texts. Out: [`Configured`](spanscore_evaluate::engine::run::Configured) evaluators, or
//! every error with its file, line, column and the nearest valid word. Datasets and tool definition
//! files named in the settings are read here, since evaluators do no I/O.

mod dataset;
pub mod evaluators;
mod expect;
mod expression;
mod judged;
mod load;
mod read;
mod remedies;
pub mod secrets;
mod slips;
mod sources;
mod substitute;
mod tools_file;

pub use evaluators::{LevelSetting, SharedSettings, own_settings};
pub use expect::ExpectSettings;
pub use judged::JudgeIdentities;
pub use load::{ConfigPart, Loaded, environment, load};
pub use read::read_all;
pub use sources::{ConfigError, ConfigProblem, ConfigSources, report};
pub use substitute::Lookup;
