//! The `spanscore` binary.

use std::process::ExitCode;

// jemalloc frees to the arena that a block came from and has a thread that returns pages: after
// each shape of load that was measured a process was back at 1.1 times its idle size. mimalloc
// found memory that another thread had freed only after thousands of allocations.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    spanscore::cli::run(std::env::args_os())
}
