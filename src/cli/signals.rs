//! SIGTERM and Ctrl-C, which stop a command in an orderly way.

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Exit;

/// SIGTERM and SIGINT.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Registers for the signals in a runtime that is not running yet.
    pub(super) fn on(runtime: &Runtime) -> anyhow::Result<Self> {
        let _entered = runtime.enter();
        Self::new().context("cannot take signals")
    }

    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them.
    pub(super) async fn stop(&mut self) {
        self.exit().await;
    }

    /// Waits for one of them; returns the exit of a command that it stopped early.
    pub(super) async fn exit(&mut self) -> Exit {
        tokio::select! {
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.interrupt.recv() => Exit::Interrupted,
        }
    }
}
