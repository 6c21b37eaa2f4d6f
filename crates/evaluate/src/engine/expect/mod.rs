//! Expectations: criteria per trace.
//!
//! Returns for a trajectory an evaluator with its criteria: a row of a dataset, found by a key in
//! the trace, or criteria in an attribute of its root span. A trace without criteria is not
//! evaluable, never failed.
//!
//! Rows are built when the config is read. Criteria in attributes are built on first use and
//! cached, at most [`KNOWN_MAX`]. Criteria longer than [`CRITERIA_BYTES_MAX`] are rejected.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::identity;
use super::select::{ReadKeys, Reads, RootReads, Scope};
use super::tool_choice::texts_of;
use crate::evaluator::{CRITERIA_FROM_TRACE, ClassifierClasses, Evaluator, Kind};
use crate::external::ExternalPlan;
use crate::shared::matcher;
use spanscore_base::model::{EvaluatorInfo, Facts, Outcome, Reason, Trajectory, Want};
use spanscore_base::settings::{Key, Node, NodeKind, Place, SettingsError};
use spanscore_base::value::{Value, json};

use lookup::{CaseKey, CaseRows};

pub mod case;
pub mod lookup;

/// Limit on cached criteria of attributes; beyond it the cache is cleared.
pub const KNOWN_MAX: usize = 1_024;
/// Limit on the bytes of their texts in the cache, without the evaluators built from them.
const KNOWN_BYTES_MAX: usize = 256 << 10;
/// Longest criteria in an attribute, bytes.
pub const CRITERIA_BYTES_MAX: usize = 65_536;

/// Evaluator with the criteria of one or more traces.
pub struct Expectation {
    /// Evaluator info of its evaluations, with a digest that covers the criteria.
    pub info: Arc<EvaluatorInfo>,
    /// Evaluator with the criteria.
    pub evaluator: Evaluator,
    /// Texts in the criteria; output tools among them are visible.
    pub named: Vec<String>,
}

/// Evaluator without criteria.
pub struct Template {
    /// Kind of evaluator.
    pub kind: &'static Kind,
    /// Settings, without `criteria`.
    pub settings: Node,
    /// Evaluator info with the digest of the settings only.
    pub info: Arc<EvaluatorInfo>,
}

impl Template {
    /// Builds the evaluator with these criteria. Errors in them are located at `place`.
    pub fn build(&self, criteria: &Value<'_>, place: Place) -> Result<Expectation, SettingsError> {
        self.built(&self.with(&placed(criteria, place), place), criteria)
    }

    /// Builds the evaluator with criteria from the trace.
    fn build_from_trace(&self, criteria: &Value<'_>) -> Result<Expectation, SettingsError> {
        let literal = self.literal(criteria.clone().into_owned());
        let mut settings = self.with(&Node::from_value(&literal), Place::default());
        if let (true, NodeKind::Map(entries)) = (self.kind.takes("judge"), &mut settings.kind) {
            let key = Key { text: CRITERIA_FROM_TRACE.to_owned(), place: Place::default() };
            entries.push((key, Node::from_value(&Value::from(true))));
        }
        self.built(&settings, criteria)
    }

    /// Escapes the matchers in criteria: a sender must not be able to write `any`.
    fn literal(&self, criteria: Value<'static>) -> Value<'static> {
        if matcher::MATCHED_KINDS.contains(&self.kind.name) {
            matcher::escaped(criteria)
        } else {
            criteria
        }
    }

    /// Builds the evaluator with criteria without matchers. Errors in them are located at `place`.
    pub fn build_literal(
        &self,
        criteria: &Value<'_>,
        place: Place,
    ) -> Result<Expectation, SettingsError> {
        let literal = self.literal(criteria.clone().into_owned());
        self.built(&self.with(&placed(&literal, place), place), criteria)
    }

    fn built(&self, settings: &Node, criteria: &Value<'_>) -> Result<Expectation, SettingsError> {
        let evaluator = (self.kind.build)(settings)?;
        let digest = identity::with_criteria(self.info.digest, criteria);
        let EvaluatorInfo { kind, ref name, threshold, level, .. } = *self.info;
        let name = name.clone();
        let info =
            EvaluatorInfo { kind, name, threshold, level, digest, ..EvaluatorInfo::default() };
        Ok(Expectation { info: Arc::new(info), evaluator, named: texts_of(criteria) })
    }

    /// Returns the settings with the criteria at the end, so that settings are read first.
    pub fn with(&self, criteria: &Node, place: Place) -> Node {
        let entries = self.settings.entries().cloned();
        let criteria = (Key { text: "criteria".to_owned(), place }, criteria.clone());
        Node {
            kind: NodeKind::Map(entries.chain([criteria]).collect()),
            place: self.settings.place,
        }
    }
}

/// Builds a node of a value at a single location.
fn placed(value: &Value<'_>, place: Place) -> Node {
    let mut node = Node::from_value(value);
    node.change_places(&|_| place);
    node
}

/// Reads criteria from a field or an attribute: an object, or its JSON text.
pub fn criteria<'a>(value: &'a Value<'_>) -> Result<Value<'a>, String> {
    let read = match value {
        Value::String(text) => json::parse(text).map_err(|error| format!("criteria: {error}"))?,
        other => other.clone(),
    };
    match read {
        Value::Map(_) => Ok(read),
        _ => Err("criteria must be an object".to_owned()),
    }
}

/// Lookup of expectations by trajectory: a dataset, or an attribute of the root span.
pub struct Expectations {
    source: ExpectationSource,
    facts: Facts,
    reads_calls: bool,
    /// Plan of the external evaluator, common to all criteria.
    external: Option<Arc<ExternalPlan>>,
    /// Classes of the classifier, common to all criteria.
    classes: Option<ClassifierClasses>,
}

enum ExpectationSource {
    Dataset { key: CaseKey, rows: Box<CaseRows> },
    Attribute { name: String, template: Template, known: Known },
}

/// Cache of built expectations by the text of their criteria.
type Known = Mutex<HashMap<String, Arc<Expectation>>>;

impl Expectations {
    /// Builds a lookup of dataset rows by `key`.
    pub fn dataset(key: CaseKey, rows: CaseRows) -> Self {
        let turns = || rows.by_turn.values().flatten();
        let turns = || turns().filter_map(|turn| turn.expectation.as_ref());
        let all = || rows.by_name.values().chain(turns());
        let facts = all().fold(key.facts(), |facts, row| facts.union(&row.evaluator.facts()));
        let reads_calls = all().all(|row| row.evaluator.reads_calls());
        let first = all().next().map(|row| &row.evaluator);
        let external = first.and_then(|first| first.external().cloned());
        let classes = first.and_then(Evaluator::classes);
        let source = ExpectationSource::Dataset { key, rows: Box::new(rows) };
        Self { source, facts, reads_calls, external, classes }
    }

    /// Builds a lookup of criteria in an attribute of the root span. `sample` is an evaluator built
    /// from the template.
    pub fn attribute(name: String, template: Template, sample: &Evaluator) -> Self {
        let facts = Facts { root_attributes: true, ..sample.facts() };
        Self {
            source: ExpectationSource::Attribute { name, template, known: Mutex::default() },
            facts,
            reads_calls: sample.reads_calls(),
            external: sample.external().cloned(),
            classes: sample.classes(),
        }
    }

    /// Returns the cases of a dataset with the evaluator info of their evaluations.
    pub fn cases(&self) -> impl Iterator<Item = (&str, &Arc<EvaluatorInfo>)> {
        let rows = match &self.source {
            ExpectationSource::Dataset { rows, .. } => Some(&rows.by_name),
            ExpectationSource::Attribute { .. } => None,
        };
        rows.into_iter().flatten().map(|(case, expectation)| (case.as_str(), &expectation.info))
    }

    /// Returns the turns with expectations in multi-turn cases: the case's name, and the evaluator
    /// info of the turn's evaluations.
    pub fn turns(&self) -> impl Iterator<Item = (&str, &Arc<EvaluatorInfo>)> {
        let rows = match &self.source {
            ExpectationSource::Dataset { rows, .. } => Some(&rows.by_turn),
            ExpectationSource::Attribute { .. } => None,
        };
        let turns = rows.into_iter().flat_map(HashMap::values).flatten();
        turns.filter_map(|turn| Some((turn.case.as_str(), &turn.expectation.as_ref()?.info)))
    }

    /// Returns true if the outcome depends on the calls.
    pub fn reads_calls(&self) -> bool {
        self.reads_calls
    }

    /// Returns the plan of the external evaluator, as rows differ only in criteria.
    pub fn external(&self) -> Option<&Arc<ExternalPlan>> {
        self.external.as_ref()
    }

    /// Returns the classes of the classifier; `None` for other evaluators.
    pub fn classes(&self) -> Option<ClassifierClasses> {
        self.classes.clone()
    }

    /// Returns the facts needed to find an expectation and judge by it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the names read to find an expectation.
    pub fn reads(&self) -> Reads {
        match &self.source {
            ExpectationSource::Dataset { key, .. } => key.reads(),
            ExpectationSource::Attribute { .. } => Reads::default(),
        }
    }

    /// Returns the parts of the root span read to find an expectation.
    pub fn root_reads(&self) -> RootReads {
        match &self.source {
            ExpectationSource::Dataset { key, .. } => key.root_reads(),
            ExpectationSource::Attribute { name, .. } => {
                let attributes = ReadKeys::Named(vec![name.clone()]);
                RootReads { attributes, ..RootReads::default() }
            }
        }
    }

    /// Returns the expectation of a trajectory.
    ///
    /// # Errors
    /// Returns the outcome if none exists or is readable.
    pub fn find(
        &self,
        trajectory: &Trajectory<'_>,
        scope: &Scope<'_>,
        want: Want,
    ) -> Result<Arc<Expectation>, Outcome> {
        match &self.source {
            ExpectationSource::Dataset { key, rows } => {
                let found = rows.find(key, trajectory, scope).map(Arc::clone);
                found.map_err(|missed| nothing(want, || missed.explain(trajectory)))
            }
            ExpectationSource::Attribute { name, template, known } => {
                let found = trajectory.attributes.iter().find(|(key, _)| key == name);
                let Some((_, value)) = found else {
                    return Err(nothing(want, || format!("the root span has no `{name}`")));
                };
                let built = value
                    .to_value()
                    .map_err(|error| error.to_string())
                    .and_then(|value| built(value.to_text().into_owned(), &value, template, known));
                built.map_err(|what| Outcome::Failed {
                    error_type: "invalid_criteria",
                    error: format!("`{name}`: {what}"),
                })
            }
        }
    }
}

fn nothing(want: Want, explanation: impl FnOnce() -> String) -> Outcome {
    crate::shared::report::not_evaluable(Reason::NoExpectation, want, explanation)
}

fn built(
    text: String,
    value: &Value<'_>,
    template: &Template,
    known: &Known,
) -> Result<Arc<Expectation>, String> {
    if text.len() > CRITERIA_BYTES_MAX {
        return Err(format!("{} bytes are more than {CRITERIA_BYTES_MAX}", text.len()));
    }
    let lock = || known.lock();
    if let Some(found) = lock().get(&text) {
        return Ok(Arc::clone(found));
    }
    let criteria = criteria(value)?;
    let built = template.build_from_trace(&criteria);
    let built = Arc::new(built.map_err(|error| error.to_string())?);
    let mut known = lock();
    let bytes = known.keys().map(String::len).sum::<usize>() + text.len();
    if known.len() >= KNOWN_MAX || bytes > KNOWN_BYTES_MAX {
        known.clear();
    }
    known.insert(text, Arc::clone(&built));
    Ok(built)
}

#[cfg(test)]
mod tests;
