#![no_main]

#[path = "../targets.rs"]
mod targets;

// What is built once is no part of the first execution.
libfuzzer_sys::fuzz_target!(
    init: targets::dialects(b"[]"),
    |data: &[u8]| targets::dialects(data)
);
