//! `tool_name_reliability`: rules for good names of the declared tools.
//!
//! Has three rules of Dokimos, without the checks that need a judge.

use super::reliability::{DefinitionChecks, DefinitionRule, JudgedCheck, build, schema};
use crate::evaluator::Kind;
use crate::judged::settings::NoSettings;
use crate::shared::definitions::Tool;

/// Limit on the parts of a name between underscores.
const SEGMENTS_MAX: usize = 7;

/// Words that describe an implementation instead of a purpose.
const IMPLEMENTATION: [&str; 6] =
    ["_with_llm", "_via_api", "_from_s3", "_using_bq", "_using_sdk", "_with_gpt4"];

const GUIDANCE: &str = "\
The lines are definitions of tools. Judge each name by itself, as a model would that has to choose \
among many tools. The description only serves to understand what the tool is for.";

static CHECKS: [JudgedCheck; 3] = [
    JudgedCheck {
        name: "intent_over_implementation",
        holds: "the name says what the tool does, not how: no output formats, no requirements on \
                its input, no details of the implementation.",
    },
    JudgedCheck {
        name: "clarity",
        holds: "the purpose can be told from the name without the description; it holds no \
                low-level identifiers, no vague and no redundant words.",
    },
    JudgedCheck {
        name: "name_order",
        holds: "the words stand in the order operation, system, entity, data, as far as it has \
                them; as in get_booking_property_name.",
    },
];

/// Registry entry of `tool_name_reliability`.
pub static KIND: Kind = Kind {
    name: "tool_name_reliability",
    about: "Quality of the names of declared tools: snake case, short, and about the purpose \
            instead of the implementation. With `judge`, a judge rates what rules cannot.",
    also_known_as: &[("ToolNameReliabilityEvaluator", "Dokimos")],
    threshold: 0.8,
    schema: schema::<NoSettings>,
    build: |node| build(node, &WANTED, |NoSettings {}| ()),
    example: "\
tool_name_reliability:
  threshold: 1.0
",
    ..Kind::PLAIN
};

static WANTED: DefinitionChecks<()> =
    DefinitionChecks { rules: &RULES, checks: &CHECKS, guidance: GUIDANCE };

static RULES: [DefinitionRule<()>; 3] = [
    DefinitionRule { name: "snakecase_format", holds: |tool, ()| Ok(is_snake_case(tool.name)) },
    DefinitionRule {
        name: "conciseness",
        holds: |tool, ()| Ok(segments(tool.name) <= SEGMENTS_MAX),
    },
    DefinitionRule { name: "intent_over_implementation", holds: |tool, ()| Ok(says_what(tool)) },
];

/// Returns true if the whole name matches `[a-z][a-z0-9]*(_[a-z0-9]+)*`.
fn is_snake_case(name: &str) -> bool {
    let is_plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.split('_').all(is_plain)
}

/// Counts the parts between underscores, without trailing empty ones unless the name is empty.
fn segments(name: &str) -> usize {
    match name.trim_end_matches('_') {
        "" => usize::from(name.is_empty()),
        name => name.split('_').count(),
    }
}

fn says_what(tool: &Tool<'_>) -> bool {
    let name = tool.name.to_lowercase();
    !IMPLEMENTATION.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_counted_without_empty_ones_at_the_end() {
        for (name, count) in [("a__b", 3), ("_a", 2), ("a_", 1), ("a_b__", 2), ("_", 0)] {
            assert_eq!(segments(name), count, "{name}");
        }
    }

    #[test]
    fn snake_case_is_the_whole_name() {
        for (name, is) in [("a_b2", true), ("a\n", false), ("A", false), ("a__b", false)] {
            assert_eq!(is_snake_case(name), is, "{name:?}");
        }
    }
}
