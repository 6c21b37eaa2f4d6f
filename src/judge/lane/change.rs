//! Other judges while inquiries wait.
//!
//! A judge that is to give the same answers by another way (an address, a key, limits, a budget) is
//! changed where it stands: what waits for it goes that way. One that is to give others (a model,
//! its parameters) stands beside the one before, which answers what was asked of it: an evaluation
//! says which judge it was made by before anybody is asked. So does one that the config has no
//! more.

use super::core::{JudgeState, LaneCore};
use crate::judge::settings::JudgeSettings;

/// Where the settings of a judge belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::judge) enum JudgePlace {
    /// In the place of those that it had.
    Same(usize),
    /// Behind all others.
    New,
}

/// Where the settings of a judge belong, among all that there are by name.
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

/// Whether two give the same answers.
fn is_alike(one: &JudgeSettings, other: &JudgeSettings) -> bool {
    one.api == other.api && one.identity() == other.identity()
}

impl LaneCore {
    /// Asks a judge so from now on; its place.
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
