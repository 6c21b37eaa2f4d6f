//! Built-in config, and loading of a config on top of it.

use spanscore_engine::settings::{ConfigError, ConfigPart, Loaded, Lookup};

/// Annotated default config, used if none is given.
pub const BUILT_IN: &str = include_str!("../../config/collector.yaml");

/// Reads and merges the parts on top of [`BUILT_IN`]; see
/// [`load`](spanscore_engine::settings::load).
///
/// # Errors
/// All mistakes found.
pub fn load(parts: &[ConfigPart], lookup: Lookup<'_>) -> Result<Loaded, ConfigError> {
    spanscore_engine::settings::load(parts, BUILT_IN, lookup)
}
