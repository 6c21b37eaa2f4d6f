//! Detection of truncated answers.
//!
//! Returns true for an announcement without its content, or an unfinished sentence, list, table,
//! code block or JSON. Only the end of the answer is checked, in linear time.

/// Words that never end a sentence, in lower case.
const GOES_ON: &str = " the a an of to in on at with for and or but because by from that which is \
    are was were as into than if when while whose your our their its der die das dem den des ein \
    eine einen einer und oder weil mit von auf im zum zur ist sind durch für el la los las un una \
    de del en con por para que y o le les des du au aux et ou sur avec dans pour une à il lo gli \
    di da nel su e o do dos das no na um uma com para em на в и или с по для от к что из у о \
    het een van en met op voor ";

/// Words that may end a German sentence: no sign of truncation.
const MAY_END: [&str; 6] = ["auf", "on", "in", "is", "was", "no"];

/// Longest last line with a colon that is a label instead of an announcement, bytes.
const LEAD_IN_BYTES_MIN: usize = 8;

/// Returns true if an answer ends with an announcement.
pub(super) fn is_lead_in(text: &str) -> bool {
    let body = without_empty_block(text);
    let last = body.lines().last().unwrap_or_default().trim_end();
    let announces = last.ends_with([':', '：']) && !last.starts_with(['-', '*', '|', '#']);
    announces && last.len() > LEAD_IN_BYTES_MIN
}

/// Strips an empty code block from the end.
fn without_empty_block(text: &str) -> &str {
    let Some(body) = text.strip_suffix("```") else { return text };
    match body.rfind("```") {
        Some(start)
            if body[start + 3..].trim().lines().count() <= 1 && block_is_empty(body, start) =>
        {
            body[..start].trim_end()
        }
        _ => text,
    }
}

fn block_is_empty(body: &str, start: usize) -> bool {
    let inside = &body[start + 3..];
    inside.split_once('\n').is_none_or(|(_, rest)| rest.trim().is_empty())
}

/// Returns true if an answer is truncated.
pub(super) fn is_cut(text: &str) -> bool {
    if text.matches("```").count() % 2 == 1 {
        return true;
    }
    if text.ends_with("```") {
        return false;
    }
    if is_structure(text) {
        return is_open(text);
    }
    let last = text.lines().last().unwrap_or_default().trim();
    is_open_table(text, last) || is_open_item(text, last) || is_open_sentence(text, last)
}

/// Returns true if an object or a list is unclosed.
pub(in super::super) fn is_open_structure(text: &str) -> bool {
    let text = text.trim();
    is_structure(text) && is_open(text)
}

fn is_structure(text: &str) -> bool {
    text.starts_with(['{', '[']) && text[1..].contains(['"', ':', ','])
}

/// Returns true if brackets or a string of JSON are unclosed.
fn is_open(text: &str) -> bool {
    let mut depth = 0i64;
    let mut inside = false;
    let mut escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'{' | b'[' if !inside => depth += 1,
            b'}' | b']' if !inside => depth -= 1,
            _ => {}
        }
    }
    depth > 0 || (inside && depth >= 0 && !text.ends_with(['}', ']', '.']))
}

/// Returns true if the last row has fewer cells than its table's header.
fn is_open_table(text: &str, last: &str) -> bool {
    let columns = |line: &str| line.matches('|').count();
    let is_rule = |line: &&str| {
        line.contains("--") && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
    };
    last.starts_with('|')
        && text.lines().find(is_rule).is_some_and(|rule| columns(last) < columns(rule))
}

/// Returns true if the last list item is only a number or mark.
fn is_open_item(text: &str, last: &str) -> bool {
    let number = last.trim_end_matches(['.', ')']);
    let is_number = number.len() < last.len() && number.parse::<u32>().is_ok();
    text.lines().count() > 1 && (is_number || matches!(last, "-" | "*" | "•"))
}

/// Returns true if a sentence of some words ends with a comma or a word that never ends one.
fn is_open_sentence(text: &str, last: &str) -> bool {
    let words = last.split_whitespace().count();
    if words < 4 {
        return false;
    }
    if text.ends_with([',', ';', '(', '—']) && !last.contains("```") {
        return true;
    }
    let word = last.split_whitespace().next_back().unwrap_or_default().to_lowercase();
    if word.starts_with('(') && word.ends_with(')') && word.len() == 3 {
        return true;
    }
    let goes_on = word.chars().all(char::is_alphabetic) && GOES_ON.contains(&format!(" {word} "));
    goes_on && (words >= 5 || !MAY_END.contains(&&*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_open_is_cut() {
        for text in [
            "1. Apples\n2. Pears\n3.",
            "```python\nprint(1",
            "| name | age |\n|---|---|\n| Ann | 31 |\n| Bo",
            "Items can be returned if (a) the seal is intact, and (b)",
            "El fallo se debió a un certificado caducado en el",
            "Download it, unpack it, and then run the installer with",
        ] {
            assert!(is_cut(text), "{text}");
        }
        for text in [
            "Leaves drift to the pond\nthe first frost listens",
            "ls -a",
            "def f(n):\n    return a",
            "{\"a\": [1]}",
            "[Ann, Bo]",
            "- one\n- two",
        ] {
            assert!(!is_cut(text), "{text}");
        }
    }

    #[test]
    fn what_is_announced_must_follow() {
        assert!(is_lead_in("The query is as follows:\n\n```sql\n```"));
        assert!(is_lead_in("步骤如下："));
        assert!(!is_lead_in("The query is:\n```sql\nselect 1\n```"));
        assert!(!is_lead_in("x:"));
    }
}
