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

/// Completion of traces.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct TracesSettings {
    /// Wait after the root span ended and the last span arrived, before the trace is judged. `auto`
    /// (default) waits a second, and longer for a trace with known gaps: a parent that its service
    /// has yet to send, a span that has not ended, the spans of another process that a call
    /// announces. The longer wait is learnt per service. A duration fixes the wait.
    pub quiet_period: QuietPeriod,
    /// Longest wait of `quiet_period: auto` for a trace with gaps.
    #[default(HumanDuration::from_secs(10))]
    pub quiet_period_max: HumanDuration,
    /// Time without a span after which a trace is judged although its root has not ended. Exporters
    /// send every 5 s by default, so less than the longest model or tool call plus 6 s splits
    /// traces.
    #[default(HumanDuration::from_secs(30))]
    pub idle_timeout: HumanDuration,
    /// Age at which a trace is judged in any case.
    #[default(HumanDuration::from_secs(30 * 60))]
    pub age_max: HumanDuration,
    /// Time for which a judged trace is remembered, so that late spans revise it.
    #[default(HumanDuration::from_secs(30))]
    pub remember_period: HumanDuration,
    /// Longest wait of late spans before a revision. The first revision waits as long as the first
    /// judgement, each further one twice as long as its predecessor, up to this.
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

/// Limits on memory and work; each has a counter with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSettings {
    /// Limit on open and remembered traces over all shards. Beyond it judged traces of the
    /// largest holder are forgotten, then open ones judged; running agents come last.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 200_000]
    pub open_traces_max: u32,
    /// Limit on the judged, forgotten traces that are still recorded as judged for six hours: later
    /// parts revise their verdicts. Each takes at most 64 bytes of `traces_mib`, all of them a
    /// sixteenth of it. Beyond it those of the largest holder are removed first.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 1_000_000]
    pub judged_traces_max: u32,
    /// Limit on the spans of one trace. A trace beyond it is judged as it is, and its further spans
    /// are dropped.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 50_000]
    pub spans_per_trace_max: u32,
    /// Limit on the stored mebibytes of one trace; beyond it as with `spans_per_trace_max`.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 64]
    pub trace_mib_max: u32,
    /// Mebibytes for all data of senders, 32 or more. `auto` derives it from the container's memory
    /// limit, (limit - 48 MiB) / 1.1, or is 1024 without one. The settings `*_mib` of single places
    /// are shares of it; unset ones get a part of the rest.
    pub memory_mib: MemorySetting,
    /// Mebibytes of these for all open and remembered traces. Beyond it judged traces of the
    /// largest holder are forgotten, then open ones judged.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub traces_mib: Option<u32>,
    /// Mebibytes of `traces_mib` for judged traces, remembered for late spans. Beyond it those of
    /// the largest holder are forgotten early. Default: half of `traces_mib`.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub remembered_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for requests waiting to be assembled. Beyond it senders wait up to
    /// a second and are then told to retry.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub queue_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for reading traces during judging. Large traces wait for each
    /// other; one that alone exceeds it is not evaluable, `trace_too_expensive`.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub judging_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for the queues of all exporters.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub exporters_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for the queues of all forwards.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub forward_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for the series of all exporters. Series beyond it are merged, as
    /// beyond `series_max`.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub series_mib: Option<u32>,
    /// Steps for reading and judging one trace, for all its evaluations and revisions together: a
    /// step is about two nanoseconds of one core. Beyond it evaluations are not evaluable,
    /// `trace_too_expensive`. Each judgement of a session has as many. Verdicts before the end of a
    /// trace have a separate quarter of them.
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

/// Completion of sessions, and their limits. Sessions are assembled only for an evaluator with
/// `level: session`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsSettings {
    /// Key that groups traces to sessions.
    pub key: SessionKeyFields,
    /// Time without a trace after which a session is judged. It is then remembered for the same
    /// time, so that a late trace revises it.
    #[default(HumanDuration::from_secs(5 * 60))]
    pub idle_timeout: HumanDuration,
    /// Age at which a session is judged in any case.
    #[default(HumanDuration::from_secs(6 * 60 * 60))]
    pub age_max: HumanDuration,
    /// Limit on open and remembered sessions. Beyond it the longest quiet one is judged.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 10_000]
    pub open_sessions_max: u32,
    /// Limit on the traces of one session; further ones are judged alone, without their session.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 1_000]
    pub traces_per_session_max: u32,
    /// Mebibytes of `limits.memory_mib` for sessions, a quarter of them for traces on their way
    /// there.
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

/// Key that groups traces to sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionKeyFields {
    /// The session id and the service of the trace's root span, which separates services that
    /// number their sessions from 1.
    #[default]
    ServiceAndSession,
    /// Only the session id, for conversations across services. Ids must be unique over all
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
