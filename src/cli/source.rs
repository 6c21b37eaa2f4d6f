//! The options that name a config, and the built-in one.

use std::path::PathBuf;

use clap::Args;

use super::CommandError;
use crate::config::{self, ConfigPart, Loaded, ResolvedConfig};

/// Which config to use.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ConfigArgs {
    /// Config file in YAML or JSON; may be given more than once: maps are merged, later files win.
    /// Without one the built-in config holds
    #[arg(short, long, value_name = "FILE", env = "SPANSCORE_CONFIG")]
    config: Vec<PathBuf>,
    /// Sets one value over the config, such as --set shutdown_timeout=5s
    #[arg(long, value_name = "KEY.KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArgs {
    /// Reads the config.
    pub(super) fn load(&self) -> Result<Loaded, CommandError> {
        let mut parts: Vec<ConfigPart> =
            self.config.iter().cloned().map(ConfigPart::File).collect();
        parts.extend(self.set.iter().cloned().map(ConfigPart::Set));
        Ok(config::load(&parts, &config::environment)?)
    }

    /// Reads and checks the config.
    pub(super) fn plan(&self) -> Result<ResolvedConfig, CommandError> {
        Ok(ResolvedConfig::new(&self.load()?)?)
    }

    /// Where the config comes from, for people.
    pub(super) fn name(&self) -> String {
        let files: Vec<_> = self.config.iter().map(|path| path.display().to_string()).collect();
        if files.is_empty() { "built-in config".to_owned() } else { files.join(", ") }
    }
}
