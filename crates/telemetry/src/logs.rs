//! Log lines on standard error, so that standard output stays free for results.
//!
//! Field values may be untrusted, such as the error text of a backend, and are made [`visible`] in
//! text and in JSON.

use std::fmt::{self, Debug};
use std::io::{self, IsTerminal, Write, stderr};

use tracing::Subscriber;
use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{MakeWriter, SubscriberBuilder};
use tracing_subscriber::util::SubscriberInitExt;

use super::lines;
use super::settings::{LogFormat, LogsSettings};
use spanscore_base::visible;

/// Start-up error of logs.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The filter is not valid.
    #[error(
        "{level:?} is neither a level (off, error, warn, info, debug, trace) nor a filter such as \
         `warn,spanscore=debug`"
    )]
    Level {
        /// The filter in the settings.
        level: String,
    },
    /// The system has no thread to give.
    #[error("cannot start the thread that writes the log")]
    Thread(#[from] io::Error),
}

/// Starts log output, once for the process; a later call only checks its settings.
pub fn start_logs(settings: &LogsSettings) -> Result<(), LogsError> {
    // `RUST_LOG` overrides the settings for a single run, as usual in Rust.
    let own = std::env::var("RUST_LOG").ok().filter(|level| !level.trim().is_empty());
    let filter = filter(own.as_deref().unwrap_or(&settings.level))?;
    let out = lines::of_process()?.clone();
    // Fails only if logging has started before, as in tests that share a process.
    let _ = match settings.format {
        LogFormat::Text => text_lines(filter, stderr().is_terminal(), out).try_init(),
        LogFormat::Json => json_lines(filter, out).try_init(),
    };
    Ok(())
}

/// Returns a subscriber that writes text lines, coloured if `ansi`.
fn text_lines<W>(filter: EnvFilter, ansi: bool, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    SubscriberBuilder::default()
        .with_env_filter(filter)
        .with_writer(writer)
        // If nobody reads standard error, an error line would end the logging task.
        .log_internal_errors(false)
        .with_ansi(ansi)
        .compact()
        .fmt_fields(debug_fn(write_field).delimited(" "))
        .finish()
}

/// Returns a subscriber that writes one JSON object a line.
fn json_lines<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    SubscriberBuilder::default()
        .with_env_filter(filter)
        .with_writer(VisibleJson(writer))
        .log_internal_errors(false)
        .json()
        .finish()
}

/// Writes a field in the default format: the message alone, others after their names.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let name = field.name();
    match (name, writer.has_ansi_escapes()) {
        ("message", _) => {}
        (_, true) => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
        (_, false) => write!(writer, "{name}=")?,
    }
    write!(writer, "{}", visible::line(format_args!("{value:?}")))
}

/// Factory of writers that escape JSON; each record arrives in one piece.
struct VisibleJson<W>(W);

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for VisibleJson<W> {
    type Writer = VisibleJson<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        VisibleJson(self.0.make_writer())
    }
}

impl<W: Write> Write for VisibleJson<W> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        // In one piece, too, since a queue takes whole lines.
        let line = visible::json(String::from_utf8_lossy(record)).to_string();
        self.0.write_all(line.as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Parses a filter. A single word is always a level, never a target: a misspelt level would silence
/// everything.
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
    use parking_lot::Mutex;
    use std::sync::Arc;

    use super::*;

    const HOSTILE: &str = "a\x1b[2J\nb\u{9b}31m\u{202e}c";

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Buffer {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// Returns the log lines about a backend with a hostile answer.
    fn written<S: Subscriber + Send + Sync + 'static>(lines: impl Fn(Buffer) -> S) -> String {
        let buffer = Buffer::default();
        let error = HOSTILE;
        tracing::subscriber::with_default(lines(buffer.clone()), || {
            tracing::warn!(exporter = %error, error, again = ?error, "failed: {error}");
        });
        let bytes = buffer.0.lock().clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn text_of_strangers_cannot_steer_the_terminal() {
        let filter = || filter("warn").expect("a level");
        let text = written(|buffer| text_lines(filter(), false, buffer));
        assert_eq!(text.matches(r"a\u{1b}[2J\nb\u{9b}31m\u{202e}c").count(), 4, "{text}");
        assert!(text.contains(" exporter=a") && text.contains(" error=\"a"), "{text}");
        assert!(!text.trim_end().contains(visible::is_hidden), "{text:?}");

        let colored = written(|buffer| text_lines(filter(), true, buffer));
        assert!(!colored.contains("\x1b[2J") && colored.contains("\x1b[3mexporter"), "{colored:?}");

        let json = written(|buffer| json_lines(filter(), buffer));
        assert!(!json.trim_end().contains(visible::is_hidden), "{json:?}");
        let record: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(record["fields"]["exporter"], HOSTILE);
    }

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
