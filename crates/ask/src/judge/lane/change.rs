//! Reload of judges while inquiries wait.
//!
//! A judge that gives the same answers by another way (address, key, limits, budget) is changed in
//! place, and its backlog goes the new way. One that gives other answers (model, parameters) is
//! added beside the old one, which answers the inquiries that it has: an evaluation names its judge
//! before that judge is asked. A judge that the config has no more stays for the same reason.

use super::core::{JudgeState, LaneCore};
use crate::judge::settings::JudgeSettings;

/// Index for the settings of a judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::judge) enum JudgePlace {
    /// Replaces the settings at this index.
    Same(usize),
    /// Appends.
    New,
}

/// Finds the index for the settings of a judge: that of the newest of its name, if answers stay the
/// same.
pub(in crate::judge) fn place_of<'j>(
    known: impl DoubleEndedIterator<Item = (&'j str, &'j JudgeSettings)> + ExactSizeIterator,
    name: &str,
    settings: &JudgeSettings,
) -> JudgePlace {
    let mut of_name = known.enumerate().rev().filter(|(_, (own, _))| *own == name);
    match of_name.next() {
        Some((place, (_, own))) if is_alike(own, settings) => JudgePlace::Same(place),
        _ => JudgePlace::New,
    }
}

/// Returns true if two judges give the same answers: protocol, model and parameters.
fn is_alike(one: &JudgeSettings, other: &JudgeSettings) -> bool {
    one.api == other.api && one.identity() == other.identity()
}

impl LaneCore {
    /// Changes or appends a judge; returns its index. One that is appended continues the spending
    /// of its predecessor.
    pub(in crate::judge) fn change(&mut self, name: &str, settings: JudgeSettings) -> usize {
        let known = self.names.iter().map(String::as_str).zip(&self.judges);
        match place_of(known, name, &settings) {
            JudgePlace::Same(place) => {
                let own = &mut self.judges[place];
                let state = &mut self.states[place];
                state.gate.change(&settings);
                state.quirks = JudgeState::new(&settings).quirks;
                (state.wake_ms, state.blocked) = (None, None);
                *own = settings;
                place
            }
            JudgePlace::New => {
                let mut state = JudgeState::new(&settings);
                if let Some(before) = self.find(name) {
                    let before = &self.states[before].gate;
                    state.gate.money.restore(before.money.spent());
                    state.gate.spent_tokens.restore(before.spent_tokens.spent());
                }
                self.names.push(name.to_owned());
                self.judges.push(settings);
                self.states.push(state);
                self.states.len() - 1
            }
        }
    }
}
