//! Prints the evaluations of files of OTLP/JSON: the engine in a program of one's own.
//!
//! `cargo run -p spanscore-engine --example judge -- examples/traces/*.json`

use std::error::Error;

use spanscore_base::model::Evaluation;
use spanscore_base::otlp::{Signal, json::transcode};
use spanscore_engine::{Engine, batch::BatchProgress};

/// Judges requests by the evaluators of a text, the map below `evaluators:` of a config.
pub(crate) fn judge(config: &str, files: &[String]) -> Result<Vec<Evaluation>, Box<dyn Error>> {
    let engine = Engine::new(config)?;
    let mut batch = engine.batch(0);
    for file in files {
        batch.add(Signal::Traces, &transcode(Signal::Traces, &std::fs::read(file)?)?)?;
    }
    let mut evaluations = Vec::new();
    batch.judge(&BatchProgress::default(), &mut |group| {
        evaluations.extend(group.evaluations);
        true
    })?;
    Ok(evaluations)
}

#[expect(clippy::print_stdout, reason = "a program prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    for evaluation in judge("{tool_error: {}, tool_efficiency: {}}", &files)? {
        println!("{} {:?}", evaluation.evaluator.name, evaluation.label());
    }
    Ok(())
}
