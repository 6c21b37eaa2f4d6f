//! Score metrics: counts and histograms, with bounded series.
//!
//! A series belongs to one source (a service or a version of it, and an agent) and one evaluator.
//! Strangers choose the names of services and agents. Beyond `series_max` new series are counted
//! per evaluator in the overflow source, so everything is counted, if unnamed. A sender has at most
//! four times as many series as are left, so one that invents names leaves some to others.

mod identity;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use self::identity::ServiceIdentity;
use spanscore_base::model::{
    Evaluation, EvaluatorInfo, MemoryQuota, Outcome, Resource, Sender, SenderShares,
};
use spanscore_base::settings::HumanDuration;
pub(crate) use spanscore_net::clock::now_ns;

/// Upper bounds of the histogram's buckets; the first holds only zeros.
pub(crate) const BOUNDS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// Outcome and label of each counter in [`Series::counts`].
pub(crate) const ANSWERS: [(&str, Option<&str>); 4] =
    [("scored", Some("pass")), ("scored", Some("fail")), ("not_evaluable", None), ("failed", None)];

/// Longest name of a service or an agent in a series, bytes; a longer one is cut and ends in `…`. A
/// scraper transfers these names with every series.
pub(crate) const NAME_BYTES_MAX: usize = 200;
/// Largest encoded resource with series of its own, bytes.
const RESOURCE_BYTES_MAX: usize = 16 << 10;

/// Memory of a source beside its names and series, bytes.
const SOURCE_BYTES: usize = 2 * size_of::<ScoreSource>() + 140;
/// Memory of a series in a growing vector, bytes.
const SERIES_BYTES: usize = 2 * size_of::<Series>();

/// Default time without an evaluation after which a series is dropped.
pub(crate) const SERIES_IDLE: HumanDuration = HumanDuration::from_secs(60 * 60);

/// Returns a name as shown in a series.
fn shown(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME_BYTES_MAX {
        return Cow::Borrowed(name);
    }
    let cut = name.floor_char_boundary(NAME_BYTES_MAX);
    Cow::Owned(format!("{}…", &name[..cut]))
}

/// Grouping of services into sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grouping {
    /// By service name: few series, for the process's metrics endpoint.
    Service,
    /// By name, namespace and version of the service, as dashboards group. Other attributes such as
    /// `service.instance.id` change at each start of a process.
    Version,
}

/// Source of evaluations: a service and an agent.
#[derive(Default)]
pub(crate) struct ScoreSource {
    /// Resource to show, from the first evaluation; `None` for the overflow source.
    pub(crate) resource: Option<Arc<Resource>>,
    /// Name of the agent, empty if unknown.
    pub(crate) agent: String,
    /// Series, one per evaluator, in order of appearance.
    pub(crate) series: Vec<Series>,
    /// Bytes charged to the quota for it, without its series.
    bytes: usize,
    /// Sender of its first evaluation, to which its series count.
    sender: Sender,
}

/// Counts of one evaluator at one source.
#[derive(Clone)]
pub(crate) struct Series {
    pub(crate) evaluator: Arc<EvaluatorInfo>,
    /// Evaluations by [`ANSWERS`].
    pub(crate) counts: [u64; 4],
    /// Revised verdicts, by [`ANSWERS`].
    pub(crate) superseded: [u64; 4],
    /// Start of counting, Unix nanoseconds; 0 for the start of the process.
    pub(crate) start_ns: u64,
    /// Time of the last count, Unix nanoseconds.
    last_ns: u64,
    /// Scores by bucket, not cumulative; the last holds scores beyond all [`BOUNDS`].
    pub(crate) buckets: [u64; BOUNDS.len() + 1],
    /// Sum of the scores.
    pub(crate) sum: f64,
}

impl Series {
    fn new(evaluator: &Arc<EvaluatorInfo>, start_ns: u64) -> Self {
        Self {
            evaluator: evaluator.clone(),
            counts: [0; 4],
            superseded: [0; 4],
            start_ns,
            last_ns: 0,
            buckets: [0; BOUNDS.len() + 1],
            sum: 0.0,
        }
    }

    /// Returns the number of scores in the histogram.
    pub(crate) fn scored(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn add(&mut self, evaluation: &Evaluation, now_ns: u64) {
        self.counts[evaluation.verdict() as usize] += 1;
        if let Some(superseded) = evaluation.supersedes {
            self.superseded[superseded as usize] += 1;
        }
        self.last_ns = now_ns;
        if let Outcome::Scored(score) = &evaluation.outcome
            && score.value.is_finite()
        {
            self.buckets[BOUNDS.partition_point(|bound| *bound < score.value)] += 1;
            self.sum += score.value;
        }
    }
}

/// Identity of a resource, and the name of an agent.
type ScoreSourceKey<'k> = (Cow<'k, [u8]>, Cow<'k, str>);

/// Score metrics of one exporter.
pub(crate) struct Scores {
    grouping: Grouping,
    /// Start of counting, Unix nanoseconds.
    pub(crate) start_ns: u64,
    table: Mutex<ScoreTable>,
    /// Number of cut names.
    cut: Arc<AtomicU64>,
}

pub(crate) struct ScoreTable {
    /// Quota of the number of series, and the number per sender.
    counts: Arc<MemoryQuota>,
    by_sender: SenderShares,
    /// Time without an evaluation after which a series is dropped, nanoseconds; 0 for never.
    idle_ns: u64,
    /// Memory quota of the series of all exporters.
    share: Arc<MemoryQuota>,
    places: HashMap<ScoreSourceKey<'static>, usize>,
    sources: Vec<ScoreSource>,
    overflow: Option<ScoreSource>,
    /// Time of the last expiry, Unix nanoseconds: restarted series count from then on.
    expired_ns: u64,
}

impl Scores {
    pub(crate) fn new(
        grouping: Grouping,
        series_max: usize,
        idle: HumanDuration,
        share: Arc<MemoryQuota>,
    ) -> Self {
        let table = ScoreTable {
            counts: MemoryQuota::new("series_max", series_max),
            by_sender: SenderShares::default(),
            idle_ns: idle.as_ns(),
            share,
            places: HashMap::new(),
            sources: Vec::new(),
            overflow: None,
            expired_ns: 0,
        };
        Self { grouping, start_ns: now_ns(), table: Mutex::new(table), cut: Arc::default() }
    }

    /// Sets other limits; existing series stay, even beyond the limit.
    pub(crate) fn limit(&self, series_max: usize, idle: HumanDuration) {
        let mut table = self.table.lock();
        table.counts.resize(series_max);
        table.idle_ns = idle.as_ns();
    }

    /// Returns the grouping of its sources.
    pub(crate) fn grouping(&self) -> Grouping {
        self.grouping
    }

    /// Returns the counter of cut names, incremented at each occurrence.
    pub(crate) fn cut_names(&self) -> &Arc<AtomicU64> {
        &self.cut
    }

    /// Counts evaluations. The lock is held for some nanoseconds per evaluation.
    pub(crate) fn record(&self, evaluations: &[Evaluation]) {
        self.record_at(evaluations, now_ns());
    }

    fn record_at(&self, evaluations: &[Evaluation], now_ns: u64) {
        let mut table = self.table.lock();
        let same_source = |a: &Evaluation, b: &Evaluation| {
            let a = &a.target;
            let b = &b.target;
            Arc::ptr_eq(a, b)
                || (Arc::ptr_eq(&a.resource, &b.resource) && a.agent_name == b.agent_name)
        };
        for group in evaluations.chunk_by(same_source) {
            let Some(first) = group.first() else { continue };
            self.count_cut(first);
            let place = table.place(self.grouping, first);
            for evaluation in group {
                table.series(place, evaluation).add(evaluation, now_ns);
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

    /// Drops series idle too long at `now_ns`, then calls `read` with each source, the overflow
    /// source last.
    pub(crate) fn read(&self, now_ns: u64, read: impl FnMut(&ScoreSource)) {
        let mut table = self.table.lock();
        let idle_ns = table.idle_ns;
        if idle_ns > 0 {
            table.expire(now_ns, idle_ns);
        }
        table.sources.iter().chain(&table.overflow).for_each(read);
    }
}

impl ScoreTable {
    /// Returns the index of the source, added if it fits; `None` for the overflow source.
    fn place(&mut self, grouping: Grouping, evaluation: &Evaluation) -> Option<usize> {
        let resource = &evaluation.target.resource;
        if resource.encoded.len() > RESOURCE_BYTES_MAX {
            return None;
        }
        let identity = ServiceIdentity::of(resource, grouping);
        let agent = shown(evaluation.target.agent_name.as_deref().unwrap_or_default());
        let source = &identity.key()[..];
        let agent = &*agent;
        if let Some(place) = self.places.get(&(Cow::Borrowed(source), Cow::Borrowed(agent))) {
            return Some(*place);
        }
        let sender = evaluation.target.sender;
        if !self.has_room(sender) {
            return None;
        }
        let resource = identity.resource();
        let bytes = SOURCE_BYTES + source.len() + 2 * agent.len() + resource.bytes();
        if !self.share.try_take(bytes) {
            return None;
        }
        let place = self.sources.len();
        let key = (Cow::Owned(source.to_owned()), Cow::Owned(agent.to_owned()));
        self.places.insert(key, place);
        let resource = Some(Arc::new(resource));
        let agent = agent.to_owned();
        self.sources.push(ScoreSource { resource, agent, series: Vec::new(), bytes, sender });
        Some(place)
    }

    /// Drops series without a count for `idle_ns`, and sources without series.
    fn expire(&mut self, now_ns: u64, idle_ns: u64) {
        let is_idle = |series: &Series| now_ns.saturating_sub(series.last_ns) > idle_ns;
        let goes =
            |source: &ScoreSource| source.series.is_empty() || source.series.iter().any(is_idle);
        if !self.sources.iter().any(goes) {
            return;
        }
        let held = self.held();
        let mut moved = Vec::with_capacity(self.sources.len());
        let mut kept = 0;
        self.sources.retain_mut(|source| {
            source.series.retain(|series| !is_idle(series));
            source.series.shrink_to_fit();
            let stays = !source.series.is_empty();
            moved.push(stays.then_some(kept));
            kept += usize::from(stays);
            stays
        });
        self.places.retain(|_, place| match moved.get(*place).copied().flatten() {
            Some(moved) => {
                *place = moved;
                true
            }
            None => false,
        });
        self.sources.shrink_to_fit();
        self.places.shrink_to_fit();
        self.share.change(held, self.held());
        self.counts.change(self.counts.held(), 0);
        self.by_sender = SenderShares::default();
        for source in &self.sources {
            let count = source.series.len();
            self.counts.take(count);
            self.by_sender.add(source.sender, count);
        }
        self.expired_ns = now_ns;
    }

    /// Returns true if a sender may have one more series.
    fn has_room(&self, sender: Sender) -> bool {
        self.by_sender.has_room(&self.counts, sender, 1)
    }

    /// Returns the bytes charged to the quota for the sources and their series.
    fn held(&self) -> usize {
        let held = |source: &ScoreSource| source.bytes + source.series.len() * SERIES_BYTES;
        self.sources.iter().map(held).sum()
    }

    fn series(&mut self, place: Option<usize>, evaluation: &Evaluation) -> &mut Series {
        let evaluator = &evaluation.evaluator;
        let known = place.and_then(|place| self.sources.get(place));
        let has_room = known.is_some_and(|source| self.has_room(source.sender));
        if let Some(source) = place.and_then(|place| self.sources.get_mut(place)) {
            let found = find(&source.series, evaluator);
            if found.is_some() || has_room && self.share.try_take(SERIES_BYTES) {
                let more = usize::from(found.is_none());
                self.counts.take(more);
                self.by_sender.add(source.sender, more);
                return found_or_new(&mut source.series, found, evaluator, self.expired_ns);
            }
        }
        let source = self.overflow.get_or_insert_default();
        let found = find(&source.series, evaluator);
        found_or_new(&mut source.series, found, evaluator, 0)
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
    start_ns: u64,
) -> &'a mut Series {
    let place = found.unwrap_or(series.len());
    if found.is_none() {
        series.push(Series::new(evaluator, start_ns));
    }
    &mut series[place]
}

#[cfg(test)]
mod tests;
