//! Data sets that the libraries of DLIO made (`tests/make_dlio_files.py`), which nobody has to generate
//! again.

use crate::support::{Place, bytes_of_samples, make_dlio_files};

const FILES: u64 = 4;

/// Sizes are those of our own files where nothing can be otherwise.
#[test]
fn sets_that_dlio_made_train_and_decode_with_the_bytes_that_they_have() {
    let place = Place::new();
    make_dlio_files(&place.directory());
    for (format, samples, other_sizes) in [
        ("npy", 3, false),
        ("npz", 3, true),
        ("hdf5", 3, true),
        ("csv", 3, false),
        ("jpeg", 1, true),
        ("png", 1, true),
        ("tfrecord", 3, false),
        ("indexed_binary", 3, false),
        ("mmap_indexed_binary", 3, false),
        ("parquet", 3, true),
    ] {
        let loader = if format == "tfrecord" { "tensorflow" } else { "pytorch" };
        let settings = [
            format!("dataset.format={format}"),
            format!("dataset.num_files_train={FILES}"),
            format!("dataset.num_samples_per_file={samples}"),
            format!("framework={loader}"),
            format!("reader.data_loader={loader}"),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        for decode in ["none", "full"] {
            let said = place
                .feedrate("run t0.yaml --np 2 --local")
                .arg(format)
                .set(&settings)
                .set(&["dataset.record_length_bytes=4096", "reader.batch_size=1"])
                .set(&[&format!("reader.decode={decode}")])
                .succeeds();
            let notes = said.stderr.matches("have other sizes than this workload").count();
            assert_eq!(notes, usize::from(other_sizes), "{format}: {}", said.stderr);
            let run = place.run();
            for rank in 0..2 {
                assert_eq!(run.steps(rank, 1, "compute").len() as u64, FILES * samples / 2);
            }
            let read = run.figures()["bytes_read"].as_u64().unwrap();
            if format == "parquet" {
                // The footers and the columns, not what is between them.
                assert!(read > FILES * samples * 4096, "{read}");
            } else {
                let stored = bytes_of_samples(&place.directory().join(format));
                assert_eq!(read, stored, "{format} {decode}");
            }
        }
    }
}
