use std::sync::LazyLock;

use proptest::prelude::*;

use super::super::dialect::{Mark, Scalar, SpanKindSaid};
use super::super::testing::{extract, facts, request, span, table, text};
use super::*;

/// Evaluates a condition directly.
fn naive(condition: &Condition, span: &Given) -> bool {
    let value = |key: &str| span.attributes.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
    let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|w| w == found);
    let begins = |wanted: &Option<String>, found: &str| {
        wanted.as_deref().is_none_or(|w| found.starts_with(w))
    };
    let mut values: Vec<&Scalar> = condition.one_of.iter().chain(&condition.equals).collect();
    values.retain(|_| !condition.attr.is_empty());
    let equals = values.is_empty()
        || values.iter().any(|wanted| match wanted {
            Scalar::String(wanted) => value(&condition.attr) == Some(wanted),
            _ => false,
        });
    let prefix = condition
        .prefix
        .as_ref()
        .is_none_or(|p| value(&condition.attr).is_some_and(|value| value.starts_with(p)));
    (condition.any.is_empty() || condition.any.iter().any(|part| naive(part, span)))
        && condition.all.iter().all(|part| naive(part, span))
        && (condition.attr.is_empty() || value(&condition.attr).is_some())
        && equals
        && prefix
        && condition.attr_present.iter().all(|key| value(key).is_some())
        && condition.attr_absent.iter().all(|key| value(key).is_none())
        && is(&condition.scope, &span.scope)
        && begins(&condition.scope_prefix, &span.scope)
        && is(&condition.span_name, &span.name)
        && begins(&condition.span_name_prefix, &span.name)
        && condition.log_event_name_prefix.is_none()
        && condition.root.is_none_or(|root| root == span.root)
        && condition.says.is_none_or(|kind| match told(kind) {
            ("acme.span.kind", word) => value("acme.span.kind") == Some(word),
            (NAME, _) => span.attributes.iter().any(|(key, name)| is_name(key) && name != STATED),
            (CONTENT, _) => span.attributes.iter().any(|(key, _)| is_content(key)),
            (OTHER, _) => says_other(span),
            _ => CALL_IDS.iter().any(|key| value(key).is_some()),
        })
        && condition.says_none_of.iter().all(|kind| {
            let says = Some(*kind);
            !naive(&Condition { says, ..Condition::default() }, span)
        })
}

/// Keys of call ids: an unknown one, and those in conditions of built-in dialects.
const CALL_IDS: [&str; 3] = ["acme.tool.call_id", "gen_ai.tool.call_id", "upsonic.tool.call_id"];

/// Name of a tool that a dialect states: such a value says nothing of the span's kind.
const STATED: &str = "(merged tools)";

/// Unknown keys of a tool's name, and of its arguments.
const NAME: &str = "acme.tool.name";
const CONTENT: &str = "acme.tool.args";

/// Unknown key of a kind.
const OTHER: &str = "acme.step.type";

/// Keys whose value for a guard a dialect states.
const GUARDS: [&str; 3] =
    ["langfuse.observation.type", "langwatch.span.type", "traceloop.span.kind"];

/// Returns true if a kind key has a value that no dialect states.
fn says_other(span: &Given) -> bool {
    span.attributes.iter().any(|(key, value)| {
        (value == "x" || value == "guardrail" && !GUARDS.contains(&key.as_str()))
            && is_kind_key(key.as_bytes())
            && kind_attribute::span_kind(key.as_bytes(), value.as_bytes())
                == Some(SpanKindSaid::Other)
    })
}

/// Returns true for any key of a tool's name, including those of built-in dialects.
fn is_name(key: &str) -> bool {
    letters(key).ends_with("toolname")
}

/// Returns true for any key of a tool's input or output, except conventional ones.
fn is_content(key: &str) -> bool {
    let is_own = !["gen_ai.", "tool.", "mcp."].iter().any(|prefix| key.starts_with(prefix));
    let words = ["arguments", "args", "input", "inputs", "result", "output", "response"];
    let ends = |end: String| letters(key).ends_with(&end);
    is_own
        && words.iter().any(|word| ends(format!("tool{word}")) || ends(format!("toolcall{word}")))
}

fn letters(key: &str) -> String {
    key.replace(['.', '_', ':'], "").to_ascii_lowercase()
}

/// Returns an attribute that states a span's kind.
fn told(kind: SpanKindSaid) -> (&'static str, &'static str) {
    let word = match kind {
        SpanKindSaid::Tool => "tool",
        SpanKindSaid::Agent => "agent",
        SpanKindSaid::Model => "llm",
        SpanKindSaid::Run => "chain",
        SpanKindSaid::Other => return (OTHER, "guardrail"),
        SpanKindSaid::ToolCallId => return (CALL_IDS[0], "call_1"),
        SpanKindSaid::ToolName => return (NAME, "find"),
        SpanKindSaid::ToolContent => return (CONTENT, "{}"),
    };
    ("acme.span.kind", word)
}

#[derive(Debug, Clone)]
struct Given {
    scope: String,
    name: String,
    root: bool,
    attributes: Vec<(String, String)>,
}

/// Words in conditions of the built-in dialects, so that random spans often match.
#[derive(Default)]
struct Words {
    scopes: Vec<String>,
    names: Vec<String>,
    attributes: Vec<(String, String)>,
}

impl Words {
    fn add(&mut self, condition: &Condition) {
        for part in condition.any.iter().chain(&condition.all) {
            self.add(part);
        }
        self.scopes.extend(condition.scope.iter().chain(&condition.scope_prefix).cloned());
        self.names.extend(condition.span_name.iter().chain(&condition.span_name_prefix).cloned());
        for key in condition.attr_present.iter().chain(&condition.attr_absent) {
            self.attributes.push((key.clone(), "x".into()));
        }
        for value in condition.one_of.iter().chain(&condition.equals) {
            if let Scalar::String(text) = value {
                self.attributes.push((condition.attr.clone(), text.clone()));
            }
        }
        for kind in condition.says.iter().chain(&condition.says_none_of) {
            let (key, value) = told(*kind);
            self.attributes.push((key.into(), value.into()));
        }
        if let Some(prefix) = &condition.prefix {
            self.attributes.push((condition.attr.clone(), format!("{prefix} and more")));
        }
    }
}

fn given(table: &Table) -> impl Strategy<Value = Given> + use<> {
    let mut words = Words::default();
    table.conditions.iter().for_each(|condition| words.add(condition));
    words.scopes.push("other".into());
    words.names.push("other".into());
    let attributes = proptest::collection::vec(proptest::sample::select(words.attributes), 0..6);
    let scope = proptest::sample::select(words.scopes);
    let name = proptest::sample::select(words.names);
    (scope, name, any::<bool>(), attributes).prop_map(|(scope, name, root, mut attributes)| {
        attributes.sort();
        attributes.dedup_by(|one, other| one.0 == other.0);
        Given { scope, name, root, attributes }
    })
}

static TABLE: LazyLock<Table> = LazyLock::new(|| table(&Facts::all()));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn conditions_hold_as_they_read(
        given in given(&TABLE),
    ) {
        let attributes = given.attributes.iter().map(|(key, value)| text(key, value)).collect();
        let mut one = span(1, &given.name, attributes);
        if given.root {
            one.parent_span_id = Vec::new();
        }
        let (_, batch) = extract(&TABLE, &request(&given.scope, vec![one]));
        let found: Vec<_> = facts(&batch, &batch.spans[0]).conditions().collect();
        let holds = |at: usize| naive(&TABLE.conditions[at], &given);
        let excludes = |at: &usize| TABLE.compiled[*at].is(Mark::Exclude);
        let excluded = (0..TABLE.compiled.len()).filter(excludes).any(holds);
        let wanted: Vec<_> = (0..TABLE.conditions.len())
            .filter(|at| TABLE.compiled[*at].stated && holds(*at))
            .filter(|at| !(excluded && TABLE.compiled[*at].is(Mark::Tool)))
            .map(|at| ConditionId(at as u16))
            .collect();
        prop_assert_eq!(found, wanted);
    }
}

#[test]
fn dialects_beyond_the_limits_are_refused() {
    let dialect = |keys: usize| Dialect {
        name: "wide".into(),
        session_id: (0..keys)
            .map(|n| super::super::dialect::FactSource {
                key: format!("k{n}"),
                ..Default::default()
            })
            .collect(),
        ..Dialect::default()
    };
    assert!(Table::compile(vec![dialect(512)], &Facts::default()).is_ok());
    let error = Table::compile(vec![dialect(513)], &Facts::default()).unwrap_err();
    assert!(error.to_string().contains("513 different attribute keys"), "{error}");
    let choice = Condition { any: vec![Condition::default(); 17], ..Condition::default() };
    let wide = Condition { all: vec![choice; 2], ..Condition::default() };
    let dialect = Dialect { name: "deep".into(), detect: Some(wide), ..Dialect::default() };
    let error = Table::compile(vec![dialect], &Facts::default()).unwrap_err();
    assert!(error.to_string().contains("`deep`"), "{error}");
}
