#![no_main]

#[path = "../targets.rs"]
mod targets;

// What is built once is no part of the first execution.
libfuzzer_sys::fuzz_target!(
    init: targets::expressions(b"true"),
    |data: &[u8]| targets::expressions(data)
);
