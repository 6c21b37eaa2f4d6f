//! Presets of `rubric`, embedded from the files of `config/rubrics/`.

use super::RubricStatement;
use spanscore_base::settings::{SettingsError, meant_or, yaml};

/// Preset names with their files.
const PRESETS: [(&str, &str); 7] = [
    ("bias", include_str!("../../../../../../config/rubrics/bias.yaml")),
    ("coding_agent", include_str!("../../../../../../config/rubrics/coding_agent.yaml")),
    ("customer_support", include_str!("../../../../../../config/rubrics/customer_support.yaml")),
    ("research_answer", include_str!("../../../../../../config/rubrics/research_answer.yaml")),
    ("safe_actions", include_str!("../../../../../../config/rubrics/safe_actions.yaml")),
    ("safety", include_str!("../../../../../../config/rubrics/safety.yaml")),
    ("toxicity", include_str!("../../../../../../config/rubrics/toxicity.yaml")),
];

/// Returns the names of the presets.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// Returns the statements of a preset.
pub(super) fn statements(name: &str) -> Result<Vec<RubricStatement>, SettingsError> {
    let Some((_, text)) = PRESETS.iter().find(|(own, _)| *own == name) else {
        let others = || format!("there are {}", names().collect::<Vec<_>>().join(", "));
        let help = meant_or(name, names(), others);
        return Err(SettingsError::new(format!("`preset` `{name}` is unknown")).with_help(help));
    };
    let node = yaml::read(text)?;
    node.get("statements").map_or_else(|| Ok(Vec::new()), |statements| statements.read())
}
