//! Generated files, as other people's readers see them, and as `--verify` does.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{Place, python, within};

/// Every file is a grey image of near-square size that Pillow decodes to its end without a warning.
const IMAGES: &str = "
import pathlib, sys
from PIL import Image
files = sorted(pathlib.Path(sys.argv[1]).glob('*.jpeg'))
assert len(files) == 200, len(files)
for file in files:
    with Image.open(file) as image:
        image.load()
        width, height = image.size
        assert (image.format, image.mode) == ('JPEG', 'L'), (file, image.format, image.mode)
        assert min(width, height) >= 256, (file, image.size)
        assert max(width, height) <= 1.1 * min(width, height), (file, image.size)
";

/// Every file has the length asked for, nothing in them repeats, and nothing can be pressed out.
const NOISE: &str = "
import pathlib, sys
import zstandard
files = sorted(pathlib.Path(sys.argv[1]).glob('*.jpeg'))
contents = [file.read_bytes() for file in files]
assert {len(content) for content in contents} == {322957}
assert len(set(contents)) == len(contents) == 200
blocks = [c[at:at + 4096] for c in contents for at in range(0, len(c) - 4095, 4096)]
assert len(set(blocks)) == len(blocks), 'a block of 4 KiB occurs twice'
for file, content in zip(files, contents):
    packed = len(zstandard.compress(content, 3))
    assert packed > 0.97 * len(content), (file, packed)
    scan = content.index(b'\\xff\\xda')
    assert len(content) - scan > 0.95 * len(content), (file, scan)
";

const ARRAYS: &str = "
import pathlib, sys
import numpy
files = sorted(pathlib.Path(sys.argv[1]).glob('*.npz'))
assert len(files) == 16, len(files)
seen = set()
for file in files:
    with numpy.load(file, allow_pickle=False) as arrays:
        assert sorted(arrays.files) == ['x', 'y'], arrays.files
        x, y = arrays['x'], arrays['y']
        assert (x.dtype, x.shape) == (numpy.uint8, (256, 256, 1)), (x.dtype, x.shape)
        assert y.tolist() == [0], y
        assert x.nbytes == 65536
        seen.add(x.tobytes())
assert len(seen) == 16
";

#[test]
fn pillow_reads_generated_images_without_a_warning_and_they_cannot_be_compressed() {
    let place = Place::new();
    place.feedrate("datagen retinanet_b200 --files 200 --local store").succeeds();
    let folder = place.directory().join("store/data/retinanet/train");
    python(IMAGES, &folder);
    python(NOISE, &folder);
}

#[test]
fn numpy_reads_generated_arrays_without_pickle() {
    let place = Place::new();
    place.feedrate("datagen t0.yaml --local store").succeeds();
    python(ARRAYS, &place.directory().join("store/data/t0/train"));
}

#[test]
fn the_same_files_come_out_again_and_others_from_another_seed() {
    let place = Place::new();
    for (folder, seed) in [("one", 10), ("two", 10), ("three", 11)] {
        place
            .feedrate("datagen t0.yaml --local")
            .arg(folder)
            .set(&[&format!("dataset.seed={seed}")])
            .succeeds();
    }
    let content = |folder: &str| {
        let name = format!("{folder}/data/t0/train/img_07_of_16.npz");
        fs::read(place.directory().join(name)).unwrap()
    };
    assert_eq!(content("one"), content("two"));
    assert_ne!(content("one"), content("three"));
}

#[test]
fn a_single_wrong_byte_is_found_and_told_by_file_and_offset() {
    for (format, suffix) in [("jpeg", "jpeg"), ("npz", "npz")] {
        let place = Place::new();
        let format = [format!("dataset.format={format}")];
        let format = format.each_ref().map(String::as_str);
        let call = |command| place.feedrate(command).args("t0.yaml --local store").set(&format);
        call("datagen").succeeds();
        call("run").arg("--verify").succeeds();

        let name = format!("img_05_of_16.{suffix}");
        let path = place.directory().join("store/data/t0/train").join(&name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[40_000] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        call("run").arg("--verify").fails(1).telling(&[&name, "byte 40000"]);
        call("sweep").args("--np 2 --verify").fails(1).telling(&[&name, "byte 40000", "NP 2"]);
    }
}

/// The drafts are the presets whose images differ in size.
#[test]
fn images_of_the_drafts_differ_in_size_and_verify() {
    let (place, server) = (Place::new(), crate::support::serve().start());
    for preset in ["retinanet_h100_draft", "retinanet_a100_draft"] {
        let call = |command| place.feedrate(command).arg(preset).args("--files 48");
        call("datagen").args("--local").arg(preset).succeeds();
        let folder = place.directory().join(preset).join("data/retinanet/train");
        let sizes = fs::read_dir(folder).unwrap();
        let sizes: Vec<_> = sizes.map(|file| file.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes.len(), 48);
        let (total, different) = (sizes.iter().sum::<u64>(), sizes.iter().collect::<BTreeSet<_>>());
        assert!(different.len() > 40, "{sizes:?}");
        // Four standard deviations of a mean of 48.
        within(total as f64 / 48.0, 153_600.0, 4.0 * 51_200.0 / 48_f64.sqrt(), "mean size");

        server.reset();
        call("datagen").args("--bucket bench").on(&server).succeeds();
        let run = call("run").args("--np 3 --epochs 1 --verify --json --bucket bench");
        let figures = run.on(&server).succeeds().json();
        assert_eq!((&figures["gets"], &figures["bytes_read"]), (&48.into(), &total.into()));
        // The same bytes, wherever they are made, and what they were made with.
        let manifest = server.status().body_bytes_in.0 - total;
        assert!((1..4096).contains(&manifest), "{manifest} bytes more");
    }
}

#[test]
fn uploads_with_signed_bodies_store_the_same_bytes() {
    let (place, server) = (Place::new(), crate::support::serve().start());
    place.feedrate("datagen t0.yaml --sign-payload").on(&server).succeeds();
    place.feedrate("run t0.yaml --verify").on(&server).succeeds();
}
