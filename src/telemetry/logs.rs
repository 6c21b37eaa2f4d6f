//! Log lines on standard error, so that standard output stays free for results.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::Subscriber;

use super::settings::{LogFormat, LogsSettings};

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The filter is not one.
    #[error("telemetry.logs.level {level:?} is neither a level nor a filter: {reason}")]
    Level {
        /// As it stands in the settings.
        level: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Starts writing log lines, once for the process; a later call only checks its settings.
pub fn start_logs(settings: &LogsSettings) -> Result<(), LogsError> {
    let filter = EnvFilter::try_new(&settings.level).map_err(|error| LogsError::Level {
        level: settings.level.clone(),
        reason: error.to_string(),
    })?;
    let lines = Subscriber::builder()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    // The only failure is that logging has started before, as it has where tests share a process.
    let _ = match settings.format {
        LogFormat::Text => lines.compact().try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_none_is_an_error_naming_the_setting() {
        let level = "spanscore=loud".to_owned();
        let error = start_logs(&LogsSettings { level, ..LogsSettings::default() }).unwrap_err();
        assert!(error.to_string().contains("telemetry.logs.level"), "{error}");
    }
}
