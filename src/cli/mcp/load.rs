//! Loading of the files: trajectories as in `inspect`, evaluations as in `score`.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::store::{RunStore, StoredEvaluation};
use crate::cli::score::{Heard, Silence};
use crate::cli::{output, recorded};
use crate::config::ResolvedConfig;
use spanscore_base::model::{Facts, Trajectory};
use spanscore_base::value::{Map, Value};
use spanscore_base::visible;
use spanscore_emit::{ContentFilter, ShownContent, TraceContent};
use spanscore_engine::batch::{Batch, BatchOrder, BatchPlan, BatchProgress, JudgedGroup};
use spanscore_engine::call_rows::judged_row;
use spanscore_engine::replay::Replay;
use spanscore_evaluate::engine::run::{Configured, Evaluators};
use spanscore_evaluate::{AskedTarget, FailureJudge, kind};
use spanscore_pipeline::recordings;

/// Limit on tools counted by name.
const TOOLS_MAX: usize = 10_000;
/// Limit on inquiries pending for `evaluate`, bytes.
const INQUIRIES_BYTES_MAX: usize = 256 << 20;
/// Content fields of a trajectory, which a setting can withhold.
const CONTENT: [&str; 4] = ["user_input", "final_output", "attributes", "resource"];
/// Content fields of a call.
const CALL_CONTENT: [&str; 4] = ["arguments", "result", "error", "failed_reason"];
/// Content fields of a tool definition.
pub(super) const DEFINITION_CONTENT: [&str; 2] = ["description", "input_schema"];
/// Names chosen by senders in a trajectory and a call: redacted, never withheld.
const NAMES: [&str; 3] = ["agent_name", "span_name", "agent"];

/// Config, files and content setting of a load.
pub(super) struct LoadPlan {
    pub(super) plan: ResolvedConfig,
    pub(super) files: Vec<PathBuf>,
    pub(super) shown: ShownContent,
    /// True if judges may be asked later.
    pub(super) keeps_inquiries: bool,
}

/// Reads and judges all files; reports unreadable parts on standard error.
pub(super) fn load(load: LoadPlan) -> anyhow::Result<RunStore> {
    let LoadPlan { plan, files, shown, keeps_inquiries } = load;
    let mut store = RunStore::default();
    let filter = ContentFilter::of(shown);
    read_trajectories(&plan, &files, shown, &filter, &mut store)?;
    let facts = recorded::facts(&plan);
    let resolver = recorded::resolver(&plan, &facts).map_err(|error| anyhow::anyhow!("{error}"))?;
    let evaluators = recorded::judge(plan.evaluators);
    store.evaluators = evaluators.evaluators().iter().map(evaluator_row).collect();
    let settings = recorded::batch_plan(&plan.config, &resolver, &evaluators);
    let gathering = Gathering {
        shown,
        filter: &filter,
        keeps_inquiries,
        heard: Heard::default(),
        inquiries_bytes: 0,
        inquiries_lost: 0,
        groups: Vec::new(),
    };
    gathering.judge(settings, &files, &evaluators, &mut store)?;
    store.finish()?;
    Ok(store)
}

fn read_trajectories(
    plan: &ResolvedConfig,
    files: &[PathBuf],
    shown: ShownContent,
    filter: &ContentFilter,
    store: &mut RunStore,
) -> anyhow::Result<()> {
    let failures = FailureJudge::new(&plan.config.failures)?;
    let resolver =
        recorded::resolver(plan, &Facts::all()).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut replay = Replay::new(&resolver, plan.config.limits, plan.config.sessions.key);
    store.is_broken =
        recorded::read(&mut replay, files).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut kept = Ok(());
    replay.for_each(|trajectory| {
        if kept.is_ok() {
            kept = keep_trajectory(trajectory, &failures, (shown, filter), store);
        }
    });
    Ok(kept?)
}

fn keep_trajectory(
    trajectory: &Trajectory<'_>,
    failures: &FailureJudge,
    (shown, filter): (ShownContent, &ContentFilter),
    store: &mut RunStore,
) -> std::io::Result<()> {
    let row = judged_row(trajectory, Some(failures));
    for call in row.get("tool_calls").and_then(Value::as_list).unwrap_or_default() {
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
        if store.tools.len() < TOOLS_MAX || store.tools.contains_key(name) {
            let counts = store.tools.entry_ref(name).or_default();
            counts.0 += 1;
            counts.1 += u64::from(call.get("failed").and_then(Value::as_bool) == Some(true));
        }
    }
    let trace_id = trajectory.trace_id;
    let shown = shown_row(row, shown, filter.trace(trace_id));
    let names = ["agent_name", "service_name", "span_name"].into_iter();
    let mut names = names.filter_map(|key| shown.get(key).and_then(Value::as_str));
    let name = names.find(|name| !name.is_empty()).unwrap_or_default();
    store.add_trace(trace_id, name, trajectory.tool_calls.len(), &shown.to_string())
}

/// Removes or redacts the content of a trajectory, by the setting. Secrets are learnt from all of
/// it first, since a result may repeat an argument.
fn shown_row(row: Value<'_>, shown: ShownContent, mut content: TraceContent<'_>) -> Value<'static> {
    content.learn(&row);
    let mut show = |key: &str, value: &Value<'_>, fields: &[&str]| match shown {
        ShownContent::None if fields.contains(&key) => Value::Null,
        _ if fields.contains(&key) || NAMES.contains(&key) => content.show(value),
        _ => value.clone().into_owned(),
    };
    let Value::Map(map) = row else { return Value::Null };
    let mut shown_map = |map: &Map<'_>, fields: &[&str]| -> Map<'static> {
        map.iter().map(|(key, value)| (key.to_owned(), show(key, value, fields))).collect()
    };
    let mut out = shown_map(&map, &CONTENT);
    for (key, fields) in
        [("tool_calls", &CALL_CONTENT[..]), ("tool_definitions", &DEFINITION_CONTENT[..])]
    {
        let parts = map.get(key).and_then(Value::as_list).unwrap_or_default();
        let parts = parts.iter().filter_map(Value::as_map);
        out.insert(key, Value::List(parts.map(|it| Value::Map(shown_map(it, fields))).collect()));
    }
    if shown == ShownContent::None {
        out.insert("content", "withheld");
    }
    Value::Map(out)
}

fn evaluator_row(configured: &Configured) -> Json {
    let info = &configured.info;
    json!({
        "name": info.name,
        "kind": info.kind,
        "about": kind(info.kind).map(|kind| kind.about),
        "level": info.level.as_str(),
        "threshold": info.threshold,
        "sample": configured.sample,
        "asks_judge": configured.asks,
        "evaluator_version": info.version(),
    })
}

/// State of loading evaluations into the store.
struct Gathering<'a> {
    shown: ShownContent,
    filter: &'a ContentFilter,
    keeps_inquiries: bool,
    heard: Heard,
    inquiries_bytes: usize,
    inquiries_lost: usize,
    groups: Vec<(BatchOrder, Vec<StoredEvaluation>)>,
}

impl Gathering<'_> {
    fn judge(
        mut self,
        settings: BatchPlan<'_>,
        files: &[PathBuf],
        evaluators: &Evaluators,
        store: &mut RunStore,
    ) -> anyhow::Result<()> {
        let progress = BatchProgress::default();
        let mut batch = Batch::new(settings);
        // Unreadable parts were reported when the trajectories were read.
        recordings::read(&mut batch, files, &progress, &mut |_| {})?;
        let mut kept = Ok(());
        let counts = batch.judge(&progress, &mut |group| {
            kept = self.keep(group, store);
            kept.is_ok()
        });
        kept?;
        let counts = counts?;
        store.silence = Silence::of(evaluators, &self.heard, &counts).lines().collect();
        if self.inquiries_lost > 0 {
            let lost = self.inquiries_lost;
            store.silence.push(format!(
                "{lost} inquiries are beyond the {INQUIRIES_BYTES_MAX} bytes that wait for \
                 `evaluate`; name fewer files"
            ));
        }
        store.silence.iter().for_each(|line| {
            output::note(format_args!("spanscore: {}", visible::line(line)));
        });
        self.groups.sort_by_key(|(order, _)| *order);
        store.evaluations = self.groups.drain(..).flat_map(|(_, group)| group).collect();
        Ok(())
    }

    fn keep(&mut self, group: JudgedGroup, store: &mut RunStore) -> std::io::Result<()> {
        let with_content = self.shown.is_shown();
        let mut kept = Vec::with_capacity(group.evaluations.len() + group.asked.len());
        for evaluation in &group.evaluations {
            self.heard.add(evaluation);
            kept.push(store.stored(&self.filter.apply(evaluation), with_content, None)?);
        }
        for mut asked in group.asked {
            self.heard.add(asked.evaluation());
            kept.push(self.keep_inquiry(asked, store)?);
        }
        self.groups.push((group.order, kept));
        Ok(())
    }

    fn keep_inquiry(
        &mut self,
        asked: AskedTarget,
        store: &mut RunStore,
    ) -> std::io::Result<StoredEvaluation> {
        self.inquiries_bytes += asked.bytes();
        let has_room = self.inquiries_bytes <= INQUIRIES_BYTES_MAX;
        self.inquiries_lost += usize::from(self.keeps_inquiries && !has_room);
        let mut asked = Box::new(asked);
        let open = self.filter.apply(asked.evaluation()).into_owned();
        let mut stored = store.stored(&open, false, Some(asked))?;
        if !(self.keeps_inquiries && has_room) {
            stored.inquiry = None;
        }
        Ok(stored)
    }
}
