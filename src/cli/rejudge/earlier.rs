//! Earlier verdicts: evaluation records from the collector or from `score`, and those in the store.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context;
use hashbrown::HashSet;

use spanscore_base::model::{
    ClientGroup, Evaluation, EvaluationId, GivenVerdict, Level, Reason, SpanId, TraceId,
};
use spanscore_base::value::{Value, json};

/// Limit on earlier verdicts; further ones are counted, and left for another run.
pub(super) const EARLIER_MAX: usize = 1_000_000;
/// Longest line, bytes: a record with all of its content.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Evaluator, trace, span of a single call, and client group of the trace.
pub(super) type EarlierKey = (String, TraceId, Option<SpanId>, ClientGroup);

/// Earlier verdicts by evaluator and target, within a limit.
pub(super) struct RejudgedBefore {
    pub(super) kept: BTreeMap<EarlierKey, EarlierVerdict>,
    /// Verdicts beyond the limit.
    pub(super) left_out: u64,
    limit: usize,
}

impl RejudgedBefore {
    pub(super) fn new() -> Self {
        Self::within(EARLIER_MAX)
    }

    fn within(limit: usize) -> Self {
        Self { kept: BTreeMap::new(), left_out: 0, limit }
    }

    /// Replaces the verdict on a target, within the limit.
    pub(super) fn insert(&mut self, key: EarlierKey, verdict: EarlierVerdict) {
        if self.kept.len() < self.limit || self.kept.contains_key(&key) {
            self.kept.insert(key, verdict);
        } else {
            self.left_out += 1;
        }
    }
}

/// Last verdict of an evaluator on a target.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EarlierVerdict {
    pub(super) id: EvaluationId,
    pub(super) verdict: GivenVerdict,
    pub(super) score: Option<f64>,
    /// True if a judge may still answer.
    pub(super) is_unanswered: bool,
    /// Digest of the evaluator.
    pub(super) version: [u8; 16],
    pub(super) revision: u32,
    pub(super) revises: Option<EvaluationId>,
}

/// Returns the key of an evaluation's earlier verdict.
pub(super) fn key_of(evaluation: &Evaluation) -> EarlierKey {
    let Evaluation { evaluator, target, span_id, .. } = evaluation;
    let span_id = (evaluator.level == Level::Call).then_some(*span_id);
    (evaluator.name.clone(), target.trace_id, span_id, target.sender.group)
}

/// Returns true if a judge may still answer: there is no verdict, for such a reason.
pub(super) fn is_unanswered(verdict: GivenVerdict, reason: Option<&str>) -> bool {
    let is_trouble = |word: &str| Reason::UNANSWERED.iter().any(|reason| reason.as_str() == word);
    match verdict {
        GivenVerdict::Failed => true,
        GivenVerdict::NotEvaluable => reason.is_some_and(is_trouble),
        GivenVerdict::Pass | GivenVerdict::Fail => false,
    }
}

/// Adds the verdicts of files. The last of one evaluator on one target counts.
pub(super) fn read(files: &[PathBuf], into: &mut RejudgedBefore) -> anyhow::Result<()> {
    for path in files {
        let name = path.display();
        let file = std::fs::File::open(path).with_context(|| format!("failed to read {name}"))?;
        let mut reader = BufReader::new(file);
        for number in 1.. {
            let mut line = Vec::new();
            let mut limited = std::io::Read::take(&mut reader, LINE_BYTES_MAX as u64);
            let read = limited.read_until(b'\n', &mut line);
            if read.with_context(|| format!("failed to read {name}"))? == 0 {
                break;
            }
            let text = std::str::from_utf8(&line).unwrap_or_default().trim();
            // The writing process may have been killed within its last line.
            if text.is_empty() || !line.ends_with(b"\n") && json::parse(text).is_err() {
                continue;
            }
            let (key, verdict) = read_line(text)
                .with_context(|| format!("{name}:{number}: not a record of an evaluation"))?;
            into.insert(key, verdict);
        }
    }
    Ok(())
}

fn read_line(line: &str) -> Option<(EarlierKey, EarlierVerdict)> {
    let record = json::parse(line).ok()?;
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    let digits = |key: &str| text(key).and_then(TraceId::from_hex).map(|id| id.0);
    let verdict = GivenVerdict::of(text("outcome")?, text("label"));
    let number = |key: &str| record.get(key).and_then(Value::as_number);
    let revision = number("revision").and_then(|it| u32::try_from(it.as_i64()?).ok());
    let is_of_call = text("level") == Some("call");
    let span_id = text("span_id").and_then(SpanId::from_hex).filter(|_| is_of_call);
    let group = match text("client_group") {
        Some(digits) => ClientGroup::from_hex(digits.as_bytes())?,
        None => ClientGroup::default(),
    };
    let trace_id = TraceId::from_hex(text("trace_id")?)?;
    let key = (text("evaluator")?.to_owned(), trace_id, span_id, group);
    let verdict = EarlierVerdict {
        id: EvaluationId(digits("evaluation_id")?),
        verdict,
        score: number("score").map(|it| it.as_f64()),
        is_unanswered: is_unanswered(verdict, text("reason")),
        version: digits("evaluator_version").unwrap_or_default(),
        revision: revision.unwrap_or_default(),
        revises: digits("revises").map(EvaluationId),
    };
    Some((key, verdict))
}

/// Returns the place of a new evaluation: that of the earlier one for the same evidence, else a
/// revision of it.
pub(super) fn place_of(
    earlier: &EarlierVerdict,
    evaluation: &Evaluation,
) -> (u32, Option<EvaluationId>) {
    if evaluation.id == earlier.id {
        (earlier.revision, earlier.revises)
    } else {
        (earlier.revision.saturating_add(1), Some(earlier.id))
    }
}

/// Reads the ids of answered dead letters; empty without a file.
pub(super) fn read_answered(path: &Path) -> anyhow::Result<HashSet<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(HashSet::new()),
        Err(error) => {
            Err(anyhow::Error::new(error).context(format!("failed to read {}", path.display())))
        }
    }
}

/// Replaces the file of answered dead letters atomically.
pub(super) fn write_answered(path: &Path, ids: &[String]) -> anyhow::Result<()> {
    let failed = || format!("failed to write {}", path.display());
    let beside = path.with_extension("tmp");
    let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
    std::fs::write(&beside, text).with_context(failed)?;
    std::fs::rename(&beside, path).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcome: &str, reason: &str, id: u8) -> String {
        let digits = |byte: u8| format!("{byte:02x}").repeat(16);
        format!(
            r#"{{"evaluation_id":"{}","trace_id":"{}","evaluator":"task_completion/a",
            "level":"trace",
            "outcome":"{outcome}","reason":{reason},"revision":2,"revises":null}}"#,
            digits(id),
            digits(7)
        )
        .replace("\n            ", "")
    }

    #[track_caller]
    fn check(lines: &[String], expected: Option<(u8, GivenVerdict)>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.jsonl");
        std::fs::write(&path, lines.join("\n") + "\n{\"cut").unwrap();
        let mut found = RejudgedBefore::new();
        read(&[path], &mut found).unwrap();
        let found = found.kept.values().filter(|it| it.is_unanswered);
        let found: Vec<_> = found.map(|it| (it.id, it.verdict)).collect();
        let expected = expected.map(|(id, verdict)| (EvaluationId([id; 16]), verdict));
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn only_what_a_judge_may_still_answer_is_unanswered_and_the_last_word_counts() {
        let failed = || record("failed", "null", 1);
        check(&[failed()], Some((1, GivenVerdict::Failed)));
        check(&[record("not_evaluable", "\"deadline\"", 2)], Some((2, GivenVerdict::NotEvaluable)));
        check(&[record("not_evaluable", "\"judge_unsure\"", 2)], None);
        check(&[failed(), record("scored", "null", 1)], None);
        check(&[failed(), record("failed", "null", 3)], Some((3, GivenVerdict::Failed)));
        let call = record("scored", "null", 4)
            .replace(r#""level":"trace""#, r#""level":"call","span_id":"0101010101010101""#);
        check(&[failed(), call], Some((1, GivenVerdict::Failed)));
    }

    #[test]
    fn verdicts_of_other_clients_stay_beside_and_those_beyond_the_limit_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scores.jsonl");
        let of = |group: &str| {
            let key = format!(r#""client_group":"{group}","level""#);
            record("failed", "null", 1).replace(r#""level""#, &key)
        };
        let [one, two] = ["1", "2"].map(|digit| of(&digit.repeat(16)));
        let lines = [record("failed", "null", 1), one.clone(), two, one];
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        for (limit, expected) in [(9, (3, 0)), (2, (2, 1))] {
            let mut found = RejudgedBefore::within(limit);
            read(std::slice::from_ref(&path), &mut found).unwrap();
            assert_eq!((found.kept.len(), found.left_out), expected);
        }
    }

    #[test]
    fn what_is_no_record_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.jsonl");
        std::fs::write(&path, "\n{}\n").unwrap();
        let error = read(std::slice::from_ref(&path), &mut RejudgedBefore::new()).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("letters.jsonl:2: not a record"), "{error}");
    }
}
