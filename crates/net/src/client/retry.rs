//! Retries with growing, random waits that respect the backend's retry delay.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;
use tokio::time::{Instant, sleep, timeout};

use super::SendError;
use crate::backoff::{Backoff, chance};
use spanscore_base::settings::{HumanDuration, SettingsError};

/// Longest accepted retry delay of a backend; a longer one is shortened to it.
pub const SERVER_DELAY_MAX: Duration = Duration::from_secs(300);

/// Retries with exponential back-off: each wait is `multiplier` times as long as the one before, up
/// to `max_interval`, and varied at random. It is never shorter than the retry delay that the
/// backend requests.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySettings {
    /// Retries failed requests. Default `true`.
    #[default = true]
    pub enabled: bool,
    /// First wait. Default `1s`.
    #[default(HumanDuration::from_secs(1))]
    pub initial_interval: HumanDuration,
    /// Share of a wait by which it varies at random, 0 to 1. Default 0.5.
    #[default = 0.5]
    pub randomization_factor: f64,
    /// Growth of the wait from retry to retry, at least 1. Default 1.5.
    #[default = 1.5]
    pub multiplier: f64,
    /// Longest wait. Default `30s`.
    #[default(HumanDuration::from_secs(30))]
    pub max_interval: HumanDuration,
    /// Time after which retries end and the request counts as failed. `0` sets no limit. Default
    /// `300s`; `0` if `must_deliver` is set and the process has a log.
    pub max_elapsed_time: Option<HumanDuration>,
}

/// Default time limit of retries.
const MAX_ELAPSED_TIME: HumanDuration = HumanDuration::from_secs(300);

impl RetrySettings {
    /// Returns the settings without a time limit, unless they set one.
    pub fn without_default_limit(&self) -> Self {
        let told = self.max_elapsed_time.unwrap_or_default();
        Self { max_elapsed_time: Some(told), ..self.clone() }
    }

    /// Returns the time limit; `None` for no limit.
    fn time_max(&self) -> Option<Duration> {
        let time = self.max_elapsed_time.unwrap_or(MAX_ELAPSED_TIME).0;
        (!time.is_zero()).then_some(time)
    }

    /// Returns the waits between attempts.
    pub fn backoff(&self) -> Backoff {
        Backoff {
            first: self.initial_interval.0,
            factor: self.multiplier,
            longest: self.max_interval.0,
            jitter: self.randomization_factor,
        }
    }

    /// Checks the settings; an error comes with the key `retry_on_failure`.
    pub fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        let wrong = if !(0.0..=1.0).contains(&self.randomization_factor) {
            "`randomization_factor` must be 0 to 1"
        } else if !(1.0..=100.0).contains(&self.multiplier) {
            "`multiplier` must be 1 to 100"
        } else if self.initial_interval.0.is_zero() || self.initial_interval > self.max_interval {
            "`initial_interval` must be above zero and at most `max_interval`"
        } else {
            return Ok(());
        };
        Err(("retry_on_failure", SettingsError::new(wrong)))
    }
}

/// Attempts of one request: their number, and the time left.
#[derive(Debug)]
pub struct Retries {
    settings: RetrySettings,
    started: Instant,
    waits: u32,
}

impl Retries {
    /// Starts the time limit.
    pub fn new(settings: &RetrySettings) -> Self {
        Self { settings: settings.clone(), started: Instant::now(), waits: 0 }
    }

    /// Returns the end of the time limit, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.started.checked_add(self.settings.time_max()?)
    }

    /// Returns the next wait; `None` if it would exceed the time limit. `chance` is 0 to 1.
    pub fn next(&mut self, asked: Option<Duration>, chance: f64) -> Option<Duration> {
        let wait = self.settings.backoff().wait(self.waits, chance).max(heeded(asked));
        self.waits = self.waits.saturating_add(1);
        let is_in_time =
            self.settings.time_max().is_none_or(|limit| self.started.elapsed() + wait <= limit);
        (self.settings.enabled && is_in_time).then_some(wait)
    }
}

/// Returns the backend's retry delay, limited to the longest accepted one.
pub fn heeded(asked: Option<Duration>) -> Duration {
    asked.unwrap_or_default().min(SERVER_DELAY_MAX)
}

/// Time for a request in flight to complete after the route to the backend has changed.
pub(crate) const CHANGE_WAIT: Duration = Duration::from_secs(5);

/// Calls `attempt` until it succeeds, fails for good, or the time limit is reached. Calls `failed`
/// for every failure before another attempt.
pub async fn retry<T, F: Future<Output = Result<T, SendError>>>(
    settings: &RetrySettings,
    attempt: impl FnMut() -> F,
    failed: impl FnMut(&str, Duration),
) -> Result<T, SendError> {
    let sent = retry_until(settings, attempt, failed, std::future::pending()).await;
    // The route never changes, so there is an answer.
    sent.unwrap_or_else(|| Err(SendError::Unreachable(String::new())))
}

/// Works as [`retry`] until the route to the backend changes. Then an attempt in flight has
/// [`CHANGE_WAIT`] to succeed, and no other is made. `None` if none succeeded.
pub async fn retry_until<T, F: Future<Output = Result<T, SendError>>>(
    settings: &RetrySettings,
    mut attempt: impl FnMut() -> F,
    mut failed: impl FnMut(&str, Duration),
    changed: impl Future<Output = ()>,
) -> Option<Result<T, SendError>> {
    let mut changed = pin!(changed);
    let mut retries = Retries::new(settings);
    loop {
        let mut attempting = pin!(attempt());
        let sent = tokio::select! {
            biased;
            sent = attempting.as_mut() => sent,
            () = changed.as_mut() => {
                let sent = timeout(CHANGE_WAIT, attempting).await.ok()?;
                return sent.ok().map(Ok);
            }
        };
        let error = match sent {
            Err(error) if !error.is_refusal() => error,
            done => return Some(done),
        };
        let Some(wait) = retries.next(error.requested_wait(), chance()) else {
            return Some(Err(error));
        };
        failed(error.text(), wait);
        tokio::select! {
            () = sleep(wait) => {}
            () = changed.as_mut() => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn settings(max_elapsed_secs: u64) -> RetrySettings {
        RetrySettings {
            max_elapsed_time: Some(HumanDuration::from_secs(max_elapsed_secs)),
            max_interval: HumanDuration::from_secs(3),
            multiplier: 2.0,
            ..RetrySettings::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_to_the_longest_and_vary_by_the_factor() {
        let settings = settings(0);
        let mut retries = Retries::new(&settings);
        let waits: Vec<_> =
            [0.5, 0.5, 0.5, 0.0, 1.0].map(|c| retries.next(None, c)).into_iter().collect();
        let secs = |s| Some(Duration::from_secs_f64(s));
        assert_eq!(waits, [secs(1.0), secs(2.0), secs(3.0), secs(1.5), secs(4.5)]);
    }

    #[tokio::test(start_paused = true)]
    async fn retry_delay_of_the_backend_is_kept_up_to_its_limit() {
        let settings = settings(0);
        let mut retries = Retries::new(&settings);
        let asked = Duration::from_secs(20);
        assert_eq!(retries.next(Some(asked), 0.5), Some(asked));
        assert_eq!(retries.next(Some(Duration::from_secs(9999)), 0.5), Some(SERVER_DELAY_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_with_the_time_for_trying() {
        let settings = settings(10);
        let started = Instant::now();
        let attempts = Cell::new(0);
        let gone = || {
            attempts.set(attempts.get() + 1);
            async { Err(SendError::Retryable { after: None, error: "gone".into() }) }
        };
        let answer = retry::<(), _>(&settings, gone, |_, _| {}).await;
        assert_eq!(answer, Err(SendError::Retryable { after: None, error: "gone".into() }));
        assert!(started.elapsed() <= Duration::from_secs(10));
        assert!((3..=9).contains(&attempts.get()), "{}", attempts.get());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_ends_the_waiting_at_once_and_an_attempt_after_its_time() {
        let settings = settings(0);
        let started = Instant::now();
        let after = |seconds| sleep(Duration::from_secs(seconds));
        let gone = || async {
            Err(SendError::Retryable {
                after: Some(Duration::from_secs(100)),
                error: "gone".into(),
            })
        };
        let answer = retry_until::<(), _>(&settings, gone, |_, _| {}, after(7)).await;
        assert_eq!((answer, started.elapsed().as_secs()), (None, 7));
        let slow = || async {
            sleep(Duration::from_secs(9)).await;
            Ok(3)
        };
        let answer = retry_until(&settings, slow, |_, _| {}, after(5)).await;
        assert_eq!(answer, Some(Ok(3)), "it arrives within its time");
        let answer = retry_until(&settings, slow, |_, _| {}, after(1)).await;
        assert_eq!(answer, None);
        assert_eq!(started.elapsed().as_secs(), 7 + 9 + 1 + CHANGE_WAIT.as_secs());
    }

    #[test]
    fn time_for_trying_has_an_end_unless_all_must_be_delivered() {
        let unsaid = RetrySettings::default();
        let minute = settings(60);
        let secs = |s| Some(Duration::from_secs(s));
        assert_eq!((unsaid.time_max(), minute.time_max()), (secs(300), secs(60)));
        assert_eq!(unsaid.without_default_limit().time_max(), None);
        assert_eq!(minute.without_default_limit().time_max(), secs(60));
        assert_eq!(settings(0).time_max(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_failures_and_switched_off_retries_end_at_once() {
        let refuse = || async { Err(SendError::Refused("bad".into())) };
        let answer = retry::<(), _>(&settings(0), refuse, |_, _| {}).await;
        assert_eq!(answer, Err(SendError::Refused("bad".into())));
        let off = RetrySettings { enabled: false, ..settings(0) };
        let gone = || async { Err(SendError::Retryable { after: None, error: "gone".into() }) };
        let answer = retry::<(), _>(&off, gone, |_, _| {}).await;
        assert_eq!(answer, Err(SendError::Retryable { after: None, error: "gone".into() }));
    }
}
