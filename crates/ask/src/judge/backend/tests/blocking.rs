//! Tests of the scheduler on a single-threaded runtime, with records that are slow to render.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::harness::{asked, plan, small};
use crate::judge::ReplyRecording;
use crate::judge::dispatcher::{JudgeParts, RECORDED, start_with};
use crate::judge::metrics::JudgeMetrics;
use crate::judge::settings::{JudgeSettings, JudgingSettings};
use crate::scheduler::EmissionOutlet;
use spanscore_base::model::Outcome;
use spanscore_evaluate::inquiry::{
    Conclusion, Inquiry, JudgeAnswers, JudgePrompt, PromptRoom, UnreadableReply,
};
use spanscore_net::metrics::unread_meter;

/// Inquiry that renders on a signal, or after a time limit.
#[derive(Debug)]
struct Slow(Mutex<Receiver<()>>);

impl Inquiry for Slow {
    fn prompt(&self, _: &PromptRoom) -> Result<JudgePrompt, Outcome> {
        let told = self.0.lock().expect("one thread").recv_timeout(Duration::from_secs(120));
        let error_type = if told.is_ok() { "in_time" } else { "held_up" };
        Err(Outcome::Failed { error_type, error: String::new() })
    }

    fn read(&self, _: &PromptRoom, _: &str) -> Result<JudgeAnswers, UnreadableReply> {
        Ok(JudgeAnswers::default())
    }

    fn conclude(&self, _: &PromptRoom, _: &[JudgeAnswers]) -> Conclusion {
        Conclusion::of(Outcome::Failed { error_type: "never_asked", error: String::new() })
    }

    fn statements(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        0
    }
}

#[tokio::test]
async fn a_record_that_takes_long_to_render_holds_up_no_other_inquiry() {
    let folder = tempfile::tempdir().expect("a folder");
    let judges: BTreeMap<String, JudgeSettings> = serde_json::from_value(small()).expect("judges");
    let parts = JudgeParts {
        judges: &judges,
        asking: Vec::new(),
        recording: Some(ReplyRecording::Replay(folder.path().to_owned())),
        spent_file: None,
        log: None,
        watch: None,
        watches_content: false,
        budget_usd: None,
    };
    let (goes_on, told) = channel();
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&outcomes);
    let outlet: EmissionOutlet = Arc::new(move |emission| {
        let Outcome::Failed { error_type, .. } = emission.evaluations[0].outcome else { return };
        kept.lock().expect("nobody panics").push(error_type);
        // The receiver is gone if the other inquiry reached its time limit.
        let _ = goes_on.send(());
    });
    let room = JudgingSettings::default().room();
    let metrics = JudgeMetrics::new(&unread_meter(), &[], &room);
    let task = start_with(parts, outlet, (RECORDED, false), room, metrics).expect("it starts");
    let mut slow = asked(1, 0, plan(json!({})));
    slow.inquiry = Arc::new(Slow(Mutex::new(told)));
    task.handle.ask(vec![slow, asked(2, 0, plan(json!({})))], None, Default::default());
    task.shutdown(std::future::pending()).await;
    let outcomes = outcomes.lock().expect("nobody panics");
    assert_eq!(outcomes[..], ["judge_reply_not_recorded", "in_time"]);
}
