//! State of one judge: settings, gate, and findings from its answers.

use super::held::HeldSenders;
use super::usage;
use crate::judge::gate::JudgeGate;
use crate::judge::settings::JudgeSettings;
use crate::judge::wire::{JudgeQuestion, ProviderCapabilities, Reply};
use spanscore_base::model::Reason;

/// Assumed bytes per token, before a judge has reported its count.
const BYTES_PER_TOKEN: f64 = 3.5;

/// Range of learnt bytes per token.
const BYTES_PER_TOKEN_RANGE: (f64, f64) = (2.0, 5.0);

/// One judge.
#[derive(Debug)]
pub(in crate::judge) struct JudgeState {
    pub(in crate::judge) name: String,
    pub(in crate::judge) settings: JudgeSettings,
    pub(in crate::judge) gate: JudgeGate,
    pub(super) capabilities: ProviderCapabilities,
    pub(super) bytes_per_token: f64,
    /// Inquiries being rendered for it.
    pub(super) rendering: u32,
    /// Earliest time at which its gate may open, and the limit that blocks it.
    pub(super) wake_ms: Option<u64>,
    pub(super) blocked: Option<Reason>,
    /// Senders skipped because only their shares blocked them.
    pub(super) held: HeldSenders,
}

impl JudgeState {
    /// Returns the state of a judge without requests.
    pub(super) fn new(name: String, settings: JudgeSettings) -> Self {
        Self {
            name,
            gate: JudgeGate::new(&settings),
            capabilities: ProviderCapabilities::new(settings.structured_output),
            settings,
            bytes_per_token: BYTES_PER_TOKEN,
            rendering: 0,
            wake_ms: None,
            blocked: None,
            held: HeldSenders::default(),
        }
    }

    /// Corrects the estimate of bytes per token by the judge's count: a moving average, 0.1 for the
    /// newest.
    pub(super) fn learn_tokens(&mut self, question: &JudgeQuestion, reply: &Reply) {
        if reply.usage.input == 0 || usage::is_surplus(question, reply.usage) {
            return;
        }
        let bytes = question.prompt.system.len() + question.prompt.user.len();
        let seen = bytes as f64 / reply.usage.input as f64;
        let (least, most) = BYTES_PER_TOKEN_RANGE;
        self.bytes_per_token = (self.bytes_per_token * 0.9 + seen * 0.1).clamp(least, most);
    }
}
