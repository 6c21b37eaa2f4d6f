//! Custom prompt with variables, placed after the record.
//!
//! A run variable refers to lines of the record by their seq, so that text from the run stays
//! between the record's marks. Variables from the settings are quoted in place.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::judged::prompt::quoted;
use crate::judged::question::{Question, QuestionItem, ReplyForm, Scoring};
use crate::judged::record::{LineKind, RecordLine, RunRecord};
use spanscore_base::settings::{SettingsError, nearest};
use spanscore_base::value::Value;

/// Longest template, bytes.
const TEMPLATE_BYTES_MAX: usize = 16 << 10;
/// Limit on the variables from the settings.
const VARIABLES_MAX: usize = 64;
/// Limit on the record lines per variable.
const LINES_MAX: usize = 32;

/// Run variables with their kinds of lines.
const OF_RUN: [(&str, &[LineKind]); 6] = [
    ("user_input", &[LineKind::User]),
    ("answer", &[LineKind::Answer]),
    ("system_instructions", &[LineKind::Operator]),
    ("tool_definitions", &[LineKind::Tool]),
    ("tool_calls", &[LineKind::Call]),
    ("tool_results", &[LineKind::Result]),
];

/// Prompt of your own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TemplateSettings {
    /// Text of the prompt. `{{user_input}}`, `{{answer}}`, `{{system_instructions}}`,
    /// `{{tool_definitions}}`, `{{tool_calls}}` and `{{tool_results}}` refer to lines of the
    /// record; `variables` defines others.
    template: String,
    /// Values of further variables of the template, by name.
    #[serde(default)]
    variables: BTreeMap<String, Value<'static>>,
    /// Version of the prompt, for display. The evaluator's version changes with the text in any
    /// case.
    #[serde(default)]
    version: Option<String>,
}

/// Part of a template.
#[derive(Clone, Debug, PartialEq)]
enum TemplatePart {
    /// Literal text, with variables from the settings filled in.
    Words(String),
    /// Lines of the run.
    Lines(&'static [LineKind]),
}

/// Prompt with the settings' variables resolved.
#[derive(Clone, Debug)]
pub(super) struct PromptTemplate {
    parts: Vec<TemplatePart>,
    name: String,
}

impl PromptTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// The template is empty or too long, a brace is not closed, or a variable is unknown or
    /// unused.
    pub(super) fn new(settings: TemplateSettings) -> Result<Self, SettingsError> {
        let TemplateSettings { template, variables, version } = settings;
        let fault = |text: String, help: String| Err(SettingsError::new(text).with_help(help));
        if template.trim().is_empty() || template.len() > TEMPLATE_BYTES_MAX {
            let help = format!("write 1 to {TEMPLATE_BYTES_MAX} bytes");
            return fault("`template` is empty or too long".to_owned(), help);
        }
        if variables.len() > VARIABLES_MAX {
            let help = "write what is fixed into the template".to_owned();
            return fault(format!("more than {VARIABLES_MAX} `variables`"), help);
        }
        let mut parts = Vec::new();
        let mut unused: Vec<&String> = variables.keys().collect();
        let mut rest = template.trim();
        while let Some((words, behind)) = rest.split_once("{{") {
            let Some((name, after)) = behind.split_once("}}") else {
                let help = "close the variable with `}}`".to_owned();
                return fault("`{{` is not closed in `template`".to_owned(), help);
            };
            let name = name.trim();
            parts.push(TemplatePart::Words(words.to_owned()));
            if let Some(value) = variables.get(name) {
                unused.retain(|own| *own != name);
                parts.push(TemplatePart::Words(quoted(&value.to_text())));
            } else if let Some((_, kinds)) = OF_RUN.iter().find(|(own, _)| *own == name) {
                parts.push(TemplatePart::Lines(kinds));
            } else {
                let known = || OF_RUN.iter().map(|(name, _)| *name);
                let all = || known().chain(variables.keys().map(String::as_str));
                let help = match nearest(name, all()) {
                    Some(meant) => format!("did you mean `{{{{{meant}}}}}`?"),
                    None => {
                        let known = known().collect::<Vec<_>>().join(", ");
                        format!("add it to `variables`; of the run there are {known}")
                    }
                };
                return fault(format!("`{{{{{name}}}}}` names no variable"), help);
            }
            rest = after;
        }
        parts.push(TemplatePart::Words(rest.to_owned()));
        if let Some(name) = unused.first() {
            let help = format!("write `{{{{{name}}}}}` into the template, or leave it out");
            return fault(format!("the variable `{name}` is not used"), help);
        }
        let name =
            version.map_or_else(|| "prompt".to_owned(), |it| format!("prompt, version {it}"));
        Ok(Self { parts, name })
    }

    /// Builds the question: the prompt follows the record, or is a criterion in it if a trace
    /// provided it.
    pub(super) fn question(
        &self,
        record: RunRecord,
        range: Option<[i64; 2]>,
        is_from_trace: bool,
    ) -> Question {
        let prompt: String = self.parts.iter().map(|part| part.render(&record)).collect();
        let (guidance, item) = if is_from_trace {
            (String::new(), QuestionItem::about("The run is good by this measure: ", &prompt))
        } else {
            (prompt, QuestionItem::new("What the instructions above ask for holds."))
        };
        let (form, scoring) = match range {
            Some([low, high]) => (ReplyForm::Score { low, high }, Scoring::Given),
            None => (ReplyForm::Items, Scoring::Share),
        };
        Question { record, guidance, items: vec![item.named(&*self.name)], form, scoring }
    }
}

impl TemplatePart {
    fn render(&self, record: &RunRecord) -> String {
        let kinds = match self {
            Self::Words(words) => return words.clone(),
            Self::Lines(kinds) => kinds,
        };
        let is_meant = |line: &&RecordLine| kinds.contains(&line.kind);
        let places: Vec<String> =
            record.lines.iter().filter(is_meant).map(|line| line.seq.to_string()).collect();
        match &*places {
            [] => "(nothing in the record)".to_owned(),
            [one] => format!("(seq {one})"),
            [first, .., last] if places.len() > LINES_MAX => {
                let kind = kinds.first().map_or("", |kind| kind.as_str());
                format!("(the lines of kind {kind} from seq {first} to {last})")
            }
            _ => format!("(seq {})", places.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, expected: Result<&str, &str>) {
        let variables =
            [("tone".to_owned(), Value::from("kind\n1. \"yes\""))].into_iter().collect();
        let settings = TemplateSettings { template: template.to_owned(), variables, version: None };
        let found = PromptTemplate::new(settings).map(|template| {
            let question = template.question(RunRecord::default(), None, false);
            question.guidance
        });
        let found = found.map_err(|error| error.to_string());
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{template}");
    }

    #[test]
    fn variables_are_quoted_or_name_lines() {
        check(
            "Is {{ answer }} {{tone}}?",
            Ok("Is (nothing in the record) \"kind\\n1. \\\"yes\\\"\"?"),
        );
        check(
            "{{tone}} {{tonne}}",
            Err("`{{tonne}}` names no variable (did you mean `{{tone}}`?)"),
        );
        check(
            "{{tone}} {{",
            Err("`{{` is not closed in `template` (close the variable with `}}`)"),
        );
        let unused = "the variable `tone` is not used (write `{{tone}}` into the template, or \
                      leave it out)";
        check("Is it good?", Err(unused));
        check(" ", Err("`template` is empty or too long (write 1 to 16384 bytes)"));
    }
}
