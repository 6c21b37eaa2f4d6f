//! Evaluators that ask judges, in a whole collector and on the command line.

mod aws;
mod calibrate;
mod changed;
mod commands;
mod crash;
mod labelled_store;
mod live;
mod many;
mod own_trace;
mod recheck;
mod rejudge;
mod settings;
mod tls;
mod trouble;
mod windows;

use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::fake_judge::FakeJudge;
use crate::support::spans::{agent, tool, with};

/// An agent that was asked to refund an order, and called a tool.
pub(crate) fn refund(trace: u8) -> Vec<Span> {
    let root = with(agent(trace), "input.value", "Refund order 17 please");
    let root = with(root, "output.value", "Order 17 is refunded");
    let call = with(tool(trace, 2, "issue_refund"), "input.value", r#"{"order": 17}"#);
    vec![root, with(call, "output.value", r#"{"status": "refunded"}"#)]
}

/// A config with one judge, one evaluator that asks it, and no wait for revisions.
pub(crate) fn asking(judge: &FakeJudge, api: &str, more: &str) -> String {
    let judge = judge.settings(api, more);
    format!(
        "judges:
  small: {judge}
judging: {{settle: 0s}}
evaluators:
  task_completion/shop: {{judge: small, criteria: {{tasks: [Refund order 17]}}}}
"
    )
}
