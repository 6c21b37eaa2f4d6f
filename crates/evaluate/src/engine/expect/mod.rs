//! Expectations: criteria that differ from trace to trace.
//!
//! In comes a trajectory, out goes the evaluator built with that trajectory's criteria: a row of a
//! dataset, found by a key that the trace carries, or criteria in an attribute of its root span. A
//! trace without criteria is not evaluable, never a fail.
//!
//! Rows are built when the config is read. Criteria of an attribute are built when they are first
//! seen and cached: at most [`KNOWN_MAX`]. Criteria longer than [`CRITERIA_BYTES_MAX`] are refused.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::identity;
use super::select::{ReadKeys, Reads, RootReads, Scope};
use super::tool_choice::texts_of;
use crate::evaluator::{CRITERIA_FROM_TRACE, Evaluator, Kind, ToldClasses};
use crate::external::ExternalPlan;
use crate::shared::matcher;
use spanscore_base::model::{EvaluatorInfo, Facts, Outcome, Reason, Trajectory, Want};
use spanscore_base::settings::{Key, Node, NodeKind, Place, SettingsError};
use spanscore_base::value::{Value, json};

use lookup::{CaseKey, CaseRows};

pub mod case;
pub mod lookup;

/// Cached criteria of attributes; the cache is cleared when there are more.
pub const KNOWN_MAX: usize = 1_024;
/// Bytes of their texts in the cache; the evaluators built from them take more.
const KNOWN_BYTES_MAX: usize = 256 << 10;
/// Longest criteria that an attribute may hold, bytes.
pub const CRITERIA_BYTES_MAX: usize = 65_536;

/// Evaluator built with the criteria of one or more traces.
pub struct Expectation {
    /// Evaluator info of its evaluations; the digest covers the criteria, too.
    pub info: Arc<EvaluatorInfo>,
    /// Evaluator that holds the criteria.
    pub evaluator: Evaluator,
    /// Texts in the criteria: an output tool among them is seen.
    pub named: Vec<String>,
}

/// Evaluator that lacks only its criteria.
pub struct Template {
    /// Kind of evaluator.
    pub kind: &'static Kind,
    /// Settings, without `criteria`.
    pub settings: Node,
    /// Evaluator info; its digest is that of the settings alone.
    pub info: Arc<EvaluatorInfo>,
}

impl Template {
    /// Builds the evaluator with these criteria. Errors in them are reported at `place`.
    pub fn build(&self, criteria: &Value<'_>, place: Place) -> Result<Expectation, SettingsError> {
        self.built(&self.with(&placed(criteria, place), place), criteria)
    }

    /// Builds the evaluator with criteria that stood in the trace.
    fn build_from_trace(&self, criteria: &Value<'_>) -> Result<Expectation, SettingsError> {
        let literal = self.literal(criteria.clone().into_owned());
        let mut settings = self.with(&Node::from_value(&literal), Place::default());
        let schema = self.kind.schema();
        let asks = schema.get("properties").is_some_and(|own| own.get("judge").is_some());
        if let (true, NodeKind::Map(entries)) = (asks, &mut settings.kind) {
            let key = Key { text: CRITERIA_FROM_TRACE.to_owned(), place: Place::default() };
            entries.push((key, Node::from_value(&Value::from(true))));
        }
        self.built(&settings, criteria)
    }

    /// Returns criteria in which nothing is a matcher: a sender must not write `any` for itself.
    fn literal(&self, criteria: Value<'static>) -> Value<'static> {
        if matcher::MATCHED_KINDS.contains(&self.kind.name) {
            matcher::escaped(criteria)
        } else {
            criteria
        }
    }

    /// Builds the evaluator with criteria in which nothing is a matcher. Errors in them are
    /// reported at `place`.
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

    /// Returns the settings with criteria, which stand last: settings are read before them.
    pub fn with(&self, criteria: &Node, place: Place) -> Node {
        let entries = self.settings.entries().cloned();
        let criteria = (Key { text: "criteria".to_owned(), place }, criteria.clone());
        Node {
            kind: NodeKind::Map(entries.chain([criteria]).collect()),
            place: self.settings.place,
        }
    }
}

/// Builds a node of a value with all of it at one place.
fn placed(value: &Value<'_>, place: Place) -> Node {
    fn put(node: &mut Node, place: Place) {
        node.place = place;
        match &mut node.kind {
            NodeKind::List(items) => items.iter_mut().for_each(|item| put(item, place)),
            NodeKind::Map(entries) => entries.iter_mut().for_each(|(key, node)| {
                key.place = place;
                put(node, place);
            }),
            NodeKind::Null | NodeKind::Scalar(_) => {}
        }
    }
    let mut node = Node::from_value(value);
    put(&mut node, place);
    node
}

/// Reads criteria from a field or an attribute: an object, or the JSON text of one.
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
    /// Plan of the external evaluator: the same for all criteria.
    external: Option<Arc<ExternalPlan>>,
    /// Classes that it tells apart: the same for all criteria.
    classes: Option<ToldClasses>,
}

enum ExpectationSource {
    Dataset { key: CaseKey, rows: Box<CaseRows> },
    Attribute { name: String, template: Template, known: Known },
}

/// Cache of built criteria by their text.
type Known = Mutex<HashMap<String, Arc<Expectation>>>;

impl Expectations {
    /// Looks up rows by what `key` finds in a trajectory.
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

    /// Reads criteria from an attribute of the root span. `sample` is an evaluator that the
    /// template builds.
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

    /// Returns the cases of a dataset, each with the evaluator info of its evaluations.
    pub fn cases(&self) -> impl Iterator<Item = (&str, &Arc<EvaluatorInfo>)> {
        let rows = match &self.source {
            ExpectationSource::Dataset { rows, .. } => Some(&rows.by_name),
            ExpectationSource::Attribute { .. } => None,
        };
        rows.into_iter().flatten().map(|(case, expectation)| (case.as_str(), &expectation.info))
    }

    /// Returns the turns of cases of several that expect something: the name of the whole case, and
    /// the evaluator info of evaluations of the turn.
    pub fn turns(&self) -> impl Iterator<Item = (&str, &Arc<EvaluatorInfo>)> {
        let rows = match &self.source {
            ExpectationSource::Dataset { rows, .. } => Some(&rows.by_turn),
            ExpectationSource::Attribute { .. } => None,
        };
        let turns = rows.into_iter().flat_map(HashMap::values).flatten();
        turns.filter_map(|turn| Some((turn.case.as_str(), &turn.expectation.as_ref()?.info)))
    }

    /// Returns true if the answers depend on the calls.
    pub fn reads_calls(&self) -> bool {
        self.reads_calls
    }

    /// Returns the plan of the external evaluator: rows differ in their criteria alone.
    pub fn external(&self) -> Option<&Arc<ExternalPlan>> {
        self.external.as_ref()
    }

    /// Returns the classes that it tells apart; `None` for evaluators of anything else.
    pub fn classes(&self) -> Option<ToldClasses> {
        self.classes.clone()
    }

    /// Returns the facts that finding an expectation and judging against it read.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the names that finding an expectation reads.
    pub fn reads(&self) -> Reads {
        match &self.source {
            ExpectationSource::Dataset { key, .. } => key.reads(),
            ExpectationSource::Attribute { .. } => Reads::default(),
        }
    }

    /// Returns the parts of the root span that finding an expectation reads.
    pub fn root_reads(&self) -> RootReads {
        match &self.source {
            ExpectationSource::Dataset { key, .. } => key.root_reads(),
            ExpectationSource::Attribute { name, .. } => {
                let attributes = ReadKeys::Named(vec![name.clone()]);
                RootReads { attributes, ..RootReads::default() }
            }
        }
    }

    /// Finds the expectation of a trajectory.
    ///
    /// # Errors
    /// The outcome where there is none, or none that can be read.
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
                let built = value.to_value().map_err(|error| error.to_string()).and_then(|value| {
                    let text = match &value {
                        Value::String(text) => text.to_string(),
                        other => other.to_string(),
                    };
                    built(text, &value, template, known)
                });
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
