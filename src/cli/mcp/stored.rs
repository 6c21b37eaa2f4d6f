//! Answers of the tools from a collector's store, even while the collector writes it.

use std::path::Path;

use parking_lot::Mutex;
use rmcp::model::{JsonObject, ListResourcesResult};
use serde::Serialize;
use serde_json::{Value, json};

use super::answers::{McpAnswer, add_calls, kinds, text_bytes};
use super::load::DEFINITION_CONTENT;
use super::server::{AnswerSource, RESOURCES_PAGE, listed};
use super::summary::SUMMARY_TEXT_BYTES;
use super::tools::{
    self, EVALUATIONS, GroupWord, ListEvaluatorsArgs, OutcomeWord, QueryArgs, SummarizeArgs,
    TrajectoryArgs, start_of,
};
use super::trim::{ANSWER_BYTES_MAX, RESOURCE_BYTES_MAX, fitted, page};
use crate::cli::stored::scores::group_keys;
use spanscore_base::model::TraceId;
use spanscore_base::value::{Value as OwnValue, json as own_json};
use spanscore_emit::{ContentFilter, ShownContent, TraceContent};
use spanscore_evaluate::kind;
use spanscore_store::query::{
    GroupFigures, ROWS_MAX, RunOrder, RunRow, StoreField, StoreFilter, StoreOrder, StoreQueryError,
    StoreReader,
};

/// Limit on groups and on tools of a summary.
const GROUPS_MAX: usize = 100;
/// Content fields of an evaluation.
const EVALUATION_CONTENT: [&str; 3] = ["explanation", "error", "details"];
/// Content fields of a run.
const RUN_CONTENT: [&str; 4] = ["title", "input", "output", "user_id"];
/// Content fields of a call.
const CALL_CONTENT: [&str; 3] = ["arguments", "result", "error"];

/// Store to query, and the setting for its content.
pub(super) struct StoredRuns {
    reader: Mutex<StoreReader>,
    shown: ShownContent,
    filter: ContentFilter,
}

impl StoredRuns {
    /// Opens the file of a store.
    pub(super) fn open(path: &Path, shown: ShownContent) -> anyhow::Result<Self> {
        let reader = Mutex::new(StoreReader::open(path)?);
        Ok(Self { reader, shown, filter: ContentFilter::of(shown) })
    }

    fn summary(&self, args: &SummarizeArgs) -> McpAnswer {
        let all = StoreFilter::default();
        let reader = self.reader.lock();
        let group = match args.group_by {
            GroupWord::Evaluator => None,
            GroupWord::Agent => Some(StoreField::Agent),
            GroupWord::Service => Some(StoreField::Service),
            GroupWord::Session => Some(StoreField::SessionId),
        };
        let fields: Vec<_> = [StoreField::Evaluator].into_iter().chain(group).collect();
        let groups = reader.groups(&all, &fields).map_err(error_text)?;
        let rows = groups.iter().take(GROUPS_MAX).map(|group| {
            let mut row = group_keys(&fields, group);
            if let Value::Object(figures) = json_of(&GroupFigures::new(group))? {
                row.extend(figures);
            }
            Ok(Value::Object(row))
        });
        let rows = rows.collect::<Result<Vec<_>, String>>()?;
        let tools = reader.tools(&all).map_err(error_text)?;
        let tools = tools
            .iter()
            .take(GROUPS_MAX)
            .map(|tool| json!({"name": tool.tool, "calls": tool.calls, "failed": tool.errors}));
        let everything = reader.groups(&all, &[]).map_err(error_text)?;
        let summary = json!({
            "runs": json_of(&reader.count_runs(&all).map_err(error_text)?)?,
            "all": json_of(&GroupFigures::of_all(&everything))?,
            "groups": rows,
            "groups_left_out": groups.len().saturating_sub(GROUPS_MAX),
            "not_scored": json_of(&reader.reasons(&all).map_err(error_text)?)?,
            "tools": tools.collect::<Vec<_>>(),
        });
        Ok(fitted(&summary, SUMMARY_TEXT_BYTES, ANSWER_BYTES_MAX))
    }

    fn evaluators(&self, args: &ListEvaluatorsArgs) -> McpAnswer {
        let mut filter = StoreFilter::default();
        ask(&mut filter, StoreField::Kind, args.kind.as_deref())?;
        let fields = [
            StoreField::Evaluator,
            StoreField::Kind,
            StoreField::Level,
            StoreField::EvaluatorVersion,
        ];
        let groups = self.reader.lock().groups(&filter, &fields).map_err(error_text)?;
        let rows = groups.iter().map(|group| {
            let mut row = group_keys(&fields, group);
            row.insert("count".to_owned(), Value::from(group.count()));
            Value::Object(row)
        });
        let mut answer = json!({"evaluators": rows.collect::<Vec<_>>()});
        if args.kinds || args.kind.is_some() {
            answer["kinds"] = kinds(args.kind.as_deref());
        }
        Ok(fitted(&answer, text_bytes(None), ANSWER_BYTES_MAX))
    }

    fn query(&self, args: &QueryArgs) -> McpAnswer {
        let filter = filter_of(args)?;
        let start = start_of(args.cursor.as_deref())?;
        let limit = args.limit.unwrap_or(EVALUATIONS.0).clamp(1, EVALUATIONS.1);
        let order = if args.lowest_first { StoreOrder::Worst } else { StoreOrder::Newest };
        // The store has no span field, so the newest rows are searched for it.
        let most = args.span_id.as_ref().map_or(start + limit + 1, |_| ROWS_MAX);
        let mut rows = self.reader.lock().evaluations(&filter, order, most).map_err(error_text)?;
        if let Some(span) = &args.span_id {
            rows.retain(|row| row.span_id.starts_with(&span.to_ascii_lowercase()));
        }
        let bytes = text_bytes(args.text_bytes);
        let shown = page(rows.iter(), start, (limit, ANSWER_BYTES_MAX / 2), |row| {
            let mut content = self.content_of(&row.trace_id);
            let row = json_of(row)?;
            learn(&mut content, &row)?;
            let shown = self.show(row, &EVALUATION_CONTENT, &mut content)?;
            Ok(fitted(&shown, bytes, ANSWER_BYTES_MAX / 2))
        })?;
        Ok(json!({
            "evaluations": shown.items,
            "next_cursor": shown.next.map(|next| next.to_string()),
        }))
    }

    fn trajectory(&self, args: &TrajectoryArgs) -> McpAnswer {
        start_of(args.cursor.as_deref())?;
        let mut run = self.run(&args.trace_id)?;
        let calls = run.as_object_mut().and_then(|map| map.shift_remove("calls"));
        let mut answer = fitted(&run, text_bytes(args.text_bytes), ANSWER_BYTES_MAX / 2);
        add_calls(&mut answer, calls, args)?;
        Ok(answer)
    }

    /// Returns a filtered run.
    fn run(&self, id: &str) -> McpAnswer {
        let run = self.reader.lock().trajectory(&id.to_ascii_lowercase()).map_err(error_text)?;
        let mut content = self.content_of(&run.trace_id);
        let run = json_of(&run)?;
        learn(&mut content, &run)?;
        let mut run = self.show(run, &RUN_CONTENT, &mut content)?;
        for (list, keys) in [
            ("calls", &CALL_CONTENT[..]),
            ("evaluations", &EVALUATION_CONTENT[..]),
            ("offered", &DEFINITION_CONTENT[..]),
        ] {
            for part in run[list].as_array_mut().into_iter().flatten() {
                *part = self.show(part.take(), keys, &mut content)?;
            }
        }
        Ok(run)
    }

    fn content_of(&self, trace_id: &str) -> TraceContent<'_> {
        self.filter.trace(TraceId::from_hex(trace_id).unwrap_or_default())
    }

    /// Filters the content of a row by the setting.
    fn show(
        &self,
        mut row: Value,
        keys: &[&str],
        content: &mut TraceContent<'_>,
    ) -> Result<Value, String> {
        let Some(map) = row.as_object_mut() else { return Ok(row) };
        for key in keys {
            let Some(value) = map.get_mut(*key).filter(|value| !value.is_null()) else { continue };
            *value = if self.shown.is_shown() {
                parsed(&content.show(&own(value)?))?
            } else {
                Value::Null
            };
        }
        Ok(row)
    }
}

impl AnswerSource for StoredRuns {
    fn answer(&self, tool: &str, given: Option<JsonObject>) -> Option<McpAnswer> {
        Some(match tool {
            "summarize" => tools::read(given).and_then(|args| self.summary(&args)),
            "list_evaluators" => tools::read(given).and_then(|args| self.evaluators(&args)),
            "query_evaluations" => tools::read(given).and_then(|args| self.query(&args)),
            "get_trajectory" => tools::read(given).and_then(|args| self.trajectory(&args)),
            "evaluate" => Err("judges are asked about files, not about a store".to_owned()),
            _ => return None,
        })
    }

    fn resources(&self, _cursor: Option<&str>) -> Result<ListResourcesResult, String> {
        let all = StoreFilter::default();
        let runs = self.reader.lock().runs(&all, RunOrder::default(), None, RESOURCES_PAGE);
        let resource = |run: &RunRow| {
            let about = format!("a run with {} tool calls, ended {}", run.calls, run.time);
            let name = [&run.agent, &run.service].into_iter().find(|name| !name.is_empty());
            listed(&run.trace_id, name.map_or("", |name| name), about)
        };
        let runs = runs.map_err(error_text)?.items;
        Ok(ListResourcesResult::with_all_items(runs.iter().map(resource).collect()))
    }

    fn trace_resource(&self, id: &str) -> Result<String, String> {
        let run = self.run(id)?;
        Ok(fitted(&run, RESOURCE_BYTES_MAX, RESOURCE_BYTES_MAX).to_string())
    }
}

/// Parses the filter of a query.
fn filter_of(args: &QueryArgs) -> Result<StoreFilter, String> {
    let mut filter = StoreFilter::default();
    filter.score_lt = args.score_below;
    let text = args.text.as_deref().unwrap_or_default();
    filter.ask_text(text).map_err(|error| error.to_string())?;
    let named = args.evaluator.as_deref();
    let is_kind = named.is_some_and(|name| kind(name).is_some());
    ask(&mut filter, StoreField::Kind, named.filter(|_| is_kind))?;
    ask(&mut filter, StoreField::Evaluator, named.filter(|_| !is_kind))?;
    ask(&mut filter, StoreField::Kind, args.kind.as_deref())?;
    ask(&mut filter, StoreField::EvaluatorVersion, args.evaluator_version.as_deref())?;
    ask(&mut filter, StoreField::Level, args.level.map(|it| it.into_str()))?;
    ask(&mut filter, StoreField::TraceId, args.trace_id.as_deref())?;
    ask(&mut filter, StoreField::SessionId, args.session_id.as_deref())?;
    ask(&mut filter, StoreField::Agent, args.agent_name.as_deref())?;
    ask(&mut filter, StoreField::Service, args.service_name.as_deref())?;
    ask(&mut filter, StoreField::Reason, args.reason.as_deref())?;
    ask(&mut filter, StoreField::Label, args.label.map(|it| it.into_str()))?;
    let field = match args.outcome {
        Some(OutcomeWord::Pass | OutcomeWord::Fail) => StoreField::Label,
        Some(OutcomeWord::NotAsked) => {
            return Err("a store holds nothing that is `not_asked`".to_owned());
        }
        _ => StoreField::Outcome,
    };
    ask(&mut filter, field, args.outcome.map(|it| it.into_str()))?;
    Ok(filter)
}

fn ask(filter: &mut StoreFilter, field: StoreField, value: Option<&str>) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let is_id = matches!(field, StoreField::TraceId | StoreField::EvaluatorVersion);
    let value = if is_id { value.to_ascii_lowercase() } else { value.to_owned() };
    filter.ask(field, value).map_err(error_text)
}

fn error_text(error: StoreQueryError) -> String {
    error.to_string()
}

fn json_of(value: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| format!("failed to write a row: {error}"))
}

fn learn(content: &mut TraceContent<'_>, row: &Value) -> Result<(), String> {
    content.learn(&own(row)?);
    Ok(())
}

fn own(value: &Value) -> Result<OwnValue<'static>, String> {
    let read = own_json::parse(&value.to_string()).map(OwnValue::into_owned);
    read.map_err(|error| format!("failed to read a row: {error}"))
}

fn parsed(value: &OwnValue<'_>) -> Result<Value, String> {
    serde_json::from_str(&value.to_string())
        .map_err(|error| format!("failed to read a row: {error}"))
}
