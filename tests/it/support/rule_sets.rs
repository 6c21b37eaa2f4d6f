//! The sets of `tests/fixtures/rules`: texts with what a person would say of them.
//!
//! Keys and tokens stand in them as `{{alphabet:length}}`, so that no scanner of repositories takes
//! them for real ones; [`filled`] writes random characters there, the same ones each time.

use std::path::Path;

/// One text of a set.
#[derive(serde::Deserialize)]
pub(crate) struct Labelled {
    /// The class, such as `phone`.
    pub(crate) class: String,
    /// The language.
    pub(crate) lang: String,
    /// True if the rule shall fire; of an answer, true if it is a good one.
    pub(crate) label: bool,
    /// The text.
    #[serde(default)]
    pub(crate) text: String,
    /// Question of the user.
    #[serde(default)]
    pub(crate) question: String,
    /// Answer to it.
    #[serde(default)]
    pub(crate) answer: String,
}

/// Reads a set by its name.
pub(crate) fn read(name: &str) -> Vec<Labelled> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rules").join(name);
    let text = std::fs::read_to_string(&path).expect("the set is there");
    let lines = text.lines().enumerate();
    lines
        .map(|(index, line)| {
            let mut row: Labelled = serde_json::from_str(line).expect("a line is JSON");
            row.text = filled(&row.text, index as u64 + 1);
            row
        })
        .collect()
}

/// Puts random characters where a text asks for them.
pub(crate) fn filled(text: &str, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let inside = after.split_once("}}").filter(|(inside, _)| !inside.contains(' '));
        let made = inside.and_then(|(inside, rest)| Some((made(inside, &mut state)?, rest)));
        out.push_str(before);
        match made {
            Some((made, after)) => (out, rest) = (out + &made, after),
            None => (out, rest) = (out + "{{", after),
        }
    }
    out + rest
}

fn made(what: &str, state: &mut u64) -> Option<String> {
    if what == "uuid" {
        let parts = [8, 4, 4, 4, 12].map(|length| random("0123456789abcdef", length, state));
        return Some(parts.join("-"));
    }
    let (alphabet, length) = what.split_once(':')?;
    if alphabet == "b64" {
        use base64::Engine;
        return Some(base64::engine::general_purpose::STANDARD.encode(length));
    }
    let lower = "abcdefghijklmnopqrstuvwxyz";
    let upper = lower.to_uppercase();
    let characters = match alphabet {
        "hex" => "0123456789abcdef".to_owned(),
        "HEX" => "0123456789ABCDEF".to_owned(),
        "hexh" => "0123456789abcdefh".to_owned(),
        "d" => "0123456789".to_owned(),
        "a36" => format!("{lower}0123456789"),
        "A36" => format!("{upper}0123456789"),
        "B32" => format!("{upper}234567"),
        "b52" => format!("{lower}{upper}"),
        "b62" => format!("{lower}{upper}0123456789"),
        "bech" => "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L".to_owned(),
        _ => return None,
    };
    Some(random(&characters, length.parse().ok()?, state))
}

fn random(characters: &str, length: usize, state: &mut u64) -> String {
    let characters = characters.as_bytes();
    let mut next = || {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        char::from(characters[(*state >> 33) as usize % characters.len()])
    };
    (0..length).map(|_| next()).collect()
}
