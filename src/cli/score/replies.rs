//! Judges, and evaluators outside of this process, asked by a command: all at once, until each has
//! answered.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::cli::CommandError;
use crate::evaluate::{AskedInquiry, AskedTarget};
use crate::external;
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
    fn recording(&self) -> Option<ReplyRecording> {
        let record = self.record.clone().map(ReplyRecording::Record);
        record.or_else(|| self.replay.clone().map(ReplyRecording::Replay))
    }
}

/// Asks about what groups of evaluations lack; gives what was said of each.
pub(in crate::cli) fn complete(
    judges: &BTreeMap<String, JudgeSettings>,
    replies: &RepliesArgs,
    mut groups: Vec<JudgedGroup>,
) -> Result<Vec<(BatchOrder, Vec<Evaluation>)>, CommandError> {
    let mut asked = Vec::new();
    let mut are_external: Vec<Vec<bool>> = Vec::with_capacity(groups.len());
    for group in &mut groups {
        let own = std::mem::take(&mut group.asked);
        are_external.push(own.iter().map(|it| matches!(it, AskedTarget::External(_))).collect());
        asked.extend(own);
    }
    let (judged, external) = AskedTarget::by_lane(asked);
    let mut judged = ask(judges, replies, judged)?.into_iter();
    let mut external = match external.is_empty() {
        true => Vec::new(),
        false => runtime()?.block_on(external::ask_all(external)),
    }
    .into_iter();
    let complete = groups.into_iter().zip(are_external).map(|(group, are_external)| {
        let mut evaluations = group.evaluations;
        for is_external in are_external {
            let said = if is_external { external.next() } else { judged.next() };
            evaluations.extend(said.into_iter().flatten());
        }
        (group.order, evaluations)
    });
    Ok(complete.collect())
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| anyhow::Error::new(error).into())
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
    let recording = replies.recording();
    let settings = LaneSettings { judges, recording, spent_file: None, log: None };
    Ok(runtime()?.block_on(ask_all(settings, asked)).map_err(anyhow::Error::new)?)
}
