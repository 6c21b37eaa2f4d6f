//! Notes of earlier processes in the log: the last verdict on each trace, and undelivered verdicts.
//!
//! A trace may be forgotten and reopened while evaluations of its first part wait for an exporter.
//! So a record is skipped only if it precedes the records of every waiting judgement, not just of
//! the last one.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::Journal;
use super::notes::{self, ANSWER_TAG, DELIVERED_TAG, JUDGED_TAG, JudgedNote, REQUEST_TAG};
use super::restore::EarlierVerdicts;
use spanscore_ask::judge::JudgeHandle;
use spanscore_assemble::PriorTrace;
use spanscore_base::model::{NoteClaim, NoteKind, TraceId};
use spanscore_log::{Record, record_bytes};

/// Limit on remembered verdicts, in traces; evaluations of others may be sent again, under the same
/// ids.
const PRIORS_MAX: usize = 1 << 20;
/// Limit on undelivered judgements of one trace; beyond it the oldest two count as one.
const WAITING_MAX: usize = 8;

/// Tags of notes.
const NOTE_TAGS: &[u8] = &[JUDGED_TAG, DELIVERED_TAG, ANSWER_TAG];

/// Judgement with undelivered evaluations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WaitingVerdict {
    digest: [u8; 16],
    /// Position of the first judged record.
    first: u64,
}

/// Content of the notes in a log, and the arrival of its first request.
#[derive(Default)]
pub(super) struct NotedTraces {
    pub(super) origin_ns: Option<u64>,
    priors: EarlierVerdicts,
    /// Undelivered judgements of traces, oldest first.
    waiting: HashMap<TraceId, SmallVec<[WaitingVerdict; 1]>>,
}

impl NotedTraces {
    /// Reads all notes of a log, and passes judge answers to the dispatcher. Blocks on the disk.
    pub(super) fn read(journal: &Journal, dispatcher: Option<&JudgeHandle>) -> Self {
        let mut noted = Self::default();
        // Positions of the requests so far, in order.
        let mut requests = Vec::new();
        for Record { position, head, payload } in journal.log().records().heads(NOTE_TAGS) {
            let claim = || journal.log().source().claim(position, record_bytes(payload.len()));
            match head.tags[0] {
                JUDGED_TAG => {
                    let claim = (position, claim().into());
                    for note in notes::decode_judged(head.tags[1], &payload) {
                        if !noted.judged(&note, &claim, &requests) {
                            journal.metrics.notes_lost.add(1);
                        }
                    }
                }
                DELIVERED_TAG => {
                    let claim = claim().into();
                    for (trace_id, digest) in notes::decode_delivered(&payload) {
                        noted.delivered(trace_id, digest, &claim);
                    }
                }
                ANSWER_TAG => {
                    let answer = notes::decode_answer(&payload);
                    if let (Some((key, text)), Some(dispatcher)) = (answer, dispatcher) {
                        journal.hold_answer(claim());
                        dispatcher.remember(key, text);
                    }
                }
                REQUEST_TAG => {
                    requests.push(position);
                    noted.origin_ns.get_or_insert(head.arrival_ns);
                }
                _ => {}
            }
        }
        noted
    }

    /// Returns the earlier verdicts that the shards must know, by trace.
    pub(super) fn into_priors(mut self) -> EarlierVerdicts {
        for (trace_id, waiting) in self.waiting {
            let first = waiting.iter().map(|it| it.first).min();
            if let (Some(prior), Some(first)) = (self.priors.get_mut(&trace_id), first) {
                prior.first = prior.first.min(first);
            }
        }
        self.priors
    }

    /// Adds a note of a judged trace, with its position and the positions of earlier requests;
    /// returns false beyond the limit.
    fn judged(
        &mut self,
        note: &JudgedNote,
        (position, claim): &(u64, NoteClaim),
        requests: &[u64],
    ) -> bool {
        let before = self.priors.get(&note.trace_id);
        if before.is_none() && self.priors.len() >= PRIORS_MAX {
            return false;
        }
        // A record is removed only after its trace was forgotten and its evaluations delivered.
        let is_whole = note.records.iter().all(|record| requests.binary_search(record).is_ok());
        let first = if is_whole { note.records.first().copied() } else { Some(*position) };
        let first = first.unwrap_or(0);
        // Notes delayed by a failing disk may follow later ones. A forgotten trace that returns
        // begins anew.
        let is_outdated = before.is_some_and(|before| {
            let begins_anew = note.records.first().is_some_and(|first| *first > before.first);
            let revision = before.verdict.map_or(0, |verdict| verdict.revision);
            revision > note.revision && !begins_anew
        });
        let notes = before.map(|before| before.notes.clone()).unwrap_or_default();
        if is_whole {
            self.wait(note.trace_id, WaitingVerdict { digest: note.digest, first });
        }
        if is_outdated {
            return true;
        }
        notes.add(NoteKind::Judged, claim.clone());
        let verdict = is_whole.then(|| note.prior());
        self.priors.insert(note.trace_id, PriorTrace { verdict, first, notes });
        true
    }

    /// Adds an undelivered judgement.
    fn wait(&mut self, trace_id: TraceId, verdict: WaitingVerdict) {
        let waiting = self.waiting.entry(trace_id).or_default();
        if waiting.len() >= WAITING_MAX {
            let oldest = waiting.remove(0);
            waiting[0].first = waiting[0].first.min(oldest.first);
        }
        waiting.push(verdict);
    }

    /// Adds a note of delivered evaluations. Earlier judgements of the same records then need no
    /// delivery.
    fn delivered(&mut self, trace_id: TraceId, digest: [u8; 16], claim: &NoteClaim) {
        if let Some(waiting) = self.waiting.get_mut(&trace_id)
            && let Some(at) = waiting.iter().position(|it| it.digest == digest)
        {
            let first = waiting[at].first;
            let mut number = 0;
            waiting.retain(|it| {
                number += 1;
                number > at + 1 || it.first < first
            });
            if waiting.is_empty() {
                self.waiting.remove(&trace_id);
            }
        }
        let Some(prior) = self.priors.get_mut(&trace_id) else { return };
        if let Some(verdict) = prior.verdict.as_mut().filter(|it| it.digest == digest) {
            verdict.is_delivered = true;
            prior.notes.add(NoteKind::Delivered, claim.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use spanscore_base::model::Source;

    /// Note in a log: a judgement by its number, its revision and its records, or its delivery.
    #[derive(Clone, Copy)]
    enum Note {
        Judged(u8, u32, &'static [u64]),
        Delivered(u8),
    }
    use Note::{Delivered, Judged};

    /// Reads notes on one trace, from a log with requests at these positions. Returns the trace's
    /// first relevant position, the last judgement, and true if it was delivered.
    fn check(requests: &[u64], log: &[Note]) -> (u64, Option<(u8, bool)>) {
        let source = Arc::new(Source::default());
        let trace_id = TraceId([1; 16]);
        let mut noted = NotedTraces::default();
        for (note, position) in log.iter().zip(100..) {
            let claim: NoteClaim = source.claim(position, 1).into();
            match *note {
                Judged(number, revision, records) => {
                    let digest = [number; 16];
                    let records = records.iter().copied().collect();
                    let note = JudgedNote { trace_id, revision, digest, revised: None, records };
                    assert!(noted.judged(&note, &(position, claim), requests));
                }
                Delivered(number) => noted.delivered(trace_id, [number; 16], &claim),
            }
        }
        let prior = noted.into_priors().remove(&trace_id).expect("it was judged");
        (prior.first, prior.verdict.map(|it| (it.digest[0], it.is_delivered)))
    }

    #[test]
    fn trace_that_came_again_keeps_the_records_of_what_has_not_arrived() {
        let again = [Judged(1, 0, &[1]), Judged(2, 1, &[5])];
        assert_eq!(check(&[1, 5], &again), (1, Some((2, false))), "the first part is unsent");
        let with = |note| [&again[..], &[note]].concat();
        assert_eq!(check(&[1, 5], &with(Delivered(1))), (5, Some((2, false))));
        assert_eq!(check(&[1, 5], &with(Delivered(2))), (1, Some((2, true))));
        let forgotten = [again[0], Delivered(1), again[1]];
        assert_eq!(check(&[1, 5], &forgotten), (5, Some((2, false))));
        let anew = [Judged(1, 0, &[1]), Judged(2, 0, &[5]), Judged(3, 1, &[5, 7]), Delivered(3)];
        assert_eq!(check(&[1, 5, 7], &anew), (1, Some((3, true))));
        let gone = [Judged(1, 0, &[1]), Judged(2, 0, &[5])];
        assert_eq!(check(&[1], &gone), (1, None), "its second part has arrived");
    }

    #[test]
    fn delivery_of_a_revision_settles_the_judgements_of_the_same_records() {
        let revised = [Judged(1, 0, &[3]), Judged(2, 1, &[3, 4]), Delivered(2)];
        let anew = [&revised[..], &[Judged(3, 0, &[9])]].concat();
        assert_eq!(check(&[3, 4, 9], &anew), (9, Some((3, false))));
    }

    #[test]
    fn note_behind_a_later_one_is_no_verdict_but_waits_for_its_delivery() {
        let swapped = [Judged(2, 1, &[5]), Judged(1, 0, &[1])];
        assert_eq!(check(&[1, 5], &swapped), (1, Some((2, false))));
    }

    #[test]
    fn judgements_that_wait_are_bounded_and_none_of_their_records_is_passed_over() {
        let mut log: Vec<Note> = (0..40).map(|number| Judged(number, 0, &[5])).collect();
        log.insert(0, Judged(99, 0, &[1]));
        assert_eq!(check(&[1, 5], &log), (1, Some((39, false))));
    }
}
