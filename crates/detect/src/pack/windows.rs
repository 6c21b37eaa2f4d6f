//! Scan windows: the parts of a text that detectors run over, around their literals.
//!
//! In: the offsets of literals. Out: windows around those whose next bytes fit a match. A match
//! begins at or before its literal, so its expression is tried at the few offsets between.

use std::ops::{Range, RangeInclusive};

use super::super::limits::LOOK_STEPS;
use super::{Pack, Scan};
use crate::prefilter::gates::LiteralPlace;
use crate::prefilter::sieve::Hits;

/// Part of a text for a detector to run over.
#[derive(Clone)]
pub(super) struct TextWindow {
    /// Possible starts of a match.
    pub(super) begins: RangeInclusive<usize>,
    /// Bound before which a match ends.
    pub(super) end: usize,
}

/// Windows by detector and offset; those of one detector have disjoint starts.
#[derive(Default)]
pub(super) struct Windows(Vec<(u16, TextWindow)>);

impl Windows {
    /// Returns the windows of one detector.
    pub(super) fn of(&self, index: usize) -> impl Iterator<Item = TextWindow> {
        let start = self.0.partition_point(|(detector, _)| usize::from(*detector) < index);
        let own = self.0[start..].iter().take_while(move |it| usize::from(it.0) == index);
        own.map(|(_, window)| window.clone())
    }

    /// Returns all parts with their detectors.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u16, Range<usize>)> {
        self.0.iter().map(|(detector, window)| (*detector, window.part()))
    }

    /// Removes the windows of other detectors.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(usize) -> bool) {
        self.0.retain(|(detector, _)| keeps(usize::from(*detector)));
    }
}

impl TextWindow {
    /// Returns the window of a match anywhere in a part.
    pub(super) fn whole(part: Range<usize>) -> Self {
        Self { begins: part.start..=part.end, end: part.end }
    }

    /// Returns all of it.
    pub(super) fn part(&self) -> Range<usize> {
        *self.begins.start()..self.end
    }

    /// Adds it to windows with earlier starts, merging it with the last if they overlap.
    pub(super) fn join(self, windows: &mut Vec<Self>) {
        match windows.last_mut() {
            Some(last) if last.meets(&self) => last.widen(&self),
            _ => windows.push(self),
        }
    }

    fn meets(&self, behind: &Self) -> bool {
        *behind.begins.start() <= self.begins.end() + 1
    }

    fn widen(&mut self, behind: &Self) {
        let last = *self.begins.end().max(behind.begins.end());
        self.begins = *self.begins.start()..=last;
        self.end = self.end.max(behind.end);
    }
}

impl Pack {
    /// Returns the windows of detectors that `is_asked` accepts: around their literals whose next
    /// bytes fit; empty if the scan was cut.
    pub(super) fn windows(
        &self,
        text: &[u8],
        hits: &Hits,
        is_asked: impl Fn(&super::Detector) -> bool,
        scan: &mut Scan,
        steps_max: usize,
    ) -> Windows {
        let mut windows = Windows::default();
        // Many detectors may share a literal, so the steps limit the number of listed places.
        let most = steps_max.saturating_sub(scan.steps) / LOOK_STEPS;
        let is_asked = |index: usize| is_asked(&self.detectors[index]);
        let places = self.gates.places(text, hits, most, is_asked);
        if !scan.take(places.len(), LOOK_STEPS, steps_max) {
            return windows;
        }
        let placed = |place: &LiteralPlace| (place.detector, place.window(text));
        let mut all: Vec<(u16, TextWindow)> = places.iter().map(placed).collect();
        all.sort_unstable_by_key(|(detector, window)| (*detector, *window.begins.start()));
        for (detector, window) in all {
            match windows.0.last_mut() {
                Some((last, before)) if *last == detector && before.meets(&window) => {
                    before.widen(&window);
                }
                _ => windows.0.push((detector, window)),
            }
        }
        windows
    }
}

impl LiteralPlace {
    /// Returns the possible starts of a match around the literal.
    fn window(&self, text: &[u8]) -> TextWindow {
        let at = self.at as usize;
        let start = at.saturating_sub(self.reach.before);
        let end = (at + self.reach.after).min(text.len());
        TextWindow { begins: start..=(at + self.reach.past).min(end), end }
    }
}
