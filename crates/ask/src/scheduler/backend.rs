//! Interface between scheduler and backend: requests, decisions about them, and due actions.

use strum::{IntoStaticStr, VariantArray};

use super::{ScheduledRequest, Scheduler};
use spanscore_base::model::{Evaluation, Outcome, Reason, Receipt};

/// Waiting request, with the evaluations to complete by its answer.
pub(crate) trait PendingRequest: Send + 'static {
    /// Key of target and evaluator, equal for all revisions.
    fn subject(&mut self) -> &mut [u8; 16];

    /// Returns the bytes held while it waits.
    fn bytes(&self) -> usize;

    /// Returns the name of its judge or evaluator.
    fn recipient(&self) -> &str;

    /// Takes over the revision of an unanswered older request.
    fn supersede(&mut self, older: &Self);

    /// Returns its evaluations without an answer.
    fn give_up(self, outcome: Outcome) -> Vec<Evaluation>;

    /// Explains the reason that it was not sent.
    fn explain(reason: Reason) -> &'static str;
}

/// Returns the outcome of a request that was not sent, or not answered in time.
pub(crate) fn not_sent<R: PendingRequest>(reason: Reason) -> Outcome {
    Outcome::NotEvaluable { reason, explanation: R::explain(reason).to_owned() }
}

/// Decisions about one kind of request: targets, admission, messages and answers.
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
    /// True if closing the scheduler ends back-offs early.
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

    /// Sends as many queued requests as the targets admit.
    fn dispatch(scheduler: &mut Scheduler<Self>, now_ms: u64);

    /// Returns the time at which a target may admit more, without an earlier event.
    fn wake_ms(scheduler: &Scheduler<Self>) -> Option<u64>;

    /// Returns the outcome of a request whose deadline passes while it waits.
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
    /// Name of the last or intended target.
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
    /// A revision replaced a waiting request.
    Replaced,
    /// An answer arrived for a request revised meanwhile: paid, and dropped.
    Superseded,
    /// A request is left to the next process.
    Left,
}
