//! Settings of completion, and of limits on traces and sessions.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, IntoDeserializer as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smart_default::SmartDefault;

use super::completion_policy::WHOLE_MS;
use super::memory_setting::MemorySetting;
use spanscore_base::model::effort::TRACE_STEPS;
use spanscore_base::model::{MemoryLimits, SessionKey, Trajectory};
use spanscore_base::settings::{HumanDuration, above_zero, some_above_zero};

/// Completion of traces: the wait for late spans before a trace is judged.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct TracesSettings {
    /// Wait after the last span of a trace whose root span has ended. `auto` (default) waits `1s`,
    /// and longer if spans are known to be missing: a parent span of the same service, the end of a
    /// span, or the spans of a called process. `auto` learns the longer wait for each service. A
    /// duration such as `2s` sets a fixed wait.
    pub quiet_period: QuietPeriod,
    /// Longest wait of `quiet_period: auto` for missing spans. Default `10s`.
    #[default(HumanDuration::from_secs(10))]
    pub quiet_period_max: HumanDuration,
    /// Wait after the last span of a trace whose root span has not ended. Set it above the longest
    /// model or tool call plus 6 s, since exporters send every 5 s by default; a shorter wait
    /// splits traces. Default `30s`.
    #[default(HumanDuration::from_secs(30))]
    pub idle_timeout: HumanDuration,
    /// Greatest age of a trace. An older one is judged even if spans still arrive. Default `30m`.
    #[default(HumanDuration::from_secs(30 * 60))]
    pub age_max: HumanDuration,
    /// Time that a judged trace stays in memory. A late span within it causes a revision of the
    /// scores. Default `30s`.
    #[default(HumanDuration::from_secs(30))]
    pub remember_period: HumanDuration,
    /// Longest wait between a late span and the revision. The first revision waits like the first
    /// judgement; each further one waits twice as long as the one before, up to this limit. Default
    /// `60s`.
    #[default(HumanDuration::from_secs(60))]
    pub revision_wait_max: HumanDuration,
}

/// Quiet period: a duration, or `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuietPeriod {
    /// Adaptive.
    #[default]
    Auto,
    /// Fixed.
    Fixed(HumanDuration),
}

impl QuietPeriod {
    /// Returns true if it adapts.
    pub fn is_auto(self) -> bool {
        self == Self::Auto
    }

    /// Returns the wait of a trace without gaps, milliseconds.
    pub fn whole_ms(self) -> u64 {
        match self {
            Self::Auto => WHOLE_MS,
            Self::Fixed(duration) => duration.as_ms(),
        }
    }
}

impl<'de> Deserialize<'de> for QuietPeriod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer).map_err(|_| {
            D::Error::custom("write `auto`, or a duration with a unit, such as 200ms or 2s")
        })?;
        if text == "auto" {
            return Ok(Self::Auto);
        }
        HumanDuration::deserialize(text.into_deserializer()).map(Self::Fixed)
    }
}

impl Serialize for QuietPeriod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Fixed(duration) => duration.serialize(serializer),
        }
    }
}

impl JsonSchema for QuietPeriod {
    fn schema_name() -> Cow<'static, str> {
        "QuietPeriod".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let duration = generator.subschema_for::<HumanDuration>();
        json_schema!({"anyOf": [{"const": "auto"}, duration]})
    }
}

/// Limits on memory and work. A metric with a reason counts what each of them affects.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSettings {
    /// Limit on open and remembered traces, over all shards. Above it, judged traces of the sender
    /// with most are forgotten first. Open traces are judged next, those of running agents last.
    /// Default 200000.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 200_000]
    pub open_traces_max: u32,
    /// Limit on judged traces that are out of memory but still known. Spans that arrive within six
    /// hours revise their scores. Each takes at most 64 bytes of `traces_mib`; together they take
    /// at most a sixteenth of it. Above the limit, those of the sender with most are removed first.
    /// Default 1000000.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 1_000_000]
    pub judged_traces_max: u32,
    /// Limit on the spans of one trace. A larger trace is judged with the spans that it has, and
    /// its further spans are dropped. Default 50000.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 50_000]
    pub spans_per_trace_max: u32,
    /// Limit on the stored size of one trace, in mebibytes. A larger trace is judged with the spans
    /// that it has, and its further spans are dropped. Default 64.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 64]
    pub trace_mib_max: u32,
    /// Limit on the memory for received data, in mebibytes, 32 or more. Default `auto`: in a
    /// container with a memory limit, (limit - 48 MiB) / 1.1; else 1024. Each setting `*_mib` below
    /// reserves a part of it; parts without a value share the rest.
    pub memory_mib: MemorySetting,
    /// Part of `memory_mib` for open and remembered traces, in mebibytes. Above it, judged traces
    /// of the sender with most are forgotten first; open traces are judged next.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub traces_mib: Option<u32>,
    /// Part of `traces_mib` for judged traces that wait for late spans, in mebibytes. Above it,
    /// those of the sender with most are forgotten early. Default: half of `traces_mib`.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub remembered_mib: Option<u32>,
    /// Part of `memory_mib` for requests that wait for assembly, in mebibytes. Above it, a request
    /// waits up to 1 s, then its sender is told to retry.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub queue_mib: Option<u32>,
    /// Part of `memory_mib` for the traces that are being judged, in mebibytes. Large traces wait
    /// for each other. A trace above the limit is not evaluable (`trace_too_expensive`).
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub judging_mib: Option<u32>,
    /// Part of `memory_mib` for the queues of all exporters, in mebibytes.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub exporters_mib: Option<u32>,
    /// Part of `memory_mib` for the queues of all forwards, in mebibytes.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub forward_mib: Option<u32>,
    /// Part of `memory_mib` for the metric series of all exporters, in mebibytes. Series above it
    /// are merged, like those above `series_max`.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub series_mib: Option<u32>,
    /// Limit on the work for one trace, in steps of about 2 ns of one core. All evaluations and
    /// revisions of the trace share it. Above it, evaluations are not evaluable
    /// (`trace_too_expensive`). Each judgement of a session has the same limit. Early verdicts have
    /// a quarter of it in addition. Default 100000000.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default(TRACE_STEPS)]
    pub trace_steps: u32,
}

impl LimitsSettings {
    /// Returns the bytes for traces, by default those of the default config.
    pub fn traces_bytes(&self) -> usize {
        self.traces_mib.map_or(MemoryLimits::default().traces, bytes)
    }

    /// Returns the bytes of these for remembered traces.
    pub fn remembered_bytes(&self) -> usize {
        let half = self.traces_bytes() / 2;
        self.remembered_mib.map_or(half, |mib| bytes(mib).min(self.traces_bytes()))
    }
}

/// Converts mebibytes to bytes.
fn bytes(mib: u32) -> usize {
    (mib as usize) << 20
}

/// Completion of sessions, and limits on them. The collector assembles sessions only if an
/// evaluator has `level: session`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsSettings {
    /// Key by which traces belong to the same session: `service_and_session` (default) or
    /// `session`.
    pub key: SessionKeyFields,
    /// Wait after the last trace of a session before it is judged. The session then stays in memory
    /// for the same time, and a late trace causes a revision. Default `5m`.
    #[default(HumanDuration::from_secs(5 * 60))]
    pub idle_timeout: HumanDuration,
    /// Greatest age of a session. An older one is judged even if traces still arrive. Default `6h`.
    #[default(HumanDuration::from_secs(6 * 60 * 60))]
    pub age_max: HumanDuration,
    /// Limit on open and remembered sessions. Above it, the session without a trace for longest is
    /// judged. Default 10000.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 10_000]
    pub open_sessions_max: u32,
    /// Limit on the traces of one session. Further traces are judged alone, without the session.
    /// Default 1000.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 1_000]
    pub traces_per_session_max: u32,
    /// Part of `limits.memory_mib` for sessions, in mebibytes. A quarter of it is for traces on
    /// their way to a session.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub memory_mib: Option<u32>,
}

impl SessionsSettings {
    /// Returns the bytes for sessions; the rest of `memory_mib` is for traces on their way there.
    pub fn kept_bytes(&self) -> usize {
        self.memory_mib.map_or(MemoryLimits::default().sessions, bytes) / 4 * 3
    }
}

/// Key by which traces belong to the same session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionKeyFields {
    /// The session id and the service of the root span. Two services may then use the same session
    /// id.
    #[default]
    ServiceAndSession,
    /// The session id alone, for conversations across services. Session ids must be unique over all
    /// services.
    Session,
}

impl SessionKeyFields {
    /// Returns the key of a trajectory's session; `None` without a session id.
    pub fn of(self, trajectory: &Trajectory<'_>) -> Option<SessionKey> {
        let session_id = trajectory.session_id.as_deref()?.into();
        let service_name = match self {
            Self::ServiceAndSession => Some(trajectory.service_name().into()),
            Self::Session => None,
        };
        Some(SessionKey { service_name, session_id, group: trajectory.sender.group })
    }
}
