//! Dead letters: records of evaluations without an answer, from the collector or from `score`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context;
use hashbrown::HashSet;

use spanscore_base::model::{EvaluationId, GivenVerdict, Reason, TraceId};
use spanscore_base::value::{Value, json};

/// Limit of letters; further ones are left for another run.
const LETTERS_MAX: usize = 1_000_000;
/// Longest line, in bytes: a record with all of its content.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Evaluator and trace of a letter.
pub(super) type LetterKey = (String, TraceId);

/// Evaluation without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnansweredLetter {
    pub(super) id: EvaluationId,
    pub(super) verdict: GivenVerdict,
    pub(super) revision: u32,
    pub(super) revises: Option<EvaluationId>,
}

/// Reads letters. Of several for one trace and evaluator the last counts; if that one has an
/// answer, there is no letter.
pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<BTreeMap<LetterKey, UnansweredLetter>> {
    let mut letters = BTreeMap::new();
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
            let line = read_line(text)
                .with_context(|| format!("{name}:{number}: not a record of an evaluation"))?;
            match line {
                LetterLine::About(key, Some(letter)) if letters.len() < LETTERS_MAX => {
                    letters.insert(key, letter);
                }
                LetterLine::About(_, Some(_)) | LetterLine::OfCall => {}
                LetterLine::About(key, None) => drop(letters.remove(&key)),
            }
        }
    }
    Ok(letters)
}

/// Content of a line.
enum LetterLine {
    /// State of an evaluation; `None` if it has an answer.
    About(LetterKey, Option<UnansweredLetter>),
    /// Evaluation of a call, which comes with that of its trace.
    OfCall,
}

fn read_line(line: &str) -> Option<LetterLine> {
    let record = json::parse(line).ok()?;
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    let id = |key: &str| text(key).and_then(TraceId::from_hex).map(|id| EvaluationId(id.0));
    let key = (text("evaluator")?.to_owned(), TraceId::from_hex(text("trace_id")?)?);
    let is_trouble = |word: &str| Reason::UNANSWERED.iter().any(|reason| reason.as_str() == word);
    let verdict = match text("outcome")? {
        "failed" => Some(GivenVerdict::Failed),
        "not_evaluable" if text("reason").is_some_and(is_trouble) => {
            Some(GivenVerdict::NotEvaluable)
        }
        _ => None,
    };
    if text("level") == Some("call") {
        return Some(LetterLine::OfCall);
    }
    let revision = record.get("revision").and_then(Value::as_number).and_then(|it| it.as_i64());
    let revision = revision.and_then(|it| u32::try_from(it).ok()).unwrap_or_default();
    let letter = verdict.zip(id("evaluation_id")).map(|(verdict, own)| UnansweredLetter {
        id: own,
        verdict,
        revision,
        revises: id("revises"),
    });
    Some(LetterLine::About(key, letter))
}

/// Reads the ids of answered letters; none if there is no file.
pub(super) fn read_answered(path: &Path) -> anyhow::Result<HashSet<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(HashSet::new()),
        Err(error) => {
            Err(anyhow::Error::new(error).context(format!("failed to read {}", path.display())))
        }
    }
}

/// Replaces the file of answered letters atomically.
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
        let found = read(&[path]).unwrap();
        let found: Vec<_> = found.values().map(|letter| (letter.id, letter.verdict)).collect();
        let expected = expected.map(|(id, verdict)| (EvaluationId([id; 16]), verdict));
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn only_what_a_judge_may_still_answer_is_a_letter_and_the_last_word_counts() {
        let failed = || record("failed", "null", 1);
        check(&[failed()], Some((1, GivenVerdict::Failed)));
        check(&[record("not_evaluable", "\"deadline\"", 2)], Some((2, GivenVerdict::NotEvaluable)));
        check(&[record("not_evaluable", "\"judge_unsure\"", 2)], None);
        check(&[failed(), record("scored", "null", 1)], None);
        check(&[failed(), record("failed", "null", 3)], Some((3, GivenVerdict::Failed)));
        check(&[failed().replace(r#""level":"trace""#, r#""level":"call""#)], None);
    }

    #[test]
    fn what_is_no_record_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.jsonl");
        std::fs::write(&path, "\n{}\n").unwrap();
        let error = format!("{:#}", read(std::slice::from_ref(&path)).unwrap_err());
        assert!(error.contains("letters.jsonl:2: not a record"), "{error}");
    }
}
