//! Pages of judged runs (`--open`), served while the user views them.

use std::io::{self, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::run::recording::create_own;
use crate::cli::signals::StopSignals;
use crate::cli::{CommandError, output, started};
use crate::config::ResolvedConfig;
use spanscore_base::model::{Evaluation, Facts, GivenVerdict};
use spanscore_engine::batch::WatchedRun;
use spanscore_extract::dialect::Dialect;
use spanscore_net::clock::now_ns;
use spanscore_pipeline::{PagesSettings, StorePages};
use spanscore_store::{Judgement, Store, StoreCount, StoreSettings, StoreState, TrajectoryRecord};

/// Longest wait for space in the store's queue, over all runs: a disk may be slow.
const ROOM_TIME: Duration = Duration::from_secs(60);
/// Polling interval of that space, and of pending writes.
const LOOK: Duration = Duration::from_millis(2);
/// Longest wait for the runs to be written, before the browser opens.
const WRITTEN_TIME: Duration = Duration::from_secs(30);
/// File that redirects a browser to the pages, beside the store.
const REDIRECT_FILE: &str = "open.html";
/// Programs that open a file in the user's browser, without `BROWSER`.
const OPENERS: [&str; 1] = [if cfg!(target_os = "macos") { "open" } else { "xdg-open" }];

/// Store of the runs of one command, and its pages.
pub(super) struct ScorePages {
    pages: StorePages,
    runtime: Runtime,
    /// Registered at the start, so that no signal between judging and waiting is lost.
    signals: StopSignals,
    /// Milliseconds that runs have waited for space.
    waited_ms: AtomicU64,
}

impl ScorePages {
    /// Returns the settings of the store for the pages. Its file is temporary, so the path in the
    /// config is ignored.
    pub(super) fn store_settings(plan: &ResolvedConfig) -> Result<StoreSettings, CommandError> {
        let text = "--open shows runs in a store, which the config turns off: without `store: \
                    false` they are in a temporary file until the command ends";
        let store = plan.config.store.0.clone();
        let store = store.ok_or_else(|| CommandError::Usage(text.to_owned()))?;
        Ok(StoreSettings { path: StoreSettings::default().path, ..store })
    }

    /// Starts a temporary store and its pages.
    pub(super) fn start(plan: &ResolvedConfig) -> Result<Self, CommandError> {
        let store = Self::store_settings(plan)?;
        let settings = PagesSettings {
            store,
            dialects: Dialect::with_builtin(plan.config.dialects.clone()),
            limits: plan.config.limits,
            session_key: plan.config.sessions.key,
        };
        let runtime = started(Builder::new_multi_thread().worker_threads(1))?;
        let pages = runtime.block_on(StorePages::start(settings)).map_err(anyhow::Error::new)?;
        let signals = StopSignals::on(&runtime)?;
        Ok(Self { pages, runtime, signals, waited_ms: AtomicU64::new(0) })
    }

    /// Returns the facts of traces to store.
    pub(super) fn facts(&self) -> Facts {
        self.pages.store().facts()
    }

    /// Stores a judged run; waits while the store is full but makes progress, until the command is
    /// stopped.
    pub(super) fn keep(&self, run: &WatchedRun<'_, '_>, stop: &CancellationToken) {
        let store = self.pages.store();
        while !store.has_room() && is_writing(store) && !stop.is_cancelled() {
            let waited = self.waited_ms.fetch_add(LOOK.as_millis() as u64, Relaxed);
            if Duration::from_millis(waited) >= ROOM_TIME {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let passes = |it: &Evaluation| it.verdict() == GivenVerdict::Pass;
        let is_passing = run.judged.asked.is_empty() && run.judged.evaluations.iter().all(passes);
        let admitted = store.admit(run.trajectory.sender, is_passing, store.has_content());
        let Some(with_content) = admitted else { return };
        let judgement = Judgement {
            completion: run.due.completion,
            is_partial: run.due.is_partial,
            revision: run.due.revision,
            spans: run.spans,
            now_ns: now_ns(),
            is_passing,
        };
        store.trajectory(TrajectoryRecord::new(run.trajectory, judgement, with_content));
    }

    /// Stores evaluations of a run or of a session.
    pub(super) fn keep_evaluations(&self, evaluations: &[Evaluation]) {
        self.pages.store().evaluations(evaluations.into());
    }

    /// Opens the browser, and waits for SIGINT, SIGTERM or SIGHUP. Does nothing without a run.
    pub(super) fn show(mut self) -> Result<(), CommandError> {
        let Self { pages, runtime, signals, .. } = &mut self;
        runtime.block_on(shown(pages, signals))
    }
}

/// Returns true if the pending data of the store will be written.
fn is_writing(store: &Store) -> bool {
    matches!(store.view().state(), StoreState::Opening | StoreState::Working)
}

/// Serves the runs until a signal that ends a command.
async fn shown(pages: &StorePages, signals: &mut StopSignals) -> Result<(), CommandError> {
    let mut hangup = signal(SignalKind::hangup()).context("cannot take signals")?;
    let mut stopped = pin!(async {
        tokio::select! {
            () = signals.stop() => {}
            _ = hangup.recv() => {}
        }
    });
    tokio::select! {
        () = &mut stopped => return Ok(()),
        () = written(pages.store()) => {}
    }
    if announce(pages)? {
        stopped.await;
    }
    Ok(())
}

/// Waits until the runs are written, or cannot be.
async fn written(store: &Store) {
    let began = Instant::now();
    let is_waiting =
        || store.view().counters().get(StoreCount::QueueBytes) > 0 && is_writing(store);
    while is_waiting() && began.elapsed() < WRITTEN_TIME {
        tokio::time::sleep(LOOK).await;
    }
}

/// Opens the browser, and prints the address of the pages; returns false without a run.
fn announce(pages: &StorePages) -> Result<bool, CommandError> {
    let count = |it| pages.store().view().counters().get(it);
    let missing = count(StoreCount::ShedTrajectories);
    if missing > 0 {
        output::note(format_args!(
            "spanscore: {missing} runs are not on the pages: the temporary store had no room, or \
             could not be written"
        ));
    }
    if count(StoreCount::Trajectories) == 0 {
        output::note("spanscore: no run is stored: there is nothing to open");
        return Ok(false);
    }
    let access = pages.access();
    let link = access.link().context("cannot make a code")?;
    let folder = pages.store().view().path().parent().unwrap_or(Path::new("."));
    let browser = redirect(folder, &link).map(|file| open(&file));
    let is_open = browser.is_ok_and(|child| child.is_some());
    // Output other than to a terminal is stored, and read by others.
    let shown = if io::stderr().is_terminal() { link.as_str() } else { access.url() };
    let words = if is_open { "Ctrl-C ends them" } else { "no browser opened; Ctrl-C ends them" };
    output::note(format_args!("pages: {shown} ({words})"));
    Ok(true)
}

/// Writes a page that redirects to a link. The link has a login code, and other users see arguments
/// of programs, but not the content of this file.
fn redirect(folder: &Path, link: &str) -> io::Result<PathBuf> {
    let path = folder.join(REDIRECT_FILE);
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>spanscore</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={link}\">\
         <a href=\"{link}\">The runs</a></html>"
    );
    create_own(&path)?.write_all(page.as_bytes())?;
    Ok(path)
}

/// Opens a file in the user's browser; `None` if no program does. It has its own process group, so
/// that the Ctrl-C for the pages does not reach the browser.
fn open(file: &Path) -> Option<Child> {
    let chosen = std::env::var("BROWSER").unwrap_or_default();
    let chosen = chosen.split(':').filter(|it| !it.is_empty());
    chosen.chain(OPENERS).find_map(|program| {
        let mut command = Command::new(program);
        command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0);
        command.spawn().ok()
    })
}
