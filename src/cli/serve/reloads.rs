//! Config reloads while the collector runs, by SIGHUP or a changed file.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

use super::probing::check_external;
use crate::cli::source::ConfigArgs;
use crate::config::{ConfigError, Loaded, ResolvedConfig, needs_restart, texts};
use spanscore_base::settings::Node;
use spanscore_pipeline::{Collector, ReloadOutcome};

/// Polling interval of watched files.
const LOOK: Duration = Duration::from_secs(1);

/// Config in use, with the options to reload it.
pub(super) struct Reloads {
    args: ConfigArgs,
    loaded: Loaded,
    watch: Option<FileWatch>,
}

/// Fingerprint of the config's files at the last poll.
struct FileWatch {
    hasher: RandomState,
    seen: u64,
    looks: Option<Interval>,
}

impl Reloads {
    /// Creates the state for a config in use; with `watch` its files are polled.
    pub(super) fn new(args: ConfigArgs, loaded: Loaded, watch: bool) -> Self {
        let hasher = RandomState::new();
        let seen = fingerprint(&hasher, &args, &loaded.node);
        let watch = watch.then_some(FileWatch { hasher, seen, looks: None });
        Self { args, loaded, watch }
    }

    /// Returns the config in use.
    pub(super) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Returns the files of the config.
    pub(super) fn files(&self) -> &[PathBuf] {
        self.args.files()
    }

    /// Waits for a change of a file of the config; forever without `--watch`.
    pub(super) async fn changed(&mut self) {
        let Some(watch) = &mut self.watch else { return std::future::pending().await };
        let looks = watch.looks.get_or_insert_with(|| {
            let mut looks = tokio::time::interval(LOOK);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            looks
        });
        loop {
            looks.tick().await;
            let now = fingerprint(&watch.hasher, &self.args, &self.loaded.node);
            if now != watch.seen {
                watch.seen = now;
                return;
            }
        }
    }

    /// Reloads and applies the config. Mistakes are logged, and the config in use stays.
    pub(super) async fn reload(&mut self, collector: &Collector) {
        let args = self.args.clone();
        let reading = move || -> Result<(Loaded, ResolvedConfig), ConfigError> {
            let loaded = args.read()?;
            let plan = ResolvedConfig::new(&loaded)?;
            Ok((loaded, plan))
        };
        // On a blocking thread, since it takes long; a panic there does not end the collector.
        let (loaded, plan) = match tokio::task::spawn_blocking(reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => return refuse(collector, &error),
            Err(_) => {
                collector.count_reload(ReloadOutcome::Refused);
                tracing::error!("the config could not be read; the one before goes on");
                return;
            }
        };
        if let Err(error) = check_external(&loaded, &plan).await {
            return refuse(collector, &error);
        }
        for setting in needs_restart(&self.loaded.node, &loaded.node) {
            tracing::warn!(%setting, "changed, and holds from the next start on");
        }
        match collector.reload(plan.into()).await {
            Ok(()) => {
                tracing::info!("the config was read again, and is in use");
                self.keep(loaded);
            }
            Err(error) => {
                tracing::error!(%error, "the config cannot be used; the one before goes on");
            }
        }
    }

    /// Stores the config in use; parts that need a restart keep their initial values.
    fn keep(&mut self, loaded: Loaded) {
        if let Some(watch) = &mut self.watch {
            // The new config may name other files.
            watch.seen = fingerprint(&watch.hasher, &self.args, &loaded.node);
        }
        let started = std::mem::take(&mut self.loaded.node);
        self.loaded = Loaded { node: with_live(started, &loaded.node), ..loaded };
    }
}

/// Returns a config with the reloadable parts of another; its difference to a third shows the
/// effects of a restart.
fn with_live(started: Node, now: &Node) -> Node {
    let mut config = started;
    for part in ["evaluators", "dialects", "exporters", "failures"] {
        config.set(part, now.get(part).cloned());
    }
    config
}

/// Hashes all files of a config: its own, and those that it names.
fn fingerprint(hasher: &RandomState, args: &ConfigArgs, node: &Node) -> u64 {
    let named = node.get("evaluators").map(texts).unwrap_or_default();
    let named = named.iter().flat_map(|name| args.beside(name));
    let files = args.files().iter().cloned().chain(named);
    let contents: Vec<_> = files.map(|file| std::fs::read(file).ok()).collect();
    hasher.hash_one(contents)
}

/// Logs the mistakes of a refused config.
fn refuse(collector: &Collector, error: &ConfigError) {
    collector.count_reload(ReloadOutcome::Refused);
    for problem in &error.problems {
        tracing::error!(%problem, "the config has a mistake; the one before goes on");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.yaml");
        let tools = folder.path().join("tools.json");
        std::fs::write(&config, "evaluators: {tool_call_validity: {tools: tools.json}}\n").unwrap();
        std::fs::write(&tools, r#"[{"name": "a"}]"#).unwrap();
        let args = ConfigArgs::of_files(vec![config.clone()]);
        let loaded = args.read().unwrap();
        let mut reloads = Reloads::new(args, loaded, true);
        let waits = tokio::time::timeout(LOOK * 5, reloads.changed()).await;
        assert!(waits.is_err(), "nothing has changed");
        for (file, text) in [(&config, "# other\n"), (&tools, "[]")] {
            let before = std::fs::read_to_string(file).unwrap();
            std::fs::write(file, before + text).unwrap();
            reloads.changed().await;
        }
    }
}
