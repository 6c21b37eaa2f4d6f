//! Replacement of one queue by another.

use super::super::handover::HANDOVER_WAIT;
use super::*;

fn offer(queue: &Queue, evaluations: usize) {
    let some: Arc<[_]> = vec![sample::scored(1.0); evaluations].into();
    queue.offer(&some, 10, None);
}

fn start(
    instruments: &Instruments,
    before: Option<Predecessor>,
    end: Noting,
) -> (Queue, JoinHandle<()>) {
    Queue::start("x", LIMITS, Memory::default().exporters, instruments, (None, before), end)
}

fn sum(end: &Noting) -> usize {
    end.batches().iter().map(|(count, _)| count).sum()
}

#[tokio::test(start_paused = true)]
async fn what_has_not_arrived_in_time_is_sent_by_the_queue_after() {
    let instruments = Instruments::new(&SdkMeterProvider::default().meter("test"));
    let hung = Noting::new(Some(Arc::new(Notify::new())));
    let (old, old_task) = start(&instruments, None, hung.clone());
    // Two deliveries hang, the third batch waits.
    (0..3).for_each(|_| offer(&old, 4));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(hung.batches().len(), 2);
    let (before, succession) = old.predecessor();
    let end = Noting::new(None);
    let (new, new_task) = start(&instruments, Some(before), end.clone());
    old.hand_over(succession);
    offer(&new, 1);
    tokio::time::sleep(HANDOVER_WAIT - Duration::from_secs(1)).await;
    assert_eq!(sum(&end), 0, "the one before may still deliver");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(sum(&end), 13);
    assert!(old_task.is_finished());
    new.closing().cancel();
    new_task.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn what_waits_goes_over_at_once_and_what_is_delivered_does_not_go_twice() {
    let instruments = Instruments::new(&SdkMeterProvider::default().meter("test"));
    let gate = Arc::new(Notify::new());
    let slow = Noting::new(Some(gate.clone()));
    let (old, old_task) = start(&instruments, None, slow.clone());
    (0..3).for_each(|_| offer(&old, 4));
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Two changes in a row: the one between delivers nothing.
    let (before, succession) = old.predecessor();
    let between = Noting::new(None);
    let (middle, _middle_task) = start(&instruments, Some(before), between.clone());
    old.hand_over(succession);
    let (before, succession) = middle.predecessor();
    let end = Noting::new(None);
    let (last, last_task) = start(&instruments, Some(before), end.clone());
    middle.hand_over(succession);
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.notify_waiters();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((sum(&slow), sum(&between), sum(&end)), (8, 0, 4));
    assert!(old_task.is_finished());
    last.closing().cancel();
    last_task.await.expect("it ends");
}
