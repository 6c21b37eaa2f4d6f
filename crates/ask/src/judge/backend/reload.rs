//! Reload of judges while inquiries wait.
//!
//! A judge that gives the same answers by another way (address, key, limits, budget) is changed in
//! place, and its backlog goes the new way. One that gives other answers (model, parameters) is
//! added beside the old one, which answers the inquiries that it has: an evaluation names its judge
//! before that judge is asked. A judge that the config has no more stays for the same reason.
//!
//! A budget is one of a name: all judges that bore it spend by the meters of the newest, or a
//! reload would double the budget for as long as the backlog of the old one lasts.

use super::{HeldSenders, JudgeBackend, JudgeState};
use crate::judge::gate::JudgeGate;
use crate::judge::settings::JudgeSettings;
use crate::judge::wire::ProviderCapabilities;

/// Returns true if two judges give the same answers: protocol, model and parameters.
pub(in crate::judge) fn is_alike(one: &JudgeSettings, other: &JudgeSettings) -> bool {
    one.api == other.api && one.identity() == other.identity()
}

impl JudgeBackend {
    /// Changes or appends a judge; returns its index. One that is appended takes over spending and
    /// reservations of its predecessor.
    pub(in crate::judge) fn change(&mut self, name: &str, settings: JudgeSettings) -> usize {
        let before = self.find(name);
        if let Some(place) = before
            && let state = &mut self.judges[place]
            && is_alike(&state.settings, &settings)
        {
            state.gate.change(&settings);
            state.capabilities = ProviderCapabilities::new(settings.structured_output);
            (state.wake_ms, state.blocked) = (None, None);
            state.held = HeldSenders::default();
            state.settings = settings;
            return place;
        }
        let mut state = JudgeState::new(name.to_owned(), settings);
        if let Some(before) = before {
            state.gate.take_over(&mut self.judges[before].gate);
        }
        self.judges.push(state);
        self.judges.len() - 1
    }

    /// Runs `using` on the gate of a judge, which has the meters of its name meanwhile.
    pub(super) fn at_gate<T>(
        &mut self,
        judge: usize,
        using: impl FnOnce(&mut JudgeGate) -> T,
    ) -> T {
        let newest = self.find(&self.judges[judge].name).unwrap_or(judge);
        self.swap_meters(judge, newest);
        let used = using(&mut self.judges[judge].gate);
        self.swap_meters(judge, newest);
        used
    }

    fn swap_meters(&mut self, one: usize, other: usize) {
        if let Ok([one, other]) = self.judges.get_disjoint_mut([one, other]) {
            one.gate.swap_meters(&mut other.gate);
        }
    }
}
