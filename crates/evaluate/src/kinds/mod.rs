//! Registry of the kinds of evaluators, by family: one file or folder per kind.
//!
//! A new kind is a file with its settings, its `impl Evaluator` and a [`Kind`], and a line in
//! [`KINDS`].

pub mod calls;
pub mod declared_tools;
pub mod external;
pub mod judged;
pub mod outputs;

use crate::evaluator::Kind;

/// All kinds, in the order of the documentation.
pub static KINDS: &[&Kind] = &[
    &calls::tool_call_args::KIND,
    &calls::tool_call_count::KIND,
    &calls::tool_call_order::KIND,
    &calls::tool_call_output::KIND,
    &calls::tool_error::KIND,
    &calls::tool_efficiency::KIND,
    &calls::tool_trajectory::KIND,
    &calls::tool_correctness::KIND,
    &declared_tools::tool_call_validity::KIND,
    &declared_tools::tool_name_reliability::KIND,
    &declared_tools::tool_description_reliability::KIND,
    &calls::argument_correctness::KIND,
    &calls::argument_grounding::KIND,
    &judged::task_completion::KIND,
    &judged::tool_argument_hallucination::KIND,
    &judged::goal_accuracy::KIND,
    &judged::tool_selection::KIND,
    &judged::tool_response_handling::KIND,
    &judged::plan_quality::KIND,
    &judged::plan_adherence::KIND,
    &judged::faithfulness::KIND,
    &judged::citations::KIND,
    &judged::retrieval::KIND,
    &judged::helpfulness::KIND,
    &judged::pairwise::KIND,
    &judged::refusal::KIND,
    &judged::topic_adherence::KIND,
    &judged::rubric::KIND,
    &calls::tool_policy::KIND,
    &calls::tool_loop::KIND,
    &calls::tool_recovery::KIND,
    &calls::tool_budget::KIND,
    &outputs::output_rules::KIND,
    &outputs::exact_match::KIND,
    &outputs::classification::KIND,
    &outputs::contains::KIND,
    &outputs::json_similarity::KIND,
    &outputs::word_overlap::KIND,
    &external::agentevals::KIND,
    &external::grpc::KIND,
    &external::http::KIND,
];

/// Returns a kind by its name in another system, with that system. Case and suffixes vary by
/// library: `tool_call_accuracy` is `ToolCallAccuracy`, `Faithfulness` is `FaithfulnessMetric`.
pub fn kind_elsewhere(word: &str) -> Option<(&'static Kind, &'static str)> {
    let letters = |word: &str| word.replace(['_', '-'], "").to_lowercase();
    let stem = |word: &str| {
        let word = letters(word);
        let end = ["metric", "evaluator"].iter().find_map(|end| word.strip_suffix(end));
        end.map_or_else(|| word.clone(), str::to_owned)
    };
    let known = |kind: &'static Kind| kind.also_known_as.iter().map(move |it| (kind, it));
    let all = || KINDS.iter().copied().flat_map(known);
    let found = all().find(|(_, (alias, _))| letters(alias) == letters(word));
    let found = found.or_else(|| all().find(|(_, (alias, _))| stem(alias) == stem(word)));
    found.map(|(kind, (_, origin))| (kind, *origin))
}

/// Returns a kind by name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}
