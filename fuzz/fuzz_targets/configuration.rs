//! Workload file, arguments and environment from arbitrary bytes: nothing panics, hangs or takes memory
//! without bound.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| feedrate_workload::fuzzing::exercise(input));
