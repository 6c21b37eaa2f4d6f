//! Answers of the tools from files, which are read and judged once.

use std::sync::OnceLock;

use parking_lot::Mutex;
use rmcp::model::{JsonObject, ListResourcesResult, Resource};
use serde::de::DeserializeOwned;

use super::answers::{self, McpAnswer};
use super::asking::JudgeAsking;
use super::load::{LoadPlan, load};
use super::server::{AnswerSource, EVALUATORS_URI, INTERNAL, RESOURCES_PAGE, listed};
use super::store::RunStore;
use super::summary::summary;
use super::tools::{self, start_of};
use spanscore_emit::{ContentFilter, ShownContent};

/// Files to answer from, and their runs once they are read.
pub(super) struct FileRuns {
    plan: Mutex<Option<LoadPlan>>,
    store: OnceLock<Result<Mutex<RunStore>, String>>,
    asking: Option<JudgeAsking>,
    shown: ShownContent,
    filter: ContentFilter,
}

impl FileRuns {
    pub(super) fn new(plan: LoadPlan, asking: Option<JudgeAsking>) -> Self {
        let shown = plan.shown;
        let plan = Mutex::new(Some(plan));
        Self { plan, store: OnceLock::new(), asking, shown, filter: ContentFilter::of(shown) }
    }

    fn store(&self) -> Result<&Mutex<RunStore>, String> {
        let loaded = self.store.get_or_init(|| {
            let plan = self.plan.lock().take().ok_or_else(|| INTERNAL.to_owned())?;
            let store = load(plan).map_err(|error| format!("failed to read the files: {error:#}"));
            store.map(Mutex::new)
        });
        loaded.as_ref().map_err(String::clone)
    }

    fn answer_by<T: DeserializeOwned>(
        &self,
        given: Option<JsonObject>,
        answer: fn(&RunStore, &T) -> McpAnswer,
    ) -> McpAnswer {
        let args = tools::read(given)?;
        answer(&self.store()?.lock(), &args)
    }

    fn evaluate(&self, given: Option<JsonObject>) -> McpAnswer {
        let Some(asking) = &self.asking else {
            return Err("judges are not asked: start `spanscore mcp` with --allow-evaluate".into());
        };
        let args = tools::read(given)?;
        asking.evaluate(self.store()?, &args, (self.shown, &self.filter))
    }
}

impl AnswerSource for FileRuns {
    fn load(&self) {
        // An error is in the answers.
        let _ = self.store();
    }

    fn answer(&self, tool: &str, given: Option<JsonObject>) -> Option<McpAnswer> {
        Some(match tool {
            "summarize" => self.answer_by(given, summary),
            "list_evaluators" => self.answer_by(given, answers::evaluators),
            "query_evaluations" => self.answer_by(given, answers::query),
            "get_trajectory" => self.answer_by(given, answers::trajectory),
            "evaluate" => self.evaluate(given),
            _ => return None,
        })
    }

    fn resources(&self, cursor: Option<&str>) -> Result<ListResourcesResult, String> {
        let start = start_of(cursor)?;
        let store = self.store()?.lock();
        let page = store.traces.iter().skip(start).take(RESOURCES_PAGE).map(|trace| {
            let about = format!("the trajectory of a trace with {} tool calls", trace.calls);
            listed(&trace.trace_id, &trace.name, about)
        });
        let mut resources: Vec<_> = page.collect();
        let end = start + resources.len();
        if start == 0 {
            let about = "the configured evaluators";
            let evaluators = Resource::new(EVALUATORS_URI, "evaluators").with_description(about);
            resources.insert(0, evaluators.with_mime_type("application/json"));
        }
        let mut listed = ListResourcesResult::with_all_items(resources);
        listed.next_cursor = (end < store.traces.len()).then(|| end.to_string());
        Ok(listed)
    }

    fn evaluators_resource(&self) -> Result<String, String> {
        Ok(answers::evaluators_resource(&self.store()?.lock()))
    }

    fn trace_resource(&self, trace_id: &str) -> Result<String, String> {
        answers::trace_resource(&self.store()?.lock(), trace_id)
    }
}
