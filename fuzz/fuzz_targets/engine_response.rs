#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| turbocql_fuzz::engine::response(data));
