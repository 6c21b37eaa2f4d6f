//! `citations`: support of each citation in the answer by recorded tool results.
//!
//! Code finds the origin of a cited address, without fetching it: it is invented if no result
//! contains it and no call with a result requested it. A judge decides if the results support the
//! sentence.

mod context;
mod find;
mod sources;

use std::ops::Range;

use self::context::listed;
use self::find::{Citation, CitedSource, citations};
use self::sources::{CitationOrigin, RunSources};
use crate::evaluator::Kind;
use crate::inquiry::JudgeAnswer;
use crate::judged::conclude::no_score;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{Question, QuestionItem};
use crate::judged::record::{LineKind, RecordWishes, RunRecord};
use crate::judged::settings::{self, NoSettings, Send};
use crate::shared::sentences::first_units;
use crate::shared::step_limit;
use spanscore_base::model::{Outcome, Reason};

/// Limit on the sentences with their own lines; the last line has the remainder.
const SENTENCES_MAX: usize = 100;
/// Limit on the citations of one answer.
const CITATIONS_MAX: usize = 200;
/// Limit on the bytes of citations between a sentence and its citation.
const MARKS_BYTES_MAX: usize = 400;
/// Steps per byte to find citations and addresses.
const STEPS_PER_BYTE: usize = 4;

const GUIDANCE: &str = "\
A result supports what a sentence says if each fact, number, name and date that the sentence rests \
on the citation stands in it, or follows from it by arithmetic, conversion or plain reading. A \
result that only holds the address or a title, that failed, or that says otherwise does not. \
Where a sentence has several citations, each need only support its own part. A sentence that \
states nothing beside its citation is not_applicable.";

/// Registry entry of `citations`.
pub static KIND: Kind = Kind {
    name: "citations",
    about: "Share of the answer's citations that tool results contain and that support the \
            statement. Code finds made-up addresses, a judge decides about the rest. No address is \
            fetched.",
    also_known_as: &[("verify_citations", "Iris")],
    threshold: 0.8,
    schema: settings::schema::<NoSettings>,
    build: |node| kind::build_plain(node, Citations),
    example: "\
citations:
  judge: small
",
    ..Kind::PLAIN
};

struct Citations;

impl JudgedKind for Citations {
    fn needs(&self) -> &'static [NeededFact] {
        &[NeededFact::FinalOutput, NeededFact::Calls]
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        if run.settings.send.results == Send::NamesOnly {
            let words = "`send` keeps back the results that citations are held against";
            return Err(no_score(Reason::ContentWithheld, words));
        }
        let text = run.trajectory.final_output.to_text();
        // The answer, and all results again.
        let bytes = text.len().max(run.trajectory.bytes);
        if !run.trajectory.effort.spend(bytes * STEPS_PER_BYTE) {
            return Err(no_score(Reason::TrajectoryTooLarge, step_limit::words()));
        }
        let Some(found) = citations(&text, CITATIONS_MAX) else {
            let words = format!("the answer has more than {CITATIONS_MAX} citations");
            return Err(no_score(Reason::EvidenceTooLong, words));
        };
        if found.is_empty() {
            return Err(no_score(Reason::NothingToJudge, "the answer cites nothing"));
        }
        let sentences = sentences(&text);
        let parts = sentences.iter().map(|place| text[place.clone()].trim().to_owned());
        let wishes =
            RecordWishes { answer_parts: Some(parts.collect()), ..RecordWishes::default() };
        let record = run.record(wishes);
        let items = items(&text, &found, &sentences, &record);
        Ok(Question::of(record, GUIDANCE, items))
    }
}

fn sentences(text: &str) -> Vec<Range<usize>> {
    let units = first_units(text, SENTENCES_MAX);
    units.into_iter().map(|unit| unit.start as usize..unit.end as usize).collect()
}

/// Returns one statement per citation.
fn items(
    text: &str,
    found: &[Citation],
    sentences: &[Range<usize>],
    record: &RunRecord,
) -> Vec<QuestionItem> {
    let sources = RunSources::of(record);
    // The last answers are the sentences; earlier ones belong to earlier turns.
    let answers: Vec<u64> = record.of_kind(LineKind::Answer).map(|line| line.seq).collect();
    let first = answers.len() - sentences.len().min(answers.len());
    let mut numbers = vec![0_usize; sentences.len()];
    let items = found.iter().zip(listed(text, found)).filter_map(|(citation, is_listed)| {
        let at = sentence_of(text, citation, sentences)?;
        numbers[at] += 1;
        let seq = answers.get(first + at)?;
        Some(item(citation, (*seq, numbers[at]), is_listed, &sources))
    });
    items.collect()
}

/// Returns the sentence of a citation: the preceding one if it stands between two of one line,
/// unless it names author and year.
fn sentence_of(text: &str, citation: &Citation, sentences: &[Range<usize>]) -> Option<usize> {
    let at = sentences.iter().rposition(|sentence| sentence.start <= citation.place.start)?;
    let before = &text[sentences[at].start..citation.place.start];
    let is_first = before.len() <= MARKS_BYTES_MAX
        && before.chars().all(|c| c.is_whitespace() || "[](),;0123456789^".contains(c));
    let begins_line = || before.contains('\n') || text[..sentences[at].start].ends_with('\n');
    let is_behind = is_first && at > 0 && !begins_line();
    let is_number = !matches!(citation.source, CitedSource::AuthorYear);
    Some(if is_behind && is_number { at - 1 } else { at })
}

/// Builds the statement about a citation, by the index of its sentence and its number there.
fn item(
    citation: &Citation,
    (seq, number): (u64, usize),
    is_listed: bool,
    sources: &RunSources,
) -> QuestionItem {
    let said = format!("What the sentence at seq {seq} says at its citation {number} is supported");
    let name = format!("citation {number} of the sentence at seq {seq}");
    let settled = |answer: JudgeAnswer, why: &str| QuestionItem {
        settled: Some(answer),
        ..QuestionItem::new(said.clone()).named(format!("{name} ({why})"))
    };
    let asked = |by: &str| QuestionItem::new(format!("{said} by {by}.")).named(name.clone());
    match &citation.source {
        CitedSource::Address(key) => match sources.origin(key) {
            CitationOrigin::Returned(_) if is_listed => {
                settled(JudgeAnswer::Yes, "a list of sources; a result holds it")
            }
            CitationOrigin::Returned(places) => {
                asked(&format!("the result at seq {}", either(&places)))
            }
            CitationOrigin::Given => {
                settled(JudgeAnswer::NotApplicable, "user or operator named it")
            }
            CitationOrigin::Nowhere => settled(JudgeAnswer::No, "no result holds its address"),
            CitationOrigin::Unknown => {
                settled(JudgeAnswer::Unclear, "results are not wholly recorded")
            }
        },
        CitedSource::Number(mark) => {
            asked(&format!("the result, or the part of one, that the number {mark} names"))
        }
        CitedSource::AuthorYear => asked("a result of that author and year"),
    }
}

fn either(places: &[u64]) -> String {
    places.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ")
}
