//! `docs/dialects.md` says of each recorded run what is found in it and what it does not hold.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::captures::{Fixture, captures, resolver, rows, traces};

const BEGIN: &str = "cargo test --test it dialect_docs -->\n";
const END: &str = "<!-- end of the recorded runs -->";

/// The parts of a call, and how the table names them.
const PARTS: [(&str, &str); 4] = [("name", "n"), ("id", "i"), ("arguments", "a"), ("result", "r")];

/// Counts the calls that say that a field is of this kind.
fn count(calls: &[Value], kind: &str, field: &str) -> usize {
    let names = |call: &&Value| {
        call[kind].as_array().is_some_and(|fields| fields.iter().any(|name| name == field))
    };
    calls.iter().filter(names).count()
}

/// Returns the facts that are found of the calls, and those that are not recorded of them.
fn of_calls(wanted: &[Value], found: &[&Value]) -> (String, BTreeSet<String>) {
    let (mut parts, mut missing) = (Vec::new(), BTreeSet::new());
    let all_or_some = |field: &str, count: usize| match count {
        count if count == wanted.len() => field.to_owned(),
        _ => format!("{field} of some calls"),
    };
    for (field, short) in PARTS {
        let absent = count(wanted, "not_recorded", field);
        if absent > 0 {
            missing.insert(all_or_some(field, absent));
        }
        if absent < wanted.len() {
            let joined = count(wanted, "joined", field) > 0;
            parts.push(if joined { format!("{short} *joined*") } else { short.to_owned() });
        }
        let cut = count(wanted, "truncated", field);
        if cut > 0 {
            missing.insert(format!("{} (cut off)", all_or_some(field, cut)));
        }
    }
    let failed: Vec<_> = wanted.iter().filter(|call| call["failed"] == true).cloned().collect();
    if count(&failed, "not_recorded", "failed") > 0 {
        missing.insert("that a call failed".to_owned());
    } else if count(&failed, "not_recorded", "error") > 0 {
        missing.insert("texts of errors".to_owned());
    } else if !failed.is_empty() {
        parts.push("e".to_owned());
    }
    let on_spans = found.iter().filter(|call| call["origin"] == "span").count();
    let place = match on_spans {
        0 if found.is_empty() => return ("nothing".to_owned(), BTreeSet::from(["calls".into()])),
        0 => "messages",
        count if count == found.len() => "spans",
        _ => "spans and messages",
    };
    (format!("{place}: {}", parts.join(" ")), missing)
}

fn row(fixture: &Fixture) -> Option<String> {
    let [framework, instrumentation] = fixture.made_with.each_ref().map(Value::as_str);
    let resolver = resolver(Vec::new());
    let rows = rows(&resolver, &traces(&resolver, &fixture.requests));
    let whole = [fixture.expected.clone()];
    let parts = fixture.expected["sessions"].as_array().map_or(&whole[..], Vec::as_slice);
    let wanted: Vec<Value> = parts
        .iter()
        .flat_map(|part| part["tool_calls"].as_array().into_iter().flatten())
        .cloned()
        .collect();
    let calls: Vec<&Value> =
        rows.iter().flat_map(|row| row["tool_calls"].as_array().into_iter().flatten()).collect();
    let (found, mut missing) = of_calls(&wanted, &calls);
    let mut facts = Vec::new();
    for (key, name) in [
        ("session_id", "session"),
        ("agent_name", "agent"),
        ("user_input", "user input"),
        ("final_output", "final output"),
    ] {
        if rows.iter().any(|row| !row[key].is_null()) {
            facts.push(name);
        } else {
            missing.insert(name.to_owned());
        }
    }
    let missing: Vec<String> = missing.into_iter().collect();
    let cells = [
        framework?.to_owned(),
        instrumentation?.replace('|', ","),
        found,
        facts.join(", "),
        missing.join(", "),
    ];
    Some(format!("| {} |\n", cells.join(" | ")))
}

#[test]
fn what_is_found_in_recorded_runs_is_told() {
    let fixtures = captures();
    let rows: String = fixtures.iter().filter_map(row).collect();
    let table = format!(
        "\n| Framework | Instrumentation | Calls | Facts of the run | Not recorded |\n\
         |---|---|---|---|---|\n{rows}\n"
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dialects.md");
    let page = std::fs::read_to_string(path).expect("docs/dialects.md");
    let (head, rest) = page.split_once(BEGIN).expect("the mark above the table");
    let (told, tail) = rest.split_once(END).expect("the mark below the table");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{head}{BEGIN}{table}{END}{tail}")).expect("written");
        return;
    }
    assert!(told == table, "renew it: UPDATE_DOCS=1 cargo test --test it dialect_docs");
}
