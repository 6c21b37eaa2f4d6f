//! Config options of the command line, and the built-in config.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{CommandError, output};
use crate::config::{self, ConfigError, ConfigPart, Loaded, ResolvedConfig};
use spanscore_engine::settings::load;

/// Variable with a config file, used without the option.
const VARIABLE: &str = "SPANSCORE_CONFIG";

/// Config files and settings on the command line.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ConfigArgs {
    /// Config file in YAML or JSON. May be repeated: maps are merged, and later files take
    /// precedence. Default: the built-in config
    #[arg(short, long, value_name = "FILE", env = VARIABLE)]
    config: Vec<PathBuf>,
    /// Sets one value of the config, such as --set shutdown_timeout=5s
    #[arg(long, value_name = "KEY.KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArgs {
    /// Returns the same options with this config file instead, if any.
    pub(super) fn or_file(&self, file: Option<&Path>) -> Self {
        let config = file.map_or_else(|| self.config.clone(), |file| vec![file.to_owned()]);
        Self { config, set: self.set.clone() }
    }

    /// Returns the same options with this `KEY.KEY=VALUE` instead of their files.
    pub(super) fn with_first(&self, set: String) -> Self {
        Self { config: Vec::new(), set: [vec![set], self.set.clone()].concat() }
    }

    /// Reads the config, and reports likely slips in it.
    pub(super) fn load(&self) -> Result<Loaded, CommandError> {
        Ok(noted(self.read()?))
    }

    /// Reads the config; keeps its error type, for reloads.
    pub(super) fn read(&self) -> Result<Loaded, ConfigError> {
        self.read_over(config::BUILT_IN)
    }

    fn read_over(&self, base: &str) -> Result<Loaded, ConfigError> {
        let loaded = load(&self.parts(), base, &config::environment);
        loaded.map_err(|error| self.named(error))
    }

    /// Names the environment variable in the error of a file that it named.
    fn named(&self, mut error: ConfigError) -> ConfigError {
        let variable = std::env::var_os(VARIABLE).filter(|name| self.config == [Path::new(name)]);
        for problem in error.problems.iter_mut().filter(|it| it.at.is_none()) {
            if variable.is_some() && problem.help.is_none() {
                problem.help = Some(format!("the variable {VARIABLE} names it"));
            }
        }
        error
    }

    /// Reads a config without the built-in one below it, and reports likely slips.
    pub(super) fn load_without_built_in(&self) -> Result<Loaded, CommandError> {
        Ok(noted(self.read_over("{}")?))
    }

    fn parts(&self) -> Vec<ConfigPart> {
        let files = self.config.iter().cloned().map(ConfigPart::File);
        files.chain(self.set.iter().cloned().map(ConfigPart::Set)).collect()
    }

    /// Reads and checks the config.
    pub(super) fn plan(&self) -> Result<ResolvedConfig, CommandError> {
        Ok(ResolvedConfig::new(&self.load()?)?)
    }

    /// Returns the config files.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.config
    }

    /// Returns the existing files with a name from the config: beside its files, and in the working
    /// directory.
    pub(super) fn beside(&self, name: &str) -> Vec<PathBuf> {
        let folders = self.config.iter().filter_map(|file| file.parent());
        let all = folders.map(|folder| folder.join(name)).chain([PathBuf::from(name)]);
        all.filter(|path| path.is_file()).collect()
    }

    /// Creates options with only these files.
    #[cfg(test)]
    pub(super) fn of_files(config: Vec<PathBuf>) -> Self {
        Self { config, set: Vec::new() }
    }

    /// Names the source of the config, for people.
    pub(super) fn name(&self) -> String {
        let files: Vec<_> = self.config.iter().map(|path| path.display().to_string()).collect();
        if files.is_empty() { "built-in config".to_owned() } else { files.join(", ") }
    }
}

/// Reports likely slips in a config.
fn noted(loaded: Loaded) -> Loaded {
    loaded.slips().iter().for_each(output::note);
    loaded
}
