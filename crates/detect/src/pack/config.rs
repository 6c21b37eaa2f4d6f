//! Schema of rule packs, and their compilation.
//!
//! In: YAML (built in) or a node of the config. Out: a [`Pack`], or an error that names the
//! detector and the remedy.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::super::limits::DETECTORS_MAX;
use super::Pack;
use super::compile::{Detector, Gate, TextForm};
use super::expression::{CompileTime, Expression};
use super::opening::Opening;
use super::opening::ahead::Ahead;
use super::opening::written;
use crate::Severity;
use crate::normalise::shadow::fold_pattern;
use crate::prefilter::sieve::{ANCHORS_MAX, Anchors, NONE};
use crate::validate::Validator;
use spanscore_base::settings::{SettingsError, yaml};

/// Pack of detectors for texts.
#[derive(Clone, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PackConfig {
    /// Name of the pack, shown in messages.
    pub name: String,
    /// Syntax of the patterns: `linear` (default, the `regex` crate) or `javascript`.
    pub syntax: Syntax,
    /// Named expressions: `(?&name)` in a `pattern`, `near` or `not_near` inserts the expression of
    /// that name. A named expression cannot contain another one.
    pub expressions: BTreeMap<String, String>,
    /// Detectors of the pack.
    pub detectors: Vec<DetectorConfig>,
}

/// Syntax of the patterns of a pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Syntax {
    /// Syntax of the `regex` crate. Case makes no difference unless `case_sensitive` is set. `\b`,
    /// `\d` and `\w` are ASCII.
    #[default]
    Linear,
    /// Syntax of ECMAScript.
    Javascript,
}

/// Detector of a pack.
#[derive(Clone, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DetectorConfig {
    /// Rule that fails on a hit: a built-in one such as `no_pii`, or a new name.
    pub rule: String,
    /// Name of the thing detected, shown in messages and findings.
    pub kind: String,
    /// Family of `kind`, such as `credential`.
    pub category: String,
    /// Effect of a hit: `normal` (default) lowers the mean, `critical` fails the whole evaluation.
    pub severity: Severity,
    /// Regular expression. The finding is the first group that takes part in the match, or the
    /// whole match if there are no groups.
    pub pattern: Option<String>,
    /// Text to search for, instead of `pattern`.
    pub literal: Option<String>,
    /// Form of the text in which the detector searches. Default `normalised`.
    pub text: TextForm,
    /// Distinguishes capitals from small letters. Default `false`.
    pub case_sensitive: bool,
    /// Literals of two bytes or more, without regard to case. The pattern is only tried in texts
    /// that contain at least one of them, which makes it cheap. A leading `^` stands for the start
    /// of a word. Default: the literals that every match of the pattern contains.
    pub needs: Vec<String>,
    /// Further literals, as in `needs`. The text must contain one of these, too.
    pub also_needs: Vec<String>,
    /// Tries the pattern only in texts with twenty bytes in a row without white space. Default
    /// `false`.
    pub long_token: bool,
    /// Tries the pattern only in the parts of a text that contain adjacent digits. Default `false`.
    pub digits: bool,
    /// Tries the pattern only in texts with this many digits within 32 bytes. Default 0.
    pub digits_min: u8,
    /// Tries the pattern only in texts that contain `@`. Default `false`.
    pub at_sign: bool,
    /// Check that a finding must pass, such as a check digit or a plausible range.
    pub validate: Option<Validator>,
    /// Expression that must match within 48 bytes before the finding and 32 bytes after it.
    pub near: Option<String>,
    /// Expression that must not match within 48 bytes before the finding and 32 bytes after it.
    pub not_near: Option<String>,
    /// Expression that must not match where it touches or overlaps the finding in the same part of
    /// the text, such as a denial before, within or after a verb.
    pub denied: Option<String>,
    /// Expression for the words that may stand directly before the finding. The finding does not
    /// count if another word stands there as the owner of the number: `part no. 412`, or a
    /// capitalised word as in `Build 412`.
    pub named_as: Option<String>,
    /// Searches also in the text with digits read as letters, and in decoded base64 and percent
    /// encoding. Default `false`.
    pub obfuscated: bool,
    /// Number of matches that make a hit. Default 1.
    pub count_min: Option<u32>,
}

/// Compiles built-in packs into one, after the detectors of another. Their expressions are known to
/// be valid. Each is compiled when first needed, since all together take most of a second.
pub(super) fn built_in_texts(
    base: Option<&Pack>,
    texts: &[&str],
) -> Result<Arc<Pack>, SettingsError> {
    let mut builder = PackBuilder::new(CompileTime::Needed);
    if let Some(base) = base {
        builder.detectors.clone_from(&base.detectors);
        builder.anchors.clone_from(&base.anchors);
        builder.numbers = base.anchors.iter().cloned().zip(0..).collect();
    }
    with_shared(texts)?.iter().try_for_each(|pack| builder.add(pack))?;
    builder.build()
}

/// Reads built-in packs; the expressions of one without detectors are shared by later ones.
pub(super) fn with_shared(texts: &[&str]) -> Result<Vec<PackConfig>, SettingsError> {
    let mut shared = BTreeMap::new();
    let read = |text: &&str| {
        let mut pack: PackConfig = yaml::read(text)
            .and_then(|node| node.read())
            .map_err(|error| SettingsError::new(format!("built-in rule pack: {error}")))?;
        if pack.detectors.is_empty() {
            shared.append(&mut pack.expressions);
        }
        for (name, expression) in &shared {
            pack.expressions.entry(name.clone()).or_insert_with(|| String::clone(expression));
        }
        Ok(pack)
    };
    texts.iter().map(read).collect()
}

/// Compiles packs into one, completely, so that each mistake is found.
pub fn compile(packs: &[PackConfig]) -> Result<Arc<Pack>, SettingsError> {
    let mut builder = PackBuilder::new(CompileTime::Now);
    packs.iter().try_for_each(|pack| builder.add(pack))?;
    builder.build()
}

/// Builder of a pack.
struct PackBuilder {
    when: CompileTime,
    detectors: Vec<Arc<Detector>>,
    /// Literals that gates reference by number.
    anchors: Vec<String>,
    /// Numbers by literal.
    numbers: HashMap<String, usize>,
    /// Compiled context expressions, which many detectors share.
    contexts: HashMap<(String, bool, TextForm), Arc<Expression>>,
}

impl PackBuilder {
    fn new(when: CompileTime) -> Self {
        Self {
            when,
            detectors: Vec::new(),
            anchors: Vec::new(),
            numbers: HashMap::new(),
            contexts: HashMap::new(),
        }
    }

    fn add(&mut self, pack: &PackConfig) -> Result<(), SettingsError> {
        for (index, config) in pack.detectors.iter().enumerate() {
            let name =
                format!("detector `{}` ({}) of pack `{}`", config.kind, index + 1, pack.name);
            let detector = self.detector(config, pack, index).map_err(|error| {
                let message = format!("{name}: {}", error.message);
                SettingsError { message, ..error }
            })?;
            self.detectors.push(Arc::new(detector));
        }
        Ok(())
    }

    fn build(self) -> Result<Arc<Pack>, SettingsError> {
        if self.detectors.len() > DETECTORS_MAX {
            return Err(SettingsError::new(format!(
                "more than {DETECTORS_MAX} detectors in the packs"
            )));
        }
        Ok(Arc::new(Pack::new(self.detectors, self.anchors)))
    }

    fn detector(
        &mut self,
        config: &DetectorConfig,
        pack: &PackConfig,
        index: usize,
    ) -> Result<Detector, SettingsError> {
        if config.rule.is_empty() || config.kind.is_empty() {
            return Err(SettingsError::new("`rule` and `kind` are needed"));
        }
        if config.pattern.is_some() == config.literal.is_some() {
            let help = "a detector has one of the two";
            return Err(SettingsError::new("`pattern` or `literal` is needed").with_help(help));
        }
        let context = config.near.is_some()
            || config.not_near.is_some()
            || config.denied.is_some()
            || config.named_as.is_some()
            || config.validate.is_some();
        if pack.syntax == Syntax::Javascript && context {
            // Their patterns are unbounded, so refused findings could make the search quadratic.
            let error = "checks and contexts need `syntax: linear`";
            return Err(SettingsError::new(error));
        }
        let opening = self.opening(config, pack, index)?;
        let (needs, numbers) = self.mask(&opening.needs)?;
        let gate = Gate {
            needs,
            or_non_ascii: opening.or_non_ascii,
            also_needs: self.mask(&folded(&config.also_needs))?.0,
            digits: config.digits,
            digits_min: config.digits_min,
            at_sign: config.at_sign,
            long_token: config.long_token,
            in_token: opening.in_token,
            // Unknown for packs of a config.
            built_in: self.when == CompileTime::Needed,
            colons: self.when == CompileTime::Needed && config.validate == Some(Validator::Ipv6),
        };
        let literal = |(index, reach, ahead)| (numbers[index], reach, ahead);
        let reaches = opening.literals.into_iter().map(literal).collect();
        let literal = config.literal.as_ref();
        let contexts = opening.contexts;
        let pattern = config.pattern.as_ref().map(|text| self.expression(text, config, pack));
        let pattern = pattern.transpose()?.map(|pattern| pattern.beginning_with(opening.begin));
        let mut context =
            |text: &Option<String>, begin| self.context((text.as_deref(), begin), config, pack);
        Ok(Detector {
            point: opening.point,
            reaches,
            rule: config.rule.clone(),
            kind: config.kind.clone(),
            category: config.category.clone(),
            severity: config.severity,
            form: config.text,
            gate,
            literal: literal.map(|text| fold_literal(text, config.text).as_bytes().to_vec()),
            pattern,
            validate: config.validate,
            near: context(&config.near, contexts[0])?,
            not_near: context(&config.not_near, contexts[1])?,
            denied: context(&config.denied, contexts[2])?,
            named_as: context(&config.named_as, contexts[3])?,
            obfuscated: config.obfuscated,
            count_min: config.count_min.unwrap_or(1).max(1),
        })
    }

    /// Returns the opening of a detector: stored, or computed from its expression.
    fn opening(
        &self,
        config: &DetectorConfig,
        pack: &PackConfig,
        index: usize,
    ) -> Result<Opening, SettingsError> {
        if self.when == CompileTime::Needed
            && let Some(written) = written::opening(&pack.name, index)
        {
            return Ok(written);
        }
        Opening::of(config, pack, (self.when, self.room()))
    }

    /// Returns the number of free literals; half of all are for built-in packs.
    fn room(&self) -> usize {
        let all = if self.when == CompileTime::Needed { ANCHORS_MAX } else { ANCHORS_MAX / 2 };
        all.saturating_sub(self.anchors.len())
    }

    /// Returns the numbers of literals, as a set and in order.
    fn mask(&mut self, needs: &[String]) -> Result<Numbered, SettingsError> {
        let mut mask = Box::new(NONE);
        let mut numbers = Vec::new();
        for need in needs {
            if need.trim_start_matches('^').len() < 2 {
                let message = format!("`needs` has `{need}`, which is shorter than two bytes");
                return Err(SettingsError::new(message).with_help("give a longer literal"));
            }
            let anchors = &mut self.anchors;
            let index = *self.numbers.entry_ref(need).or_insert_with(|| {
                anchors.push(need.clone());
                anchors.len() - 1
            });
            if index >= ANCHORS_MAX {
                return Err(SettingsError::new(format!(
                    "more than {ANCHORS_MAX} literals in `needs`"
                )));
            }
            mask[index / 64] |= 1 << (index % 64);
            numbers.push(index as u16);
        }
        Ok(((!needs.is_empty()).then_some(mask), numbers))
    }

    fn expression(
        &self,
        text: &str,
        config: &DetectorConfig,
        pack: &PackConfig,
    ) -> Result<Expression, SettingsError> {
        let text = with_named(text, &pack.expressions)?;
        Expression::new(text, pack.syntax, config.case_sensitive, config.text, self.when)
    }

    fn context(
        &mut self,
        (text, begin): (Option<&str>, Ahead),
        config: &DetectorConfig,
        pack: &PackConfig,
    ) -> Result<Option<Arc<Expression>>, SettingsError> {
        let Some(text) = text else { return Ok(None) };
        let key = (with_named(text, &pack.expressions)?, config.case_sensitive, config.text);
        if let Some(known) = self.contexts.get(&key) {
            return Ok(Some(Arc::clone(known)));
        }
        let made = Arc::new(self.expression(text, config, pack)?.beginning_with(begin));
        self.contexts.insert(key, Arc::clone(&made));
        Ok(Some(made))
    }
}

/// Set of literals, and their numbers in order.
type Numbered = (Option<Box<Anchors>>, Vec<u16>);

fn folded(needs: &[String]) -> Vec<String> {
    needs.iter().map(|need| fold_pattern(&need.to_lowercase())).collect()
}

/// Expands references to named expressions in a pattern.
pub(crate) fn with_named(
    text: &str,
    named: &BTreeMap<String, String>,
) -> Result<String, SettingsError> {
    let mut parts = text.split("(?&");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(')').unwrap_or((part, ""));
        let Some(expression) = named.get(name) else {
            let message = format!("`(?&{name})` stands for no expression of the pack");
            let help = "give it under `expressions`, by that name";
            return Err(SettingsError::new(message).with_help(help));
        };
        out.extend(["(?:", expression, ")", rest]);
    }
    Ok(out)
}

/// Returns a literal folded like the text form of its detector.
fn fold_literal(literal: &str, form: TextForm) -> Cow<'_, str> {
    match form {
        TextForm::Lower => literal.to_lowercase().into(),
        TextForm::Upper => literal.to_uppercase().into(),
        TextForm::AsIs | TextForm::Normalised => literal.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, message: &str) {
        let expressions = BTreeMap::from([("word".to_owned(), "[a-z]{1,9}".to_owned())]);
        let detector = DetectorConfig {
            rule: "no_pii".to_owned(),
            kind: "x".to_owned(),
            pattern: Some(pattern.to_owned()),
            ..DetectorConfig::default()
        };
        let pack = PackConfig {
            name: "mine".to_owned(),
            expressions,
            detectors: vec![detector],
            ..PackConfig::default()
        };
        let error = compile(&[pack]).map_or_else(|error| error.to_string(), |_| String::new());
        assert!(error.contains(message), "{pattern}: {error}");
    }

    #[test]
    fn patterns_that_cannot_be_linear_are_refused_with_a_remedy() {
        check("a.*b", "write `{0,40}` in place of `*`");
        check("(?=a)", "not an expression");
        check("(a)\\1", "not an expression");
        check("(a{1000}){1000}", "may match more than");
        check("a{1,40}", "");
    }

    #[test]
    fn named_expressions_stand_for_themselves() {
        check("(?&word) (?&word){2}", "");
        check("(?&word){600}", "may match more than");
        check("(?&words)", "`(?&words)` stands for no expression");
        let named = BTreeMap::from([("word".to_owned(), "a|b".to_owned())]);
        assert_eq!(with_named("x(?&word){2}y", &named).unwrap(), "x(?:a|b){2}y");
    }
}
