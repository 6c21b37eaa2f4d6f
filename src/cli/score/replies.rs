//! Judges asked by a command: all at once, until each has answered.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::cli::CommandError;
use crate::evaluate::AskedInquiry;
use crate::judge::{JudgeSettings, LaneSettings, ReplyRecording, ask_all};
use crate::model::Evaluation;
use crate::pipeline::batch::{BatchOrder, JudgedGroup};

/// Where replies of judges are kept.
#[derive(Args, Clone, Debug, Default)]
pub(in crate::cli) struct RepliesArgs {
    /// Writes every reply of a judge to this folder, to be replayed
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Takes the replies of judges from this folder and asks nobody: free, and the same each time.
    /// A question that was not recorded fails
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,
}

impl RepliesArgs {
    /// Where they are recorded, or read from.
    pub(in crate::cli) fn recording(&self) -> Option<ReplyRecording> {
        let record = self.record.clone().map(ReplyRecording::Record);
        record.or_else(|| self.replay.clone().map(ReplyRecording::Replay))
    }
}

/// Asks judges about what groups of evaluations lack; gives what was said of each.
pub(in crate::cli) fn complete(
    judges: &BTreeMap<String, JudgeSettings>,
    replies: &RepliesArgs,
    mut groups: Vec<JudgedGroup>,
) -> Result<Vec<(BatchOrder, Vec<Evaluation>)>, CommandError> {
    let counts: Vec<usize> = groups.iter().map(|group| group.asked.len()).collect();
    let asked = groups.iter_mut().flat_map(|group| std::mem::take(&mut group.asked)).collect();
    let mut answers = ask(judges, replies, asked)?.into_iter();
    let complete = groups.into_iter().zip(counts).map(|(group, count)| {
        let said = answers.by_ref().take(count).flatten();
        (group.order, group.evaluations.into_iter().chain(said).collect())
    });
    Ok(complete.collect())
}

/// Asks judges about all of these; the evaluations of each, in order.
pub(in crate::cli) fn ask(
    judges: &BTreeMap<String, JudgeSettings>,
    replies: &RepliesArgs,
    asked: Vec<AskedInquiry>,
) -> Result<Vec<Vec<Evaluation>>, CommandError> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::new)?;
    let recording = replies.recording();
    let settings = LaneSettings { judges, recording, spent_file: None, log: None };
    Ok(runtime.block_on(ask_all(settings, asked)).map_err(anyhow::Error::new)?)
}
