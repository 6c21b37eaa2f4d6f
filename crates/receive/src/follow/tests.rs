use std::path::PathBuf;
use std::sync::Mutex;

use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};

use super::*;
use crate::{Accepted, Lack};
use spanscore_base::otlp::Signal;

/// Intake that records the names of its requests' first spans.
#[derive(Default)]
struct Named {
    seen: Mutex<Vec<(Signal, String)>>,
    /// Number of requests to refuse for lack of room.
    refuses: Mutex<u32>,
}

impl Intake for Named {
    async fn accept_by(
        &self,
        received: Received,
        _: &Arc<ConnectionAccount>,
        _: Instant,
    ) -> Result<Accepted, Refused> {
        let mut refuses = self.refuses.lock().unwrap();
        if *refuses > 0 {
            *refuses -= 1;
            return Err(Refused::Later { lack: Lack::Room, retry_after: Duration::from_secs(1) });
        }
        let shown = String::from_utf8_lossy(&received.request).into_owned();
        let name: String = shown.chars().filter(char::is_ascii_alphanumeric).collect();
        self.seen.lock().unwrap().push((received.signal, name));
        Ok(Accepted { accepted: 1, ..Accepted::default() })
    }
}

/// Metrics as a scrape shows them.
struct Metrics {
    registry: Registry,
    provider: SdkMeterProvider,
}

impl Metrics {
    fn new() -> Self {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .unwrap();
        let provider = SdkMeterProvider::builder()
            .with_reader(exporter)
            .with_resource(Resource::builder_empty().build())
            .build();
        Self { registry, provider }
    }

    fn exposition(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap()
    }
}

struct Followed {
    folder: tempfile::TempDir,
    intake: Arc<Named>,
    metrics: Metrics,
}

impl Followed {
    fn new() -> Self {
        let folder = tempfile::tempdir();
        let folder = folder.unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        Self { folder, intake: Arc::default(), metrics: Metrics::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("in").join(name)
    }

    fn append(&self, name: &str, bytes: impl AsRef<[u8]>) {
        use std::io::Write;
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(self.path(name)).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    fn start(&self, start_at: StartAt) -> FileReceiver {
        let include = vec![self.path("*").display().to_string()];
        let settings =
            FileReceiverSettings { include, start_at, max_record_mib: 1, ..Default::default() };
        let memory = Memory::default();
        let meter = self.metrics.provider.meter("spanscore");
        let data_dir = Some(self.folder.path());
        FileReceiver::start(Some(&settings), Arc::clone(&self.intake), &memory, &meter, data_dir)
    }

    /// Waits until these names were accepted since the last call, in any order.
    async fn taken(&self, expected: &[&str]) {
        let mut seen = Vec::new();
        for _ in 0..200 {
            seen.extend(std::mem::take(&mut *self.intake.seen.lock().unwrap()));
            if seen.len() >= expected.len() {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        let mut seen: Vec<_> = seen.iter().map(|(_, name)| name.as_str()).collect();
        seen.sort_unstable();
        assert_eq!(seen, expected);
    }

    fn counted(&self, line: &str) {
        let text = self.metrics.exposition();
        assert!(text.lines().any(|have| have == line), "no {line} in\n{text}");
    }
}

async fn end(receiver: FileReceiver) {
    receiver.stop(std::future::pending()).await;
}

async fn end_after_a_look(receiver: FileReceiver) {
    sleep(Duration::from_secs(1)).await;
    end(receiver).await;
}

/// Builds a JSON request whose protobuf contains this name.
fn line(name: &str) -> String {
    format!(
        "{{\"resourceSpans\": [{{\"scopeSpans\": [{{\"spans\": [{{\"name\": \"{name}\"}}]}}]}}]}}\n"
    )
}

fn behind_length(record: &[u8]) -> Vec<u8> {
    [&(record.len() as u32).to_be_bytes()[..], record].concat()
}

#[tokio::test(start_paused = true)]
async fn lines_are_taken_as_they_come_and_half_a_line_waits() {
    let followed = Followed::new();
    followed.append("a.json", line("old"));
    let receiver = followed.start(StartAt::End);
    sleep(Duration::from_secs(1)).await;
    let first = line("new");
    let rest = line("newer");
    followed.append("a.json", format!("{first}{}", &rest[..20]));
    followed.append("b.json", line("other"));
    followed.taken(&["new", "other"]).await;
    followed.append("a.json", &rest[20..]);
    followed.taken(&["newer"]).await;
    followed
        .counted("spanscore_receiver_accepted_spans_total{receiver=\"file\",transport=\"file\"} 3");
    end(receiver).await;
}

#[tokio::test(start_paused = true)]
async fn position_is_kept_over_a_restart_and_is_its_owners() {
    let followed = Followed::new();
    followed.append("a.json", [line("one"), line("two")].concat());
    let receiver = followed.start(StartAt::Beginning);
    followed.taken(&["one", "two"]).await;
    end(receiver).await;
    followed.append("a.json", line("three"));
    std::fs::rename(followed.path("a.json"), followed.path("a-1.json")).unwrap();
    followed.append("a.json", line("four"));
    let receiver = followed.start(StartAt::Beginning);
    followed.taken(&["four", "three"]).await;
    end(receiver).await;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let path = followed.folder.path().join("receivers");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("file.json"))), (0o700, 0o600));
    }
}

#[tokio::test(start_paused = true)]
async fn files_that_appear_between_two_starts_are_read_from_their_beginning() {
    let followed = Followed::new();
    end_after_a_look(followed.start(StartAt::End)).await;
    followed.append("a.json", line("one"));
    let receiver = followed.start(StartAt::End);
    followed.taken(&["one"]).await;
    end_after_a_look(receiver).await;
    followed.append("a.json", line("two"));
    std::fs::rename(followed.path("a.json"), followed.path("a-1.json")).unwrap();
    followed.append("a.json", line("three"));
    let receiver = followed.start(StartAt::End);
    followed.taken(&["three", "two"]).await;
    end(receiver).await;
}

#[tokio::test(start_paused = true)]
async fn files_that_are_away_for_a_while_are_gone_on_with() {
    let followed = Followed::new();
    let receiver = followed.start(StartAt::Beginning);
    followed.append("a.json", line("one"));
    followed.append("b.json", line("two"));
    followed.taken(&["one", "two"]).await;
    let there = followed.folder.path().join("in");
    let away = followed.folder.path().join("away");
    std::fs::rename(&there, &away).unwrap();
    sleep(Duration::from_secs(10)).await;
    std::fs::rename(&away, &there).unwrap();
    followed.append("a.json", line("three"));
    followed.append("c.json", line("four"));
    followed.taken(&["four", "three"]).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(followed.intake.seen.lock().unwrap().len(), 0, "nothing comes twice");
    end(receiver).await;
}

#[tokio::test(start_paused = true)]
async fn files_that_are_rotated_lose_nothing() {
    let followed = Followed::new();
    let receiver = followed.start(StartAt::End);
    sleep(Duration::from_secs(1)).await;
    followed.append("a.json", line("one"));
    followed.taken(&["one"]).await;
    followed.append("a.json", line("two"));
    // Outside of the followed folder, only the open file leads to the last records.
    std::fs::rename(followed.path("a.json"), followed.folder.path().join("gone")).unwrap();
    followed.append("a.json", line("three"));
    followed.taken(&["three", "two"]).await;
    end(receiver).await;
}

#[tokio::test(start_paused = true)]
async fn files_that_are_cut_or_written_anew_are_read_anew() {
    let followed = Followed::new();
    let receiver = followed.start(StartAt::Beginning);
    followed.append("a.json", [line("one"), line("two")].concat());
    followed.taken(&["one", "two"]).await;
    std::fs::write(followed.path("a.json"), line("three")).unwrap();
    followed.taken(&["three"]).await;
    // Longer than before, so that its length does not reveal it.
    std::fs::write(followed.path("a.json"), [line("four"), line("five")].concat()).unwrap();
    followed.taken(&["five", "four"]).await;
    followed.counted("spanscore_receiver_file_restarts_total 2");
    end(receiver).await;
}

#[tokio::test(start_paused = true)]
async fn records_behind_lengths_are_read_compressed_or_not() {
    let followed = Followed::new();
    let receiver = followed.start(StartAt::Beginning);
    let json = line("json");
    let transcode =
        |text: &str| spanscore_base::otlp::json::transcode(Signal::Traces, text.as_bytes());
    let protobuf = transcode(&line("protobuf")).unwrap();
    let zstd = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
    followed.append("a.pb", behind_length(&protobuf));
    followed.append("a.pb", behind_length(&zstd(&protobuf)));
    followed.append("b.zst", behind_length(&zstd(json.as_bytes())));
    followed.append("logs.pb", &behind_length(&protobuf)[..9]);
    followed.taken(&["json", "protobuf", "protobuf"]).await;
    followed.append("logs.pb", &behind_length(&protobuf)[9..]);
    for _ in 0..100 {
        sleep(Duration::from_millis(100)).await;
        if !followed.intake.seen.lock().unwrap().is_empty() {
            break;
        }
    }
    assert_eq!(followed.intake.seen.lock().unwrap()[0].0, Signal::Logs, "its name says so");
    end(receiver).await;
}

#[tokio::test(start_paused = true)]
async fn bad_and_large_records_are_passed_over_and_counted() {
    let followed = Followed::new();
    let receiver = followed.start(StartAt::Beginning);
    let large = line(&"x".repeat(3 << 20));
    followed.append("a.json", ["nonsense\n", &line("one"), &large, &line("two"), "{}\n"].concat());
    followed
        .append("b.pb", [behind_length(&vec![1; 2 << 20]), behind_length(b"\x0a\x00")].concat());
    followed.taken(&["", "one", "two"]).await;
    sleep(Duration::from_secs(1)).await;
    followed.counted("spanscore_receiver_file_passed_over_total{reason=\"malformed\"} 2");
    followed.counted("spanscore_receiver_file_passed_over_total{reason=\"too_large\"} 2");
    end(receiver).await;
}

#[tokio::test(start_paused = true)]
async fn it_waits_where_there_is_no_room_and_loses_nothing() {
    let followed = Followed::new();
    *followed.intake.refuses.lock().unwrap() = 40;
    let lines: Vec<_> = (10..40).map(|at| line(&format!("n{at}"))).collect();
    followed.append("a.json", lines.concat());
    let receiver = followed.start(StartAt::Beginning);
    let expected: Vec<_> = (10..40).map(|at| format!("n{at}")).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    followed.taken(&expected).await;
    end(receiver).await;
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn positions_are_stored_although_the_name_of_a_file_is_no_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let followed = Followed::new();
    followed.append("a.json", line("first"));
    let odd = followed.folder.path().join("in").join(OsStr::from_bytes(b"b\xff.json"));
    std::fs::write(odd, line("odd")).unwrap();
    let receiver = followed.start(StartAt::Beginning);
    followed.taken(&["first", "odd"]).await;
    end(receiver).await;
    followed.append("a.json", line("second"));
    let receiver = followed.start(StartAt::Beginning);
    followed.taken(&["second"]).await;
    end_after_a_look(receiver).await;
    assert!(followed.intake.seen.lock().unwrap().is_empty(), "no file is read again");
}

#[tokio::test(start_paused = true)]
async fn endless_file_delays_no_other_file() {
    const TIB: u64 = 1 << 40;
    let followed = Followed::new();
    // Holes read as zeros: empty records, or the middle of a line.
    for (name, start) in [("a.json", ""), ("b.json", "{")] {
        followed.append(name, start);
        let options = std::fs::OpenOptions::new().write(true).open(followed.path(name));
        options.unwrap().set_len(TIB).unwrap();
    }
    let receiver = followed.start(StartAt::Beginning);
    sleep(Duration::from_secs(1)).await;
    followed.append("c.json", [line("one"), line("two")].concat());
    followed.taken(&["one", "two"]).await;
    followed.append("c.json", line("three"));
    followed.taken(&["three"]).await;
    end(receiver).await;
}

#[tokio::test(start_paused = true)]
async fn files_with_much_to_read_take_turns() {
    const LINES: usize = 20_000;
    let followed = Followed::new();
    followed.append("a.json", line("many").repeat(LINES));
    followed.append("z.json", line("one"));
    let receiver = followed.start(StartAt::Beginning);
    let all = |seen: &Vec<(Signal, String)>| seen.len() > LINES;
    while !all(&followed.intake.seen.lock().unwrap()) {
        sleep(Duration::from_millis(10)).await;
    }
    let seen = followed.intake.seen.lock().unwrap().clone();
    let before = seen.iter().position(|(_, name)| name == "one").unwrap();
    assert!(before < LINES, "the other file came after {before} lines");
    end(receiver).await;
}
