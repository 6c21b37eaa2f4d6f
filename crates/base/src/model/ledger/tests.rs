//! Tests of claims and receipts.

use super::*;

#[test]
fn lowest_position_is_that_of_the_oldest_work() {
    let source = Arc::new(Source::default());
    let first = source.claim(10, 1);
    let second = source.claim(20, 2);
    let again = source.claim(10, 1);
    assert_eq!((source.lowest(), source.claimed_bytes()), (Some(10), 3));
    drop(first);
    assert_eq!(source.lowest(), Some(10), "claimed twice");
    drop(again.clone());
    assert_eq!(source.lowest(), Some(10), "a clone is the same claim");
    drop(again);
    assert_eq!((source.lowest(), source.claim_count()), (Some(20), 1));
    drop(second);
    assert_eq!((source.lowest(), source.claimed_bytes()), (None, 0));
}

#[test]
fn claims_hold_each_record_once() {
    let log = Arc::new(Source::default());
    let partition = Arc::new(Source::default());
    let mut claims = Claims::from(log.claim(7, 1));
    for position in [3, 5, 7] {
        claims.join(&log.claim(position, 1).into());
    }
    claims.join(&partition.claim(1, 1).into());
    let positions: Vec<_> = log.claimed_records().records.iter().map(|it| it.0).collect();
    assert_eq!(positions, [3, 5, 7]);
    assert_eq!((partition.lowest(), claims.positions().count()), (Some(1), 4));
    drop(claims);
    assert_eq!((log.lowest(), partition.lowest()), (None, None));
}

#[test]
fn claims_of_much_work_join_in_any_order() {
    let log = Arc::new(Source::default());
    let of = |positions: &[u64]| {
        positions.iter().map(|at| Claims::from(log.claim(*at, 1))).collect::<Claims>()
    };
    let parts: [&[u64]; 5] = [&[4, 8], &[], &[1, 4, 9], &[2], &[8, 3, 0]];
    let joined: Claims = parts.iter().map(|part| of(part)).collect();
    let mut one_by_one = Claims::default();
    parts.iter().for_each(|part| one_by_one.join(&of(part)));
    let many: Vec<Claim> = (0..10).map(|at| log.claim(at, 1)).collect();
    let kept = many[9].clone();
    let mut tied = of(&[2, 7]);
    tied.notes().add(NoteKind::Judged, log.claim(20, 1).into());
    tied.join(&many.into_iter().map(Claims::from).collect());
    assert_eq!(tied.positions().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    drop(tied);
    assert_eq!(log.claimed_records().records.last(), Some(&(20, 1)), "tied to the last");
    drop(kept);
    for claims in [joined, one_by_one] {
        assert_eq!(claims.positions().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 8, 9]);
    }
    assert_eq!(log.lowest(), None);
}

#[test]
fn all_from_a_position_on_is_claimed_until_that_is_let_go() {
    let log = Arc::new(Source::default());
    let onwards = log.claim(4, 1).onwards();
    let claimed = log.claimed_records();
    assert_eq!((claimed.records.len(), claimed.onwards, log.lowest()), (0, Some(4), Some(4)));
    drop(onwards);
    assert_eq!((log.lowest_onwards(), log.lowest()), (None, None));
}

#[test]
fn claims_are_retired_with_the_last_of_their_sources() {
    let sources: [Arc<Source>; 2] = Default::default();
    let mut claims = Claims::from(sources[0].claim(1, 0));
    claims.join(&sources[1].claim(1, 0).into());
    assert!(!claims.are_of(&sources[0]) && !Claims::default().are_retired());
    for (source, are_retired) in sources.iter().zip([false, true]) {
        source.retire();
        assert_eq!((claims.has_retired(), claims.are_retired()), (true, are_retired));
    }
}

#[test]
fn records_before_the_end_of_an_earlier_reader_were_read_before() {
    let source = Arc::new(Source::default());
    let claims: [Claims; 2] = [4, 5].map(|position| source.claim(position, 0).into());
    assert!(!claims[0].were_read_before());
    source.note_read_before(5);
    assert_eq!(claims.each_ref().map(Claims::were_read_before), [true, false]);
}

#[test]
fn receipt_tells_when_the_last_has_delivered_and_not_when_something_was_left() {
    let source = Arc::new(Source::default());
    for is_left in [false, true] {
        let arrived = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&arrived);
        let claims = source.claim(1, 1).into();
        let one = Receipt::new(claims, move || told.store(true, atomic::Ordering::Relaxed));
        let other = one.clone();
        drop(one);
        assert!(!arrived.load(atomic::Ordering::Relaxed) && source.lowest().is_some());
        if is_left {
            other.leave();
        }
        drop(other);
        assert_eq!(arrived.load(atomic::Ordering::Relaxed), !is_left);
        assert_eq!(source.lowest(), None);
    }
}
