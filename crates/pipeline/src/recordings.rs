//! First pass: reads files to records, on all cores, in the order of the files.
//!
//! One thread splits the files and distributes the texts to workers in turn. The workers decode and
//! extract. One thread gathers their results in the same turn, which restores the order.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use spanscore_base::model::SpanBatch;
use spanscore_engine::batch::{Batch, BatchError, BatchProgress};
use spanscore_extract::{ExtractionCache, Table, extract};
use spanscore_recordings::{FilePiece, read_pieces};

/// Capacity of each worker's channels, for lots and for results.
const WAITING_MAX: usize = 4;
/// Smallest size of a lot: a message for each small text would cost more than its work.
const LOT_BYTES: usize = 1 << 20;

/// Texts of requests for one worker, with their places in the files.
#[derive(Default)]
struct Lot {
    pieces: Vec<FilePiece>,
    bytes: usize,
}

/// Batches of a lot in order, and messages for unreadable parts.
type LotResults = Vec<Result<SpanBatch, String>>;

/// Reads files into a batch. Calls `problem` for unreadable parts.
///
/// # Errors
/// The spool fails.
pub fn read(
    batch: &mut Batch<'_>,
    files: &[PathBuf],
    progress: &BatchProgress,
    problem: &mut (dyn FnMut(String) + Send),
) -> Result<(), BatchError> {
    let plan = batch.plan();
    let table = plan.resolver.table();
    std::thread::scope(|scope| {
        let mut lots = Vec::new();
        let mut results = Vec::new();
        for _ in 0..plan.cores.max(1) {
            let (lot, given) = sync_channel::<Lot>(WAITING_MAX);
            let (result, gathered) = sync_channel::<LotResults>(WAITING_MAX);
            lots.push(lot);
            results.push(gathered);
            scope.spawn(move || work(table, &given, &result));
        }
        let gathering = scope.spawn(move || gather(&results, batch, problem));
        deal(files, progress, lots);
        let gathered = gathering.join();
        gathered.unwrap_or_else(|_| Err(io::Error::other("a thread broke"))).map_err(Into::into)
    })
}

fn deal(files: &[PathBuf], progress: &BatchProgress, lots: Vec<SyncSender<Lot>>) {
    let mut turn = 0;
    let mut lot = Lot::default();
    // A worker ends early only after an error in the gathering thread.
    let mut send = |lot: &mut Lot| {
        let sent = lots[turn % lots.len()].send(std::mem::take(lot)).is_ok();
        turn += 1;
        sent
    };
    for path in files {
        let mut pieces = read_pieces(path);
        let mut counted = 0;
        while !progress.stop.load(Ordering::Relaxed)
            && let Some(piece) = pieces.next()
        {
            lot.bytes += piece.bytes();
            lot.pieces.push(piece);
            if lot.bytes >= LOT_BYTES {
                let read = pieces.bytes_read();
                progress.read.fetch_add(read - counted, Ordering::Relaxed);
                counted = read;
                if !send(&mut lot) {
                    return;
                }
            }
        }
        progress.read.fetch_add(pieces.bytes_read() - counted, Ordering::Relaxed);
    }
    send(&mut lot);
}

fn work(table: &Table, lots: &Receiver<Lot>, results: &SyncSender<LotResults>) {
    let mut cache = ExtractionCache::default();
    while let Ok(lot) = lots.recv() {
        let mut gathered = Vec::new();
        for piece in lot.pieces {
            take(table, &mut cache, piece, &mut gathered);
        }
        if results.send(gathered).is_err() {
            return;
        }
    }
}

fn take(table: &Table, cache: &mut ExtractionCache, piece: FilePiece, out: &mut LotResults) {
    let place = piece.place();
    for request in piece.requests() {
        let (signal, body) = match request {
            Ok(request) => request,
            Err(error) => {
                out.push(Err(error.to_string()));
                continue;
            }
        };
        let mut batches = [SpanBatch::default()];
        match extract(table, signal, &body, cache, &mut batches) {
            Err(error) => out.push(Err(format!("{place}: {error}"))),
            Ok(extracted) => {
                if extracted.rejected_total() > 0 {
                    out.push(Err(format!("{place}: {}", extracted.message())));
                }
                let [batch] = batches;
                out.push(Ok(batch));
            }
        }
    }
}

fn gather(
    results: &[Receiver<LotResults>],
    into: &mut Batch<'_>,
    problem: &mut (dyn FnMut(String) + Send),
) -> io::Result<()> {
    // Lots are distributed in turn, so after the first worker without results there are no more.
    for results in results.iter().cycle() {
        let Ok(gathered) = results.recv() else { return Ok(()) };
        for result in gathered {
            match result {
                Ok(batch) => into.add_records(&batch)?,
                Err(said) => problem(said),
            }
        }
    }
    Ok(())
}
