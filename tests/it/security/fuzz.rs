//! The fuzz targets over their seeds, and over broken forms of them: without a fuzzer.

#[path = "../../../fuzz/targets.rs"]
mod targets;

use std::path::{Path, PathBuf};

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn fuzz_targets_accept_seeds_cut_and_flipped() {
    for (name, target) in targets::TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for seed in seeds {
            target(&seed);
            // About two hundred broken forms of each, the same in every run.
            let step = (seed.len() / 100).max(1);
            for at in (0..seed.len()).step_by(step) {
                target(&seed[..at]);
                let mut flipped = seed.clone();
                flipped[at] ^= 1 << (at % 8);
                target(&flipped);
            }
        }
    }
}
