//! A data directory on a disk that is full, or that nobody may write to.

use std::path::Path;
use std::process::Command;

use crate::support::fake_backend::FakeBackend;
use crate::support::program::Program;
use crate::support::spans::{agent, request, searches, tool};

/// Mounts a small file system at the first argument, with what is at the second but for the reserve
/// of its log, fills it, and runs the rest.
const ON_A_FULL_DISK: &str = r#"
set -e
mount -t tmpfs -o size=512k tmpfs "$1"
rm -f "$2"/log/reserve
cp -a "$2"/. "$1"
cat /dev/zero 2>/dev/null > "$1/filled" || true
shift 2
exec "$@"
"#;

const ON_A_READ_ONLY_DISK: &str = r#"
set -e
mount -t tmpfs -o ro tmpfs "$1"
shift 2
exec "$@"
"#;

/// Returns true if file systems can be mounted here, for one process to see; else nothing is
/// tested.
fn can_mount() -> bool {
    let mount = "mount -t tmpfs tmpfs /mnt";
    let tried = Command::new("unshare").args(["-rm", "sh", "-c", mount]).output();
    tried.is_ok_and(|tried| tried.status.success())
}

fn config(backend: &FakeBackend, folder: &Path) -> String {
    let (address, data) = (backend.address, folder.join("data"));
    format!(
        "data_dir: {data:?}
traces: {{quiet_period: 100ms, idle_timeout: 1h, remember_period: 6s}}
evaluators: {{tool_error/each: {{level: call}}}}
exporters: {{otlp_grpc/backend: {{endpoint: \"http://{address}\", forms: [event]}}}}
"
    )
}

#[tokio::test]
async fn full_disk_is_started_on_and_recovers_once_what_is_in_the_log_is_done() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    let config = config(&backend, folder.path());
    let program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    for trace in 10..40 {
        client.export(request(vec![tool(trace, 2, "a")])).await.unwrap();
        client.export(request(vec![agent(trace)])).await.unwrap();
    }
    program.signal("-KILL");
    drop(program);
    let (data, kept) = (folder.path().join("data"), folder.path().join("kept"));
    std::fs::rename(&data, &kept).unwrap();
    std::fs::create_dir(&data).unwrap();
    let places = [data.to_str().unwrap(), kept.to_str().unwrap()];
    let by = ["unshare", "-rm", "sh", "-c", ON_A_FULL_DISK, "sh", places[0], places[1]];
    let program = Program::start_by(&by, folder.path(), &config);
    program.page_when(|page| page.sum("log_failing", "") == 1).await;
    let mut client = program.client().await;
    let refused = client.export(request(searches(50, &[2]))).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    assert!(refused.message().contains("the log cannot be written"), "{refused}");
    backend.until(|backend| backend.log_count() >= 30).await;
    // What is remembered no longer makes room.
    program.page_when(|page| page.sum("log_failing", "") == 0).await;
    client.export(request(searches(51, &[2]))).await.unwrap();
    backend.until(|backend| backend.log_count() >= 31).await;
    program.page_when(|page| page.sum("assemble_open_spans", "") == 0 && page.is_sum()).await;
}

#[test]
fn read_only_folder_is_refused_with_its_name() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path().join("data"), folder.path().join("spanscore.yaml"));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(&path, format!("data_dir: {data:?}\nexporters: {{console: }}\n")).unwrap();
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", ON_A_READ_ONLY_DISK, "sh"])
        .args([&data, &data])
        .arg(env!("CARGO_BIN_EXE_spanscore"))
        .args(["serve", "--config"])
        .arg(path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("data") && said.contains("ead-only file system"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}
