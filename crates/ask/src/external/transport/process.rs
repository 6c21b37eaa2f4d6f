//! Evaluator processes: one per evaluation, some started ahead.
//!
//! Each process leads its own group, which is always killed at the end. So its children end with
//! it, except those that moved to another session or group.

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::{ExternalFault, ExternalReply};
use spanscore_evaluate::external::ProcessPlan;
use spanscore_evaluate::external::answer::shown;
use spanscore_net::client::Withheld;

/// Limit on a process's output, bytes.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Retained end of its standard error, bytes.
const STDERR_BYTES_MAX: usize = 2 << 10;
/// Shortest variable value hidden in an output, bytes; shorter ones may be words of an answer.
const HIDDEN_IN_OUTPUT_MIN: usize = 8;
/// Time limit for the end of a killed process.
const REAP_TIME: Duration = Duration::from_secs(1);
/// Our own variables that a process inherits.
const PASSED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Program that is run once per evaluation.
pub(in crate::external) struct ProcessEvaluator {
    plan: ProcessPlan,
    timeout: Duration,
    hidden: HiddenValues,
    /// Started processes that wait for input.
    spares: Mutex<VecDeque<Running>>,
}

/// Values of its variables, hidden in its output.
struct HiddenValues {
    /// Hidden in its standard error.
    errors: Withheld,
    /// Hidden in its output: only longer values, since it holds words of the protocol.
    output: Withheld,
}

impl HiddenValues {
    fn of(plan: &ProcessPlan) -> Self {
        let values = || plan.env.values().map(|value| value.reveal());
        let long = values().filter(|value| value.len() >= HIDDEN_IN_OUTPUT_MIN);
        Self { errors: Withheld::of_secrets(values()), output: Withheld::of_secrets(long) }
    }

    /// Returns the shown end of a standard error.
    fn shown(&self, end: &[u8], is_cut: bool) -> String {
        let end = String::from_utf8_lossy(end);
        let end = if is_cut {
            // The rest of a truncated character is useless.
            self.errors.without_cut_secret(end.trim_start_matches(char::REPLACEMENT_CHARACTER))
        } else {
            &end
        };
        shown(&self.errors.without(end))
    }
}

/// Process with its group.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    /// Kills it and its group.
    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // The group may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl ProcessEvaluator {
    /// Starts the spare processes.
    pub(super) fn new(plan: ProcessPlan, timeout: Duration) -> Self {
        let hidden = HiddenValues::of(&plan);
        let own = Self { plan, timeout, hidden, spares: Mutex::default() };
        own.refill();
        own
    }

    /// Runs one evaluation.
    pub(super) async fn run(&self, input: &str) -> Result<ExternalReply, ExternalFault> {
        let mut running = self.take()?;
        self.refill();
        match tokio::time::timeout(self.timeout, talk(&mut running, input, &self.hidden)).await {
            Ok(said) => said,
            Err(_) => {
                let ended = running.child.try_wait();
                running.kill();
                let _ = tokio::time::timeout(REAP_TIME, running.child.wait()).await;
                let error = match ended {
                    Ok(Some(status)) => format!(
                        "it ended with {status}, but its output was still open after {:?}: \
                         something that it started holds it, and was killed if it was of its \
                         process group; start such processes with an output of their own",
                        self.timeout
                    ),
                    _ => format!("it gave no answer within {:?} and was killed", self.timeout),
                };
                Err(ExternalFault::Final("external_timeout", error))
            }
        }
    }

    /// Takes a spare process, or starts one.
    fn take(&self) -> Result<Running, ExternalFault> {
        let mut spares = self.spares.lock();
        while let Some(mut spare) = spares.pop_front() {
            if matches!(spare.child.try_wait(), Ok(None)) {
                return Ok(spare);
            }
        }
        drop(spares);
        self.start().map_err(|error| {
            let program = shown(self.plan.command.first().map_or("", String::as_str));
            let error = format!("`{program}` cannot be started: {error}");
            ExternalFault::Final("external_not_started", error)
        })
    }

    /// Starts missing spare processes. Failures are reported by the evaluation that needs one.
    fn refill(&self) {
        let mut spares = self.spares.lock();
        while spares.len() < self.plan.spares as usize {
            let Ok(spare) = self.start() else { return };
            spares.push_back(spare);
        }
    }

    fn start(&self) -> std::io::Result<Running> {
        let mut words = self.plan.command.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command.args(words).env_clear().process_group(0).kill_on_drop(true);
        let passed = PASSED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(passed);
        command.envs(self.plan.env.iter().map(|(name, value)| (name, value.reveal())));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Running { child, group })
    }
}

/// Writes the input, reads the output, and waits for the end.
async fn talk(
    running: &mut Running,
    input: &str,
    hidden: &HiddenValues,
) -> Result<ExternalReply, ExternalFault> {
    let stdin = running.child.stdin.take();
    let stdout = running.child.stdout.take();
    let stderr = running.child.stderr.take();
    let writing = async {
        if let Some(mut stdin) = stdin {
            // A process that does not read its input may still answer.
            let _ = stdin.write_all(input.as_bytes()).await;
            let _ = stdin.shutdown().await;
        }
    };
    let mut output = Vec::new();
    let mut errors = VecDeque::new();
    let mut is_cut = false;
    let writing = async {
        writing.await;
        Ok(())
    };
    let errors_read = async {
        is_cut = read_end(stderr, &mut errors).await;
        Ok(())
    };
    // The first failure ends all.
    tokio::try_join!(writing, read_output(stdout, &mut output), errors_read)?;
    let status = running.child.wait().await;
    running.kill();
    let errors = hidden.shown(errors.make_contiguous(), is_cut);
    let error = match status {
        Ok(status) if status.success() => {
            return Ok(ExternalReply::Output(hidden.output.without_bytes(output), errors));
        }
        Ok(status) if errors.is_empty() => format!("it ended with {status}"),
        Ok(status) => format!("it ended with {status}; the end of its stderr: {errors}"),
        Err(error) => error.to_string(),
    };
    Err(ExternalFault::Final("external_process_failed", error))
}

/// Reads an output up to the limit.
async fn read_output(
    from: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
) -> Result<(), ExternalFault> {
    let Some(from) = from else { return Ok(()) };
    // A failed read is the end.
    let _ = from.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(into).await;
    if into.len() <= OUTPUT_BYTES_MAX {
        return Ok(());
    }
    let error = format!("it wrote more than {OUTPUT_BYTES_MAX} bytes and was killed");
    Err(ExternalFault::Final("external_output_too_long", error))
}

/// Reads everything and retains the end; returns true if it was longer.
async fn read_end(from: Option<impl AsyncRead + Unpin>, into: &mut VecDeque<u8>) -> bool {
    let Some(mut from) = from else { return false };
    let mut chunk = [0; 4096];
    let mut is_cut = false;
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        into.extend(&chunk[..count]);
        let more = into.len().saturating_sub(STDERR_BYTES_MAX);
        is_cut |= more > 0;
        into.drain(..more);
    }
    is_cut
}
