//! Scorer of bare error messages: short texts that by their form are nothing else.
//!
//! A tool that returns an exception's message does not announce it: `division by zero`. Such a text
//! is recognised as a whole. Its first word means something wrong, it has a predicate of failure,
//! and the language of programs (quoted values, identifiers, technical nouns). First words of
//! changes, documentation and prose count against it. Each sign has points (`packs/messages.yaml`),
//! and none decides alone.

use hashbrown::HashSet;

use super::literals::LiteralSet;
use super::opened::{FoldedText, NewExpression, Onward, OpenedExpressions};
use super::search::FailureSearch;
use super::{FailureFinding, Says};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::pack::compile::TextForm;
use crate::pack::expression::plain_of;
use crate::tree::beside::Begin;
use crate::tree::{SearchTree, is_of_word};
use spanscore_base::settings::{SettingsError, yaml};

/// Reason given by a finding.
pub(super) const KIND: &str = "the result is nothing but the message of an error";
/// Category of that reason.
pub(super) const CATEGORY: &str = "message";

/// Points that make a text a message.
const ENOUGH: i32 = 14;
/// Points of a first word that means something wrong.
const WRONG: i32 = 20;
/// Points of the first word `not`.
const NOT: i32 = 15;
/// Points of other first words that state a constraint.
const CONSTRAINT: i32 = 10;
/// Points of the first word `no`.
const NO: i32 = 7;
/// Points of a named speaker.
const SPEAKER: i32 = 5;
/// Points of each predicate, and of all of them at most.
const PREDICATE: i32 = 10;
const PREDICATES_MAX: i32 = 15;
/// Points of a weak sign that is the head of the text, and of one elsewhere.
const WEAK_HEAD: i32 = 9;
const WEAK: i32 = 4;
/// Limit on the points of program language.
const REGISTER_MAX: i32 = 15;
/// Number of words up to which a text is little more than a name.
const FEW_WORDS: usize = 4;
/// Lengths in bytes from which a text is probably prose, and from which it is hardly a message.
const LONG: usize = 121;
const VERY_LONG: usize = 241;
/// Length in bytes above which a sentence without quotes is probably prose.
const LONG_SENTENCE: usize = 80;
/// Longest value after a message, bytes.
const VALUE_BYTES_MAX: usize = 40;
/// Verbs after which the preceding word is a subject, not an imperative.
const COPULAS: [&str; 17] = [
    "is", "are", "was", "were", "cannot", "can't", "must", "should", "has", "have", "does", "did",
    "may", "can", "isn't", "aren't", "will",
];
/// Words after which the preceding word is a subject too, and words before something wrong that was
/// received.
const STATES: [&str; 9] = [
    "aborted", "expected", "failed", "exceeded", "overflowed", "not", "already", "timed", "exceeds",
];
const CAME: [&str; 3] = ["received", "found", "got"];
/// Steps per byte of a short text.
const STEPS_PER_BYTE: usize = 16;

/// Word lists and expressions as written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageConfig {
    wrong: String,
    actions: String,
    nouns: String,
    discourse: String,
    technical: String,
    shared: String,
    predicates: Vec<String>,
    weak: String,
    weak_head: String,
    identifier: String,
    programs: String,
    quoted: String,
    speaker: String,
    against: Vec<AgainstConfig>,
}

/// Sign against a message, as written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AgainstConfig {
    points: i32,
    pattern: String,
}

/// Set of words, filtered by first byte and length.
struct WordSet {
    words: HashSet<Box<str>>,
    /// Lengths by first byte, one bit each; the last bit is for longer words.
    lengths: [u32; 0x100],
}

impl WordSet {
    fn of(text: &str) -> Self {
        let words: HashSet<Box<str>> = text.split_whitespace().map(Box::from).collect();
        let mut lengths = [0; 0x100];
        for word in &words {
            lengths[usize::from(word.as_bytes()[0])] |= Self::bit(word);
        }
        Self { words, lengths }
    }

    fn bit(word: &str) -> u32 {
        1 << word.len().min(31)
    }

    fn contains(&self, word: &str) -> bool {
        let lengths = word.bytes().next().map_or(0, |first| self.lengths[usize::from(first)]);
        lengths & Self::bit(word) != 0 && self.words.contains(word)
    }
}

/// Features of a text.
struct MessageFeatures<'t> {
    /// Number of kinds of predicates in the text.
    predicates: i32,
    /// True if it has only weak words.
    is_weak: bool,
    /// Points of its first word.
    of_first: i32,
    /// True if it names a speaker.
    is_named: bool,
    is_sentence: bool,
    /// True if it begins in lower case and ends without a full stop.
    is_phrase: bool,
    /// True if it quotes something.
    quotes: bool,
    /// True if it has a name from a program.
    names: bool,
    words: Vec<&'t str>,
}

/// Compiled signs of a message.
pub(super) struct MessageSigns {
    wrong: WordSet,
    actions: WordSet,
    nouns: WordSet,
    discourse: WordSet,
    technical: WordSet,
    shared: WordSet,
    predicates: OpenedExpressions,
    weak: WordSet,
    weak_head: OpenedExpressions,
    identifier: SearchTree,
    /// Phrases used only by programs.
    programs: OpenedExpressions,
    quoted: SearchTree,
    speaker: SearchTree,
    against: Vec<(i32, SearchTree)>,
}

impl MessageSigns {
    /// Compiles the built-in signs.
    pub(super) fn built_in(literals: &mut LiteralSet) -> Result<Self, SettingsError> {
        let config: MessageConfig = yaml::read(include_str!("../packs/messages.yaml"))
            .and_then(|node| node.read())
            .map_err(|error| SettingsError::new(format!("built-in messages: {error}")))?;
        let mut opened = |patterns: &[String]| {
            let mut all = OpenedExpressions::default();
            for pattern in patterns {
                let hir = &plain_of(pattern, TextForm::AsIs)?;
                let begin = Begin::Anywhere;
                all.add(
                    NewExpression {
                        hir,
                        begin,
                        case_sensitive: false,
                        is_whole: false,
                        is_of_short: true,
                        needs: &[],
                    },
                    literals,
                );
            }
            Ok::<_, SettingsError>(all)
        };
        Ok(Self {
            wrong: WordSet::of(&config.wrong),
            actions: WordSet::of(&config.actions),
            nouns: WordSet::of(&config.nouns),
            discourse: WordSet::of(&config.discourse),
            technical: WordSet::of(&config.technical),
            shared: WordSet::of(&config.shared),
            predicates: opened(&config.predicates)?,
            weak: WordSet::of(&config.weak),
            weak_head: opened(&[config.weak_head])?,
            identifier: tree(&config.identifier, false)?,
            programs: opened(&[config.programs])?,
            quoted: tree(&config.quoted, false)?,
            speaker: tree(&config.speaker, false)?,
            against: { config.against.iter() }
                .map(|it| Ok((it.points, tree(&it.pattern, true)?)))
                .collect::<Result<_, SettingsError>>()?,
        })
    }

    /// Judges a text without a finding of any other detector.
    pub(super) fn judge<'d>(
        &self,
        text: &str,
        folded: &FoldedText<'_>,
        search: &FailureSearch<'d, '_>,
    ) -> Option<FailureFinding<'d>> {
        if text.len() > MESSAGE_BYTES_MAX
            || text.contains('\n')
            || !search.effort.spend(text.len() * STEPS_PER_BYTE)
        {
            return None;
        }
        let finding = FailureFinding { says: Says::Failed, kind: KIND, category: CATEGORY };
        let literals = &search.detectors.literals;
        let is_message = if folded.is_plain() {
            self.is_message(text, folded, literals)
        } else {
            self.is_message(text, &FoldedText::plain(text), literals)
        };
        is_message.then_some(finding)
    }

    fn is_message(&self, text: &str, folded: &FoldedText<'_>, literals: &LiteralSet) -> bool {
        let small = folded.small();
        let may_speak = text.starts_with('[') || text.contains(": ");
        let speaker = may_speak.then(|| self.speaker.end_of_first(text)).flatten();
        let body = speaker.map_or(text, |end| &text[end..]);
        let said = if body.is_empty() { small } else { &small[text.len() - body.len()..] };
        let Some(first) = words_of(said).next() else { return false };
        let mut predicates = 0;
        let places = folded.literals(literals);
        self.predicates.search(folded, places, |_, _, _| {
            predicates += 1;
            Onward::NextExpression
        });
        let of_first = self.first(first);
        let is_weak = predicates == 0 && of_first == 0;
        let is_named = body.len() < text.len();
        let stated = of_first
            + if is_named { SPEAKER } else { 0 }
            + (predicates * PREDICATE).min(PREDICATES_MAX);
        let most = stated + if is_weak { WEAK_HEAD } else { 0 } + REGISTER_MAX;
        // A single word is a value, as is a text in brackets.
        let is_data = !is_named && text.starts_with(['[', '{', '(', '<']);
        if is_data || most - points_of_length(text) < ENOUGH {
            return false;
        }
        // Most results have no sign at all.
        if is_weak && !runs_of(small, is_of_word).any(|word| self.weak.contains(word)) {
            return false;
        }
        let features = MessageFeatures {
            predicates,
            of_first,
            is_weak,
            is_named,
            is_sentence: text.ends_with('.'),
            is_phrase: text.starts_with(char::is_lowercase) && !text.ends_with('.'),
            quotes: text.contains(['\'', '"', '`']) && self.quoted.is_match(text),
            names: may_name(text) && self.identifier.is_match(text),
            words: words_of(small).collect(),
        };
        if features.words.len() < 2 {
            return false;
        }
        // Most texts have too few points whatever the longer searches find.
        let register = self.register(text, &features);
        let most = stated + if is_weak { WEAK_HEAD } else { 0 } + register;
        if most - points_of_length(text) < ENOUGH {
            return false;
        }
        let has_match = |of: &OpenedExpressions| of.is_match(folded, places);
        let weak = self.weak(&features, has_match);
        let points = stated + weak + register;
        let has_sign = features.of_first > 0 || features.predicates > 0 || weak > 0;
        if !has_sign || points < ENOUGH || !self.is_of_programs(&features, has_match) {
            return false;
        }
        let said: Vec<&str> = words_of(said).take(2).collect();
        let against = self.first_against(&said, body, &features) + form_against(text, &features);
        // These are the slowest, so they come last, and only as many as matter.
        let mut left = points - against;
        let mut others = self.against.iter();
        left >= ENOUGH
            && others.all(|(cost, pattern)| {
                left -= if pattern.is_match(small) { *cost } else { 0 };
                left >= ENOUGH
            })
    }

    /// Returns the points of the first word.
    fn first(&self, word: &str) -> i32 {
        match word {
            word if self.wrong.contains(word) => WRONG,
            "not" => NOT,
            "no" => NO,
            "expected" | "expecting" | "too" | "only" | "must" | "out" => CONSTRAINT,
            _ => 0,
        }
    }

    /// Returns the points of weak signs, which count only without others.
    fn weak(
        &self,
        features: &MessageFeatures<'_>,
        has_match: impl Fn(&OpenedExpressions) -> bool,
    ) -> i32 {
        if features.is_weak && has_match(&self.weak_head) {
            WEAK_HEAD
        } else if features.is_weak && (features.quotes || has(&self.technical, features)) {
            WEAK
        } else {
            0
        }
    }

    /// Returns true if a program is the subject, not a parcel, a room or a guest.
    fn is_of_programs(
        &self,
        features: &MessageFeatures<'_>,
        has_match: impl Fn(&OpenedExpressions) -> bool,
    ) -> bool {
        let compares = || {
            let mut words = features.words.iter();
            features.words.contains(&"got") && words.any(|word| word.starts_with("expect"))
        };
        features.is_named
            || features.is_phrase
            || features.quotes
            || features.names
            || has(&self.technical, features)
            || features.of_first == WRONG && has(&self.shared, features)
            || compares()
            || has_match(&self.programs)
    }

    /// Returns the penalty of a first word typical of changes, documentation and prose.
    fn first_against(&self, said: &[&str], body: &str, features: &MessageFeatures<'_>) -> i32 {
        let Some(&first) = said.first().filter(|_| features.of_first == 0) else { return 0 };
        let is_subject = || {
            let second = said.get(1).copied().unwrap_or_default();
            COPULAS.contains(&second)
                || STATES.contains(&second)
                || CAME.contains(&first) && self.wrong.contains(second)
                || self.quoted.begins(body)
                || self.identifier.begins(body)
        };
        let is_stated = features.predicates > 0;
        if matches!(first, "the" | "a" | "an") {
            5
        } else if self.actions.contains(first) && !is_subject() {
            match (is_stated, self.nouns.contains(first)) {
                (true, true) if features.is_phrase => 8,
                (true, true) => 13,
                (true, false) => 20,
                (false, _) => 25,
            }
        } else if self.discourse.contains(first) {
            if is_stated && !features.is_sentence { 10 } else { 15 }
        } else {
            0
        }
    }

    /// Returns the points of program language: values, identifiers and technical terms, in a
    /// phrase.
    fn register(&self, text: &str, features: &MessageFeatures<'_>) -> i32 {
        let count =
            |list: &WordSet| features.words.iter().filter(|word| list.contains(word)).count();
        let nouns = match (count(&self.technical), count(&self.shared)) {
            (2.., _) | (1, 1..) => 9,
            (1, 0) => 6,
            (0, 2..) => 5,
            (0, 1) => 4,
            (0, 0) => 0,
        };
        let value = text.rsplit_once(": ").is_some_and(|(_, value)| {
            (1..=VALUE_BYTES_MAX).contains(&value.len()) && !value.contains(char::is_whitespace)
        });
        let signs = [
            (features.quotes, 7),
            (features.names, 7),
            (features.is_phrase, 6),
            (value, 4),
            (!features.is_sentence, 2),
            (!features.is_sentence && features.words.len() <= FEW_WORDS, 4),
        ];
        (nouns + sum(&signs)).min(REGISTER_MAX)
    }
}

/// Returns the penalty of the form of the text.
fn form_against(text: &str, features: &MessageFeatures<'_>) -> i32 {
    let is_prose = features.is_sentence && text.starts_with(char::is_uppercase);
    let is_stated = features.predicates > 0 || features.of_first == WRONG;
    let is_two = text.as_bytes().array_windows().any(|[end, space, next]| {
        let begins = next.is_ascii_uppercase() || *next == b'*';
        matches!(end, b'.' | b';') && *space == b' ' && begins
    });
    let is_marked = text.starts_with(['[', '(', '<', '{', '*', '#', '=', '|', '-']);
    let signs = [
        (is_prose && !is_stated, 6),
        (is_prose && text.len() > LONG_SENTENCE && !features.quotes && !features.names, 6),
        (is_two && !features.quotes, 4),
        (is_marked && !features.is_named, 10),
    ];
    points_of_length(text) + sum(&signs)
}

/// Returns the penalty of the length of a text.
fn points_of_length(text: &str) -> i32 {
    match text.len() {
        VERY_LONG.. => 12,
        LONG..VERY_LONG => 6,
        _ => 0,
    }
}

/// Returns true if a text has one of the byte pairs of which each program name has at least one.
fn may_name(text: &str) -> bool {
    text.as_bytes().array_windows().any(|pair| {
        matches!(
            pair,
            [b'a'..=b'z', b'A'..=b'Z']
                | [b'_', _]
                | [b'.' | b'*', b'a'..=b'z' | b'_' | b'*']
                | [b'@', b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_']
                | [b'(', b')']
                | [b'-', b'-']
                | [b'<', b'c']
                | [b'0', b'x']
        )
    })
}

fn has(list: &WordSet, features: &MessageFeatures<'_>) -> bool {
    features.words.iter().any(|word| list.contains(word))
}

/// Sums the points of the signs that hold.
fn sum(signs: &[(bool, i32)]) -> i32 {
    signs.iter().filter(|(holds, _)| *holds).map(|(_, points)| points).sum()
}

/// Parses an expression with ASCII word classes, as program language has.
fn tree(pattern: &str, any_case: bool) -> Result<SearchTree, SettingsError> {
    let hir = plain_of(pattern, TextForm::AsIs)?;
    Ok(SearchTree::of(&hir, any_case))
}

/// Returns the words of a text in lower case.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let parts = runs_of(text, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'\'' | b'-'));
    parts.map(|part| part.trim_matches(['\'', '-'])).filter(|word| !word.is_empty())
}

/// Returns the runs of bytes that `is_in` accepts, which are ASCII.
fn runs_of(text: &str, is_in: impl Fn(u8) -> bool) -> impl Iterator<Item = &str> {
    let mut rest = 0..text.len();
    std::iter::from_fn(move || {
        let start = rest.find(|at| is_in(text.as_bytes()[*at]))?;
        let end = rest.find(|at| !is_in(text.as_bytes()[*at])).unwrap_or(text.len());
        text.get(start..end)
    })
}
