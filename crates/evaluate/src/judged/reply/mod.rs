//! Parser of judges' replies, with their schema.
//!
//! It accepts models' usual wrappings of an answer ([`search`]) and unambiguous variants: a verdict
//! in capitals, an id in quotes, no cites. A verdict is never guessed, and an unreadable reply is
//! an error, never a low score.

pub(super) mod lenient;
mod search;
mod wrapping;

use crate::inquiry::{AnsweredItem, JudgeAnswer, JudgeAnswers, UnreadableReply};
use spanscore_base::value::Value;

/// JSON Schema of a reply, in the subset accepted by every provider's strict mode.
pub(super) const SCHEMA: &str = concat!(
    r#"{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","#,
    r#""properties":{"id":{"type":"integer"},"cites":{"type":"array","items":{"type":"integer"}},"#,
    r#""reason":{"type":"string"},"#,
    r#""verdict":{"type":"string","enum":["yes","no","unclear","not_applicable"]}},"#,
    r#""required":["id","cites","reason","verdict"],"additionalProperties":false}},"#,
    r#""injection_suspected":{"type":"boolean"}},"#,
    r#""required":["items","injection_suspected"],"additionalProperties":false}"#,
);

/// Limit on the bytes of the judge's reason; the rest is cut.
pub(super) const REASON_BYTES_MAX: usize = 600;
/// Limit on the cites of one item; the rest is dropped.
const CITES_MAX: usize = 64;

/// Parses a reply to a number of statements, without checking the cites.
pub(super) fn read(reply: &str, statements: usize) -> Result<JudgeAnswers, UnreadableReply> {
    let value = search::answer(reply, |value| items(value).is_some())?;
    let items = items(&value).ok_or_else(|| unreadable("`items` is not a list"))?;
    let suspected = suspicion(&value)?;
    let mut answers: Vec<Option<AnsweredItem>> = vec![None; statements];
    for (id, item) in items {
        let id = id.ok_or_else(|| unreadable("an item has no `id`, or two"))?;
        let place = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let Some(slot) = place.and_then(|place| answers.get_mut(place)) else {
            return Err(unreadable(format!("there is no statement {id}")));
        };
        if slot.is_some() {
            return Err(unreadable(format!("statement {id} is answered twice")));
        }
        *slot = Some(answered(item, id)?);
    }
    let missing = answers.iter().position(Option::is_none);
    if let Some(place) = missing {
        return Err(unreadable(format!("statement {} is not answered", place + 1)));
    }
    Ok(JudgeAnswers {
        items: answers.into_iter().flatten().collect(),
        injection_suspected: suspected.unwrap_or(false),
        is_unsure: suspected.is_none(),
        score: None,
    })
}

/// Entry of a reply with its id.
type ReplyEntry<'v> = (Option<i64>, &'v Value<'v>);

/// Returns the entries of a reply: its `items` (a list, entries by id, or a single one), or a list
/// of entries or an entry itself. An entry has a verdict.
fn items<'v>(value: &'v Value<'v>) -> Option<Vec<ReplyEntry<'v>>> {
    let is_entry = |entry: &Value<'_>| entry.get("verdict").is_some();
    let listed = |list: &'v [Value<'v>]| -> Vec<ReplyEntry<'v>> {
        list.iter().map(|entry| (entry.get("id").and_then(whole), entry)).collect()
    };
    match value {
        Value::List(list) if !list.is_empty() && list.iter().all(is_entry) => Some(listed(list)),
        Value::Map(map) => match map.get("items") {
            Some(Value::List(list)) => Some(listed(list)),
            Some(Value::Map(by_id)) if by_id.iter().all(|(_, entry)| is_entry(entry)) => {
                Some(by_id.iter().map(|(key, entry)| (id_of(key, entry), entry)).collect())
            }
            Some(only) if is_entry(only) => Some(listed(std::slice::from_ref(only))),
            None if is_entry(value) && map.get("id").is_some() => {
                Some(listed(std::slice::from_ref(value)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the id given by an entry's key, unless the entry has a different one.
fn id_of(key: &str, entry: &Value<'_>) -> Option<i64> {
    let id = key.trim().parse().ok()?;
    let own = entry.get("id").filter(|own| !own.is_null());
    own.is_none_or(|own| whole(own) == Some(id)).then_some(id)
}

/// Parses `injection_suspected`; `None` if absent.
///
/// # Errors
/// Returns an error for anything but true or false.
pub(super) fn suspicion(value: &Value<'_>) -> Result<Option<bool>, UnreadableReply> {
    match value.get("injection_suspected") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(suspected)) => Ok(Some(*suspected)),
        Some(Value::String(word)) if word.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Some(Value::String(word)) if word.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Some(_) => Err(unreadable("`injection_suspected` is neither true nor false")),
    }
}

/// Parses an integer, also from a text such as `1`, `#1` or `1.`.
fn whole(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::String(text) => {
            text.trim().trim_start_matches('#').trim_end_matches('.').parse().ok()
        }
        value => value.as_number().and_then(|number| number.as_i64()),
    }
}

/// Parses a verdict in any case, in bold, with a space for its underscore, or as a boolean, quoted
/// or not.
fn verdict(value: &Value<'_>) -> Option<JudgeAnswer> {
    if let Value::Bool(holds) = value {
        return Some(if *holds { JudgeAnswer::Yes } else { JudgeAnswer::No });
    }
    let is_mark = |c: char| c.is_whitespace() || matches!(c, '*' | '`' | '.' | '"');
    let word = value.as_str()?.trim_matches(is_mark).to_ascii_lowercase().replace([' ', '-'], "_");
    match &*word {
        "true" => Some(JudgeAnswer::Yes),
        "false" => Some(JudgeAnswer::No),
        "n/a" => Some(JudgeAnswer::NotApplicable),
        word => JudgeAnswer::from_word(word),
    }
}

/// Parses cites: a list of numbers, a single one, or a text of them.
fn cites(value: &Value<'_>) -> Option<Vec<u64>> {
    match value {
        Value::List(list) => {
            let each = list.iter().map(cites).collect::<Option<Vec<_>>>()?;
            Some(each.concat())
        }
        Value::String(text) => {
            let is_between = |c: char| c.is_whitespace() || ",;#[]()".contains(c);
            let words = text.split(is_between).filter(|word| !word.is_empty());
            let numbers = words.filter(|word| !matches!(*word, "seq" | "line" | "lines" | "and"));
            numbers.map(|word| word.parse().ok()).collect()
        }
        number => Some(vec![u64::try_from(whole(number)?).ok()?]),
    }
}

fn answered(item: &Value<'_>, id: i64) -> Result<AnsweredItem, UnreadableReply> {
    let verdict = item.get("verdict").and_then(verdict);
    let answer =
        verdict.ok_or_else(|| unreadable(format!("`verdict` of statement {id} is no verdict")))?;
    let cites = match item.get("cites") {
        None | Some(Value::Null) => Vec::new(),
        Some(told) => cites(told)
            .ok_or_else(|| unreadable(format!("`cites` of statement {id} are no numbers")))?,
    };
    if cites.len() > CITES_MAX {
        return Err(unreadable(format!("`cites` of statement {id} is no short list")));
    }
    let reason = match item.get("reason") {
        None | Some(Value::Null) => String::new(),
        Some(Value::List(parts)) => {
            parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
        }
        Some(reason) => reason
            .as_str()
            .ok_or_else(|| unreadable(format!("`reason` of statement {id} is not a text")))?
            .to_owned(),
    };
    let reason = reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
    Ok(AnsweredItem { answer, cites, reason, overturned: None })
}

/// Returns the object of a reply with a given key.
pub(super) fn object(reply: &str, key: &str) -> Result<Value<'static>, UnreadableReply> {
    search::answer(reply, |value| value.get(key).is_some())
}

pub(super) fn unreadable(message: impl Into<String>) -> UnreadableReply {
    UnreadableReply(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    const GOOD: &str = concat!(
        r#"{"items":[{"id":1,"cites":[2],"reason":"r","verdict":"yes"},"#,
        r#"{"id":2,"cites":[],"reason":"","verdict":"not_applicable"}],"#,
        r#""injection_suspected":false}"#,
    );

    fn check(reply: &str, expected: &str) {
        let found = match read(reply, 2) {
            Ok(answers) => {
                let words = answers.items.iter().map(|item| item.answer.as_str());
                words.collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{reply}");
    }

    #[test]
    fn a_reply_is_read_through_what_models_wrap_it_in() {
        let good = "yes not_applicable";
        check(GOOD, good);
        check(&format!("```json\n{GOOD}\n```"), good);
        check(&format!("<think>is {{1}} so?</think>Here it is: {GOOD} Done."), good);
        check(&format!("so I think.</think>{GOOD}"), good);
        let swapped = concat!(
            r#"{"items":[{"id":2,"cites":[],"reason":"","verdict":"no"},"#,
            r#"{"id":1,"verdict":"yes"}],"injection_suspected":false}"#,
        );
        check(swapped, "yes no");
        check(&format!("<think\neffort=\"low\">{{}}</think>{GOOD}"), good);
        check(&format!("<think effort=\"none\"/>{GOOD}"), good);
        check(&format!("<thinks=\"\">{GOOD}"), good);
        check(&format!("{}{GOOD}", "<think ".repeat(100_000)), good);
        check(&format!("{{\"thoughts\":{swapped}}}{GOOD}"), good);
    }

    #[test]
    fn thoughts_that_may_be_an_answer_are_one() {
        let other = GOOD.replace("yes", "no");
        let rival = "the reply holds another object beside its answer";
        check(&format!("{GOOD}{{\"analysis\":{other}}}"), rival);
        check(&format!("{{\"analysis\":{other}}} The page says {GOOD}"), rival);
        check(&format!("{GOOD}{{\"thoughts\":{other}}}"), rival);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        check("", "the reply holds no JSON object");
        check("yes", "the reply holds no JSON object");
        check("<think>{", "the reply ends while the model thinks");
        check(r#"{"items":[]}"#, "statement 1 is not answered");
        check(r#"{"verdict":"yes"}"#, "`items` is not a list");
        let word = GOOD.replace(":false", ":\"no\"");
        check(&word, "`injection_suspected` is neither true nor false");
        check(&GOOD.replace("\"id\":2", "\"id\":1"), "statement 1 is answered twice");
        check(&GOOD.replace("\"id\":2", "\"id\":3"), "there is no statement 3");
        check(&GOOD.replace("\"id\":2", "\"id\":0"), "there is no statement 0");
        check(&GOOD.replace("\"yes\"", "\"maybe\""), "`verdict` of statement 1 is no verdict");
        check(&GOOD.replace("[2]", "[-2]"), "`cites` of statement 1 are no numbers");
        let one = r#"{"items":[{"id":1,"verdict":"yes"}],"injection_suspected":true}"#;
        check(one, "statement 2 is not answered");
        assert!(read(&GOOD[..GOOD.len() - 20], 2).is_err());
    }

    /// Replies with the answer that each holds, or the error.
    #[test]
    fn recorded_replies_are_read_or_refused() {
        let file = include_str!("../../../../../tests/fixtures/judges/replies.json");
        let Ok(Value::Map(cases)) = json::parse(file) else { panic!("replies.json is no object") };
        let mut wrong = Vec::new();
        for (name, case) in cases.iter() {
            let text = |key: &str| case.get(key).and_then(Value::as_str).unwrap_or_default();
            let found = match read(text("reply"), 1) {
                Ok(answers) => {
                    let unsure = if answers.is_unsure { ", unsure" } else { "" };
                    let suspected = if answers.injection_suspected { ", suspected" } else { "" };
                    format!("{}{unsure}{suspected}", answers.items[0].answer.as_str())
                }
                Err(error) => format!("failed: {error}"),
            };
            if found != text("expected") {
                wrong.push(format!("{name}: {found}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn the_schema_is_what_strict_modes_take() {
        let schema = json::parse(SCHEMA).unwrap();
        assert_eq!(schema.get("additionalProperties"), Some(&Value::from(false)));
        assert_eq!(schema.to_string(), SCHEMA);
    }
}
