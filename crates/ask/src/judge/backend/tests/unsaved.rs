//! Tests of an unwritable spending file.

use std::collections::BTreeMap;

use serde_json::json;

use super::harness::{asked, plan, with};
use crate::judge::ReplyRecording;
use crate::judge::dispatcher::{JudgeParts, ask_all};
use crate::judge::settings::JudgeSettings;
use spanscore_base::model::Outcome;

#[tokio::test]
async fn inquiry_without_budget_is_skipped_and_blocks_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut judges = with(json!({"budget": {"usd_per_hour": 1.0}}));
    judges["free"] = json!({"api": "openai", "model": "m"});
    let judges: BTreeMap<String, JudgeSettings> = serde_json::from_value(judges).expect("judges");
    let parts = JudgeParts {
        judges: &judges,
        asking: Vec::new(),
        recording: Some(ReplyRecording::Replay(folder.path().to_owned())),
        spent_file: Some(folder.path().join("missing").join("judges.json")),
        log: None,
        watch: None,
        watches_content: false,
        budget_usd: None,
    };
    let mut free = plan(json!({}));
    free.judge = "free".into();
    let inquiries = vec![asked(1, 0, plan(json!({}))), asked(2, 0, free)];
    let told = ask_all(parts, inquiries).await.expect("it starts");
    let reasons = told.iter().map(|told| match &told[0].outcome {
        Outcome::Failed { error_type, .. } => *error_type,
        _ => "not failed",
    });
    // The second question reached its judge, which has no answer recorded.
    let expected = ["judge_budget_unsaved", "judge_reply_not_recorded"];
    assert_eq!(reasons.collect::<Vec<_>>(), expected);
}
