//! Fields of evaluations and runs: their names and columns.

use spanscore_base::model::Completion;
use spanscore_base::settings::meant_or_known;
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

use super::StoreQueryError;
use crate::record::OutputState;

/// Models of the run `t`; of one without, a single empty name.
pub(super) const MODELS: &str = "json_each(ifnull(t.models, '[\"\"]')) model";

/// Field of an evaluation for filters and groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum StoreField {
    /// Full name of the evaluator.
    Evaluator,
    /// Its kind.
    Kind,
    /// Its version, which changes with its settings.
    EvaluatorVersion,
    /// `call`, `trace` or `session`.
    Level,
    /// `service.name`.
    Service,
    /// Agent.
    Agent,
    /// `service.version`.
    Version,
    /// `deployment.environment.name`.
    Environment,
    /// Day, in UTC.
    Day,
    /// Hour, in UTC.
    Hour,
    /// `scored`, `not_evaluable` or `failed`.
    Outcome,
    /// `pass` or `fail`.
    Label,
    /// Reason that it is not evaluable, or type of the error.
    Reason,
    /// Tool of the judged call.
    Tool,
    /// Case of a dataset.
    Case,
    /// Model that a span of the run names.
    Model,
    /// User of the run.
    UserId,
    /// State of the final output.
    Answer,
    /// Session.
    SessionId,
    /// Trace, by its first digits.
    TraceId,
    /// Cause that completed the trace.
    Completion,
    /// `yes` if a person has judged the run or a part of it, else `no`.
    Annotated,
}

impl StoreField {
    /// Parses the name of a field.
    ///
    /// # Errors
    /// There is no such field; suggests the nearest.
    pub fn from_word(word: &str) -> Result<Self, StoreQueryError> {
        word.parse().map_err(|_| {
            let names: Vec<&str> = Self::all().map(Self::as_str).collect();
            StoreQueryError::Field { word: word.to_owned(), help: meant_or_known(word, &names) }
        })
    }

    /// Checks a filter value, with or without the excluding `!`.
    ///
    /// # Errors
    /// The value is none of the field's fixed set, or a trace id has other digits.
    pub(super) fn check(self, value: &str) -> Result<(), StoreQueryError> {
        let word = value.strip_prefix('!').unwrap_or(value);
        let words: &[&str] = match self {
            Self::Outcome => &["scored", "not_evaluable", "failed"],
            Self::Label if word.is_empty() => return Ok(()),
            Self::Label => &["pass", "fail"],
            Self::Level => &["call", "trace", "session"],
            Self::Completion => <Completion as VariantNames>::VARIANTS,
            Self::Annotated => &["yes", "no"],
            Self::Answer => <OutputState as VariantNames>::VARIANTS,
            Self::TraceId if word.is_empty() || !word.bytes().all(|it| it.is_ascii_hexdigit()) => {
                return Err(StoreQueryError::TraceStart { id: word.to_owned() });
            }
            _ => return Ok(()),
        };
        if words.contains(&word) {
            return Ok(());
        }
        Err(StoreQueryError::Word { field: self.as_str(), word: word.to_owned(), words })
    }

    /// Returns all fields.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied()
    }

    /// Returns the name of the field.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns its expression over the rows of [`ROWS`](super::list::ROWS).
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Evaluator => "v.name",
            Self::Kind => "v.kind",
            Self::EvaluatorVersion => "lower(hex(v.version))",
            Self::Level => "v.level",
            Self::Service => "s.service",
            Self::Agent => "s.agent",
            Self::Version => "s.version",
            Self::Environment => "s.environment",
            Self::Day => "strftime('%Y-%m-%d', e.time / 1000, 'unixepoch')",
            Self::Hour => "strftime('%Y-%m-%dT%H:00Z', e.time / 1000, 'unixepoch')",
            Self::Outcome => {
                "CASE WHEN e.outcome < 2 THEN 'scored' WHEN e.outcome = 2 THEN 'not_evaluable'
                 ELSE 'failed' END"
            }
            Self::Label => "CASE e.outcome WHEN 0 THEN 'pass' WHEN 1 THEN 'fail' ELSE '' END",
            Self::Reason => "ifnull(e.reason, '')",
            Self::Tool => "ifnull(l.name, '')",
            Self::Case => {
                "ifnull((SELECT min(c.name) FROM cases c WHERE c.trajectory = e.trajectory), '')"
            }
            Self::Model => {
                "EXISTS (SELECT 1 FROM json_each(ifnull(t.models, '[\"\"]')) model
                 WHERE model.value {})"
            }
            Self::UserId => "ifnull(t.user_id, '')",
            Self::Answer => "t.answer",
            Self::SessionId => "ifnull(n.session_id, '')",
            Self::TraceId => "lower(hex(t.trace_id))",
            Self::Completion => "e.completion",
            Self::Annotated => {
                "CASE WHEN EXISTS (SELECT 1 FROM annotations a WHERE a.trajectory = t.seq)
                 THEN 'yes' ELSE 'no' END"
            }
        }
    }

    /// Returns its expression over the rows of [`ROWS`](super::list::ROWS) joined with the
    /// [`MODELS`] of each, of which every one is a group.
    pub(super) fn group_column(self) -> &'static str {
        if self == Self::Model { "model.value" } else { self.column() }
    }

    /// Returns its expression over sums; `None` if sums do not contain it.
    pub(super) fn sums_column(self) -> Option<&'static str> {
        match self {
            Self::Day => Some("strftime('%Y-%m-%d', r.bucket * r.span, 'unixepoch')"),
            Self::Hour => Some("strftime('%Y-%m-%dT%H:00Z', r.bucket * r.span, 'unixepoch')"),
            Self::Evaluator
            | Self::Kind
            | Self::EvaluatorVersion
            | Self::Level
            | Self::Service
            | Self::Agent
            | Self::Version
            | Self::Environment => Some(self.column()),
            _ => None,
        }
    }

    /// Returns its expression over sums of tools; `None` if those do not contain it.
    pub(super) fn tool_sums_column(self) -> Option<&'static str> {
        match self {
            Self::Tool => Some("l.name"),
            Self::Service | Self::Agent | Self::Version | Self::Environment => Some(self.column()),
            Self::Day | Self::Hour => self.sums_column(),
            _ => None,
        }
    }

    /// Returns its expression over the evaluations of a run; `None` for a field of the run.
    pub(super) fn verdict_column(self) -> Option<&'static str> {
        match self {
            Self::Evaluator
            | Self::Kind
            | Self::EvaluatorVersion
            | Self::Level
            | Self::Outcome
            | Self::Label
            | Self::Reason => Some(self.column()),
            _ => None,
        }
    }

    /// Returns its expression over runs; `None` for a field of evaluations.
    pub(super) fn run_column(self, tool: &'static str) -> Option<&'static str> {
        match self {
            Self::Tool => Some(tool),
            Self::Day => Some("strftime('%Y-%m-%d', t.time / 1000, 'unixepoch')"),
            Self::Hour => Some("strftime('%Y-%m-%dT%H:00Z', t.time / 1000, 'unixepoch')"),
            Self::Case => {
                Some("ifnull((SELECT min(c.name) FROM cases c WHERE c.trajectory = t.seq), '')")
            }
            Self::Completion => Some("t.completion"),
            _ if self.verdict_column().is_some() => None,
            _ => Some(self.column()),
        }
    }
}
