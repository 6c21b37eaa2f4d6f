//! Time and findings on real texts.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use super::{evaluator, findings, scored, trajectory};
use spanscore_base::model::Trajectory;
use spanscore_evaluate::{Evaluator, Want};

/// Rounds of which the fastest counts, for each share of the texts.
const ROUNDS: usize = 5;
/// Texts that are timed together.
const SHARE: usize = 100;

#[derive(serde::Deserialize)]
struct Row {
    source: String,
    lang: String,
    text: String,
}

/// Reads the corpus of a folder and prints what the bundle `safety` takes and finds.
pub(crate) fn print(folder: &str, list: bool) {
    let safety = evaluator(r#"{"bundle": "safety"}"#);
    for name in ["chunks", "long"] {
        let path = format!("{folder}/{name}.jsonl");
        let text = std::fs::read_to_string(&path).expect("the corpus is there");
        let rows: Vec<Row> =
            text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
        if list {
            list_findings(&safety, &rows);
        } else {
            time(name, &safety, &rows);
            count(&safety, &rows);
        }
    }
}

fn time(name: &str, safety: &Evaluator, rows: &[Row]) {
    let judged: Vec<Trajectory<'_>> = rows.iter().map(|row| trajectory(&row.text, None)).collect();
    let (mut total, mut clean) = ((0, Duration::ZERO), (0, Duration::ZERO));
    let mut sources: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    let mut dearest = (0.0, "");
    let share = if name == "long" { 1 } else { SHARE };
    for (texts, rows) in judged.chunks(share).zip(rows.chunks(share)) {
        let quiet: Vec<bool> = texts
            .iter()
            .map(|text| scored(safety, text, Want::SCORE).is_some_and(|s| s.value >= 1.0))
            .collect();
        for wanted in [true, false] {
            let some: Vec<&Trajectory<'_>> = texts
                .iter()
                .zip(&quiet)
                .filter(|(_, quiet)| **quiet == wanted)
                .map(|(text, _)| text)
                .collect();
            let bytes: usize = rows
                .iter()
                .zip(&quiet)
                .filter(|(_, quiet)| **quiet == wanted)
                .map(|(row, _)| row.text.len())
                .sum();
            let fastest = (0..ROUNDS).map(|_| round(safety, &some)).min().unwrap_or_default();
            let steps: u64 = some.iter().map(|text| text.effort.taken()).sum();
            // Each text was judged once before the rounds.
            let steps = steps / (ROUNDS as u64 + 1);
            if steps > 0 {
                let each = fastest.as_nanos() as f64 / steps as f64;
                if each > dearest.0 {
                    dearest = (each, &rows[0].source);
                }
            }
            let source = sources.entry(&rows[0].source).or_default();
            for sum in [&mut total, source].into_iter().chain(wanted.then_some(&mut clean)) {
                *sum = (sum.0 + bytes, sum.1 + fastest);
            }
        }
    }
    let speed = |(bytes, time): (usize, Duration)| bytes as f64 / time.as_secs_f64() / 1e6;
    println!("{name}: {} texts, {} bytes", rows.len(), total.0);
    let each = total.1.as_secs_f64() * 1e6 / rows.len() as f64;
    println!("  {each:.1} µs a text, {:.0} MB/s; {:.0} MB/s without", speed(total), speed(clean));
    println!("  at most {:.1} ns a step: {}", dearest.0, dearest.1);
    for (source, sum) in sources {
        println!("    {source}: {:.0} MB/s", speed(sum));
    }
}

fn round(safety: &Evaluator, texts: &[&Trajectory<'_>]) -> Duration {
    let start = Instant::now();
    for text in texts {
        text.effort.begin(0);
        black_box(safety.as_code().map(|code| code.evaluate(text, Want::SCORE)));
    }
    start.elapsed()
}

fn count(safety: &Evaluator, rows: &[Row]) {
    let mut kinds: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut langs: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut hits = 0;
    for row in rows {
        let Some(score) = scored(safety, &trajectory(&row.text, None), Want::ALL) else { continue };
        let mut found: Vec<(String, String)> =
            findings(&score).into_iter().map(|finding| (finding.rule, finding.kind)).collect();
        found.dedup();
        let lang = langs.entry(&row.lang).or_default();
        lang.1 += 1;
        lang.0 += usize::from(!found.is_empty());
        hits += usize::from(!found.is_empty());
        for kind in found {
            *kinds.entry(kind).or_default() += 1;
        }
    }
    println!("  {hits} with findings, {:.2} %", hits as f64 * 100.0 / rows.len() as f64);
    for ((rule, kind), count) in kinds {
        println!("    {count:5} {rule} {kind}");
    }
    let mut langs: Vec<_> = langs.into_iter().filter(|(_, (found, _))| *found > 0).collect();
    langs.sort_by_key(|(_, (found, all))| std::cmp::Reverse(found * 10_000 / all));
    let langs: Vec<String> =
        langs.iter().take(20).map(|(lang, (found, all))| format!("{lang} {found}/{all}")).collect();
    println!("    {}", langs.join(", "));
}

fn list_findings(safety: &Evaluator, rows: &[Row]) {
    for row in rows {
        let Some(score) = scored(safety, &trajectory(&row.text, None), Want::ALL) else { continue };
        for found in findings(&score) {
            let from = row.text.floor_char_boundary(found.start.saturating_sub(60));
            let to = row.text.ceil_char_boundary((found.end + 40).min(row.text.len()));
            let line = serde_json::json!({
                "rule": found.rule, "kind": found.kind, "source": row.source, "lang": row.lang,
                "match": row.text.get(found.start..found.end), "text": &row.text[from..to],
            });
            println!("{line}");
        }
    }
}
