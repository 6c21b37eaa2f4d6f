//! Texts, numbers and dates known to the agent before a call.

use std::borrow::Cow;
use std::cell::{Cell, LazyCell, RefCell};
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::hash::BuildHasher;

use hashbrown::{HashMap, HashSet};

use super::dates::{self, Dates};
use super::numbers::{AmountParts, KnownNumbers, canonical};
use crate::judged::operator;
use crate::shared::pairing::read_text;
use spanscore_base::model::{HeardText, TextOrigin, ToolCall, Trajectory, WorkBudget};
use spanscore_base::value::{Map, Value};

/// Longest text read as a date, bytes.
const DATE_BYTES_MAX: usize = 64;
/// Codes of places, currencies and countries, each with a name.
const CODES: &str = include_str!("codes.txt");

/// Limit on indexed bytes of input and results; a larger trajectory is not evaluable.
const SOURCE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Limit on bytes searched for texts with unknown words, over all values.
pub(super) const SEARCHED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Steps to index a byte of input or results: words are hashed and stored.
const STEPS_PER_BYTE: usize = 12;

/// Steps to look up a byte of an argument's text: its words are normalized and hashed.
const ARGUMENT_STEPS_PER_BYTE: usize = 4;

/// Bytes searched in one step.
const SEARCHED_BYTES_PER_STEP: usize = 16;

/// Base steps to check any value, then those to format a number for comparison.
const VALUE_STEPS: usize = 4;
const NUMBER_STEPS: usize = 32;
/// Normalizes a text to letters and digits in lower case, with one space between words.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    words(text, |word| {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    });
    out
}

/// Calls `each` with the lower-case words of a text: runs of letters and digits. A point between
/// two digits is part of the word; a comma is removed.
pub(super) fn words(text: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let between_digits = |word: &str, next: Option<&char>| {
            word.ends_with(|c: char| c.is_ascii_digit()) && next.is_some_and(char::is_ascii_digit)
        };
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        } else if matches!(c, '.' | ',') && between_digits(&word, rest.peek()) {
            if c == '.' {
                word.push('.');
            }
        } else if !word.is_empty() {
            each(&word);
            word.clear();
        }
    }
    if !word.is_empty() {
        each(&word);
    }
}

/// Returns true for an object or a list.
fn is_structured(value: &Value<'_>) -> bool {
    matches!(value, Value::Map(_) | Value::List(_))
}

/// Writer with a limit in bytes.
struct LimitedText {
    text: String,
    left: usize,
}

impl fmt::Write for LimitedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.left = self.left.checked_sub(part.len()).ok_or(fmt::Error)?;
        self.text.push_str(part);
        Ok(())
    }
}

/// Index of the texts known to the agent.
pub(super) struct GroundingSources<'t> {
    /// All normalized texts, with a space around each word and one line per text.
    text: String,
    pub(super) words: HashSet<String>,
    bytes: usize,
    pub(super) searched_bytes: Cell<usize>,
    /// True if an earlier call's result is not recorded.
    pub(super) incomplete: bool,
    /// Texts that are not yet known, ordered by the time when they become known.
    pub(super) heard: VecDeque<HeardText<'t>>,
    pub(super) effort: &'t WorkBudget,
    /// True if the judged call creates or searches for a file, so that the agent may choose its
    /// name.
    pub(super) may_name_files: Cell<bool>,
    numbers: KnownNumbers,
    /// Numbers of the judged call.
    pub(super) call: RefCell<AmountParts>,
    dates: Dates,
    /// Start of the run, Unix nanoseconds; its day is today.
    start_ns: u64,
}

impl<'t> GroundingSources<'t> {
    pub(super) fn new(effort: &'t WorkBudget, start_ns: u64) -> Self {
        Self {
            text: String::new(),
            words: HashSet::new(),
            bytes: 0,
            searched_bytes: Cell::new(0),
            incomplete: false,
            heard: VecDeque::new(),
            effort,
            may_name_files: Cell::new(false),
            numbers: KnownNumbers::default(),
            call: RefCell::default(),
            dates: Dates::default(),
            start_ns,
        }
    }

    /// Adds a text or a value; `false` if the limit is exceeded.
    pub(super) fn add(&mut self, value: &Value<'_>, origin: TextOrigin) -> bool {
        let left = SOURCE_BYTES_MAX - self.bytes;
        let written;
        let text = match value {
            Value::String(text) => text.as_ref(),
            other => {
                let mut text = LimitedText { text: String::new(), left };
                if write!(text, "{other}").is_err() {
                    return false;
                }
                written = text.text;
                &written
            }
        };
        if text.len() > left || !self.effort.spend(text.len() * STEPS_PER_BYTE) {
            return false;
        }
        self.add_facts(value, origin);
        let text = plain(text);
        // Lower case may need more bytes than upper case, so the sum could exceed the limit.
        self.bytes = SOURCE_BYTES_MAX.min(self.bytes + text.len());
        for word in text.split(' ') {
            if !self.words.contains(word) {
                self.words.insert(word.to_owned());
            }
        }
        self.text.push(' ');
        self.text.push_str(&text);
        self.text.push_str(" \n");
        true
    }

    /// Adds the numbers and dates of a text or value.
    fn add_facts(&mut self, value: &Value<'_>, origin: TextOrigin) {
        let is_input = origin == TextOrigin::User;
        let read = if origin == TextOrigin::Tool { read_text(value) } else { None };
        let read = read.filter(is_structured);
        let Self { numbers, dates, effort, .. } = self;
        let mut text = |numbers: &mut KnownNumbers, text: &str| {
            let mut all = Vec::new();
            words(text, |word| all.push(word.to_owned()));
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let mut in_date = HashSet::new();
            dates.add(&all, |at| {
                in_date.insert(at);
            });
            numbers.add_text(&all, &in_date, is_input);
        };
        numbers.add_value(read.as_ref().unwrap_or(value), effort, &mut text);
    }

    /// Returns true if a number is known or derives from known ones.
    pub(super) fn has_number(&self, digits: &str) -> bool {
        self.numbers.hold(digits) || {
            let amount = canonical(digits).parse();
            self.effort.spend(self.numbers.steps())
                && amount.is_ok_and(|it| self.numbers.derive(it, &self.call.borrow(), self.effort))
        }
    }

    /// Returns true if a source contains a number as an id with a version: `7.12v1`.
    pub(super) fn has_version_of(&self, digits: &str) -> bool {
        self.effort.spend(self.text.len() / SEARCHED_BYTES_PER_STEP)
            && memchr::memmem::find(self.text.as_bytes(), format!(" {digits}v").as_bytes())
                .is_some()
    }

    /// Returns true if a text is a known date; `None` if it is no date.
    pub(super) fn has_date(&self, text: &str) -> Option<bool> {
        if text.len() > DATE_BYTES_MAX {
            return None;
        }
        let mut all = Vec::new();
        words(text, |word| all.push(word.to_owned()));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let date = dates::of_text(&all)?;
        Some(self.dates.hold(date, &self.words, self.start_ns))
    }

    /// Returns true if a text is the code of something named: `SEA` after Seattle.
    pub(super) fn has_code(&self, text: &str) -> bool {
        let is_code = (3..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase());
        let names = |line: &'static str| line.strip_prefix(text)?.strip_prefix(' ');
        let is_named = |name: &str| {
            self.effort.spend(self.text.len() / SEARCHED_BYTES_PER_STEP)
                && memchr::memmem::find(self.text.as_bytes(), format!(" {name} ").as_bytes())
                    .is_some()
        };
        is_code && CODES.lines().filter_map(names).any(is_named)
    }

    /// Charges the steps to check an argument's value; `false` if the budget is spent.
    pub(super) fn look_at(&self, value: &Value<'_>) -> bool {
        self.effort.spend(match value {
            Value::String(text) => VALUE_STEPS + text.len() * ARGUMENT_STEPS_PER_BYTE,
            Value::Number(_) => NUMBER_STEPS,
            _ => VALUE_STEPS,
        })
    }

    /// Returns true if a source contains a text unchanged.
    pub(super) fn has_whole(&self, text: &str) -> bool {
        let text = format!(" {} ", plain(text));
        self.effort.spend(self.text.len() / SEARCHED_BYTES_PER_STEP)
            && memchr::memmem::find(self.text.as_bytes(), text.as_bytes()).is_some()
    }

    pub(super) fn hold(&self, text: &str, min_length: usize) -> bool {
        // Short numbers occur anywhere: the last part of an id is no evidence without the others.
        let is_short =
            |word: &str| word.len() < min_length && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_one = !text.contains(char::is_whitespace);
        let text = plain(text);
        let is_id = is_one && text.contains(' ') && text.split(' ').any(is_short);
        if is_id {
            return self.has_whole(&text);
        }
        let is_amount = |word: &str| word.contains('.') && self.numbers.hold(word);
        let is_known = |word: &str| {
            word.chars().count() < min_length || self.words.contains(word) || is_amount(word)
        };
        // The word search is cheap. The substring search covers scripts without spaces and parts of
        // words.
        text.split(' ').all(is_known) || {
            self.searched_bytes.set(self.searched_bytes.get() + self.text.len());
            self.searched_bytes.get() <= SEARCHED_BYTES_MAX
                && self.effort.spend(self.text.len() / SEARCHED_BYTES_PER_STEP)
                && memchr::memmem::find(self.text.as_bytes(), text.as_bytes()).is_some()
        }
    }
}

/// Returns the messages of operators, users and tools of earlier runs by time, each once, since
/// models receive the session's history again in each turn. Excludes results of the trajectory's
/// own calls.
pub(super) fn heard<'t>(trajectory: &'t Trajectory<'_>) -> Vec<HeardText<'t>> {
    let text = |(since_ns, text): (u64, String)| HeardText {
        since_ns,
        origin: TextOrigin::Operator,
        id: Cow::Borrowed(""),
        value: text.into(),
    };
    let texts = operator::texts(trajectory);
    let instructions: Vec<String> = texts.iter().map(|(_, text)| text.clone()).collect();
    let mut list: Vec<HeardText<'t>> = texts.into_iter().map(text).collect();
    let turns = trajectory.exchanges.iter().zip(trajectory.turn_starts.iter().skip(1));
    list.extend(turns.filter_map(|(exchange, since_ns)| {
        let value = exchange.user_input.value()?.clone();
        let id = Cow::Borrowed("");
        Some(HeardText { since_ns: *since_ns, origin: TextOrigin::User, id, value })
    }));
    let given = trajectory.heard.iter().flat_map(|texts| texts.get(&trajectory.effort));
    let input = trajectory.user_input.value();
    let is_known = |heard: &HeardText<'_>| {
        Some(&heard.value) == input
            || instructions.iter().any(|it| heard.value.as_str() == Some(it))
    };
    let own = LazyCell::new(|| OwnResults::of(trajectory));
    let is_own = |heard: &HeardText<'_>| heard.origin == TextOrigin::Tool && own.hold(heard);
    let tasks = LazyCell::new(|| delegated(trajectory));
    let is_task =
        |heard: &HeardText<'_>| heard.origin != TextOrigin::Tool && is_given(&tasks, heard);
    let is_new = |heard: &&HeardText<'_>| !is_known(heard) && !is_own(heard) && !is_task(heard);
    list.extend(given.filter(is_new).cloned());
    list.sort_by_key(|heard| heard.since_ns);
    let mut known: HashSet<u64> = HashSet::new();
    list.retain(|heard| {
        let text = heard.value.to_string();
        trajectory.effort.spend(text.len())
            && known.insert(known.hasher().hash_one((heard.origin, text)))
    });
    list
}

/// Fewest characters of a text that may be a model's task for a sub-agent, and the limit on such
/// texts.
const TASK_CHARS_MIN: usize = 12;
const TASKS_MAX: usize = 64;

/// Collects the texts in the arguments of the run's calls, each with the start of its call. A model
/// may write the task of its sub-agent there.
fn delegated(trajectory: &Trajectory<'_>) -> Vec<(u64, String)> {
    let arguments = |call: &ToolCall<'_>| -> Vec<String> {
        let values = call.arguments.value().and_then(Value::as_map).into_iter().flat_map(Map::iter);
        let texts = values.filter_map(|(_, value)| value.as_str()).map(str::trim);
        let is_long = |text: &&str| text.chars().take(TASK_CHARS_MIN).count() == TASK_CHARS_MIN;
        texts.filter(is_long).map(str::to_owned).collect()
    };
    let texts = trajectory
        .tool_calls
        .iter()
        .flat_map(|call| arguments(call).into_iter().map(|text| (call.start_ns, text)));
    texts.take_while(|(_, text)| trajectory.effort.spend(text.len())).take(TASKS_MAX).collect()
}

/// Returns true if a message repeats an earlier call's argument: the model wrote it, whatever its
/// role is.
fn is_given(tasks: &[(u64, String)], heard: &HeardText<'_>) -> bool {
    let said = heard.value.as_str().map(str::trim);
    said.is_some_and(|said| {
        tasks.iter().any(|(since, task)| *since <= heard.since_ns && task == said)
    })
}

/// Recorded results of the run's own calls.
#[derive(Default)]
struct OwnResults<'t> {
    /// Start of the first call of each id: an earlier result belongs to another call with this id.
    since: HashMap<&'t str, u64>,
    /// Hashes of ids and results: a surrounding span may contain them from its start.
    told: HashSet<u64>,
}

impl<'t> OwnResults<'t> {
    fn of(trajectory: &'t Trajectory<'_>) -> Self {
        let mut own = Self::default();
        for call in &trajectory.tool_calls {
            let id = call.id.as_deref().filter(|id| !id.is_empty());
            let (Some(id), Some(result)) = (id, call.result.value()) else { continue };
            // A call known only from a history has the time of the model that received it.
            let start_ns = if call.is_repeated { 0 } else { call.start_ns };
            own.since
                .entry(id)
                .and_modify(|first| *first = start_ns.min(*first))
                .or_insert(start_ns);
            let text = result.to_string();
            trajectory.effort.spend(text.len());
            own.told.insert(own.told.hasher().hash_one((id, text)));
        }
        own
    }

    /// Returns true if a model's result message is one of these.
    fn hold(&self, heard: &HeardText<'_>) -> bool {
        let hash = || self.told.hasher().hash_one((&*heard.id, heard.value.to_string()));
        self.since
            .get(&*heard.id)
            .is_some_and(|start_ns| *start_ns <= heard.since_ns || self.told.contains(&hash()))
    }
}
