//! `classification`: class named by the final output compared with the expected one.
//!
//! The details hold both names, from which `spanscore score` computes precision, recall and F-score
//! over all runs. Semantics are those of UiPath's classification evaluators (package `uipath`
//! 2.14), with case-insensitive names. An output outside the classes is wrong here; in the package
//! it is an error.

use schemars::JsonSchema;
use serde::Deserialize;

use super::comparison::{ComparisonSubject, OutputKey, Path};
use crate::compat::uipath::{self, Definition};
use crate::evaluator::{ClassifierClasses, CodeEvaluator, Evaluator, Kind};
use crate::shared::report;
use spanscore_base::model::{Facts, Outcome, Reason, Trajectory, Want};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;

/// Limit on classes.
const CLASSES_MAX: usize = 64;
/// Longest name of a class, bytes.
const CLASS_BYTES_MAX: usize = 128;
/// Largest weight of recall: the square of a larger one may overflow.
const F_VALUE_MAX: f64 = 1000.0;

/// Registry entry of `classification`.
pub static KIND: Kind = Kind {
    name: "classification",
    about: "Compares the class in the final output with the expected one. `spanscore score` \
            reports precision, recall and F-score over all runs.",
    also_known_as: &[
        ("uipath-multiclass-classification", "UiPath"),
        ("uipath-binary-classification", "UiPath"),
    ],
    needs_criteria: true,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
classification/intent:
  classes: [booking, refund, other]
  path: intent
  criteria: {expected_class: refund}
",
    ..Kind::PLAIN
};

/// Settings of `classification`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Names of the classes, 64 at most. Any other output is wrong.
    classes: Vec<String>,
    /// Class of a yes-or-no classification, instead of `classes`. The metrics over all runs compare
    /// it with all other classes. A run passes if its output equals the expected class, whichever
    /// that is.
    #[serde(alias = "positiveClass")]
    positive_class: Option<String>,
    /// Path of the class in the final output, such as `result.intent`. Default: the whole final
    /// output.
    path: Option<Path>,
    /// Path of the class, if `path` is absent: the name of this setting in UiPath definitions.
    #[serde(alias = "targetOutputKey")]
    target_output_key: OutputKey,
    /// Weight of recall in the F-score, above 0 and at most 1000. Default 1, which is F1.
    #[serde(alias = "fValue")]
    f_value: Option<f64>,
    /// Expected class.
    criteria: Option<ClassCriteria>,
    /// Expected class, if `criteria` is absent.
    #[serde(alias = "defaultEvaluationCriteria")]
    default_evaluation_criteria: Option<ClassCriteria>,
    /// Accepted and ignored, since all metrics are reported. A UiPath definition can be pasted.
    #[serde(alias = "metricType")]
    metric_type: Option<String>,
    /// Accepted and ignored, since both means are reported. A UiPath definition can be pasted.
    averaging: Option<String>,
    /// Accepted and ignored, so that a UiPath definition can be pasted.
    name: Option<String>,
    /// Accepted and ignored, so that a UiPath definition can be pasted.
    description: Option<String>,
}

/// Expected class.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClassCriteria {
    /// Name of the expected class. An empty text expects an output outside of all classes.
    #[serde(alias = "expectedClass")]
    expected_class: String,
}

/// Evaluator that compares lower-case classes.
struct Classification {
    subject: ComparisonSubject,
    classes: Vec<String>,
    f_value: f64,
    expected: String,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let definition = Definition::read(node, "binary-classification")
        .or_else(|_| Definition::read(node, "multiclass-classification"))?;
    let settings: Settings = definition.body.read()?;
    let given = settings.criteria.as_ref().or(settings.default_evaluation_criteria.as_ref());
    let given = given.ok_or_else(|| uipath::no_criteria(node))?;
    let expected = given.expected_class.to_lowercase();
    let refused = |message: String| SettingsError::new(message).at(definition.body.place);
    let classes = classes(&settings, &expected).map_err(refused)?;
    let f_value = settings.f_value.unwrap_or(1.0);
    if !(f_value > 0.0 && f_value <= F_VALUE_MAX) {
        return Err(refused(format!("`f_value` must be above 0, and at most {F_VALUE_MAX}")));
    }
    let path = path(settings.path, settings.target_output_key).map_err(refused)?;
    let subject = ComparisonSubject { path, ..ComparisonSubject::default() };
    Ok(Evaluator::code(Classification { subject, classes, f_value, expected }))
}

/// Returns the classes in lower case.
fn classes(settings: &Settings, expected: &String) -> Result<Vec<String>, String> {
    let named = settings.classes.iter().chain(&settings.positive_class);
    let classes: Vec<String> = named.map(|class| class.to_lowercase()).collect();
    if settings.classes.is_empty() != settings.positive_class.is_some() {
        return Err("give either `classes` or `positive_class`".to_owned());
    }
    if classes.len() > CLASSES_MAX {
        return Err(format!("`classes` has more than {CLASSES_MAX} entries"));
    }
    for (at, class) in classes.iter().enumerate() {
        if class.is_empty() || class.len() > CLASS_BYTES_MAX {
            return Err(format!("class {} must have 1 to {CLASS_BYTES_MAX} bytes", at + 1));
        }
        if classes[..at].contains(class) {
            return Err(format!("the class `{class}` stands twice in `classes`; leave one out"));
        }
    }
    if classes.len() > 1 && !expected.is_empty() && !classes.contains(expected) {
        return Err(format!("the expected class `{expected}` must be one of `classes`"));
    }
    Ok(classes)
}

fn path(path: Option<Path>, key: OutputKey) -> Result<Option<Path>, String> {
    match key {
        _ if path.is_some() => Ok(path),
        OutputKey::Whole => Ok(None),
        OutputKey::Path(path) => Path::try_from(path).map(Some),
        OutputKey::Paths(_) => Err("`target_output_key` must be a single path".to_owned()),
    }
}

impl Classification {
    /// Returns the class in an output, in lower case; `None` if the path has no value.
    fn class_in(&self, output: &Value<'_>) -> Option<String> {
        Some(self.subject.part(output, true)?.to_text().to_lowercase())
    }

    fn explain(&self, actual: Option<&str>) -> String {
        let expected = match self.expected.as_str() {
            "" => "none of them".to_owned(),
            class => format!("`{class}`"),
        };
        match actual {
            Some(class) if self.is_class(class) => {
                format!("the class is `{class}`, expected is {expected}")
            }
            Some(_) if self.classes.len() == 1 => {
                format!("the final output is not `{}`, expected is {expected}", self.classes[0])
            }
            Some(_) => format!("the final output is none of the classes, expected is {expected}"),
            None => format!("no class stands at the path, expected is {expected}"),
        }
    }

    fn is_class(&self, name: &str) -> bool {
        self.classes.iter().any(|class| class == name)
    }

    fn is_expected(&self, actual: Option<&str>) -> bool {
        match self.expected.as_str() {
            "" => !actual.is_some_and(|name| self.is_class(name)),
            expected => actual == Some(expected),
        }
    }
}

impl CodeEvaluator for Classification {
    fn facts(&self) -> Facts {
        Facts { final_output: true, ..Facts::default() }
    }

    fn reads_calls(&self) -> bool {
        false
    }

    fn classes(&self) -> Option<ClassifierClasses> {
        Some(ClassifierClasses { names: self.classes.clone(), f_value: self.f_value })
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let Some(output) = trajectory.final_output.value() else {
            return report::not_evaluable(Reason::FinalOutputNotRecorded, want, || {
                "the final output is not recorded".to_owned()
            });
        };
        let actual = self.class_in(output);
        let score = if self.is_expected(actual.as_deref()) { 1.0 } else { 0.0 };
        let explain = || self.explain(actual.as_deref());
        report::scored(score, want, explain, || {
            let details = [
                ("expected", Value::from(self.expected.clone())),
                ("actual", actual.clone().map_or(Value::Null, Value::from)),
            ];
            details.into_iter().collect()
        })
    }
}
