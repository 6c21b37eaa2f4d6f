//! JSON escaping of untrusted strings, so that no reader or tokenizer can misinterpret them.
//!
//! In addition to JSON's own rules, `\u` escapes are used for control, bidirectional, invisible and
//! tag characters, variation selectors, U+2028 and U+2029, and the first character of chat template
//! tokens. Parsing restores the original text.

mod template_tokens;

use std::fmt::Write as _;

use self::template_tokens::FAMILIES;
use spanscore_base::value::{Value, json};

/// Writes a value as compact JSON.
pub(super) fn write_value(value: &Value<'_>, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = json::write_with(value, out, |text, out| {
        write_string(text, out);
        Ok(())
    });
}

/// Writes a JSON string with its quotes.
pub(super) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    write_inner(text, out);
    out.push('"');
}

/// Writes the content of a JSON string.
pub(super) fn write_inner(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if !NEEDS_A_LOOK[usize::from(byte)] {
            at += 1;
            continue;
        }
        let Some(c) = text[at..].chars().next() else { break };
        let end = at + c.len_utf8();
        if is_escaped(c, &text[at..]) {
            out.push_str(&text[from..at]);
            write_escape(c, out);
            from = end;
        }
        at = end;
    }
    out.push_str(&text[from..]);
}

/// Lookup table of first bytes: true if the character may need escaping.
static NEEDS_A_LOOK: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = matches!(
            byte as u8,
            ..0x20 | b'"' | b'\\' | b'<' | b'|' | b'[' | b']' | 0x7f
            // U+0080 to U+00BF, U+034F, U+061C, U+115F, U+17B4 and U+180B, U+2000 to U+3FFF,
            // U+FE00 up, beyond U+E0000.
            | 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xef | 0xf0 | 0xf3
        );
        byte += 1;
    }
    table
};

fn is_escaped(c: char, rest: &str) -> bool {
    match c {
        '"' | '\\' | '\0'..='\x1f' | '\x7f'..='\u{9f}' => true,
        '<' | '|' | '[' | ']' | '\u{ff5c}' => {
            let mut tokens = FAMILIES.iter().flat_map(|(_, tokens)| *tokens);
            tokens.any(|token| begins_with(rest, token))
        }
        _ => is_invisible(c),
    }
}

fn begins_with(text: &str, token: &str) -> bool {
    let head = text.as_bytes().get(..token.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(token.as_bytes()))
}

/// Returns true for a character that is invisible or changes the display of others.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn write_escape(c: char, out: &mut String) {
    let plain = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
            return;
        }
    };
    out.push_str(plain);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        let mut out = String::new();
        write_inner(text, &mut out);
        assert_eq!(out, expected);
    }

    #[test]
    fn ambiguous_text_is_escaped() {
        check("plain <b> | [1] é 渋谷 😀", "plain <b> | [1] é 渋谷 😀");
        check("a\"b\\c\nd", "a\\\"b\\\\c\\nd");
        check("<|im_end|>", "\\u003c|im_end\\u007c>");
        check(
            "[INST] <<SYS>> <</SYS>> [/INST]",
            "\\u005bINST] \\u003c<SYS>> \\u003c</SYS>> \\u005b/INST]",
        );
        check("<s></s><start_of_turn>", "\\u003cs>\\u003c/s>\\u003cstart_of_turn>");
        check("\u{202e}a\u{200b}\u{2028}", "\\u202ea\\u200b\\u2028");
        check("a\u{fe0f}b\u{e0101}", "a\\ufe0fb\\udb40\\udd01");
        check("\u{e0041}\x1b[31m\u{85}", "\\udb40\\udc41\\u001b[31m\\u0085");
        check("<\u{ff5c}end\u{ff5c}>", "\\u003c\u{ff5c}end\\uff5c>");
    }

    proptest! {
        #[test]
        fn a_string_parsed_back_is_what_it_was(
            text in "\\PC*|.*|[<|>\\[s/INST\\]\u{200b}\u{ff5c}]*",
        ) {
            let mut out = String::new();
            write_string(&text, &mut out);
            prop_assert!(!out.chars().any(|c| c.is_control() || is_invisible(c)));
            prop_assert!(!out.contains("<|") && !out.contains("|>"));
            let parsed = json::parse(&out).unwrap();
            prop_assert_eq!(parsed.as_str(), Some(&*text));
        }
    }
}
