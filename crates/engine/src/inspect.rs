//! Inspection of one request: its trajectories, and for each span the reason that it is a call or
//! not.

use std::fmt::Write;
use std::sync::Arc;

use spanscore_assemble::{LimitsSettings, SessionKeyFields};
use spanscore_base::model::Facts;
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::json::transcode;
use spanscore_base::value::{Map, Value};
use spanscore_evaluate::{FailureJudge, FailureSettings};
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table, TableError};

use crate::call_rows::judged_row;
use crate::replay::Replay;

/// Limit on shown traces of a request; others are counted.
const TRACES_MAX: usize = 100;
/// Size limit on all explanations, bytes; the trace that exceeds it is the last one.
const EXPLANATION_BYTES_MAX: usize = 1 << 20;

/// Compiled dialects for all facts.
pub struct Inspector {
    resolver: Resolver,
    failures: Option<FailureJudge>,
    limits: LimitsSettings,
    session_key: SessionKeyFields,
}

/// Error of a request.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// It is not OTLP/JSON.
    #[error(
        "this is no OTLP/JSON request: {0}; paste an object with `resourceSpans` or `resourceLogs`"
    )]
    NoRequest(String),
}

impl Inspector {
    /// Compiles the dialects.
    ///
    /// # Errors
    /// They do not fit into one table.
    pub fn new(
        dialects: Vec<Dialect>,
        limits: LimitsSettings,
        session_key: SessionKeyFields,
    ) -> Result<Self, TableError> {
        let resolver = Resolver::new(Arc::new(Table::compile(dialects, &Facts::all())?));
        let failures = FailureJudge::new(&FailureSettings::default()).ok();
        Ok(Self { resolver, failures, limits, session_key })
    }

    /// Explains a request: `traces` as `spanscore inspect` prints them, `explanation` as with
    /// `--explain`, the number of traces `left_out`, and missing parts in `message`.
    ///
    /// # Errors
    /// It is not OTLP/JSON.
    pub fn inspect(&self, request: &[u8]) -> Result<String, InspectError> {
        let no_request = |error: &dyn std::fmt::Display| InspectError::NoRequest(error.to_string());
        let signal = signal_of(request);
        let encoded = transcode(signal, request).map_err(|error| no_request(&error))?;
        let mut replay = Replay::new(&self.resolver, self.limits, self.session_key);
        let extracted = replay.add(signal, &encoded).map_err(|error| no_request(&error))?;
        let mut explanation = String::new();
        replay.explain(|trace| {
            if explanation.len() < EXPLANATION_BYTES_MAX {
                // Writing to a String cannot fail.
                let _ = writeln!(explanation, "{trace}");
            }
        });
        let found = replay.trace_count();
        let mut traces: Vec<Value<'static>> = Vec::new();
        let mut left_out = 0;
        replay.for_each(|trajectory| {
            if traces.len() < TRACES_MAX {
                traces.push(judged_row(trajectory, self.failures.as_ref()).into_owned());
            } else {
                left_out += 1;
            }
        });
        let without_agent = found.saturating_sub(traces.len() + left_out);
        let message =
            if extracted.rejected_total() > 0 { extracted.message() } else { String::new() };
        let mut answer = Map::new();
        answer.insert("traces", Value::List(traces));
        answer.insert("explanation", explanation);
        answer.insert("left_out", left_out);
        answer.insert("without_agent", without_agent);
        answer.insert("message", message);
        Ok(Value::Map(answer).to_string())
    }
}

/// Returns the signal of a request by its first key.
fn signal_of(request: &[u8]) -> Signal {
    const KEYS: [&[u8]; 2] = [b"\"resourceLogs\"", b"\"resource_logs\""];
    let place = |key: &[u8]| request.windows(key.len()).position(|it| it == key);
    let spans = place(b"\"resourceSpans\"").or_else(|| place(b"\"resource_spans\""));
    let logs = KEYS.into_iter().find_map(place);
    match (spans, logs) {
        (Some(spans), Some(logs)) if logs < spans => Signal::Logs,
        (None, Some(_)) => Signal::Logs,
        _ => Signal::Traces,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{
        "traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331",
        "name":"execute_tool search","startTimeUnixNano":"1","endTimeUnixNano":"2",
        "attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},
            {"key":"gen_ai.tool.name","value":{"stringValue":"search"}}]}]}]}]}"#;

    fn inspector() -> Inspector {
        let dialects = Dialect::with_builtin(Vec::new());
        Inspector::new(dialects, LimitsSettings::default(), SessionKeyFields::default()).unwrap()
    }

    #[test]
    fn calls_of_a_request_are_shown_with_their_dialect() {
        let answer = inspector().inspect(REQUEST.as_bytes()).unwrap();
        let answer = spanscore_base::value::json::parse(&answer).unwrap();
        let traces = answer.get("traces").and_then(Value::as_list).unwrap();
        let calls = traces[0].get("tool_calls").and_then(Value::as_list).unwrap();
        assert_eq!(calls[0].get("name").and_then(Value::as_str), Some("search"));
        let explanation = answer.get("explanation").and_then(Value::as_str).unwrap();
        assert!(explanation.contains("search"), "{explanation}");
    }

    #[test]
    fn what_is_no_request_is_refused_in_words() {
        for text in ["", "hello", "[1]", "{\"resourceSpans\": 3}"] {
            let error = inspector().inspect(text.as_bytes()).err().map(|it| it.to_string());
            assert!(error.is_some_and(|it| it.contains("no OTLP/JSON request")), "{text}");
        }
    }

    #[test]
    fn the_signal_is_told_by_the_first_key() {
        assert_eq!(signal_of(b"{\"resourceLogs\":[]}"), Signal::Logs);
        assert_eq!(signal_of(b"{\"resourceSpans\":[\"\\\"resourceLogs\\\"\"]}"), Signal::Traces);
    }
}
