//! `docs/judges/`: one page for each kind that asks a judge, with what the judge reads.

use std::path::Path;

use spanscore_evaluate::{KINDS, Kind};

use super::{inquire, room};
use crate::evaluators::{first_asked, settings, trajectory};

fn page(kind: &Kind) -> String {
    let (fixture, case) = first_asked(kind.name);
    let evaluator = (kind.build)(&settings(&fixture, &case)).expect("the fixture is valid");
    let run = trajectory(&case);
    let inquiry = inquire(&evaluator, &run, kind.threshold).expect("the case asks");
    let prompt = inquiry.prompt(&room()).expect("it fits").user;
    let about = kind.about.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "# `{}`\n\n{about} Passes from {} on.\n\n```yaml\n{}```\n\n\
         [Settings](../evaluators.md#{}), [rules of all judged kinds](README.md).\n\n\
         ## Prompt\n\nBehind the instructions, which are the same for all kinds, the judge reads \
         such a record:\n\n```text\n{prompt}\n```\n",
        kind.name, kind.threshold, kind.example, kind.name,
    )
}

#[test]
fn each_judged_kind_has_a_page_with_what_the_judge_reads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/judges");
    let asks = |kind: &&&Kind| {
        let schema = (kind.schema)();
        schema.get("properties").is_some_and(|own| own.get("judge").is_some())
    };
    let kinds: Vec<_> = KINDS.iter().filter(asks).collect();
    assert!(kinds.len() >= 14, "{}", kinds.len());
    for kind in kinds {
        let path = folder.join(format!("{}.md", kind.name));
        let page = page(kind);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, page).expect("the page is written");
            continue;
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == page, "{} is out of date: run with UPDATE_DOCS=1", path.display());
    }
}
