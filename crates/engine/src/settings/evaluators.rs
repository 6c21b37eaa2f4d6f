//! The `evaluators:` map: keys shared by all kinds, and those of each kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::expect::{self, ExpectSettings};
use super::expression::compile;
use super::judged::{self, JudgeIdentities};
use super::read::read_all;
use super::remedies::{explain_maps, of_entry, of_scalar};
use super::sources::ConfigSources;
use super::tools_file;
use spanscore_base::model::{EvaluatorInfo, Level};
use spanscore_base::settings::{
    Key, Node, NodeKind, SettingsError, called_here, keys_of, meant_of, nearest, related,
};
use spanscore_base::value::Value;
use spanscore_evaluate::engine::expect::Template;
use spanscore_evaluate::engine::identity;
use spanscore_evaluate::engine::run::{Against, Configured};
use spanscore_evaluate::engine::tool_choice::{ToolChoice, texts_of};
use spanscore_evaluate::kinds::kind_elsewhere;
use spanscore_evaluate::{Evaluator, KINDS, Kind, kind};

/// Limit on the evaluators of one config.
const EVALUATORS_MAX: usize = 1_000;
/// Longest name of an evaluator, bytes.
const NAME_BYTES_MAX: usize = 200;

/// Settings of every kind of evaluator.
#[derive(Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct SharedSettings {
    /// Condition for judging a trace: a CEL expression, such as `service_name == "shop"`. Texts of
    /// the root span: `service_name`, `agent_name`, `session_id`, `trace_id`, `span_name`. Maps of
    /// the root span: `resource`, `attributes`. Of the whole trace: the texts `user_input` and
    /// `final_output`, the list `tool_names` in call order, and the list `spans` by start, with
    /// `name`, `kind`, `status` and `attributes` of each span. `json()` parses a text:
    /// `json(attributes["metadata"]).case`. Default: every trace is judged.
    pub when: Option<String>,
    /// Share of the traces selected by `when` that is judged, 0 to 1. The trace id decides, so that
    /// evaluators with equal shares judge the same traces. Default 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    #[default = 1.0]
    pub sample: f64,
    /// Lowest score that passes, 0 to 1. Default: the threshold of the kind.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: Option<f64>,
    /// Unit that is judged: each `call`, each `trace` (default) or each `session`.
    pub level: LevelSetting,
    /// Criteria per test case, instead of `criteria`: from a dataset, or from an attribute of the
    /// trace. A trace without criteria is not evaluable.
    pub expect: Option<ExpectSettings>,
    /// Reports a fail before the trace ends, as soon as it is certain. The evaluation of the
    /// complete trace then revises that verdict. Only for `tool_call_count`, `tool_policy`,
    /// `tool_loop` and `tool_budget`. Default `false`.
    pub early: bool,
    /// Condition for a request to a judge or an external evaluator: a CEL expression such as
    /// `scores["tool_error"] < 1.0`. It may use the names of `when` and the map `scores`, which
    /// holds the scores of the trace by evaluator. A missing score makes the condition false. Only
    /// for evaluators that use a judge or another process.
    pub run_if: Option<String>,
    /// Tools that the evaluator sees, by name or glob such as `search_*`. Default: all.
    pub only_tools: Vec<String>,
    /// Tools that the evaluator does not see, by name or glob.
    pub exclude_tools: Vec<String>,
    /// Agents whose calls the evaluator sees, by their name in traces or a glob. Calls of unknown
    /// agents are hidden. Default: all agents.
    pub only_agents: Vec<String>,
    /// Shows the evaluator only calls that a model's message lists, and so hides calls that a tool
    /// made itself. If no message of the trace lists a call, all calls are visible. Default
    /// `false`.
    pub only_chosen: bool,
    /// Aliases of tools, such as `{find_order: [mcp__*__find_order]}`: calls and definitions of
    /// tools that match the globs appear under the alias. All other settings of the evaluator use
    /// the alias, `only_tools` and `exclude_tools` included.
    pub tool_aliases: BTreeMap<String, Vec<String>>,
}

/// Unit that an evaluator judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LevelSetting {
    /// Each tool call. The evaluation is attached to the span of the call.
    Call,
    /// Each trace. The evaluation is attached to the root span.
    #[default]
    Trace,
    /// Each session. The evaluation is attached to the root span of the last trace.
    Session,
}

/// Keys of the kind in a UiPath definition.
const TYPE_KEYS: [&str; 2] = ["evaluatorTypeId", "evaluator_type_id"];

/// Returns the keys of [`SharedSettings`].
fn shared_keys() -> &'static [&'static str] {
    keys_of::<SharedSettings>()
}

/// Other config sections used by evaluators.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The section `failures`, for kinds that use it without their own settings.
    pub failures: Option<&'a Node>,
    /// The judges; `None` if they are unreadable.
    pub judges: Option<&'a JudgeIdentities>,
    /// Sources of the settings.
    pub sources: &'a ConfigSources,
}

/// Reads all entries; adds their errors to `errors`.
pub fn configure(
    entries: Option<&Node>,
    around: Surroundings<'_>,
    errors: &mut Vec<SettingsError>,
) -> Vec<Configured> {
    let Some(node) = entries else { return Vec::new() };
    let entries = match &node.kind {
        NodeKind::Map(entries) => entries.as_slice(),
        NodeKind::Null => &[],
        _ => {
            let error = SettingsError::new("evaluators are a map keyed `kind/name`");
            let help = "write `tool_error:` or `tool_error/name: {threshold: 0.9}`, without `- `";
            errors.push(error.with_help(help).at(node.place));
            &[]
        }
    };
    if entries.len() > EVALUATORS_MAX {
        errors.push(
            SettingsError::new(format!("more than {EVALUATORS_MAX} evaluators")).at(node.place),
        );
        return Vec::new();
    }
    let entry = |(at, (key, node)): (usize, &(Key, Node))| {
        let before = at.checked_sub(1).and_then(|at| entries.get(at)).map(|(key, _)| key);
        configure_one((key, before), node, around, errors)
    };
    entries.iter().enumerate().filter_map(entry).collect()
}

fn configure_one(
    (key, before): (&Key, Option<&Key>),
    node: &Node,
    around: Surroundings<'_>,
    errors: &mut Vec<SettingsError>,
) -> Option<Configured> {
    let Surroundings { failures, judges, sources } = around;
    let kind = kind_of(key).map_err(|error| indented(error, key, before));
    let kind = kind.map_err(|error| errors.push(error)).ok()?;
    if let Some(error) = of_scalar(key, node) {
        errors.push(error);
        return None;
    }
    let node = match &node.kind {
        NodeKind::Null => Node { kind: NodeKind::Map(Vec::new()), place: key.place },
        _ => node.clone(),
    };
    let node = without_unknown(kind, node, errors);
    let (shared, own) = node.split(|key| shared_keys().contains(&key));
    let so_far = errors.len();
    let settings = read_all(&shared, errors, |node| read_shared(kind, node));
    explain_maps(&shared, &mut errors[so_far..]);
    let when = shared.get("when").and_then(|when| compile("when", when, sources, errors));
    let asks = judged::asks(kind, &own);
    errors.extend(judged::mistakes(kind, &shared, &own, judges));
    let run_if = shared.get("run_if").and_then(|it| compile("run_if", it, sources, errors));
    let own = with_failures(kind, own, failures);
    let own = match tools_file::resolve(own) {
        Ok(own) => own,
        Err(error) => {
            errors.push(error);
            return None;
        }
    };
    let info = settings.as_ref().map(|settings| Arc::new(info(kind, key, settings, &own, judges)));
    let named = texts_of(&own.to_value());
    let against = match shared.get("expect").filter(|node| node.kind != NodeKind::Null) {
        None => build(kind, &own, errors).map(Against::Settings),
        Some(_) => {
            let expect = settings.as_ref()?.expect.as_ref()?;
            let template = Template { kind, settings: own, info: Arc::clone(info.as_ref()?) };
            expect::read(expect, &shared, template, sources, errors).map(Against::Expectations)
        }
    };
    let settings = settings?;
    let info = info?;
    let against = against?;
    let tools = ToolChoice {
        only: settings.only_tools,
        exclude: settings.exclude_tools,
        agents: settings.only_agents,
        chosen: settings.only_chosen,
        aliases: settings.tool_aliases,
        named,
    };
    let SharedSettings { sample, early, .. } = settings;
    let configured = Configured { info, when, sample, early, asks, run_if, tools, against };
    if settings.level == LevelSetting::Call && !configured.reads_calls() {
        let place = shared.get("level").map_or(key.place, |level| level.place);
        errors.push(no_calls(kind).at(place));
        return None;
    }
    Some(configured)
}

/// Returns the kind's own settings of an evaluator, as in the config.
pub fn own_settings(config: &Node, name: &str) -> Option<Value<'static>> {
    let (_, own) = config.get("evaluators")?.get(name)?.split(|key| shared_keys().contains(&key));
    tools_file::resolve(own).ok().map(|own| own.to_value())
}

/// Returns the error of a kind that cannot judge single calls, since its answer would be the same
/// for each.
fn no_calls(kind: &Kind) -> SettingsError {
    let message = format!("`{}` does not judge calls with these settings", kind.name);
    let help = if kind.takes("target") {
        "`level: call` goes with `target: tool_arguments` or `target: tool_results`"
    } else {
        "leave `level` out, or say `trace` or `session`"
    };
    SettingsError::new(message).with_help(help)
}

fn info(
    kind: &'static Kind,
    key: &Key,
    settings: &SharedSettings,
    own: &Node,
    judges: Option<&JudgeIdentities>,
) -> EvaluatorInfo {
    let level = match settings.level {
        LevelSetting::Call => Level::Call,
        LevelSetting::Trace => Level::Trace,
        LevelSetting::Session => Level::Session,
    };
    let mut judged_by = own.to_value();
    if judged::asks(kind, own) {
        judged::identify(kind, &mut judged_by, judges);
    }
    // The selection of tools changes verdicts, so it is part of the identity.
    if let Value::Map(map) = &mut judged_by {
        let list = |globs: &[String]| {
            Value::List(globs.iter().map(|glob| Value::from(glob.clone())).collect())
        };
        for (key, globs) in [
            ("only_tools", &settings.only_tools),
            ("exclude_tools", &settings.exclude_tools),
            ("only_agents", &settings.only_agents),
        ] {
            if !globs.is_empty() {
                map.insert(key, list(globs));
            }
        }
        if settings.only_chosen {
            map.insert("only_chosen", Value::from(true));
        }
        if !settings.tool_aliases.is_empty() {
            let aliases = settings.tool_aliases.iter();
            let aliases = aliases.map(|(tool, globs)| (tool.clone(), list(globs)));
            map.insert("tool_aliases", Value::Map(aliases.collect()));
        }
    }
    EvaluatorInfo {
        kind: kind.name,
        name: key.text.clone(),
        threshold: settings.threshold.unwrap_or(kind.threshold),
        level,
        digest: identity::of_evaluator(&key.text, level, &judged_by),
        case: None,
        own_version: None,
    }
}

/// Adds the config's section `failures` to an evaluator's settings, if its kind uses it and they
/// have none, so that it is part of the identity.
fn with_failures(kind: &Kind, mut own: Node, failures: Option<&Node>) -> Node {
    const KEY: &str = "failures";
    if let (true, Some(failures), NodeKind::Map(entries)) =
        (kind.takes(KEY), failures, &mut own.kind)
        && !entries.iter().any(|(key, _)| key.text == KEY)
    {
        entries.push((Key { text: KEY.to_owned(), place: failures.place }, failures.clone()));
    }
    own
}

/// Returns the kind named by a key.
fn kind_of(key: &Key) -> Result<&'static Kind, SettingsError> {
    let (word, name) = match key.text.split_once('/') {
        Some((word, name)) => (word, Some(name)),
        None => (key.text.as_str(), None),
    };
    let printable =
        |name: &str| !name.is_empty() && name.trim() == name && !name.contains(char::is_control);
    if key.text.len() > NAME_BYTES_MAX || !name.is_none_or(printable) {
        return Err(SettingsError::new(format!("`{}` is not a name", key.text.escape_debug()))
            .with_help(format!(
                "write kind/name without spaces around, at most {NAME_BYTES_MAX} bytes"
            ))
            .at(key.place));
    }
    if let Some(kind) = kind(word) {
        return Ok(kind);
    }
    let alias = kind_elsewhere(word)
        .map(|(kind, origin)| format!("what {origin} calls so is `{}` here", kind.name));
    let names = || KINDS.iter().map(|kind| kind.name);
    let by_colon = word.split_once(':').filter(|(start, _)| kind(start).is_some());
    let help = alias
        .or_else(|| by_colon.map(|(start, name)| format!("write `{start}/{name}`")))
        .or_else(|| nearest(word, names()).map(|meant| format!("did you mean `{meant}`?")))
        .or_else(|| meant_of(&related(word, names())))
        .unwrap_or_else(|| "`spanscore evaluators` lists the kinds".to_owned());
    Err(SettingsError::new(format!("unknown kind of evaluator `{word}`"))
        .with_help(help)
        .at(key.place))
}

/// Adds the remedy for a setting of the evaluator before, written beside it.
fn indented(error: SettingsError, key: &Key, before: Option<&Key>) -> SettingsError {
    match before.filter(|before| is_setting_of(&key.text, before)) {
        Some(before) => {
            let text = &before.text;
            error.with_help(format!("it is a setting of `{text}`: indent it below that"))
        }
        None => error,
    }
}

/// Returns true if a word is a setting of the evaluator under a key.
fn is_setting_of(word: &str, key: &Key) -> bool {
    let Ok(kind) = kind_of(key) else { return false };
    shared_keys().contains(&word) || kind.takes(word)
}

/// Returns the error of a file that is a single UiPath definition instead of a config; `None` for
/// others.
pub fn bare_definition(node: &Node) -> Option<SettingsError> {
    let (key, type_id) = node.entries().find(|(key, _)| TYPE_KEYS.contains(&key.text.as_str()))?;
    let type_id = type_id.to_value();
    let type_id = type_id.as_str().unwrap_or_default();
    let is_it = |kind: &&&Kind| kind.also_known_as.iter().any(|(word, _)| *word == type_id);
    let key_here = match KINDS.iter().find(is_it) {
        Some(kind) => format!("`{}/a_name_of_yours`", kind.name),
        None => "its kind and a name of yours".to_owned(),
    };
    let error = SettingsError::new("this is an evaluator of UiPath, not a config");
    let help = format!("put all of it under `evaluators:`, in an entry with the key {key_here}");
    Some(error.with_help(help).at(key.place))
}

/// Removes mistyped shared keys without a suggestion from the kind. The kind checks all other keys,
/// since it may accept forms outside of its schema, such as a pasted definition.
fn without_unknown(kind: &Kind, mut node: Node, errors: &mut Vec<SettingsError>) -> Node {
    let schema = kind.schema();
    let own = schema.get("properties").and_then(|properties| properties.as_object());
    let own: Vec<&str> = own.into_iter().flat_map(|own| own.keys()).map(String::as_str).collect();
    let NodeKind::Map(entries) = &mut node.kind else { return node };
    entries.retain_mut(|(key, _)| {
        let mut known = shared_keys().iter().chain(&own).copied();
        if known.any(|word| word == key.text) {
            return true;
        }
        let message = format!("unknown setting `{}`", key.text);
        let known: Vec<&str> = shared_keys().iter().chain(&own).copied().collect();
        if let Some((word, help)) = called_here(&key.text, &known) {
            let is_same = help.starts_with("what is called so");
            errors.push(SettingsError::new(message).with_help(help).at(key.place));
            // Renamed, so that its value is checked, too.
            key.text = word.to_owned();
            return is_same;
        }
        let meant = nearest(&key.text, known);
        let Some(meant) = meant.filter(|meant| shared_keys().contains(meant)) else { return true };
        let help = format!("did you mean `{meant}`?");
        errors.push(SettingsError::new(message).with_help(help).at(key.place));
        false
    });
    node
}

/// Builds an evaluator with its own settings.
fn build(kind: &Kind, own: &Node, errors: &mut Vec<SettingsError>) -> Option<Evaluator> {
    let so_far = errors.len();
    let built = read_all(own, errors, |own| (kind.build)(own).map_err(|error| placed(error, own)));
    explain_unknown(kind, own, &mut errors[so_far..]);
    explain_maps(own, &mut errors[so_far..]);
    built
}

/// Moves an error of the whole settings to the entry that it names.
fn placed(mut error: SettingsError, own: &Node) -> SettingsError {
    let around = match error.place {
        None => Some(own),
        Some(place) => own.at(place),
    };
    // An error in a key or a single value has its place.
    let is_exact = error.message.starts_with("unknown ");
    let Some(around) = around.filter(|_| !is_exact) else { return error };
    let named = error.message.split('`').skip(1).step_by(2);
    let value = named.into_iter().find_map(|word| {
        let mut found = Vec::new();
        around.below(word, &mut found);
        <[&Node; 1]>::try_from(found).ok().map(|[value]| value.place)
    });
    error.place = value.filter(|place| place.line > 0).or(error.place);
    error
}

/// Extends the help for unknown settings of a kind: the place of criteria, otherwise the settings
/// of all evaluators.
fn explain_unknown(kind: &Kind, own: &Node, errors: &mut [SettingsError]) {
    let schema = kind.schema();
    let criteria = schema.get("$defs").and_then(|all| all.get("Criteria")?.get("properties"));
    for error in errors {
        if error.message == "`criteria` is missing" && error.help.is_none() {
            let keys = criteria.and_then(|criteria| criteria.as_object());
            let keys: Vec<&str> =
                keys.into_iter().flat_map(|it| it.keys()).map(String::as_str).collect();
            error.help = Some(format!("write `criteria:` with {}", keys.join(" or ")));
        }
        let is_it = |(key, _): &&(Key, Node)| Some(key.place) == error.place;
        let Some((key, _)) = own.entries().find(is_it) else { continue };
        let Some(help) = error.help.as_mut().filter(|help| help.starts_with("known are ")) else {
            continue;
        };
        *help = if criteria.is_some_and(|criteria| criteria.get(&key.text).is_some()) {
            format!("write it below `criteria`: `criteria: {{{}: ...}}`", key.text)
        } else if let Some(remedy) = of_entry(&key.text) {
            remedy.to_owned()
        } else {
            format!("{help}; and of every evaluator {}", shared_keys().join(", "))
        };
    }
}

fn read_shared(kind: &Kind, node: &Node) -> Result<SharedSettings, SettingsError> {
    let settings: SharedSettings = node.read()?;
    if settings.early && !kind.early {
        let able = KINDS.iter().filter(|kind| kind.early).map(|kind| kind.name);
        let able = able.collect::<Vec<_>>().join(", ");
        let message = format!("`{}` knows nothing before the end of a trace", kind.name);
        return Err(node.fault("early", message).with_help(format!("`early` goes with {able}")));
    }
    if settings.early && settings.level != LevelSetting::Trace {
        let message = "`early` goes only with `level: trace`";
        return Err(node.fault("early", message));
    }
    let fraction = |key: &str, value: f64| {
        if (0.0..=1.0).contains(&value) {
            Ok(())
        } else {
            let error = node.fault(key, format!("`{key}` is {value}, outside 0 to 1"));
            let help = format!("write {} for {value}%", value / 100.0);
            Err(if (2.0..=100.0).contains(&value) { error.with_help(help) } else { error })
        }
    };
    fraction("sample", settings.sample)?;
    fraction("threshold", settings.threshold.unwrap_or(0.0))?;
    Ok(settings)
}
