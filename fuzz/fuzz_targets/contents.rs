#![no_main]

#[path = "../targets.rs"]
mod targets;

// What is built once is no part of the first execution.
libfuzzer_sys::fuzz_target!(init: targets::contents(b""), |data: &[u8]| targets::contents(data));
