//! Functions of the pages that need no browser, run by Node if installed.

use std::path::Path;
use std::process::Command;

#[test]
fn functions_of_the_pages_hold_their_tests() {
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: node is not installed (.ci/run runs these tests, too)");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lib");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mjs"))
        .collect();
    files.sort();
    let ran = Command::new("node").arg("--test").args(&files).output().expect("node runs");
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(!files.is_empty() && ran.status.success(), "{told}");
}
