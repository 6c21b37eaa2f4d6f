//! Reload of judges while inquiries wait.
//!
//! A judge that gives the same answers by another way (address, key, limits, budget) is changed in
//! place, and its backlog goes the new way. One that gives other answers (model, parameters) is
//! added beside the old one, which answers the inquiries that it has: an evaluation names its judge
//! before that judge is asked. A judge that the config has no more stays for the same reason.

use super::{JudgeBackend, JudgeState};
use crate::judge::settings::JudgeSettings;
use crate::judge::wire::ProviderCapabilities;

/// Returns true if two judges give the same answers: protocol, model and parameters.
pub(in crate::judge) fn is_alike(one: &JudgeSettings, other: &JudgeSettings) -> bool {
    one.api == other.api && one.identity() == other.identity()
}

impl JudgeBackend {
    /// Changes or appends a judge; returns its index. One that is appended continues the spending
    /// of its predecessor.
    pub(in crate::judge) fn change(&mut self, name: &str, settings: JudgeSettings) -> usize {
        let before = self.find(name);
        if let Some(place) = before
            && let state = &mut self.judges[place]
            && is_alike(&state.settings, &settings)
        {
            state.gate.change(&settings);
            state.capabilities = ProviderCapabilities::new(settings.structured_output);
            (state.wake_ms, state.blocked) = (None, None);
            state.settings = settings;
            return place;
        }
        let mut state = JudgeState::new(name.to_owned(), settings);
        if let Some(before) = before {
            let before = &self.judges[before].gate;
            state.gate.money.restore(before.money.spent(), 0, 0);
            state.gate.spent_tokens.restore(before.spent_tokens.spent(), 0, 0);
        }
        self.judges.push(state);
        self.judges.len() - 1
    }
}
