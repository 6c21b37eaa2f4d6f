//! Shared vocabulary: plain data used by all stages.
//!
//! **Invariant:** nothing here does I/O, reads a clock, or imports a stage.

pub mod effort;
pub mod evaluation;
pub mod explanation;
pub mod facts;
mod fair_queue;
mod group;
pub mod id;
pub mod ledger;
pub mod memory;
pub mod recent;
mod sender;
pub mod session;
pub mod span;
pub mod span_parts;
pub mod tool_call;
pub mod trajectory;
pub mod verdicts;
pub mod waiting;

pub use self::effort::WorkBudget;
pub use self::evaluation::{
    Evaluation, EvaluatorInfo, GivenVerdict, JudgeUse, Label, Level, Outcome, Reason, Reported,
    Score, Target, shown_percent, shown_share,
};
pub use explanation::Explanation;
pub use facts::{Facts, Want};
pub use fair_queue::{DisplacedItem, FairQueue};
pub use group::ClientGroup;
pub use id::{EvaluationId, SpanId, TraceId};
pub use ledger::{Claim, ClaimedRecords, Claims, NoteCell, NoteClaim, NoteKind, Receipt, Source};
pub use memory::{Memory, MemoryLimits, MemoryQuota};
pub use recent::Recent;
pub use sender::{Sender, SenderShares};
pub use session::SessionKey;
pub use span::{
    ClaimsByTrace, Resource, RunState, SignCounts, SpanBatch, SpanFlags, SpanRecord, TraceRun,
    TraceSpans, fetch, fingerprint, shard_of,
};
pub use tool_call::{CallStatus, Content, Origin, ToolCall, ToolDefinition};
pub use trajectory::{
    Completion, Deferred, Exchange, ForeignResults, HeardText, HeardTexts, Remarks, TextOrigin,
    Trajectory, Usage,
};
pub use verdicts::GivenVerdicts;
pub use waiting::{WaitingPlace, WaitingRoom};
