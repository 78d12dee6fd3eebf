//! What a set was made with, compared with what a run expects; going on with a set that is half made;
//! and stores that refuse to take it.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::support::{Call, MANIFEST, Place, Said, Server, files_below, python_on, serve};

fn datagen(place: &Place, server: &Server, overrides: &[&str]) -> Call {
    place.feedrate("datagen t0.yaml").set(overrides).on(server)
}

fn run(place: &Place, server: &Server, overrides: &[&str]) -> Call {
    place.feedrate("run t0.yaml").set(overrides).on(server)
}

/// T10 a.
#[test]
fn too_few_files_are_refused_with_both_numbers_and_the_place() {
    let place = Place::new();
    place.feedrate("datagen t0.yaml --files 10 --local store").succeeds();
    for file in 7..10 {
        let name = format!("store/data/t0/train/img_{file:02}_of_10.npz");
        fs::remove_file(place.directory().join(name)).unwrap();
    }
    place
        .feedrate("run t0.yaml --files 10 --local store")
        .fails(1)
        .in_less_than(5)
        .telling(&["7 of 10 files", "train/ of store/data/t0"]);
}

/// T10 c, and the other ways in which a set can be another one.
#[test]
fn a_set_that_was_made_with_other_settings_is_refused_with_both_values() {
    let (place, server) = (Place::new(), serve().start());
    let many = "dataset.num_samples_per_file=4";
    datagen(&place, &server, &[many]).succeeds();
    for (other, texts) in [
        (
            &["dataset.num_samples_per_file=8"][..],
            &["num_samples_per_file", "4 stored", "8 configured"][..],
        ),
        (&[many, "dataset.record_length_bytes=4096"], &["record_length_bytes", "65536", "4096"]),
        (&[many, "dataset.compression=zip"], &["compression", "\"none\" stored", "\"zip\""]),
        (&[many, "dataset.record_element_type=int16"], &["record_element_type", "int16"]),
        (&[many, "dataset.record_dims=[8,8]"], &["record_dims"]),
    ] {
        server.reset();
        let said = run(&place, &server, other).fails(1).in_less_than(5);
        said.telling(texts).keeping_quiet_about("AU");
        assert_eq!(server.gets(), [""; 0], "{other:?}");
    }
    // Another format has other names, so it is not there at all.
    let npy = [many, "dataset.format=npy"];
    run(&place, &server, &npy).fails(1).telling(&["0 of 16 files", "npz", "dataset.format"]);
    // Another seed is another content, but nothing that a reader notices.
    let seed = [many, "dataset.seed=11"];
    run(&place, &server, &seed).succeeds();
    run(&place, &server, &seed).arg("--verify").fails(1).telling(&["seed", "10", "11"]);
    run(&place, &server, &[many]).arg("--verify").succeeds();
}

#[test]
fn a_set_without_a_manifest_is_read_as_it_is_and_a_broken_one_is_named() {
    let place = Place::new();
    place.feedrate("datagen t0.yaml --local store").succeeds();
    let manifest = place.directory().join("store/data/t0").join(MANIFEST);
    fs::write(&manifest, "{").unwrap();
    let run = || place.feedrate("run t0.yaml --local store");
    run().fails(1).telling(&[MANIFEST, "store"]);
    fs::remove_file(manifest).unwrap();
    run().arg("--verify").succeeds();
}

#[test]
fn resuming_makes_what_is_missing_or_cut_off_and_nothing_else() {
    for format in ["npz", "csv", "indexed_binary"] {
        let place = Place::new();
        let kept = place.directory().join("kept");
        let server = serve().keeping_files_in(&kept).logging().start();
        let format_is = format!("dataset.format={format}");
        let options = [&*format_is, "dataset.record_length_bytes=4096"];
        datagen(&place, &server, &options).succeeds();
        let name = |file: u32| format!("img_{file:02}_of_16.{format}");
        let path = |file| -> PathBuf { kept.join("bench/data/t0/train").join(name(file)) };
        let whole: Vec<_> = (0..16).map(|file| fs::read(path(file)).unwrap()).collect();
        for file in [2, 11] {
            fs::remove_file(path(file)).unwrap();
        }
        fs::write(path(7), &whole[7][..1000]).unwrap();

        let begun = server.counted() as usize;
        let said = datagen(&place, &server, &options).arg("--resume").succeeds();
        assert!(said.stdout.contains("13 were there already"), "{said:?}");
        let log = server.log();
        let puts = log[begun..].iter().filter(|request| request.method == "PUT");
        let mut puts: Vec<_> = puts
            .map(|request| request.key.rsplit('/').next().unwrap())
            .filter(|name| name.ends_with(format))
            .collect();
        puts.sort_unstable();
        assert_eq!(puts, [name(2), name(7), name(11)]);
        for (file, whole) in (0..).zip(&whole) {
            assert!(fs::read(path(file)).unwrap() == *whole, "{}", name(file));
        }
        run(&place, &server, &options).arg("--verify").succeeds();
    }
}

#[test]
fn generation_that_was_refused_once_goes_on_where_it_stopped() {
    let place = Place::new();
    let server = serve().fault("put from=30 count=1 status=403").start();
    let files = "--files 100";
    datagen(&place, &server, &[]).args(files).fails(1);
    run(&place, &server, &[]).args(files).fails(1).telling(&["of 100 files"]);
    let before = server.status().requests.put;
    let said = datagen(&place, &server, &[]).args(files).arg("--resume").succeeds();
    let made = server.status().requests.put - before;
    // The rest, and what all were made with.
    let there = format!("; {} were there already", 101 - made);
    assert!(made > 1 && made < 100 && said.stdout.contains(&there), "{made}: {said:?}");
    run(&place, &server, &[]).args(files).arg("--verify").succeeds();
}

#[test]
fn a_set_that_was_made_otherwise_is_not_resumed_and_stays_as_it_is() {
    let (place, server) = (Place::new(), serve().start());
    datagen(&place, &server, &[]).succeeds();
    server.reset();
    datagen(&place, &server, &["dataset.seed=11"])
        .arg("--resume")
        .fails(1)
        .telling(&["dataset.seed", "10 stored", "11 configured", "--resume"])
        .keeping_quiet_about("generated");
    assert_eq!(server.status().requests.put, 0);
    run(&place, &server, &[]).arg("--verify").succeeds();
}

/// Runs it to its end, and tells the most memory in MiB that it was seen to hold.
fn watched(call: Call) -> (Said, u64) {
    let mut running = call.start();
    let mut most = 0;
    while running.is_running() {
        let status = fs::read_to_string(format!("/proc/{}/status", running.pid()));
        let peak = status.ok().and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        });
        most = most.max(peak.unwrap_or(0) / 1024);
        thread::sleep(Duration::from_millis(2));
    }
    (running.ends(), most)
}

/// T12.
#[test]
fn a_store_that_refuses_files_ends_generation_at_once() {
    for (status, code) in [(403, "AccessDenied"), (507, "InsufficientStorage")] {
        let place = Place::new();
        let kept = place.directory().join("kept");
        let fault = format!("put status={status} code={code} from=5");
        let server = serve().keeping_files_in(&kept).fault(&fault).start();
        let call = datagen(&place, &server, &["reader.write_threads=4"]).args("--files 100");
        let (said, most) = watched(call);
        let status = status.to_string();
        said.with_code(1)
            .in_less_than(if code == "AccessDenied" { 5 } else { 30 })
            .telling(&["data/t0/train/img_", &status, code])
            .keeping_quiet_about("generated");
        assert!(most > 0 && most < 200, "{most} MiB");
        let files = files_below(&kept.join("bench"));
        assert!(files.len() <= 8, "{files:?}");
        assert!(!files.iter().any(|path| path.ends_with(MANIFEST)), "{files:?}");
    }
}

/// Prints what uploads are under way in the bucket.
const UPLOADS: &str = "
import boto3, os
client = boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'], region_name='us-east-1')
uploads = client.list_multipart_uploads(Bucket='bench').get('Uploads', [])
assert not uploads, uploads
";

#[test]
fn a_large_file_that_is_refused_leaves_no_upload_behind() {
    let place = Place::new();
    let kept = place.directory().join("kept");
    let server = serve().keeping_files_in(&kept).fault("put status=403 from=3").start();
    let large = ["dataset.record_length_bytes=40e6", "dataset.num_files_train=4"];
    let (said, most) = watched(datagen(&place, &server, &large));
    said.with_code(1)
        .in_less_than(5)
        .telling(&["data/t0/train/img_", "403", "AccessDenied"])
        .keeping_quiet_about("generated");
    assert!(most < 200, "{most} MiB");
    assert!(server.status().requests.part > 0);
    python_on(UPLOADS, &server);
    assert_eq!(files_below(&kept.join("bench")), Vec::<PathBuf>::new());
}
