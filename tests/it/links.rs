//! Links between the pages, followed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose pages are read, none of those below them.
const FOLDERS: [&str; 5] = ["", "docs", "docs/judges", "examples", "packaging"];

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = FOLDERS.iter().flat_map(|folder| fs::read_dir(root.join(folder)).expect(folder));
    let paths = files.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The lines of a page outside of its code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// A line without what stands between backticks.
fn bare(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Names under which links find the places of a page: of its headings, and those set by hand.
fn anchors(text: &str) -> BTreeSet<String> {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    let named = |heading: &str| -> String {
        let text = heading.trim_matches(['#', ' ']).to_lowercase();
        text.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    let headings = prose(text).filter(|line| line.starts_with('#')).map(named);
    let by_hand = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    headings.chain(by_hand.map(str::to_owned)).collect()
}

/// Targets of the links of a page.
fn targets(text: &str) -> Vec<String> {
    let lines: Vec<_> = prose(text).map(bare).collect();
    let all = lines.join("\n");
    let ends = all.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    ends.map(str::to_owned).collect()
}

#[test]
fn links_between_pages_lead_to_a_file_and_a_heading() {
    let mut followed = 0;
    let mut broken = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for target in targets(&text).iter().filter(|target| !target.contains("://")) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let folder = page.parent().expect("a folder");
            let file = if path.is_empty() { page.clone() } else { folder.join(path) };
            let is_there = match fs::read_to_string(&file) {
                Ok(text) => anchor.is_empty() || anchors(&text).contains(anchor),
                Err(_) => anchor.is_empty() && file.exists(),
            };
            followed += 1;
            if !is_there {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    assert!(followed > 200, "{followed}");
}
