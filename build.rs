//! Facts of the build for `--version` and `spanscore_build_info`, and the pages of `spanscore docs`.
//! Works without git, without a network, and from an unpacked archive: what is not known says so.

use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=SPANSCORE_COMMIT");
    let get = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let profile = get("PROFILE").unwrap_or_default();
    let is_release = profile == "release";
    let commit = get("SPANSCORE_COMMIT").or_else(|| if is_release { commit() } else { None });
    let rustc = get("RUSTC").and_then(|rustc| said(Command::new(rustc).arg("--version")));
    let facts = [
        ("SPANSCORE_BUILD_COMMIT", commit.unwrap_or_else(|| "unknown".to_owned())),
        ("SPANSCORE_BUILD_TARGET", get("TARGET").unwrap_or_default()),
        ("SPANSCORE_BUILD_PROFILE", profile),
        ("SPANSCORE_BUILD_RUSTC", rustc.unwrap_or_else(|| "rustc unknown".to_owned())),
    ];
    for (name, value) in facts {
        println!("cargo:rustc-env={name}={value}");
    }
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("pages.rs"), pages()?)
}

/// Returns an expression for the pages under `docs/`: their names without `.md`, and their texts.
fn pages() -> io::Result<String> {
    println!("cargo:rerun-if-changed=docs");
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let docs = Path::new(&root).join("docs");
    let mut pages = Vec::new();
    for folder in [docs.clone(), docs.join("judges")] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name =
                path.strip_prefix(&docs).ok().and_then(|path| path.to_str()).map(str::to_owned);
            let name = name.as_deref().and_then(|name| name.strip_suffix(".md"));
            if let Some(name) = name.filter(|name| *name != "SUMMARY") {
                pages.push(format!("({name:?}, include_str!({path:?})),\n"));
            }
        }
    }
    pages.sort();
    Ok(format!("&[{}]", pages.concat()))
}

/// The commit that stands in the work tree. Only a release asks: else each commit would build all
/// of a work in progress anew.
fn commit() -> Option<String> {
    let folder = env::var("CARGO_MANIFEST_DIR").ok()?;
    let git = |args: &[&str]| said(Command::new("git").args(["-C", &folder]).args(args));
    // A package inside somebody else's repository is not at that one's commit.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if std::fs::canonicalize(top).ok()? != std::fs::canonicalize(&folder).ok()? {
        return None;
    }
    if let Some(head) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={head}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
    Some(if changes.is_some() { format!("{commit}-dirty") } else { commit })
}

/// The first line that a command prints.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}
