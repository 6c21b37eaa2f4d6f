//! Settings of completion and of limits on traces and sessions.

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
    /// Wait after the root span ended and the last span came, before the trace is judged. `auto`
    /// (default): a second, and longer where the trace is known to lack something: a parent that
    /// its service has yet to send, a span that has not ended, the spans of another process that
    /// one of its calls announces. The longer wait is learnt from each service. A duration fixes
    /// it.
    pub quiet_period: QuietPeriod,
    /// Longest wait of `quiet_period: auto` for what a trace lacks.
    #[default(HumanDuration::from_secs(10))]
    pub quiet_period_max: HumanDuration,
    /// Time without a span before a trace whose root never ended is judged. Exporters send every 5
    /// s by default, so less than the longest model or tool call plus 6 s splits traces.
    #[default(HumanDuration::from_secs(30))]
    pub idle_timeout: HumanDuration,
    /// Age at which a trace is judged whatever still comes.
    #[default(HumanDuration::from_secs(30 * 60))]
    pub age_max: HumanDuration,
    /// Time that a judged trace is remembered, so that late spans make a revision of it.
    #[default(HumanDuration::from_secs(30))]
    pub remember_period: HumanDuration,
    /// Longest wait of late spans to make a revision. The first revision waits as long as the first
    /// judgement, each further one twice as long as the one before it, up to this.
    #[default(HumanDuration::from_secs(60))]
    pub revision_wait_max: HumanDuration,
}

/// Quiet period: a duration, or `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuietPeriod {
    /// Adaptive: as long as it pays.
    #[default]
    Auto,
    /// Always this long.
    Fixed(HumanDuration),
}

impl QuietPeriod {
    /// Returns true if it adapts.
    pub fn is_auto(self) -> bool {
        self == Self::Auto
    }

    /// Returns the wait of a trace that lacks nothing, milliseconds.
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

/// Limits on memory and work; each has a counter with its reason when it bites.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSettings {
    /// Traces that are open or remembered at once, over all shards. Beyond it those of whoever
    /// holds most are forgotten, then judged; running agents go last.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 200_000]
    pub open_traces_max: u32,
    /// Judged traces that are forgotten, of which it is still known for six hours that they were
    /// judged: what comes for them later revises that verdict. Each takes at most 64 bytes of
    /// `traces_mib`, all of them a sixteenth of it. Beyond it those of whoever has most go first.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 1_000_000]
    pub judged_traces_max: u32,
    /// Spans of one trace. A trace that grows beyond it is judged with what it has; what still
    /// comes for it is dropped.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 50_000]
    pub spans_per_trace_max: u32,
    /// Mebibytes kept of one trace; beyond it as with `spans_per_trace_max`.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 64]
    pub trace_mib_max: u32,
    /// Mebibytes of all that senders' data occupies, wherever it is held, 32 or more. `auto` is
    /// what the memory limit of the container allows, (limit - 48 MiB) / 1.1, and 1024 where there
    /// is none. The settings that end in `_mib` and limit one place are shares of it; those that
    /// are left out get a part of what the others leave.
    pub memory_mib: MemorySetting,
    /// Mebibytes of these for all open and remembered traces together. Beyond it
    /// remembered traces are forgotten, then open ones judged, of whoever holds most.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub traces_mib: Option<u32>,
    /// Mebibytes of `traces_mib` kept of judged traces, remembered for late spans. Beyond it those
    /// of whoever holds most are forgotten before their time. Half of `traces_mib` where it is left
    /// out.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub remembered_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for requests that wait to be assembled. Beyond it senders wait up
    /// to a second and are then told to come again.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub queue_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for reading traces while they are judged. Large traces wait for
    /// each other; one that alone may take more is not evaluable, `trace_too_expensive`.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub judging_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for the evaluations in the queues of all exporters together.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub exporters_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for what waits to be passed on, of all forwards together.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub forward_mib: Option<u32>,
    /// Mebibytes of `memory_mib` for the series of all exporters. What finds no room is counted
    /// together, as beyond `series_max`.
    #[serde(deserialize_with = "some_above_zero")]
    #[schemars(range(min = 1))]
    pub series_mib: Option<u32>,
    /// Steps that one trace may take to be read and judged, all its evaluations and revisions
    /// together: a step is about two nanoseconds of one core. Beyond it evaluations are not
    /// evaluable, `trace_too_expensive`. Each judgement of a session has as many. Verdicts before
    /// the end of a trace have a quarter of them, beside these.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default(TRACE_STEPS)]
    pub trace_steps: u32,
}

impl LimitsSettings {
    /// Returns the bytes for traces: those of the default config if the setting is left out.
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

/// Completion of sessions, and limits on them. Sessions are put together only when an evaluator has
/// `level: session`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsSettings {
    /// Key that makes traces those of one session.
    pub key: SessionKeyFields,
    /// Time without a trace of a session before it is judged; for as long again it is remembered,
    /// so that a late trace makes a revision of it.
    #[default(HumanDuration::from_secs(5 * 60))]
    pub idle_timeout: HumanDuration,
    /// Age at which a session is judged whatever still comes.
    #[default(HumanDuration::from_secs(6 * 60 * 60))]
    pub age_max: HumanDuration,
    /// Sessions that are open or remembered at once. Beyond it the longest quiet is judged.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 10_000]
    pub open_sessions_max: u32,
    /// Traces of one session; those beyond it are judged alone, and not with their session.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1))]
    #[default = 1_000]
    pub traces_per_session_max: u32,
    /// Mebibytes of `limits.memory_mib` for all sessions together, a quarter of them for the traces
    /// on their way there.
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

/// Key that makes traces those of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionKeyFields {
    /// The session id and the service of the trace's root span: services that number their sessions
    /// from 1 do not meet.
    #[default]
    ServiceAndSession,
    /// The session id alone, for conversations that several services serve. Their ids must be
    /// unique over all services.
    Session,
}

impl SessionKeyFields {
    /// Returns the key of the session that a trajectory belongs to; `None` if its spans name none.
    pub fn of(self, trajectory: &Trajectory<'_>) -> Option<SessionKey> {
        let session_id = trajectory.session_id.as_deref()?.into();
        let service_name = match self {
            Self::ServiceAndSession => Some(trajectory.service_name().into()),
            Self::Session => None,
        };
        Some(SessionKey { service_name, session_id, group: trajectory.sender.group })
    }
}
