//! Reload of judges with waiting inquiries.
//!
//! A judge with the same answers by another route (address, key, limits, budget) is changed in
//! place with its backlog. One with other answers (model, parameters) is added beside the old one,
//! which answers its backlog: an evaluation names its judge before the request. A removed judge
//! stays for the same reason.
//!
//! A budget belongs to a name. All judges that had it use the newest one's meters; otherwise a
//! reload would double the budget until the old backlog is done.

use super::{HeldSenders, JudgeBackend, JudgeState};
use crate::judge::gate::JudgeGate;
use crate::judge::settings::JudgeSettings;
use crate::judge::wire::ProviderCapabilities;

/// Returns true if two judges have equal answers: protocol, model and parameters.
pub(in crate::judge) fn is_alike(one: &JudgeSettings, other: &JudgeSettings) -> bool {
    one.api == other.api && one.identity() == other.identity()
}

impl JudgeBackend {
    /// Changes or appends a judge; returns its index. An appended one takes over its predecessor's
    /// spending and reservations.
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
