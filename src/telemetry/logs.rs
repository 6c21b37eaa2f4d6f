//! Log lines on standard error, so that standard output stays free for results.

use std::io::{IsTerminal, stderr};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::Subscriber;

use super::settings::{LogFormat, LogsSettings};

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The filter is not one.
    #[error(
        "{level:?} is neither a level (off, error, warn, info, debug, trace) nor a filter such as \
         `warn,spanscore=debug`"
    )]
    Level {
        /// As it stands in the settings.
        level: String,
    },
}

/// Starts writing log lines, once for the process; a later call only checks its settings.
pub fn start_logs(settings: &LogsSettings) -> Result<(), LogsError> {
    let filter = filter(&settings.level)?;
    let lines = Subscriber::builder()
        .with_env_filter(filter)
        .with_writer(stderr)
        // Where nobody reads the log, a line about that would end the task that logs.
        .log_internal_errors(false)
        .with_ansi(stderr().is_terminal());
    // The only failure is that logging has started before, as it has where tests share a process.
    let _ = match settings.format {
        LogFormat::Text => lines.compact().try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    Ok(())
}

/// A word alone is a level, never the name of a target: a misspelt level would silence everything.
pub(super) fn filter(level: &str) -> Result<EnvFilter, LogsError> {
    let wrong = || LogsError::Level { level: level.to_owned() };
    let is_word = |part: &&str| !part.contains(['=', '[']);
    if level.split(',').filter(is_word).any(|word| word.trim().parse::<LevelFilter>().is_err()) {
        return Err(wrong());
    }
    EnvFilter::try_new(level).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_a_level_nor_a_filter_is_an_error() {
        for good in ["info", "WARN", "warn,spanscore=debug", "spanscore::emit=trace,off"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["loud", "spanscore=loud", "info,verbose"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
