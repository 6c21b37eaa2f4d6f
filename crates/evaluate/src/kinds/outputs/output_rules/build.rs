//! Construction of the evaluator from its settings: every error is found here, with its location.

use std::sync::Arc;

use super::custom::own;
use super::iris::{custom as iris_custom, rules};
use super::limits::{CUSTOM_RULES_MAX, TEXT_BYTES_CEILING};
use super::reading::Reading;
use super::rule::OutputRule;
use super::settings::{Bundle, Compat, OutputRulesConfig, TextProfile, TextTarget};
use super::{OutputRules, builtin};
use spanscore_base::settings::{Node, NodeKind, SettingsError, meant_or};
use spanscore_detect::Severity;
use spanscore_detect::limits::FINDINGS_MAX;
use spanscore_detect::pack::config::{DetectorConfig, PackConfig, compile};
use spanscore_detect::pack::{self, Pack, names};

/// Reads and validates the settings of one evaluator.
pub(super) fn build(node: &Node) -> Result<OutputRules, SettingsError> {
    let config: OutputRulesConfig = node.read()?;
    check_limits(&config, node)?;
    let iris_like = config.compat == Some(Compat::Iris);
    let default = if iris_like { Bundle::Completeness } else { Bundle::All };
    let bundle = config.bundle.unwrap_or(default);
    let attribute = target(&config, node)?;
    let mut rules = if iris_like {
        rules::rules(bundle, &config.thresholds)
    } else {
        builtin::rules(bundle, &config.thresholds, config.target)
    };
    let mut packs =
        packs(&config, bundle, iris_like).map_err(|error| error.at(node.place_of("packs")))?;
    add_pack_rules(&mut rules, &packs, bundle);
    // The source runs custom rules only in their own bundle.
    if !iris_like || bundle == Bundle::Custom {
        custom(&config, node, &mut rules, iris_like)?;
    }
    profile(&config, &mut rules);
    adjust(&config, node, &mut rules)?;
    if rules.is_empty() && !iris_like {
        let help = "give `custom_rules`, or a bundle with built-in rules";
        return Err(SettingsError::new("no rule is left to run").with_help(help).at(node.place));
    }
    packs
        .retain(|pack| pack.rules().iter().any(|name| rules.iter().any(|rule| rule.name == *name)));
    let mut replaced = Vec::new();
    if !iris_like {
        replaced.extend(config.thresholds.blocklist.is_some().then_some(names::BLOCKLIST));
        replaced.extend(config.thresholds.stub_markers.is_some().then_some(names::STUB));
    }
    let reads = |names: &[&str]| rules.iter().any(|rule| names.contains(&&*rule.name));
    let custom_cost =
        config.custom_rules.iter().any(|rule| rule.kind == super::CustomKind::CostThreshold);
    Ok(OutputRules {
        skip_kinds: skip_kinds(&config),
        findings_max: config.findings_max,
        target: config.target,
        reads_input: reads(&[
            "keyword_overlap", "topic_consistency", "answers_question", "complete_answer",
        ]),
        reads_usage: custom_cost || reads(&["cost_under_threshold", "token_efficiency"]),
        attribute,
        bundle,
        iris: iris_like,
        expected: config.criteria.expected.map(Reading::new),
        rules,
        packs,
        replaced,
        tools: config.tools,
        text_bytes_max: config.text_bytes_max,
    })
}

fn check_limits(config: &OutputRulesConfig, node: &Node) -> Result<(), SettingsError> {
    if !(1..=FINDINGS_MAX).contains(&config.findings_max) {
        let error = format!("`findings_max` must be from 1 to {FINDINGS_MAX}");
        return Err(node.fault("findings_max", error));
    }
    if config.text_bytes_max <= TEXT_BYTES_CEILING {
        return Ok(());
    }
    let error = format!("`text_bytes_max` must be at most {TEXT_BYTES_CEILING}");
    Err(node.fault("text_bytes_max", error))
}

/// Returns the attribute key of `target: attribute`.
fn target(config: &OutputRulesConfig, node: &Node) -> Result<Option<String>, SettingsError> {
    let calls = matches!(config.target, TextTarget::ToolArguments | TextTarget::ToolResults);
    if !config.tools.is_empty() && !calls {
        let error = "`tools` goes with `target: tool_arguments` or `tool_results`";
        return Err(node.fault("tools", error));
    }
    match (config.target, &config.attribute) {
        (TextTarget::Attribute, None) => {
            let error = node.fault("target", "`target: attribute` needs `attribute`");
            Err(error.with_help("name the key, such as `attribute: my.answer`"))
        }
        (TextTarget::Attribute, Some(key)) => Ok(Some(key.clone())),
        (_, Some(_)) => Err(node.fault("attribute", "`attribute` goes with `target: attribute`")),
        (_, None) => Ok(None),
    }
}

/// Applies the severities of a profile; the config's own override them.
fn profile(config: &OutputRulesConfig, rules: &mut [OutputRule]) {
    if config.profile != TextProfile::CustomerData {
        let stub = rules.iter_mut().filter(|rule| rule.name == names::STUB);
        stub.for_each(|rule| rule.severity = Severity::Normal);
    }
}

/// Returns the finding kinds that do not count, by the profile and the config.
fn skip_kinds(config: &OutputRulesConfig) -> Vec<String> {
    let of_profile = config.profile.skipped_kinds().iter().map(|kind| (*kind).to_owned());
    of_profile.chain(config.skip_kinds.iter().cloned()).collect()
}

fn packs(
    config: &OutputRulesConfig,
    bundle: Bundle,
    iris_like: bool,
) -> Result<Vec<Arc<Pack>>, SettingsError> {
    let mut packs = match (iris_like, bundle) {
        (true, _) => vec![pack::iris()?],
        (false, Bundle::All) => vec![pack::all()?],
        (false, Bundle::Relevance) => vec![pack::refusal()?],
        (false, _) => vec![pack::safety()?],
    };
    let mut own = config.packs.clone();
    if !iris_like {
        let lists = [
            (names::BLOCKLIST, &config.thresholds.blocklist),
            (names::STUB, &config.thresholds.stub_markers),
        ];
        own.extend(
            lists.into_iter().filter_map(|(rule, list)| Some(phrases(rule, list.as_ref()?))),
        );
    }
    if !own.is_empty() {
        packs.push(compile(&own)?);
    }
    Ok(packs)
}

/// Builds a pack of phrases: whole words, separated by any white space.
fn phrases(rule: &str, list: &[String]) -> PackConfig {
    let detectors = list.iter().filter(|phrase| !phrase.trim().is_empty()).map(|phrase| {
        let words: Vec<String> = phrase.split_whitespace().map(regex::escape).collect();
        let edge =
            |c: Option<char>| if c.is_some_and(|c| c.is_ascii_alphanumeric()) { "\\b" } else { "" };
        let first = edge(phrase.trim().chars().next());
        let last = edge(phrase.trim().chars().last());
        DetectorConfig {
            rule: rule.to_owned(),
            kind: phrase.clone(),
            pattern: Some(format!("{first}{}{last}", words.join("\\s{1,8}"))),
            obfuscated: true,
            case_sensitive: rule == names::STUB,
            ..DetectorConfig::default()
        }
    });
    PackConfig { name: rule.to_owned(), detectors: detectors.collect(), ..PackConfig::default() }
}

/// Adds the rules named only in a custom pack.
fn add_pack_rules(rules: &mut Vec<OutputRule>, packs: &[Arc<Pack>], bundle: Bundle) {
    const BUILT_IN: [&str; 5] =
        [names::PII, names::BLOCKLIST, names::INJECTION, names::STUB, names::REFUSAL];
    if matches!(bundle, Bundle::Completeness | Bundle::Relevance | Bundle::Cost) {
        return;
    }
    for name in packs.iter().flat_map(|pack| pack.rules()) {
        if BUILT_IN.contains(&name) || rules.iter().any(|rule| rule.name == name) {
            continue;
        }
        let rule = name.to_owned();
        let check = move |s: &super::rule::RuleSubject<'_>| {
            builtin::detected(s, &rule, "nothing found", "found")
        };
        rules.push(OutputRule { name: name.to_owned().into(), ..OutputRule::new("", 1.0, check) });
    }
}

fn custom(
    config: &OutputRulesConfig,
    node: &Node,
    rules: &mut Vec<OutputRule>,
    iris_like: bool,
) -> Result<(), SettingsError> {
    if config.custom_rules.len() > CUSTOM_RULES_MAX {
        let error = format!("more than {CUSTOM_RULES_MAX} custom rules");
        return Err(node.fault("custom_rules", error));
    }
    let nodes: &[Node] = match node.get("custom_rules").map(|node| &node.kind) {
        Some(NodeKind::List(nodes)) => nodes,
        _ => &[],
    };
    for (rule, node) in config.custom_rules.iter().zip(nodes) {
        if !iris_like && rules.iter().any(|known| known.name == rule.name) {
            let error = SettingsError::new(format!("two rules are named `{}`", rule.name));
            return Err(error.with_help("give each rule a name of its own").at(node.place));
        }
        if node.get("config").is_some_and(|config| config.kind == NodeKind::Null) {
            let error = node.fault("config", format!("`config` of rule `{}` is empty", rule.name));
            return Err(error.with_help("give the rule's settings"));
        }
        let built =
            if iris_like { iris_custom::rule(rule) } else { own::rule(rule, node.get("config")) };
        rules.push(built.map_err(|error| error.at(node.place_of("config")))?);
    }
    Ok(())
}

fn adjust(
    config: &OutputRulesConfig,
    node: &Node,
    rules: &mut Vec<OutputRule>,
) -> Result<(), SettingsError> {
    let known: Vec<String> = rules.iter().map(|rule| rule.name.to_string()).collect();
    let find = |name: &str, key: &str| {
        if known.iter().any(|rule| rule == name) {
            return Ok(());
        }
        let error = node.fault(key, format!("`{name}` is none of the rules that run"));
        let others = || format!("these run: {}", known.join(", "));
        Err(error.with_help(meant_or(name, known.iter().map(String::as_str), others)))
    };
    for (name, &weight) in &config.weights {
        find(name, "weights")?;
        if !(weight > 0.0 && weight.is_finite()) {
            let message =
                format!("the weight of `{name}` must be a finite number above 0, not {weight}");
            let error = node.fault("weights", message);
            return Err(error.with_help("use `skip_rules` to leave a rule out"));
        }
        rules.iter_mut().filter(|rule| rule.name == *name).for_each(|rule| rule.weight = weight);
    }
    for (name, &severity) in &config.severity {
        find(name, "severity")?;
        rules
            .iter_mut()
            .filter(|rule| rule.name == *name)
            .for_each(|rule| rule.severity = severity);
    }
    for name in &config.skip_rules {
        find(name, "skip_rules")?;
        rules.retain(|rule| rule.name != *name);
    }
    Ok(())
}
