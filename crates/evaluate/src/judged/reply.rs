//! Strict parser of judges' replies, with the schema that is asked for.
//!
//! Around the object there may be what models wrap it in (thinking, a fence, a sentence); within it
//! nothing is guessed. A reply that cannot be read is an error, never a low score.

use crate::inquiry::{AnsweredItem, JudgeAnswer, JudgeAnswers, UnreadableReply};
use spanscore_base::value::{Value, json};

/// JSON Schema of a reply, in the subset that every provider's strict mode takes.
pub(super) const SCHEMA: &str = concat!(
    r#"{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","#,
    r#""properties":{"id":{"type":"integer"},"cites":{"type":"array","items":{"type":"integer"}},"#,
    r#""reason":{"type":"string"},"#,
    r#""verdict":{"type":"string","enum":["yes","no","unclear","not_applicable"]}},"#,
    r#""required":["id","cites","reason","verdict"],"additionalProperties":false}},"#,
    r#""injection_suspected":{"type":"boolean"}},"#,
    r#""required":["items","injection_suspected"],"additionalProperties":false}"#,
);

/// Bytes at most of a reason in the judge's words; the rest is cut.
pub(super) const REASON_BYTES_MAX: usize = 600;
/// Cites of one item at most; the rest is dropped.
const CITES_MAX: usize = 64;
/// Longest reply that is read, bytes.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// Parses a reply to that many statements; cites are not checked yet.
pub(super) fn read(reply: &str, statements: usize) -> Result<JudgeAnswers, UnreadableReply> {
    let value = object(reply)?;
    let items = value.get("items").and_then(Value::as_list);
    let items = items.ok_or_else(|| unreadable("`items` is not a list"))?;
    let suspected = value.get("injection_suspected").and_then(Value::as_bool);
    let suspected =
        suspected.ok_or_else(|| unreadable("`injection_suspected` is neither true nor false"))?;
    let mut answers: Vec<Option<AnsweredItem>> = vec![None; statements];
    for item in items {
        let id = item.get("id").and_then(Value::as_number).and_then(|id| id.as_i64());
        let id = id.ok_or_else(|| unreadable("an item has no `id`"))?;
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
        injection_suspected: suspected,
        score: None,
    })
}

fn answered(item: &Value<'_>, id: i64) -> Result<AnsweredItem, UnreadableReply> {
    let verdict = item.get("verdict").and_then(Value::as_str).and_then(JudgeAnswer::from_word);
    let answer =
        verdict.ok_or_else(|| unreadable(format!("`verdict` of statement {id} is no verdict")))?;
    let cite = |cite: &Value<'_>| {
        let number = cite.as_number().and_then(|number| number.as_i64());
        number.and_then(|number| u64::try_from(number).ok())
    };
    let cites = match item.get("cites") {
        None => Vec::new(),
        Some(Value::List(cites)) if cites.len() <= CITES_MAX => {
            let cites: Option<Vec<u64>> = cites.iter().map(cite).collect();
            cites.ok_or_else(|| unreadable(format!("`cites` of statement {id} are no numbers")))?
        }
        Some(_) => return Err(unreadable(format!("`cites` of statement {id} is no short list"))),
    };
    let reason = match item.get("reason") {
        None => "",
        Some(reason) => reason
            .as_str()
            .ok_or_else(|| unreadable(format!("`reason` of statement {id} is not a text")))?,
    };
    let reason = reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
    Ok(AnsweredItem { answer, cites, reason, overturned: None })
}

/// Parses the outermost object of a reply.
pub(super) fn object(reply: &str) -> Result<Value<'static>, UnreadableReply> {
    if reply.len() > REPLY_BYTES_MAX {
        return Err(unreadable(format!("the reply is longer than {REPLY_BYTES_MAX} bytes")));
    }
    let text = without_thinking(reply)?;
    let (Some(start), Some(end)) = (text.find('{'), text.rfind('}')) else {
        return Err(unreadable("the reply holds no JSON object"));
    };
    let object =
        text.get(start..=end).ok_or_else(|| unreadable("the reply holds no JSON object"))?;
    match json::parse(object) {
        Ok(value) => Ok(value.into_owned()),
        Err(error) => Err(unreadable(format!("the reply is not JSON: {error}"))),
    }
}

/// Removes the blocks in which models think aloud.
fn without_thinking(reply: &str) -> Result<String, UnreadableReply> {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let mut out = String::with_capacity(reply.len());
    let mut rest = reply;
    // Some servers leave out the opening tag.
    if let (None, Some(close)) = (rest.find(OPEN), rest.find(CLOSE)) {
        rest = &rest[close + CLOSE.len()..];
    }
    while let Some(open) = rest.find(OPEN) {
        // Inside the object the tag is text of the judge.
        if rest[..open].contains('{') {
            break;
        }
        out.push_str(&rest[..open]);
        let Some(close) = rest[open..].find(CLOSE) else {
            return Err(unreadable("the reply ends while the model thinks"));
        };
        rest = &rest[open + close + CLOSE.len()..];
    }
    out.push_str(rest);
    Ok(out)
}

pub(super) fn unreadable(message: impl Into<String>) -> UnreadableReply {
    UnreadableReply(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        check("", "the reply holds no JSON object");
        check("yes", "the reply holds no JSON object");
        check("<think>{", "the reply ends while the model thinks");
        check(r#"{"items":[]}"#, "`injection_suspected` is neither true nor false");
        check(&GOOD.replace("\"id\":2", "\"id\":1"), "statement 1 is answered twice");
        check(&GOOD.replace("\"id\":2", "\"id\":3"), "there is no statement 3");
        check(&GOOD.replace("\"id\":2", "\"id\":0"), "there is no statement 0");
        check(&GOOD.replace("\"yes\"", "\"maybe\""), "`verdict` of statement 1 is no verdict");
        check(&GOOD.replace("[2]", "[-2]"), "`cites` of statement 1 are no numbers");
        let one = r#"{"items":[{"id":1,"verdict":"yes"}],"injection_suspected":true}"#;
        check(one, "statement 2 is not answered");
        assert!(read(&GOOD[..GOOD.len() - 20], 2).is_err());
    }

    #[test]
    fn the_schema_is_what_strict_modes_take() {
        let schema = json::parse(SCHEMA).unwrap();
        assert_eq!(schema.get("additionalProperties"), Some(&Value::from(false)));
        assert_eq!(schema.to_string(), SCHEMA);
    }
}
