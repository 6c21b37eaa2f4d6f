//! The search for values of keys in texts: it has limits instead of steps, so its time is told by
//! size.

use spanscore_detect::redactor::{Redact, Redactor};

use super::measure::processor_ms;
use super::texts::list;

/// Sizes of the texts, bytes: each is four times the one before.
const SIZES: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Times the growth of a text by which the search may take longer.
const GROWTH_MAX: f64 = 3.0;
/// Processor time below which nothing is said, milliseconds.
const TOLD_MS: f64 = 5.0;

/// Name of a part, and its text by number.
type NamedPart = (&'static str, fn(usize) -> String);

/// Texts of many keys with values, by what stands between them.
const PARTS: [NamedPart; 6] = [
    ("pin, numbered", |at| format!("pin: {at}")),
    ("pin, alike", |_| "pin: 1234".to_owned()),
    ("pin within pin", |at| format!("pin:pin:pin{at}")),
    ("password, numbered", |at| format!("password=hunter{at}Xy!")),
    ("objects", |at| format!(r#"{{"api_key": "k{at}abcdefgh"}}"#)),
    ("prefixes of each other", |at| format!("token: {}", "ab".repeat(at % 64 + 4))),
];

/// Measures each text at three sizes and prints it; false where time grows faster than the text.
pub(crate) fn grow_with_their_texts() -> bool {
    println!(
        "\nsearch for keys, ms of {} KiB each:",
        SIZES.map(|it| (it >> 10).to_string()).join(", ")
    );
    let mut holds = true;
    for (name, part) in PARTS {
        let times = SIZES.map(|bytes| redacting_ms(&list(bytes, part).join(" ")));
        let growth = times[2] / times[1].max(1.0) / 4.0;
        let is_over = times[2] > TOLD_MS && growth > GROWTH_MAX;
        holds &= !is_over;
        println!("{}{name:24} {times:9.1?}", if is_over { "FAIL" } else { "    " });
    }
    holds
}

fn redacting_ms(text: &str) -> f64 {
    let started = processor_ms();
    let mut redactor = Redactor::new(Redact::SecretsAndPii).unwrap();
    redactor.look_at_text(text);
    redactor.replace_text(&mut text.to_owned());
    processor_ms() - started
}
