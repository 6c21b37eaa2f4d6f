//! Identities: digests of evaluator, criteria, target and spans.
//!
//! The same evidence judged by the same evaluator has the same id, independent of arrival order and
//! other settings. A replay of the same spans therefore gives the same ids, which receivers
//! recognize. Each identity is the first half of a SHA-256.

use sha2::{Digest, Sha256};

use crate::shared::digest::{first_half, of_parts};
use spanscore_base::model::{
    Completion, EvaluationId, EvaluatorInfo, Level, SessionKey, SpanId, Target, ToolCall,
};
use spanscore_base::value::Value;

/// Returns the digest of an evaluator's full name, level and settings in any order. It excludes the
/// threshold and the selection of traces, which change no score.
pub fn of_evaluator(name: &str, level: Level, settings: &Value<'_>) -> [u8; 16] {
    let settings = settings.in_key_order().to_string();
    of_parts(&[name.as_bytes(), &[0], level.as_str().as_bytes(), &[0], settings.as_bytes()])
}

/// Returns the digest of an evaluator and criteria outside of its settings.
pub(super) fn with_criteria(evaluator: [u8; 16], criteria: &Value<'_>) -> [u8; 16] {
    of_parts(&[&evaluator, criteria.in_key_order().to_string().as_bytes()])
}

/// Judged target, as hashed into an id.
#[derive(Clone, Copy, Debug)]
pub(super) enum JudgedTarget<'a> {
    /// Trace, attached to this span.
    Trace(SpanId),
    /// One call.
    Call {
        /// Span of the call.
        span_id: SpanId,
        /// Id given by the model, empty without one: calls known only from a model's message share
        /// the model's span.
        id: &'a str,
        /// Its number among the calls of that span with that id: see [`ordinals`].
        ordinal: u32,
    },
    /// Session, attached to this span.
    Session(&'a SessionKey, SpanId),
}

impl<'a> JudgedTarget<'a> {
    /// Builds the target of one call from its [`ordinals`] entry.
    pub(super) fn call(call: &'a ToolCall<'_>, ordinal: u32) -> Self {
        Self::Call { span_id: call.span_id, id: call_id(call), ordinal }
    }

    /// Returns the span of its evaluations.
    pub(super) fn span_id(&self) -> SpanId {
        match self {
            Self::Trace(span_id) | Self::Call { span_id, .. } | Self::Session(_, span_id) => {
                *span_id
            }
        }
    }
}

fn call_id<'a>(call: &'a ToolCall<'_>) -> &'a str {
    call.id.as_deref().unwrap_or_default()
}

/// Numbers each call among those with the same span and id (or none): 0 for nearly all. The order
/// is by name, which is independent of arrival, then by position in the trajectory.
pub(super) fn ordinals(calls: &[ToolCall<'_>]) -> Vec<u32> {
    let shared = |at: u32| {
        let call = &calls[at as usize];
        (call.span_id, call_id(call))
    };
    let mut order: Vec<u32> = (0..).take(calls.len()).collect();
    order.sort_unstable_by_key(|at| (shared(*at), &*calls[*at as usize].name, *at));
    let mut ordinals = vec![0; calls.len()];
    for group in order.chunk_by(|one, next| shared(*one) == shared(*next)) {
        for (at, ordinal) in group.iter().zip(0..) {
            ordinals[*at as usize] = ordinal;
        }
    }
    ordinals
}

/// Returns the id of an evaluation of spans with that digest. An early verdict is distinct from the
/// final one, even if no span arrived in between.
pub(super) fn of_evaluation(
    info: &EvaluatorInfo,
    target: &Target,
    judged: JudgedTarget<'_>,
    digest: [u8; 16],
) -> EvaluationId {
    let mut hash = Sha256::new();
    hash.update(&info.digest[..8]);
    match judged {
        JudgedTarget::Session(key, _) => hash.update(key.to_bytes()),
        JudgedTarget::Trace(span_id) => {
            hash.update(target.trace_id.0);
            hash.update(span_id.0);
        }
        JudgedTarget::Call { span_id, id, .. } => {
            hash.update(target.trace_id.0);
            hash.update(span_id.0);
            hash.update(id);
        }
    }
    hash.update(digest);
    // The first of several calls is hashed like a single one, so that its id stays when others
    // join.
    if let JudgedTarget::Call { ordinal: ordinal @ 1.., .. } = judged {
        hash.update("call");
        hash.update(ordinal.to_be_bytes());
    }
    if target.completion == Completion::Open {
        hash.update("early");
    }
    EvaluationId(first_half(hash))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use spanscore_base::model::{ClientGroup, Sender, TraceId};
    use spanscore_base::value::json;

    fn call(span: u8, id: Option<&'static str>, name: &'static str) -> ToolCall<'static> {
        ToolCall {
            span_id: SpanId([span; 8]),
            id: id.map(Into::into),
            name: name.into(),
            ..ToolCall::default()
        }
    }

    #[test]
    fn calls_are_counted_among_those_of_their_span_with_their_id() {
        let calls = [
            call(1, None, "search"),
            call(2, None, "search"),
            call(1, Some("c"), "search"),
            call(1, None, "refund"),
            call(1, Some("c"), "search"),
            call(1, Some(""), "search"),
        ];
        assert_eq!(ordinals(&calls), [1, 0, 0, 0, 1, 2]);
        assert_eq!(ordinals(&[]), [0; 0]);
    }

    #[test]
    fn calls_of_one_span_are_counted_alike_in_every_order() {
        let one = [call(1, None, "search"), call(1, None, "refund")];
        let other = [call(1, None, "refund"), call(1, None, "search")];
        assert_eq!((ordinals(&one), ordinals(&other)), (vec![1, 0], vec![0, 1]));
    }

    fn check(judged: JudgedTarget<'_>, completion: Completion, expected: &str) {
        let info = EvaluatorInfo { digest: [1; 16], ..EvaluatorInfo::default() };
        let target = Target {
            trace_id: TraceId([2; 16]),
            sender: Sender::default(),
            session_id: None,
            resource: Arc::default(),
            agent_name: None,
            response: None,
            completion,
            is_partial: false,
            time_ns: 7,
            started_ns: 5,
            ended_ns: 6,
        };
        let id = of_evaluation(&info, &target, judged, [4; 16]);
        assert_eq!(id.to_string(), expected, "{judged:?}");
    }

    #[test]
    fn digests_stay_what_they_are() {
        let value = json::parse(r#"{"z": null, "a": {"c": [1], "b": 2}}"#).unwrap();
        let evaluator = of_evaluator("tool_loop/refund", Level::Trace, &value);
        assert_eq!(EvaluationId(evaluator).to_string(), "9dcc8dc265715b6d27fe1ff35ffec76f");
        let criteria = with_criteria([1; 16], &value);
        assert_eq!(EvaluationId(criteria).to_string(), "e16bdbe63f56f06dc7680d0aaa2504b2");
    }

    /// Pins the ids: if they change, every backend counts a replay twice.
    #[test]
    fn ids_stay_what_they_are() {
        let span_id = SpanId([3; 8]);
        let call = |ordinal| JudgedTarget::Call { span_id, id: "c", ordinal };
        check(JudgedTarget::Trace(span_id), Completion::Idle, "ac34cb4ce66d88fdd1167aa0bbb30602");
        check(JudgedTarget::Trace(span_id), Completion::Open, "4cb09408203ff63487369fba7d6bc8a1");
        check(call(0), Completion::Idle, "7c661a44e3e6555e5d989ab4feb65a13");
        check(call(1), Completion::Idle, "718172f10e33fe3222f8d380c7fc2eb5");
        let key = |service_name| SessionKey {
            service_name,
            session_id: "s-1".into(),
            group: ClientGroup::default(),
        };
        let shop = key(Some("shop".into()));
        let any = key(None);
        let session = |key| JudgedTarget::Session(key, span_id);
        check(session(&shop), Completion::Idle, "c543a772bbf33908e5def1ff0e6d4c0d");
        check(session(&any), Completion::Idle, "e07a7aa0663980e9c2b6cd909fc9685c");
    }
}
