//! Seam of the scheduler: requests, the backend that decides about them, and the actions due.

use strum::{IntoStaticStr, VariantArray};

use super::{ScheduledRequest, Scheduler};
use spanscore_base::model::{Evaluation, Outcome, Reason, Receipt};

/// Request that waits, with the evaluations that its answer fills in.
pub(crate) trait PendingRequest: Send + 'static {
    /// Key of target and evaluator, equal for all revisions.
    fn subject(&mut self) -> &mut [u8; 16];

    /// Returns the bytes held while it waits.
    fn bytes(&self) -> usize;

    /// Returns the name of the judge or evaluator that it is for.
    fn recipient(&self) -> &str;

    /// Takes over the revision that an unanswered older request was to correct.
    fn supersede(&mut self, older: &Self);

    /// Returns its evaluations without an answer.
    fn give_up(self, outcome: Outcome) -> Vec<Evaluation>;

    /// Explains why it was not sent.
    fn explain(reason: Reason) -> &'static str;
}

/// Builds the outcome of a request that was not sent, or not answered in time.
pub(crate) fn not_sent<R: PendingRequest>(reason: Reason) -> Outcome {
    Outcome::NotEvaluable { reason, explanation: R::explain(reason).to_owned() }
}

/// Decisions about one kind of request: its targets, admission, messages and answers.
///
/// Targets are numbered from 0 and never removed; each has a queue in the scheduler.
pub(crate) trait SchedulerBackend: Sized + Send + 'static {
    /// Request.
    type Request: PendingRequest;
    /// State of a request between its messages.
    type Progress: Send;
    /// State of a request in flight.
    type Ticket: Send;
    /// Instruction to the executor.
    type Effect: Send;
    /// True if closing the scheduler cuts back-offs short.
    const CLOSE_ENDS_BACK_OFF: bool;

    /// Begins a request; an error ends it at once.
    fn begin(
        scheduler: &mut Scheduler<Self>,
        request: &Self::Request,
    ) -> Result<Self::Progress, Outcome>;

    /// Returns the target of a request.
    fn target(progress: &Self::Progress) -> usize;

    /// Returns the name of a target.
    fn name(&self, target: usize) -> &str;

    /// Sends from the queues as much as the targets admit.
    fn dispatch(scheduler: &mut Scheduler<Self>, now_ms: u64);

    /// Returns the time at which a target may admit more, without an event before.
    fn wake_ms(scheduler: &Scheduler<Self>) -> Option<u64>;

    /// Returns the outcome of a request whose deadline passes while it waits for a target.
    fn expired(&self, entry: &ScheduledRequest<Self>) -> Outcome;

    /// Returns true if another process can take the request over for free.
    fn is_untouched(_: &Self::Progress) -> bool {
        true
    }

    /// Returns the evaluations of a request by its answers so far, or with `outcome` if they do not
    /// suffice.
    fn stop(&self, entry: ScheduledRequest<Self>, outcome: Outcome) -> Vec<Evaluation>;
}

/// Instruction to the driver.
#[derive(Debug)]
pub(crate) enum Action<E> {
    /// Pass on evaluations.
    Emit(Emission),
    /// Count a request that ended without an evaluation.
    Count(SilentEnd),
    /// Perform an effect of the backend.
    Effect(E),
}

/// Evaluations of one request.
#[derive(Debug)]
pub(crate) struct Emission {
    /// Subject of the request.
    pub(crate) subject: [u8; 16],
    /// Name of the target that was asked last, or would have been.
    pub(crate) recipient: String,
    /// Evaluations.
    pub(crate) evaluations: Vec<Evaluation>,
    /// Receipt, held until they are delivered.
    pub(crate) receipt: Option<Receipt>,
}

/// End of a request without an evaluation, a value of the label `outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum SilentEnd {
    /// A revision replaced a request that waited.
    Replaced,
    /// An answer came for a request that was revised meanwhile: paid, and dropped.
    Superseded,
    /// A request is left to the next process.
    Left,
}
