//! Scan windows: the parts of a text that detectors run over, around their literals.
//!
//! In go the places of their literals, out come the windows around those that the rest of a match
//! may follow. If all places are known at which a match around a literal may begin, each of them is
//! a window of its own, which the expression is anchored to: a search for its beginning in a text
//! of nothing but its own words would follow all of them at once.

use std::ops::Range;

use super::super::limits::{DETECTOR_STEPS_PER_BYTE, LOOK_STEPS};
use super::compile::Detector;
use super::tail::LiteralTail;
use super::{Pack, Scan};
use crate::prefilter::gates::LiteralPlace;
use crate::prefilter::sieve::Hits;

/// A part of a text that a detector runs over.
pub(super) struct TextWindow {
    pub(super) detector: u16,
    /// Range in which a match may stand.
    pub(super) part: Range<usize>,
    /// Beginning of a match, if that is known.
    pub(super) begin: Option<usize>,
}

/// Windows by detector and place; those of one detector begin apart from each other.
#[derive(Default)]
pub(super) struct Windows(Vec<TextWindow>);

impl Windows {
    /// Returns the windows of one detector.
    pub(super) fn of(&self, index: usize) -> &[TextWindow] {
        let start = self.0.partition_point(|window| usize::from(window.detector) < index);
        let rest = &self.0[start..];
        &rest[..rest.partition_point(|window| usize::from(window.detector) == index)]
    }

    /// Returns all parts with their detectors.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u16, Range<usize>)> {
        self.0.iter().map(|window| (window.detector, window.part.clone()))
    }

    /// Removes the windows of other detectors.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(usize) -> bool) {
        self.0.retain(|window| keeps(usize::from(window.detector)));
    }

    /// Adds the windows of one detector, merged where they meet.
    fn add(&mut self, mut parts: Vec<TextWindow>) {
        parts.sort_unstable_by_key(|window| (window.start(), std::cmp::Reverse(window.part.end)));
        for window in parts {
            match self.0.last_mut() {
                Some(last) if last.detector != window.detector => self.0.push(window),
                Some(last) if last.begin.is_some() && last.begin != window.begin => {
                    self.0.push(window);
                }
                Some(last) if window.part.start <= last.part.end => {
                    last.part.end = last.part.end.max(window.part.end);
                }
                _ => self.0.push(window),
            }
        }
    }
}

impl TextWindow {
    /// Returns the bytes that a search of it reads, unless it took its steps when it was found.
    pub(super) fn bytes(&self) -> usize {
        if self.begin.is_some() { 0 } else { self.part.len() }
    }

    /// Returns the place from which it is searched.
    fn start(&self) -> usize {
        self.begin.unwrap_or(self.part.start)
    }
}

impl Detector {
    /// Returns the windows around these places of its literals. Each beginning takes the steps of
    /// its search at once, so that there are never more of them than a scan has steps for.
    fn windows(
        &self,
        text: &[u8],
        places: &[LiteralPlace],
        scan: &mut Scan,
        steps_max: usize,
    ) -> Vec<TextWindow> {
        let mut look = self.tail.as_ref().and_then(LiteralTail::look);
        let mut windows = Vec::new();
        for place in places {
            let detector = place.detector;
            let at = place.at as usize;
            let start = at.saturating_sub(place.reach.before);
            let part = start..at.saturating_add(place.reach.after).min(text.len());
            let is_placed = look.as_mut().is_some_and(|look| {
                !look.may_stand_at(text, at)
                    || look.begins(text, start..at, |begin| {
                        if scan.take(part.end - begin, DETECTOR_STEPS_PER_BYTE, steps_max) {
                            windows.push(TextWindow {
                                detector,
                                part: part.clone(),
                                begin: Some(begin),
                            });
                        }
                    })
            });
            if !is_placed {
                windows.push(TextWindow { detector, part, begin: None });
            }
            if scan.cut {
                break;
            }
        }
        windows
    }
}

impl Pack {
    /// Returns the windows of those detectors that `is_asked` accepts: around their literals that
    /// the rest of a match may follow; void where the scan was cut.
    pub(super) fn windows(
        &self,
        text: &[u8],
        hits: &Hits,
        is_asked: impl Fn(&Detector) -> bool,
        scan: &mut Scan,
        steps_max: usize,
    ) -> Windows {
        let mut windows = Windows::default();
        // Many detectors may share a literal: no more places are listed than there are steps for.
        let most = steps_max.saturating_sub(scan.steps) / LOOK_STEPS;
        let is_asked = |index: usize| is_asked(&self.detectors[index]);
        let places = self.gates.places(text, hits, most, is_asked);
        if !scan.take(places.len(), LOOK_STEPS, steps_max) {
            return windows;
        }
        for places in places.chunk_by(|a, b| a.detector == b.detector) {
            if scan.cut {
                break;
            }
            let detector = &self.detectors[usize::from(places[0].detector)];
            windows.add(detector.windows(text, places, scan, steps_max));
        }
        windows
    }
}
