//! The built-in config, and reading of a config over it.

use spanscore_engine::settings::{ConfigError, ConfigPart, Loaded, Lookup};

/// The annotated default config, used if none is given.
pub const BUILT_IN: &str = include_str!("../../config/collector.yaml");

/// Reads and merges the parts over the [`BUILT_IN`] config; see
/// [`load`](spanscore_engine::settings::load).
///
/// # Errors
/// All mistakes found.
pub fn load(parts: &[ConfigPart], lookup: Lookup<'_>) -> Result<Loaded, ConfigError> {
    spanscore_engine::settings::load(parts, BUILT_IN, lookup)
}

/// Reads and merges the parts over nothing.
///
/// # Errors
/// All mistakes found.
pub fn load_without_built_in(
    parts: &[ConfigPart],
    lookup: Lookup<'_>,
) -> Result<Loaded, ConfigError> {
    spanscore_engine::settings::load(parts, "{}", lookup)
}
