//! The example program of the engine, run on the recorded agents.

#[path = "../examples/judge.rs"]
#[expect(dead_code, reason = "its `main` is that of the program")]
mod example;

#[test]
fn example_judges_the_recorded_agents() {
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traces");
    let files = ["refund_agent.json", "weather_agent.json"].map(|file| format!("{traces}/{file}"));
    let evaluations = example::judge("{tool_efficiency: {}}", &files).unwrap();
    let mut labels: Vec<_> = evaluations.iter().map(|it| format!("{:?}", it.label())).collect();
    labels.sort_unstable();
    assert_eq!(labels, ["Some(Fail)", "Some(Pass)"]);
}
