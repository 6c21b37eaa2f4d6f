use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Returns the sender at an index of the tree: two connections for each peer.
fn sender(number: u8) -> Sender {
    of(u32::from(number / 2), u16::from(number % 2))
}

fn of(peer: u32, connection: u16) -> Sender {
    Sender { peer, connection, ..Sender::default() }
}

/// One step of holders.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A sender opens a trace with this many bytes.
    Open(u8, usize),
    /// The n-th trace becomes that of a running agent.
    Agent(usize),
    /// The root of the n-th trace ends.
    End(usize),
    /// The n-th trace was judged.
    Remember(usize),
    /// The n-th trace is forgotten.
    Forget(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..8_u8, 1..5_000_usize).prop_map(|(sender, bytes)| Step::Open(sender, bytes)),
        3 => (0..500_usize).prop_map(Step::Agent),
        2 => (0..500_usize).prop_map(Step::End),
        2 => (0..500_usize).prop_map(Step::Remember),
        2 => (0..500_usize).prop_map(Step::Forget),
    ];
    vec(step, 1..300)
}

/// Traces, oldest first: slot number, sender, class and bytes.
#[derive(Default)]
struct Model {
    traces: Vec<(u32, u8, TraceClass, usize)>,
    free: Vec<u32>,
    opened: u32,
}

impl Model {
    fn step(&mut self, shares: &mut Shares, step: Step) {
        let at = |nth: usize| (!self.traces.is_empty()).then(|| nth % self.traces.len());
        match step {
            Step::Open(number, bytes) => {
                let trace = self.free.pop().unwrap_or_else(|| {
                    self.opened += 1;
                    self.opened - 1
                });
                shares.join(trace, sender(number), "a");
                shares.set(trace, TraceClass::Plain, bytes);
                self.traces.push((trace, number, TraceClass::Plain, bytes));
            }
            Step::Agent(nth) | Step::End(nth) | Step::Remember(nth) => {
                let class = match step {
                    Step::Agent(_) => TraceClass::Running,
                    Step::End(_) => TraceClass::Complete,
                    _ => TraceClass::Remembered,
                };
                let Some(at) = at(nth).filter(|at| self.traces[*at].2 != class) else { return };
                let (trace, number, _, bytes) = self.traces.remove(at);
                shares.put(trace, class);
                self.traces.push((trace, number, class, bytes));
            }
            Step::Forget(nth) => {
                let Some(at) = at(nth) else { return };
                let (trace, ..) = self.traces.remove(at);
                shares.leave(trace);
                self.free.push(trace);
            }
        }
    }

    /// Returns the holding of a peer or connection by a measure.
    fn holding(&self, measure: Measure, is_part: impl Fn(u8) -> bool) -> usize {
        let own = self.traces.iter().filter(|(_, number, ..)| is_part(*number));
        own.map(|&(_, _, class, bytes)| match (measure, class) {
            (Measure::RememberedBytes, TraceClass::Remembered) => bytes,
            (Measure::OpenTraces, TraceClass::Plain) => PLAIN_WEIGHT,
            (Measure::OpenTraces, TraceClass::Running | TraceClass::Complete) => 1,
            (Measure::OpenBytes, TraceClass::Plain) => bytes * PLAIN_WEIGHT,
            (Measure::OpenBytes, TraceClass::Running | TraceClass::Complete) => bytes,
            _ => 0,
        })
        .sum()
    }

    fn check(&self, shares: &Shares) {
        for measure in [Measure::OpenTraces, Measure::OpenBytes, Measure::RememberedBytes] {
            let most = (0..4).map(|peer| self.holding(measure, |it| it / 2 == peer)).max();
            let Some(next) = shares.next(measure) else {
                assert_eq!(most, Some(0), "{measure:?}: somebody holds some");
                continue;
            };
            let found = self.traces.iter().find(|(trace, ..)| *trace == next);
            let &(_, number, class, _) = found.expect("it is at hand");
            let peer = self.holding(measure, |it| it / 2 == number / 2);
            let own = self.holding(measure, |it| it == number);
            let most_of_peer = own.max(self.holding(measure, |it| it == number ^ 1));
            assert!(peer * 9 >= most.unwrap_or(0) * 8, "{measure:?}: another peer holds more");
            assert!(own * 9 >= most_of_peer * 8, "{measure:?}: its other connection holds more");
            let same = |wanted| {
                let is_same =
                    move |it: &&(u32, u8, TraceClass, usize)| (it.1, it.2) == (number, wanted);
                self.traces.iter().filter(is_same).map(|it| it.0).collect::<Vec<_>>()
            };
            let gone = match (measure, class) {
                (Measure::RememberedBytes, _) => vec![],
                (_, TraceClass::Plain) => vec![],
                (_, TraceClass::Complete) => vec![TraceClass::Plain],
                (..) => vec![TraceClass::Plain, TraceClass::Complete],
            };
            assert!(gone.into_iter().all(|before| same(before).is_empty()), "{class:?} goes later");
            let own = same(class);
            let first = if class == TraceClass::Running { own.last() } else { own.first() };
            assert_eq!(first, Some(&next), "{class:?}");
        }
    }
}

proptest! {
    #[test]
    fn largest_holder_is_evicted_first_and_agents_last(steps in steps()) {
        let mut shares = Shares::default();
        let mut model = Model::default();
        for step in steps {
            model.step(&mut shares, step);
            model.check(&shares);
        }
        for (trace, ..) in model.traces.drain(..) {
            shares.leave(trace);
        }
        prop_assert!(shares.by_key.is_empty() && shares.holders[0].parts == 0);
        prop_assert_eq!(shares.holders.len(), shares.free.len() + 1);
        prop_assert!(shares.holders[0].below.iter().all(BTreeSet::is_empty));
    }

    #[test]
    fn ranks_are_in_order_and_within_an_eighth(
        small in 0..1_usize << 40, more in 0..1_usize << 40,
    ) {
        let large = small + more;
        prop_assert!(rank(small) <= rank(large));
        if rank(small) == rank(large) {
            prop_assert!(large - small <= small / 8);
        }
    }
}

/// Returns the sender whose trace is removed next, after each has opened this many.
fn loser(held: &[(Sender, &str, usize)]) -> Option<usize> {
    let mut shares = Shares::default();
    let mut of = Vec::new();
    for (at, (sender, service, count)) in held.iter().enumerate() {
        for _ in 0..*count {
            shares.join(of.len() as u32, *sender, service);
            shares.put(of.len() as u32, TraceClass::Running);
            of.push(at);
        }
    }
    shares.next(Measure::OpenTraces).map(|trace| of[trace as usize])
}

#[test]
fn many_connections_of_one_address_count_together() {
    let victim = (of(9, 0), "v", 50);
    let mut flood: Vec<_> = (0..20).map(|connection| (of(1, connection), "f", 10)).collect();
    flood.push(victim);
    assert!(loser(&flood).is_some_and(|at| at < 20));
}

#[test]
fn services_of_one_address_hold_apart_as_long_as_they_are_few() {
    let one = of(0, 0);
    assert_eq!(loser(&[(one, "victim", 50), (one, "flood", 60)]), Some(1));
    let mut many = vec![(one, "victim", 50)];
    many.extend((1..20).map(|connection| (of(0, connection), "flood", 10)));
    assert!(loser(&many).is_some_and(|at| at > 0), "many connections hold no more than one");
    let names: Vec<String> = (0..1000).map(|number| format!("flood {number}")).collect();
    let mut held = vec![(one, "victim", 50)];
    held.extend(names.iter().map(|name| (one, name.as_str(), 1)));
    assert!(loser(&held).is_some_and(|at| at > 0));
}

#[test]
fn what_waits_is_held_and_cannot_go() {
    let mut shares = Shares::default();
    for (trace, peer) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
        shares.join(trace, of(peer, 1), "a");
        shares.set(trace, TraceClass::Running, 100);
    }
    shares.set(0, TraceClass::Waiting, 500);
    assert_eq!(shares.next(Measure::OpenBytes), Some(1), "of whoever holds most with what waits");
    shares.put(1, TraceClass::Waiting);
    assert_eq!(shares.next(Measure::OpenBytes), Some(3), "of the next where nothing can go");
    [2, 3].into_iter().for_each(|trace| shares.put(trace, TraceClass::Waiting));
    assert_eq!(shares.next(Measure::OpenBytes), None);
}
