use super::*;
use spanscore_base::value::{Value, json};

/// Texts that must be hidden, and texts that must stay, for each value.
const HIDDEN: &str = include_str!("../../../../tests/fixtures/redaction/hidden.jsonl");
/// Values that stay unchanged.
const READABLE: &str = include_str!("../../../../tests/fixtures/redaction/readable.jsonl");

/// Shows a value as for an assistant, and as for a judge.
fn shown(value: &Value<'_>) -> [String; 2] {
    let mut display = Redactor::for_display(PlaceholderNumbers::default(), usize::MAX).unwrap();
    let displayed = display.redacted(&[value]).and_then(|mut shown| shown.pop());
    let mut judge = Redactor::new(Redact::Secrets).unwrap();
    judge.look_at(value, UnderKey::NONE);
    let mut judged = value.clone().into_owned();
    judge.replace(&mut judged, UnderKey::NONE);
    [displayed.unwrap_or_else(|| value.clone().into_owned()).to_string(), judged.to_string()]
}

fn texts<'v>(case: &'v Value<'_>, key: &str) -> impl Iterator<Item = &'v str> {
    case.get(key).and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str)
}

#[test]
fn values_of_keys_are_hidden_in_all_forms_and_other_values_stay() {
    let mut wrong = Vec::new();
    for line in HIDDEN.lines().chain(READABLE.lines()) {
        let case = json::parse(line).unwrap();
        let value = case.get("value").unwrap();
        let whole = value.to_string();
        for shown in shown(value) {
            let is_right = match case.get("hides") {
                Some(_) => {
                    texts(&case, "hides")
                        .all(|hidden| !shown.contains(hidden) && whole.contains(hidden))
                        && texts(&case, "shows").all(|kept| shown.contains(kept))
                }
                None => shown == whole,
            };
            if !is_right {
                wrong.push(format!("{whole}\n    {shown}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn values_that_are_shown_together_share_their_secrets() {
    let check = |values: [&str; 2], expected: Option<[&str; 2]>| {
        let read = values.map(|text| json::parse(text).unwrap());
        let mut redactor = Redactor::for_display(PlaceholderNumbers::default(), 1 << 20).unwrap();
        let shown = redactor.redacted(&[&read[0], &read[1]]);
        let shown = shown.map(|shown| shown.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(shown, expected.map(|texts| texts.map(str::to_owned).to_vec()));
    };
    check(
        [r#"["it sent hunter2-x", 7]"#, r#"{"password":"hunter2-x","to":"joe@acme-post.net"}"#],
        Some([r#"["it sent [SECRET_1]",7]"#, r#"{"password":"[SECRET_1]","to":"[EMAIL_1]"}"#]),
    );
    // A value after one that is replaced as a whole has only its own findings.
    check(
        [r#"{"token":"joe@acme-post.net","note":"joe@acme-post.net was here, too"}"#, "null"],
        Some([r#"{"token":"[SECRET_1]","note":"[SECRET_1] was here, too"}"#, "null"]),
    );
    check([r#"{"city":"Quito","order":12345}"#, r#""it is on its way""#], None);
}

fn redactor(keyed: &[&str]) -> Redactor {
    let mut redactor = Redactor::new(Redact::SecretsAndPii).unwrap();
    let key = UnderKey::of("password");
    keyed.iter().for_each(|secret| redactor.look_at_entry(key, secret));
    redactor
}

fn replaced(redactor: &mut Redactor, text: &str) -> String {
    let mut text = text.to_owned();
    redactor.replace_text(&mut text);
    text
}

#[test]
fn secrets_that_are_parts_of_placeholders_are_not_found_in_those() {
    // Each is in the placeholder of the one before.
    let parts: Vec<String> =
        (1..64).map(|n| format!("[SECRET_{n}]")).map(|it| it[3..].to_owned()).collect();
    let keyed: Vec<&str> = ["SECRET"].into_iter().chain(parts.iter().map(|it| &**it)).collect();
    let text = "SECRET ".repeat(1_000);
    let shown = replaced(&mut redactor(&keyed), &text);
    assert_eq!(shown, "[SECRET_1] ".repeat(1_000));
}

#[test]
fn of_secrets_that_begin_alike_the_longest_goes() {
    let mut redactor = redactor(&["hunter", "hunter22"]);
    let shown = replaced(&mut redactor, "hunter22, hunter and SECRET_1");
    assert_eq!(shown, "[SECRET_2], [SECRET_1] and SECRET_1");
    assert_eq!(redactor.gaps(), RedactionGaps::default());
}

#[test]
fn all_texts_share_the_steps() {
    let text = "write to jane.doe@lampenhaus.de and joe@lampenhaus.de, 4539 5787 6362 1486";
    let mut first = redactor(&[]);
    first.look_at_text(text);
    let shown = replaced(&mut first, text);
    let looked = STEPS_MAX - first.look_steps;
    let took = STEPS_MAX - first.replace_steps;
    // A scan with a finding, and one that finds no more.
    assert!(looked < took && shown.contains("[EMAIL_1]"), "{shown}");
    let mut second = redactor(&[]);
    second.replace_steps = 2 * took;
    for (nth, expected) in [(1, &*shown), (2, &*shown), (3, WITHHELD)] {
        assert_eq!(replaced(&mut second, text), expected, "{nth}");
    }
    let withheld = WithheldTexts { steps: 1, ..WithheldTexts::default() };
    assert_eq!(second.gaps().withheld, withheld);
    // Values without a first walk are to be replaced.
    let mut third = redactor(&[]);
    third.look_steps = 10;
    third.look_at_text("nothing to see in here");
    assert!(third.is_needed());
}
