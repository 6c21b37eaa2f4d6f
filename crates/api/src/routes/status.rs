//! State of the collector: steps from request to verdict, the store, the limits.

use std::sync::Arc;

use serde_json::{Value, json};

use spanscore_base::model::Sender;
use spanscore_store::query::{StoreLosses, TEXT_BYTES_MAX};
use spanscore_store::{StoreCount, StoreState};

use super::rfc3339;
use super::summary::BUCKETS_MAX;
use crate::problem::ApiProblem;
use crate::question::{LIMIT_MAX, VALUES_MAX};
use crate::readers::{ANSWER_BYTES_MAX, READERS_MAX, WAITING_MAX, answer};
use crate::state::{Api, now_ms};
use crate::stream::{RESUME_MAX, STREAMS_MAX};

/// Returns the state, even if the store is unreadable.
pub(crate) async fn status(api: Arc<Api>, sender: Sender) -> Result<Vec<u8>, ApiProblem> {
    let losses = api.readers.ask(sender, |reader| Ok(reader.losses()?)).await.ok();
    let progress = Arc::clone(&api.progress);
    // Gathering the metrics may take a while.
    let steps = tokio::task::spawn_blocking(move || progress()).await.unwrap_or_default();
    let count = |it| api.store.counters().get(it);
    let own = [
        ("evaluations", count(StoreCount::Evaluations) + count(StoreCount::ShedEvaluations)),
        ("calls", count(StoreCount::Calls)),
        ("stored", count(StoreCount::Trajectories)),
    ];
    let steps =
        steps.into_iter().chain(own).map(|(step, count)| json!({"step": step, "count": count}));
    answer(&json!({
        "name": "spanscore",
        "version": api.version,
        "started": rfc3339(api.started_ms),
        "now": rfc3339(now_ms()),
        "steps": steps.collect::<Value>(),
        "store": store_status(&api, losses),
        "limits": limits(&api),
    }))
}

fn store_status(api: &Api, losses: Option<StoreLosses>) -> Value {
    let (state, error) = match api.store.state() {
        StoreState::Opening => ("opening", None),
        StoreState::Working => ("working", None),
        StoreState::Failing(error) => ("failing", Some(error)),
        StoreState::Refused(error) => ("refused", Some(error)),
        StoreState::Closed => ("closed", None),
    };
    let count = |it| api.store.counters().get(it);
    json!({
        "state": state,
        "error": error,
        "content": api.content,
        "path": api.store.path().display().to_string(),
        "file_bytes": count(StoreCount::FileBytes),
        "queue_bytes": count(StoreCount::QueueBytes),
        "written_trajectories": count(StoreCount::Trajectories),
        "written_evaluations": count(StoreCount::Evaluations),
        "shed_trajectories": count(StoreCount::ShedTrajectories),
        "shed_evaluations": count(StoreCount::ShedEvaluations),
        "losses": losses,
    })
}

fn limits(api: &Api) -> Value {
    json!({
        "limit_max": LIMIT_MAX,
        "parameters": VALUES_MAX,
        "text_bytes": TEXT_BYTES_MAX,
        "buckets": BUCKETS_MAX,
        "query_s": spanscore_store::query::QUERY_MAX.as_secs(),
        "queries": READERS_MAX,
        "waiting": WAITING_MAX,
        "answer_bytes": ANSWER_BYTES_MAX.min(api.answers.limit()),
        "streams": STREAMS_MAX,
        "resume_rows": RESUME_MAX,
    })
}
