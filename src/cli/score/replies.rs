//! Judges and external evaluators of a command; its budgets hold for the judges.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use crate::cli::{CommandError, started};
use spanscore_ask::external;
use spanscore_ask::judge::{CostForecaster, JudgeParts, JudgeSettings, ReplyRecording, ask_all};
use spanscore_base::model::Evaluation;
use spanscore_evaluate::{AskedTarget, JudgeRequest};

/// Limit on inquiries held before judges are asked, bytes.
pub(in crate::cli) const INQUIRIES_BYTES_MAX: usize = 64 << 20;

/// Options to record and replay the replies of judges.
#[derive(Args, Clone, Debug, Default)]
pub(in crate::cli) struct RepliesArgs {
    /// Writes every reply of a judge to this folder, for --replay
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Reads the replies of judges from this folder and sends no requests. A request without a
    /// recorded reply fails
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,
}

impl RepliesArgs {
    fn recording(&self) -> Option<ReplyRecording> {
        let record = self.record.clone().map(ReplyRecording::Record);
        record.or_else(|| self.replay.clone().map(ReplyRecording::Replay))
    }
}

/// Judges of a command. Spending carries over between calls.
pub(in crate::cli) struct CommandJudges {
    judges: BTreeMap<String, JudgeSettings>,
    recording: Option<ReplyRecording>,
    /// Budget of all judges together, US dollars.
    budget_usd: Option<f64>,
    /// Folder of the spending file, created at the first inquiry.
    folder: std::sync::OnceLock<TempDir>,
    /// Cancelled at the end of the wait for answers.
    stop: CancellationToken,
}

impl CommandJudges {
    /// Creates the judges without asking any.
    pub(in crate::cli) fn new(
        judges: BTreeMap<String, JudgeSettings>,
        replies: &RepliesArgs,
    ) -> Self {
        let recording = replies.recording();
        let stop = CancellationToken::new();
        Self { judges, recording, budget_usd: None, folder: std::sync::OnceLock::new(), stop }
    }

    /// Returns the same judges, asked until `stop` is cancelled; inquiries unanswered by then have
    /// no evaluations.
    pub(in crate::cli) fn until(self, stop: CancellationToken) -> Self {
        Self { stop, ..self }
    }

    /// Returns the same judges with this common budget, US dollars.
    pub(in crate::cli) fn within(self, budget_usd: Option<f64>) -> Self {
        Self { budget_usd, ..self }
    }

    /// Returns the cost forecaster of these judges.
    pub(in crate::cli) fn forecaster(&self) -> CostForecaster {
        CostForecaster::new(&self.judges)
    }

    /// Asks judges; returns the evaluations of each inquiry, in order. Blocks.
    ///
    /// # Errors
    /// Judges that cannot be asked at all.
    pub(in crate::cli) fn ask(
        &self,
        asked: Vec<JudgeRequest>,
    ) -> Result<Vec<Vec<Evaluation>>, CommandError> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let settings = JudgeParts {
            asking: Vec::new(),
            judges: &self.judges,
            recording: self.recording.clone(),
            spent_file: Some(self.folder()?.join("spent.json")),
            log: None,
            watch: None,
            watches_content: false,
            budget_usd: self.budget_usd,
        };
        let answers = started(&mut Builder::new_current_thread())?
            .block_on(self.stop.run_until_cancelled(ask_all(settings, asked)));
        Ok(answers.transpose().map_err(anyhow::Error::new)?.unwrap_or_default())
    }

    /// Asks judges and external evaluators; returns the evaluations of each inquiry, in order.
    /// Blocks.
    ///
    /// # Errors
    /// Judges that cannot be asked at all.
    pub(in crate::cli) fn ask_all(
        &self,
        asked: Vec<AskedTarget>,
    ) -> Result<Vec<Vec<Evaluation>>, CommandError> {
        let are_external: Vec<bool> =
            asked.iter().map(|one| matches!(one, AskedTarget::External(_))).collect();
        let (judged, external) = AskedTarget::by_dispatcher(asked);
        let mut judged = self.ask(judged)?.into_iter();
        let mut external = if external.is_empty() {
            Vec::new()
        } else {
            let asking = self.stop.run_until_cancelled(external::ask_all(external));
            started(&mut Builder::new_current_thread())?.block_on(asking).unwrap_or_default()
        }
        .into_iter();
        let said = are_external.into_iter().map(|is_external| {
            if is_external { external.next() } else { judged.next() }.unwrap_or_default()
        });
        Ok(said.collect())
    }

    fn folder(&self) -> anyhow::Result<PathBuf> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.path().to_owned());
        }
        let made = tempfile::tempdir().map_err(|error| {
            anyhow::Error::new(error).context("failed to make a folder for what judges cost")
        })?;
        Ok(self.folder.get_or_init(|| made).path().to_owned())
    }
}
