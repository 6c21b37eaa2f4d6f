//! Description provided by an evaluator, checked against the config.

use spanscore_base::model::Level;
use spanscore_evaluate::external::RemotePlan;
use spanscore_evaluate::external::answer::shown;
use spanscore_evaluate::external::json::ALL_FACTS;
use spanscore_evaluate::external::proto::{DescribeResponse, ServedKind, TaskLevel};

use super::ExternalFault;

/// Limit on kinds listed in an error.
const NAMED_MAX: usize = 8;

/// Description provided by an evaluator.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::external) struct Description {
    /// Name of its kind.
    pub(in crate::external) kind: String,
    /// Its version; may be empty.
    pub(in crate::external) version: String,
    /// Facts that it requires.
    pub(in crate::external) needs: Vec<i32>,
    /// Supported levels; empty means all.
    pub(in crate::external) levels: Vec<i32>,
    /// Largest number of tasks in a request, if stated.
    pub(in crate::external) batch_max: Option<u32>,
}

impl Description {
    /// Returns the empty description of a process.
    pub(super) fn of_process() -> Self {
        Self::default()
    }

    /// Reads the description of the configured kind; `None` if the server does not describe itself.
    pub(super) fn of(
        response: Option<DescribeResponse>,
        remote: &RemotePlan,
        wanted: &str,
    ) -> Result<Self, ExternalFault> {
        let Some(response) = response else {
            let kind = remote.kind.as_deref().unwrap_or(wanted).to_owned();
            return Ok(Self { kind, needs: ALL_FACTS.to_vec(), ..Self::default() });
        };
        let found = find(&response.kinds, remote.kind.as_deref(), wanted);
        let Some(kind) = found else {
            let names = response.kinds.iter().take(NAMED_MAX).map(|kind| shown(&kind.name));
            let names = names.collect::<Vec<_>>().join(", ");
            let named = remote.kind.as_deref().unwrap_or(wanted);
            let error = format!("it has no kind `{named}`; name one of its own in `kind`: {names}");
            return Err(unfit("external_kind_unknown", error, ["kind"]));
        };
        check_settings(kind, &remote.settings_json)?;
        Ok(Self {
            kind: kind.name.clone(),
            version: kind.version.clone(),
            needs: kind.needs.clone(),
            levels: kind.levels.clone(),
            batch_max: (kind.batch_max > 0).then_some(kind.batch_max),
        })
    }

    /// Checks that it supports a level.
    ///
    /// # Errors
    /// It does not.
    pub(in crate::external) fn check_level(&self, level: Level) -> Result<(), ExternalFault> {
        if self.takes(level) {
            return Ok(());
        }
        let error = format!("the evaluator does not judge with `level: {}`", level.as_str());
        Err(unfit("external_level_unsupported", error, ["level"]))
    }

    /// Returns true if it supports a level.
    pub(in crate::external) fn takes(&self, level: Level) -> bool {
        self.levels.is_empty() || self.levels.contains(&(task_level(level) as i32))
    }
}

fn find<'k>(kinds: &'k [ServedKind], named: Option<&str>, wanted: &str) -> Option<&'k ServedKind> {
    let by_name = |name: &str| kinds.iter().find(|kind| kind.name == name);
    match (named, kinds) {
        (Some(name), _) => by_name(name),
        (None, [only]) => Some(only),
        (None, _) => by_name(wanted),
    }
}

fn check_settings(kind: &ServedKind, settings: &str) -> Result<(), ExternalFault> {
    if kind.settings_schema.trim().is_empty() {
        return Ok(());
    }
    let wrong = |what: String| {
        let error = format!("its `settings_schema` cannot be used: {}", shown(&what));
        unfit("external_schema_invalid", error, ["settings"])
    };
    let schema: serde_json::Value =
        serde_json::from_str(&kind.settings_schema).map_err(|error| wrong(error.to_string()))?;
    let schema = jsonschema::validator_for(&schema).map_err(|error| wrong(error.to_string()))?;
    let settings = serde_json::from_str(settings).unwrap_or_default();
    schema.validate(&settings).map_err(|error| {
        let place = error.instance_path().to_string();
        let words = shown(&error.to_string());
        let error = format!("it does not take `settings{}`: {words}", place.replace('/', "."));
        let parts = place.split('/').filter(|part| !part.is_empty());
        let unescaped = parts.map(|part| part.replace("~1", "/").replace("~0", "~"));
        let at = std::iter::once("settings".to_owned()).chain(unescaped);
        unfit("external_settings_invalid", error, at)
    })
}

fn unfit<I: Into<String>>(
    error_type: &'static str,
    error: String,
    at: impl IntoIterator<Item = I>,
) -> ExternalFault {
    ExternalFault::Unfit { error_type, error, at: at.into_iter().map(Into::into).collect() }
}

/// Returns the level as in a task.
pub(in crate::external) fn task_level(level: Level) -> TaskLevel {
    match level {
        Level::Call => TaskLevel::Call,
        Level::Trace => TaskLevel::Trace,
        Level::Session => TaskLevel::Session,
    }
}
