//! Counts and histograms of scores, with bounded series.
//!
//! A series belongs to one source (a service or a resource, and an agent) and one evaluator. Names
//! of services and agents are chosen by strangers, so beyond `series_max` series whatever is new
//! is counted per evaluator in the overflow source: nothing goes uncounted, only unnamed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::{Equivalent, HashMap};

use crate::model::{Evaluation, EvaluatorInfo, Label, Outcome, Resource, Share};

/// Upper bounds of the histogram's buckets; zeros stand in the first alone.
pub(crate) const BOUNDS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// Outcome and label of each counter in [`Series::counts`].
pub(crate) const ANSWERS: [(&str, Option<&str>); 4] =
    [("scored", Some("pass")), ("scored", Some("fail")), ("not_evaluable", None), ("failed", None)];

/// Longest name of a service or an agent in a series, bytes; of a longer one the rest is cut, and
/// `…` stands at its end. A scraper takes each of them with every series.
pub(crate) const NAME_BYTES_MAX: usize = 200;
/// Largest encoded resource that has series of its own.
const RESOURCE_BYTES_MAX: usize = 16 << 10;

/// Bytes that a source takes beside its names and its series.
const SOURCE_BYTES: usize = 2 * size_of::<ScoreSource>() + 100;

/// The name as a series shows it.
fn shown(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME_BYTES_MAX {
        return Cow::Borrowed(name);
    }
    let cut = name.floor_char_boundary(NAME_BYTES_MAX);
    Cow::Owned(format!("{}…", &name[..cut]))
}

/// What tells sources apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grouping {
    /// The service's name: few series, for the process's own metrics endpoint.
    Service,
    /// The whole resource: each judged process has its own, as OTLP wants it.
    Resource,
}

/// Where evaluations come from.
pub(crate) struct ScoreSource {
    /// What is shown of the resource seen first; `None` for the overflow source.
    pub(crate) resource: Option<Arc<Resource>>,
    /// The agent, empty when unknown.
    pub(crate) agent: String,
    /// One for each evaluator, in order of appearance.
    pub(crate) series: Vec<Series>,
}

/// The counts of one evaluator at one source.
#[derive(Clone)]
pub(crate) struct Series {
    pub(crate) evaluator: Arc<EvaluatorInfo>,
    /// By [`ANSWERS`].
    pub(crate) counts: [u64; 4],
    /// Scores by bucket, not cumulative; the last holds what is beyond all [`BOUNDS`].
    pub(crate) buckets: [u64; BOUNDS.len() + 1],
    /// Sum of the scores.
    pub(crate) sum: f64,
}

impl Series {
    fn new(evaluator: &Arc<EvaluatorInfo>) -> Self {
        let buckets = [0; BOUNDS.len() + 1];
        Self { evaluator: evaluator.clone(), counts: [0; 4], buckets, sum: 0.0 }
    }

    /// How many scores the histogram holds.
    pub(crate) fn scored(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn add(&mut self, evaluation: &Evaluation) {
        let answer = match (&evaluation.outcome, evaluation.label()) {
            (Outcome::Scored(_), Some(Label::Pass)) => 0,
            (Outcome::Scored(_), _) => 1,
            (Outcome::NotEvaluable { .. }, _) => 2,
            (Outcome::Failed { .. }, _) => 3,
        };
        self.counts[answer] += 1;
        if let Outcome::Scored(score) = &evaluation.outcome
            && score.value.is_finite()
        {
            self.buckets[BOUNDS.partition_point(|bound| *bound < score.value)] += 1;
            self.sum += score.value;
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
struct ScoreSourceKey {
    source: Box<[u8]>,
    agent: Box<str>,
}

#[derive(Hash)]
struct ScoreSourceKeyRef<'a> {
    source: &'a [u8],
    agent: &'a str,
}

impl Equivalent<ScoreSourceKey> for ScoreSourceKeyRef<'_> {
    fn equivalent(&self, key: &ScoreSourceKey) -> bool {
        *self.source == *key.source && *self.agent == *key.agent
    }
}

/// All series of one exporter.
pub(crate) struct Scores {
    grouping: Grouping,
    table: Mutex<ScoreTable>,
    /// Names that were cut.
    cut: Arc<AtomicU64>,
}

pub(crate) struct ScoreTable {
    series_max: usize,
    /// What the series of all exporters hold.
    share: Arc<Share>,
    places: HashMap<ScoreSourceKey, usize>,
    sources: Vec<ScoreSource>,
    series_count: usize,
    overflow: Option<ScoreSource>,
}

impl Scores {
    pub(crate) fn new(grouping: Grouping, series_max: usize, share: Arc<Share>) -> Self {
        let table = ScoreTable {
            series_max,
            share,
            places: HashMap::new(),
            sources: Vec::new(),
            series_count: 0,
            overflow: None,
        };
        Self { grouping, table: Mutex::new(table), cut: Arc::default() }
    }

    /// Names of services and agents that were cut, each as often as it came.
    pub(crate) fn cut_names(&self) -> &Arc<AtomicU64> {
        &self.cut
    }

    /// Counts evaluations. The lock is held for some nanoseconds for each.
    pub(crate) fn record(&self, evaluations: &[Evaluation]) {
        let mut table = self.lock();
        let same_source = |a: &Evaluation, b: &Evaluation| {
            let (a, b) = (&a.target, &b.target);
            Arc::ptr_eq(a, b)
                || (Arc::ptr_eq(&a.resource, &b.resource) && a.agent_name == b.agent_name)
        };
        for group in evaluations.chunk_by(same_source) {
            let Some(first) = group.first() else { continue };
            self.count_cut(first);
            let place = table.place(self.grouping, first);
            for evaluation in group {
                table.series(place, evaluation).add(evaluation);
            }
        }
    }

    fn count_cut(&self, evaluation: &Evaluation) {
        let target = &evaluation.target;
        let agent = target.agent_name.as_deref().unwrap_or_default();
        let names = [&*target.resource.service_name, agent];
        let cut = names.iter().filter(|name| name.len() > NAME_BYTES_MAX).count();
        if cut > 0 {
            self.cut.fetch_add(cut as u64, Ordering::Relaxed);
        }
    }

    /// Calls `read` with each source, the overflow source last.
    pub(crate) fn read(&self, read: impl FnMut(&ScoreSource)) {
        let table = self.lock();
        table.sources.iter().chain(&table.overflow).for_each(read);
    }

    fn lock(&self) -> MutexGuard<'_, ScoreTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScoreTable {
    /// Where the source stands; `None` for the overflow source.
    fn place(&mut self, grouping: Grouping, evaluation: &Evaluation) -> Option<usize> {
        let resource = &evaluation.target.resource;
        let service = shown(&resource.service_name);
        let source = match grouping {
            Grouping::Service => service.as_bytes(),
            Grouping::Resource => &resource.encoded,
        };
        let agent = shown(evaluation.target.agent_name.as_deref().unwrap_or_default());
        let agent = &*agent;
        if let Some(place) = self.places.get(&ScoreSourceKeyRef { source, agent }) {
            return Some(*place);
        }
        let bytes = SOURCE_BYTES + 2 * (source.len() + service.len() + agent.len());
        let is_full = self.series_count >= self.series_max || source.len() > RESOURCE_BYTES_MAX;
        if is_full || !self.share.try_take(bytes) {
            return None;
        }
        let place = self.sources.len();
        self.places.insert(ScoreSourceKey { source: source.into(), agent: agent.into() }, place);
        let kept = match grouping {
            Grouping::Resource => Arc::clone(resource),
            // The rest of it would be held for nothing.
            Grouping::Service => {
                Arc::new(Resource { encoded: Vec::new(), service_name: service.into() })
            }
        };
        let agent = agent.to_owned();
        self.sources.push(ScoreSource { resource: Some(kept), agent, series: Vec::new() });
        Some(place)
    }

    fn series(&mut self, place: Option<usize>, evaluation: &Evaluation) -> &mut Series {
        let evaluator = &evaluation.evaluator;
        let has_room = self.series_count < self.series_max;
        if let Some(source) = place.and_then(|place| self.sources.get_mut(place)) {
            let found = find(&source.series, evaluator);
            if found.is_some() || has_room && self.share.try_take(2 * size_of::<Series>()) {
                self.series_count += usize::from(found.is_none());
                return found_or_new(&mut source.series, found, evaluator);
            }
        }
        let source = self.overflow.get_or_insert_with(|| ScoreSource {
            resource: None,
            agent: String::new(),
            series: Vec::new(),
        });
        let found = find(&source.series, evaluator);
        found_or_new(&mut source.series, found, evaluator)
    }
}

fn find(series: &[Series], evaluator: &Arc<EvaluatorInfo>) -> Option<usize> {
    series
        .iter()
        .position(|s| Arc::ptr_eq(&s.evaluator, evaluator))
        .or_else(|| series.iter().position(|s| s.evaluator.name == evaluator.name))
}

fn found_or_new<'a>(
    series: &'a mut Vec<Series>,
    found: Option<usize>,
    evaluator: &Arc<EvaluatorInfo>,
) -> &'a mut Series {
    let place = found.unwrap_or(series.len());
    if found.is_none() {
        series.push(Series::new(evaluator));
    }
    &mut series[place]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::sample;
    use crate::model::Memory;

    fn counts(scores: &Scores) -> Vec<(String, String, [u64; 4])> {
        let mut all = Vec::new();
        scores.read(|source| {
            let name = source.resource.as_ref().map_or("overflow", |r| &r.service_name);
            for series in &source.series {
                all.push((name.to_owned(), source.agent.clone(), series.counts));
            }
        });
        all
    }

    fn from(agent: &str) -> Evaluation {
        let mut evaluation = sample::scored(1.0);
        Arc::make_mut(&mut evaluation.target).agent_name = Some(agent.into());
        evaluation
    }

    #[test]
    fn answers_are_counted_by_outcome_and_label() {
        let scores = Scores::new(Grouping::Service, 10, Memory::default().series);
        let (pass, fail) = (sample::scored(1.0), sample::scored(0.5));
        scores.record(&[pass.clone(), fail, pass, sample::not_evaluable(), sample::failed()]);
        assert_eq!(counts(&scores), [("shop".into(), "refunds".into(), [2, 1, 1, 1])]);
        scores.read(|source| {
            let series = &source.series[0];
            assert_eq!((series.scored(), series.sum), (3, 2.5));
            assert_eq!((series.buckets[5], series.buckets[10]), (1, 2));
        });
    }

    #[test]
    fn series_beyond_the_limit_are_counted_together() {
        let scores = Scores::new(Grouping::Service, 2, Memory::default().series);
        scores.record(&[from("a"), from("b"), from("c"), from("d"), from("a")]);
        let one = |name: &str, agent: &str, n| (name.into(), agent.into(), [n, 0, 0, 0]);
        assert_eq!(
            counts(&scores),
            [one("shop", "a", 2), one("shop", "b", 1), one("overflow", "", 2)]
        );
    }

    #[test]
    fn names_that_are_too_long_are_cut_and_resources_that_are_counted_together() {
        let scores = Scores::new(Grouping::Service, 10, Memory::default().series);
        let long = "é".repeat(1 << 20);
        scores.record(&[from(&long), from(&format!("{long}x"))]);
        let expected = format!("{}…", "é".repeat(NAME_BYTES_MAX / 2));
        assert_eq!(counts(&scores), [("shop".into(), expected, [2, 0, 0, 0])]);
        let mut large = sample::scored(1.0);
        let resource = Resource { encoded: vec![0; RESOURCE_BYTES_MAX + 1], ..Default::default() };
        Arc::make_mut(&mut large.target).resource = Arc::new(resource);
        let scores = Scores::new(Grouping::Resource, 10, Memory::default().series);
        scores.record(&[large]);
        assert_eq!(counts(&scores), [("overflow".into(), String::new(), [1, 0, 0, 0])]);
    }

    #[test]
    fn equal_resources_share_series_and_others_do_not() {
        let (a, b, mut c) = (sample::scored(1.0), sample::scored(1.0), sample::scored(1.0));
        Arc::make_mut(&mut c.target).resource =
            Arc::new(Resource { encoded: Vec::new(), service_name: "shop".into() });
        let all = [a, b, c];
        for (grouping, sources) in [(Grouping::Service, 1), (Grouping::Resource, 2)] {
            let scores = Scores::new(grouping, 10, Memory::default().series);
            scores.record(&all);
            assert_eq!(counts(&scores).len(), sources, "{grouping:?}");
        }
    }
}
