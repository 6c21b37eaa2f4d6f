//! Selection of trajectories by `when`, a CEL expression, and `sample`, a stable fraction of all
//! traces or sessions.
//!
//! The expression reads `service_name`, `agent_name`, `session_id`, `trace_id` and `span_name`
//! (texts of the root span, empty if unknown), `resource` and `attributes` (maps of the root span),
//! `tool_names` (a list in call order), `user_input` and `final_output` (texts, empty if not
//! recorded). It also reads `spans`, a list of maps in order of start, with the `name`, `kind`,
//! `status` and `attributes` of every span. `json(attributes["metadata"])` parses a JSON text
//! ([`parsed`]). A missing key makes the expression false. So does a comparison of different types,
//! which is counted.

mod error;
mod functions;
mod keys;
mod parsed;
mod places;
mod reads;
mod sample;
mod values;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use cel::common::ast::Expr;
use cel::common::types::{CelBool, CelList, CelMap, CelString};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::{Context, Env, ExecutionError, IdedExpr};

use self::parsed::{JsonPlace, ParsedTexts};
use super::counted::{self, Counted, StepsLeft, Uncountable};
use super::truth;
pub use error::WhenError;
pub use keys::{ReadKeys, RootReads};
pub(super) use parsed::json_within_limits;
pub use places::{is_part_of_name, place_of_words};
pub use reads::Reads;
pub use sample::Randomness;
use spanscore_base::model::span_parts::span_parts;
use spanscore_base::model::{Content, Facts, TraceId, Trajectory, WorkBudget};
use spanscore_base::otlp::AnyValue;
use spanscore_base::otlp::any_value::key_values;
use spanscore_base::value::Value;
use values::{cel_list, cel_map, list, map};

/// Step limit of one expression on one trajectory.
pub const STEPS_MAX: usize = 16_000_000;
/// Steps per name for each read of the list of names.
const STEPS_PER_NAME: usize = 8;
/// Steps per span for each read of the list of spans.
const STEPS_PER_SPAN: usize = 32;
/// Bytes of attributes per step for each read of their map.
const BYTES_PER_STEP: usize = 32;

/// Variables of an expression.
pub const VARIABLES: [&str; 11] = [
    "service_name", "agent_name", "session_id", "trace_id", "span_name", "resource", "attributes",
    "tool_names", USER_INPUT, "final_output", "spans",
];
/// Variable of the user's words.
const USER_INPUT: &str = "user_input";

/// Additional variable of a `run_if`: the other evaluators' scores of the trace.
pub const SCORES: &str = "scores";

/// Compiled expression: a `when`, a `run_if`, or the `key` of an expectation.
pub struct When {
    counted: Counted,
    environment: Arc<Env>,
    attributes: bool,
    reads: Reads,
    root_reads: Box<RootReads>,
    is_user_input: bool,
}

/// Result of an expression on a trajectory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selected {
    /// True: the trajectory is selected.
    Yes,
    /// False: it is not.
    No,
    /// The evaluation failed or gave no boolean: treated as no, and counted.
    Error,
    /// The evaluation would take more than [`STEPS_MAX`] steps, or than the trace has left.
    TooExpensive,
}

impl When {
    /// Compiles a condition; rejects an expression that never gives a boolean.
    pub fn compile_condition(text: &str) -> Result<Self, WhenError> {
        Self::compile_with(text, &[], true)
    }

    /// Compiles an expression.
    pub fn compile(text: &str) -> Result<Self, WhenError> {
        Self::compile_with(text, &[], false)
    }

    /// Compiles a condition that may also read other evaluators' [`SCORES`].
    pub fn compile_run_if(text: &str) -> Result<Self, WhenError> {
        Self::compile_with(text, &[SCORES], true)
    }

    fn compile_with(text: &str, more: &[&str], is_condition: bool) -> Result<Self, WhenError> {
        // Built once and shared: it registers many functions.
        static STDLIB: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));
        let environment = Arc::clone(&STDLIB);
        let program = environment.compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let at = |place: Option<isize>| {
                place.map_or(1, |at| usize::try_from(at).unwrap_or(1).max(1))
            };
            WhenError::Syntax {
                line: at(first.map(|error| error.pos.0)),
                column: at(first.map(|error| error.pos.1)),
                message: first.map_or_else(|| "not valid CEL".into(), |error| error.msg.clone()),
            }
        })?;
        let references = program.references();
        let functions = references.functions();
        if let Some(name) =
            functions.into_iter().find(|name| !functions::is_function(&environment, name))
        {
            return Err(WhenError::UnknownFunction { name: name.to_owned() });
        }
        let mut local = Vec::new();
        macro_variables(program.expression(), &mut local);
        let known =
            |name: &str| VARIABLES.contains(&name) || more.contains(&name) || local.contains(&name);
        let unknown = references.variables().into_iter().filter(|name| !known(name));
        // They are unordered; the first in the text is reported.
        if let Some(name) = unknown.min_by_key(|name| (place_of_words(text, name), *name)) {
            return Err(WhenError::UnknownName { name: name.to_owned() });
        }
        let attributes = references.has_variable("attributes");
        let reads = Reads {
            tool_names: references.has_variable("tool_names"),
            user_input: references.has_variable(USER_INPUT),
            final_output: references.has_variable("final_output"),
            spans: references.has_variable("spans"),
        };
        let is_user_input =
            matches!(&program.expression().expr, Expr::Ident(name) if name == USER_INPUT);
        let root_reads = Box::new(RootReads::of(program.expression()));
        let mut expression = program.expression().clone();
        parsed::rewrite(&mut expression).map_err(|()| WhenError::NoAttribute)?;
        let counted = Counted::new(&expression).map_err(|error| match error {
            Uncountable::PatternOfData => WhenError::PatternOfData,
            Uncountable::Pattern(message) => WhenError::Pattern { message },
        })?;
        // Checked last: an unknown name is the more helpful error.
        if is_condition && let Err(what) = truth::check(program.expression()) {
            return Err(WhenError::NoTruthValue { what });
        }
        if let Some(name) = truth::text_compared_with_other(program.expression()) {
            return Err(WhenError::OtherThanText { name: name.to_owned() });
        }
        Ok(Self { counted, environment, attributes, reads, root_reads, is_user_input })
    }

    /// Returns the facts needed by the expression.
    pub fn facts(&self) -> Facts {
        Facts {
            root_attributes: self.attributes,
            user_input: self.reads.user_input,
            final_output: self.reads.final_output,
            spans: self.reads.spans,
            ..Facts::default()
        }
    }

    /// Returns the parts of the root span read by the expression.
    pub fn root_reads(&self) -> &RootReads {
        &self.root_reads
    }

    /// Returns true if the expression is only the user's words.
    pub fn is_user_input(&self) -> bool {
        self.is_user_input
    }

    /// Evaluates the condition for a trajectory.
    pub fn selects(&self, scope: &Scope<'_>) -> Selected {
        match self.execute(scope) {
            _ if scope.steps.is_spent() => Selected::TooExpensive,
            Ok(cel::Value::Bool(true)) => Selected::Yes,
            Ok(cel::Value::Bool(false)) | Err(ExecutionError::NoSuchKey(_)) => Selected::No,
            Ok(_) | Err(_) => Selected::Error,
        }
    }

    /// Evaluates to a text, with integers as digits; `None` if the trajectory lacks an attribute
    /// that the expression reads, or for a value of another type.
    pub fn text(&self, scope: &Scope<'_>) -> Option<String> {
        match self.execute(scope) {
            _ if scope.steps.is_spent() => None,
            Ok(cel::Value::String(text)) => Some(text.to_string()),
            Ok(cel::Value::Int(number)) => Some(number.to_string()),
            Ok(cel::Value::UInt(number)) => Some(number.to_string()),
            Ok(_) | Err(_) => None,
        }
    }

    fn execute(&self, scope: &Scope<'_>) -> Result<cel::Value, ExecutionError> {
        let mut context = Context::with_env(Arc::clone(&self.environment));
        context.set_variable_resolver(scope);
        self.counted.execute(&mut context, &scope.steps)
    }

    /// Returns the variables read among those that are expensive to provide.
    pub fn reads(&self) -> Reads {
        self.reads
    }
}

/// Collects the variables declared by `exists`, `all`, `map` and `filter`: the `t` of
/// `tool_names.exists(t, t == "x")`.
fn macro_variables<'a>(expression: &'a IdedExpr, names: &mut Vec<&'a str>) {
    if let Expr::Comprehension(inner) = &expression.expr {
        names.push(&inner.iter_var);
        names.extend(inner.iter_var2.as_deref());
    }
    counted::parts(&expression.expr).into_iter().for_each(|part| macro_variables(part, names));
}

/// Variables of one trajectory, each built on its first read.
pub struct Scope<'a> {
    service_name: &'a str,
    agent_name: &'a str,
    session_id: &'a str,
    trace_id: TraceId,
    span_name: &'a str,
    names: Vec<&'a str>,
    tool_names: OnceLock<CelList<'a>>,
    steps: StepsLeft,
    given: usize,
    encoded_resource: &'a [u8],
    attribute_list: &'a [(&'a str, AnyValue<'a>)],
    attribute_bytes: usize,
    resource: OnceLock<CelMap<'a>>,
    attributes: OnceLock<CelMap<'a>>,
    scores: Option<CelMap<'a>>,
    encoded_spans: &'a [&'a [u8]],
    spans: OnceLock<CelList<'a>>,
    user_input: Cow<'a, str>,
    final_output: Cow<'a, str>,
    parsed: ParsedTexts<'a>,
}

impl<'a> Scope<'a> {
    /// Prepares the variables of a trajectory; those in [`Reads`] stay empty unless requested.
    pub fn new(trajectory: &'a Trajectory<'_>, reads: Reads) -> Self {
        let text = |is_read: bool, content: &'a Content<'_>| {
            if is_read { content.to_text() } else { Cow::Borrowed("") }
        };
        let names = trajectory.tool_calls.iter().map(|call| &*call.name);
        Self {
            service_name: trajectory.service_name(),
            agent_name: trajectory.agent_name.as_deref().unwrap_or_default(),
            session_id: trajectory.session_id.as_deref().unwrap_or_default(),
            trace_id: trajectory.trace_id,
            span_name: &trajectory.span_name,
            names: if reads.tool_names { names.collect() } else { Vec::new() },
            tool_names: OnceLock::new(),
            steps: StepsLeft::new(STEPS_MAX),
            given: STEPS_MAX,
            encoded_resource: &trajectory.resource.encoded,
            attribute_list: &trajectory.attributes,
            attribute_bytes: trajectory.attributes.iter().map(bytes).sum(),
            resource: OnceLock::new(),
            attributes: OnceLock::new(),
            scores: None,
            encoded_spans: &trajectory.spans,
            spans: OnceLock::new(),
            user_input: text(reads.user_input, &trajectory.user_input),
            final_output: text(reads.final_output, &trajectory.final_output),
            parsed: ParsedTexts::default(),
        }
    }

    /// Adds evaluators' scores by name.
    pub fn with_scores(mut self, scores: Vec<(String, f64)>) -> Self {
        let scores = scores.into_iter();
        let entries = scores.map(|(name, score)| (CelString::from(name), Value::from(score)));
        self.scores = Some(cel_map(entries));
        self
    }
}

impl VariableResolver for Scope<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let text = |text: &'b str| Some(CowVal::owned(CelString::from(text)));
        match variable {
            "service_name" => text(self.service_name),
            "agent_name" => text(self.agent_name),
            "session_id" => text(self.session_id),
            "span_name" => text(self.span_name),
            "trace_id" => Some(CowVal::owned(CelString::from(self.trace_id.to_string()))),
            "resource" => {
                self.take(self.encoded_resource.len() / BYTES_PER_STEP)?;
                let map = || map(key_values(self.encoded_resource).flatten());
                Some(CowVal::Borrowed(self.resource.get_or_init(map)))
            }
            "attributes" => {
                self.take(self.attribute_bytes / BYTES_PER_STEP)?;
                let map = || map(self.attribute_list.iter().copied());
                Some(CowVal::Borrowed(self.attributes.get_or_init(map)))
            }
            "tool_names" => {
                self.take(self.names.len() * STEPS_PER_NAME)?;
                Some(CowVal::Borrowed(self.tool_names.get_or_init(|| list(&self.names))))
            }
            "spans" => {
                let bytes: usize = self.encoded_spans.iter().map(|span| span.len()).sum();
                self.take(self.encoded_spans.len() * STEPS_PER_SPAN + bytes / BYTES_PER_STEP)?;
                let list = || cel_list(self.encoded_spans.iter().map(|span| span_parts(span)));
                Some(CowVal::Borrowed(self.spans.get_or_init(list)))
            }
            USER_INPUT => self.words(&self.user_input),
            "final_output" => self.words(&self.final_output),
            SCORES => self.scores.as_ref().map(|scores| CowVal::Borrowed(scores as &dyn Val)),
            other => match JsonPlace::parse(other) {
                Some(place) => Some(CowVal::Borrowed(self.parsed(other, place)?)),
                None => {
                    self.take(counted::steps_of(other)?)?;
                    Some(CowVal::owned(CelBool::from(true)))
                }
            },
        }
    }
}

impl<'a> Scope<'a> {
    fn words<'b>(&'b self, text: &'b str) -> Option<CowVal<'b, 'b>> {
        self.take(text.len() / BYTES_PER_STEP)?;
        Some(CowVal::owned(CelString::from(text)))
    }

    /// Returns the user's words; empty if not recorded or not requested.
    pub(super) fn user_input(&self) -> &str {
        &self.user_input
    }

    /// Charges the parsing of a JSON text; false if the budget does not suffice.
    pub(super) fn charge_text(&self, text: &str) -> bool {
        self.take(text.len() / parsed::BYTES_PER_STEP).is_some()
    }

    /// Returns the map of an attribute's JSON, parsed once.
    fn parsed(&self, variable: &str, place: JsonPlace<'_>) -> Option<&CelMap<'a>> {
        self.take(1)?;
        if let Some(known) = self.parsed.get(variable) {
            return Some(known);
        }
        let value = if place.of_resource {
            self.take(self.encoded_resource.len() / BYTES_PER_STEP)?;
            let mut entries = key_values(self.encoded_resource).flatten();
            entries.find(|(key, _)| *key == place.key).map(|(_, value)| value)
        } else {
            self.take(self.attribute_list.len())?;
            let entry = self.attribute_list.iter().find(|(key, _)| *key == place.key);
            entry.map(|(_, value)| *value)
        };
        let size = value.map_or(0, |value| bytes(&(place.key, value)));
        self.take(size / parsed::BYTES_PER_STEP)?;
        Some(self.parsed.get_or_make(variable, place.key, value))
    }
}

impl Scope<'_> {
    fn take(&self, steps: usize) -> Option<()> {
        self.steps.take(steps).then_some(())
    }

    /// Sets the step budget of the next expressions: the trace's remaining steps, at most
    /// [`STEPS_MAX`].
    pub fn begin(&mut self, effort: &WorkBudget) {
        self.given = effort.left().min(STEPS_MAX);
        self.steps = StepsLeft::new(self.given);
    }

    /// Charges the trace's work budget with the steps taken since [`begin`](Self::begin).
    pub fn end(&self, effort: &WorkBudget) {
        // An expression that overdraws the trace's remaining steps overdraws the trace too. Beyond
        // `STEPS_MAX` only the expression is too expensive.
        let more = usize::from(self.steps.is_spent() && self.given < STEPS_MAX);
        effort.spend(self.given - self.steps.left() + more);
    }
}

/// Returns the bytes of an attribute.
fn bytes((key, value): &(&str, AnyValue<'_>)) -> usize {
    key.len()
        + match value {
            AnyValue::String(text) => text.len(),
            AnyValue::InvalidText(bytes)
            | AnyValue::Bytes(bytes)
            | AnyValue::Array(bytes)
            | AnyValue::KeyValues(bytes) => bytes.len(),
            _ => 8,
        }
}

#[cfg(test)]
mod tests;
