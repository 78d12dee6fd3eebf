//! What `feedrate datagen` makes of every format, as the readers that people use see it
//! (`tests/check_files.py` says what they look at).

use std::fs;

use serde_json::{Value, json};

use crate::support::{Place, check_files, files_below, serve};

/// Sides of T08's samples: `record_length_bytes` 65,536 with a deviation of 16,384.
const DEVIATING: &str = "dataset.record_length_bytes_stdev=16384";
const SIDES: [[u64; 2]; 4] = [[298, 278], [206, 255], [275, 232], [264, 259]];

/// Generates the set of each case in a folder of its own, by the settings that follow from what the
/// case tells and by others, and checks them all.
#[track_caller]
fn generated(cases: Vec<(Value, &[&str])>) {
    let place = Place::new();
    let checked = cases.into_iter().enumerate().map(|(number, (case, more))| {
        let store = format!("store{number}");
        make(&place, &case, more, &store);
        expected(&place, case, &store)
    });
    check_files(&checked.collect::<Vec<_>>());
}

fn make(place: &Place, case: &Value, more: &[&str], store: &str) {
    let mut call =
        place.feedrate("datagen t0.yaml --local").arg(store).set(&["workflow.train=False"]);
    let told = [
        ("format", "format"),
        ("files", "num_files_train"),
        ("samples", "num_samples_per_file"),
        ("dtype", "record_element_type"),
        ("compression", "compression"),
        ("datasets", "hdf5.num_dset_per_record"),
        ("compressibility", "compressibility"),
    ];
    for (name, key) in told {
        let value = match &case[name] {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        call = call.set(&[&format!("dataset.{key}={value}")]);
    }
    call.set(&["workflow.generate_data=True"]).set(more).succeeds();
}

fn expected(place: &Place, mut case: Value, store: &str) -> Value {
    let folder = place.directory().join(store).join("data/t0/train");
    case["folder"] = folder.to_str().unwrap().into();
    case
}

/// A case of so many files of `format` with `samples` samples each.
fn case(format: &str, files: u64, samples: u64, more: Value) -> Value {
    let mut case = json!({"format": format, "files": files, "samples": samples});
    let Value::Object(more) = more else { panic!("{more} is no object") };
    case.as_object_mut().unwrap().extend(more);
    case
}

#[test]
fn arrays_open_in_numpy_with_every_type_shape_and_size() {
    let dims: &[&str] = &["dataset.record_dims=[4,8,6]"];
    let thousand: &[&str] = &["dataset.record_length_bytes=1000"];
    let mut cases: Vec<(Value, &[&str])> = vec![
        (case("npy", 3, 2, json!({"shape": [31, 31], "size": 2050})), thousand),
        (case("npz", 3, 2, json!({"shape": [31, 31], "size": 2388})), thousand),
        (case("npz", 4, 1, json!({"shape": [256, 256], "size": 65994})), &[]),
        (case("npz", 3, 5, json!({"shape": [4, 8, 6], "dtype": "float32", "size": 4330})), dims),
        (case("npy", 3, 5, json!({"shape": [4, 8, 6], "dtype": "int16", "size": 2048})), dims),
        (
            case("npz", 3, 7, json!({"shape": [64, 64], "dtype": "float64", "compression": "zip"})),
            &["dataset.record_length_bytes=4096"],
        ),
        (
            case("npz", 3, 1, json!({"shape": [64, 64], "compression": "zip"})),
            &["dataset.record_length_bytes=4096", "dataset.compression_level=1"],
        ),
        // Appendix C.
        (
            case(
                "npz",
                4,
                1,
                json!({"shapes": [[400, 361], [218, 315], [355, 270], [332, 322]],
                    "sizes": [144_858, 69_128, 96_308, 107_362]}),
            ),
            &["dataset.record_length_bytes=100000", "dataset.record_length_bytes_stdev=40000"],
        ),
    ];
    let types = [
        "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16",
        "float32", "float64",
    ];
    let sizes = [1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8];
    for (dtype, bytes) in types.into_iter().zip(sizes) {
        let size = 2 * 32 * 32 * bytes + 128;
        let told = json!({"shape": [32, 32], "dtype": dtype, "size": size});
        cases.push((case("npy", 2, 2, told), &["dataset.record_length_bytes=1024"]));
    }
    generated(cases);
}

#[test]
fn content_compresses_as_far_as_it_is_asked_to() {
    let told = json!({"shape": [256, 256], "compressibility": 2});
    generated(vec![
        (case("npy", 3, 4, told.clone()), &[]),
        (case("tfrecord", 3, 1, told.clone()), &[]),
        (case("indexed_binary", 3, 4, told), &[]),
    ]);
}

#[test]
fn hdf5_opens_in_h5py_with_all_datasets_chunks_and_filters() {
    let small: &[&str] = &["dataset.record_length_bytes=4096"];
    generated(vec![
        // Appendix C.
        (
            case("hdf5", 2, 2, json!({"shape": [2, 8, 6], "dtype": "float32", "datasets": 2})),
            &["dataset.record_dims=[4,8,6]"],
        ),
        (case("hdf5", 3, 1, json!({"shape": [64, 64]})), small),
        (case("hdf5", 3, 9, json!({"shape": [64, 64], "dtype": "int16"})), small),
        (case("hdf5", 3, 2, json!({"shape": [16, 8]})), &["dataset.record_dims=[1,16,8]"]),
        (case("hdf5", 4, 1, json!({"shapes": SIDES})), &[DEVIATING]),
        (
            case("hdf5", 3, 3, json!({"shape": [64, 64], "compression": "gzip"})),
            &["dataset.record_length_bytes=4096", "dataset.compression_level=9"],
        ),
        (
            case(
                "hdf5",
                3,
                3,
                json!({"shape": [64, 64], "dtype": "float64", "compression": "lzf",
                    "chunks": [1, 32, 64]}),
            ),
            &["dataset.record_length_bytes=4096", "dataset.hdf5.chunk_dims=[1,32,64]"],
        ),
        (
            case(
                "hdf5",
                3,
                4,
                json!({"shape": [8, 16], "dtype": "uint32", "chunks": [2, 8, 8],
                    "maxshape": [32, 16]}),
            ),
            &[
                "dataset.record_dims=[8,16]",
                "dataset.hdf5.chunk_dims=[2,8,8]",
                "dataset.hdf5.max_shape=[32,16]",
            ],
        ),
    ]);
}

#[test]
fn rows_of_csv_differ_and_are_as_many_values_as_said_under_every_compression() {
    let hundred: &[&str] = &["dataset.record_length_bytes=100"];
    let mut cases: Vec<(Value, &[&str])> = vec![
        (case("csv", 3, 1, json!({"shape": [64, 64]})), &["dataset.record_length_bytes=4096"]),
        (case("csv", 3, 5, json!({"shape": [10, 10], "dtype": "float32"})), hundred),
        (case("csv", 3, 5, json!({"shape": [10, 10], "dtype": "float64"})), hundred),
        (
            case("csv", 3, 5, json!({"shape": [3, 50], "dtype": "int64"})),
            &["dataset.record_dims=[3,50]"],
        ),
    ];
    for compression in ["gzip", "bz2", "zip", "xz"] {
        let told = json!({"shape": [10, 10], "compression": compression});
        cases.push((case("csv", 3, 4, told), hundred));
    }
    generated(cases);
}

#[test]
fn images_open_in_pillow_and_fill_their_record_exactly() {
    let sides = SIDES.map(|[rows, columns]| rows * columns);
    let mut cases: Vec<(Value, &[&str])> = Vec::new();
    for format in ["jpeg", "png"] {
        cases.extend::<[(Value, &[&str]); 4]>([
            (case(format, 3, 1, json!({"size": 20_000})), &["dataset.record_length_bytes=20000"]),
            (
                case(format, 3, 1, json!({"size": 12_345})),
                &["dataset.record_length_bytes=12345.67"],
            ),
            (case(format, 2, 1, json!({"size": 322_957})), &["dataset.record_length_bytes=322957"]),
            (case(format, 4, 1, json!({"sizes": sides})), &[DEVIATING]),
        ]);
    }
    generated(cases);
}

#[test]
fn records_of_tensorflow_have_right_checksums_features_and_indexes() {
    generated(vec![
        // Each sample's bytes, and 54 around them; 48 where the length has one byte.
        (
            case("tfrecord", 3, 1, json!({"shape": [31, 31], "size": 961 + 54})),
            &["dataset.record_length_bytes=1000"],
        ),
        (
            case("tfrecord", 2, 20, json!({"shape": [31, 31], "size": 20 * (961 + 54)})),
            &["dataset.record_length_bytes=1000"],
        ),
        (
            case("tfrecord", 2, 300, json!({"shape": [8, 8], "size": 300 * (64 + 48)})),
            &["dataset.record_length_bytes=64"],
        ),
        (
            case(
                "tfrecord",
                2,
                3,
                json!({"shape": [4, 8, 6], "dtype": "float32", "size": 3 * (768 + 54)}),
            ),
            &["dataset.record_dims=[4,8,6]"],
        ),
        (
            case("tfrecord", 2, 1, json!({"shape": [130, 130], "size": 16_900 + 60})),
            &["dataset.record_length_bytes=16900"],
        ),
        (case("tfrecord", 4, 1, json!({"shapes": SIDES})), &[DEVIATING]),
    ]);
}

#[test]
fn indexes_of_binary_files_say_where_samples_are() {
    let mut cases: Vec<(Value, &[&str])> = Vec::new();
    for format in ["indexed_binary", "mmap_indexed_binary"] {
        cases.extend::<[(Value, &[&str]); 4]>([
            (
                case(format, 3, 1, json!({"shape": [64, 64], "size": 4096})),
                &["dataset.record_length_bytes=4096"],
            ),
            (
                case(format, 3, 50, json!({"shape": [31, 31], "size": 50 * 961})),
                &["dataset.record_length_bytes=1000"],
            ),
            (
                case(format, 2, 4, json!({"shape": [4, 8, 6], "dtype": "float64"})),
                &["dataset.record_dims=[4,8,6]"],
            ),
            (case(format, 4, 2, json!({"shapes": SIDES})), &[DEVIATING]),
        ]);
    }
    generated(cases);
}

#[test]
fn synthetic_files_hold_their_index() {
    generated(vec![(case("synthetic", 12, 1, json!({})), &[])]);
}

/// Columns of every type, as numbers and as lists of them.
const COLUMNS: &str = "dataset.parquet.columns=[\
    {name: f2, dtype: float16}, {name: f4, dtype: float32}, {name: f8, dtype: float64}, \
    {name: i1, dtype: int8}, {name: i2, dtype: int16}, {name: i4, dtype: int32}, \
    {name: i8, dtype: int64}, {name: u1, dtype: uint8}, {name: u2, dtype: uint16}, \
    {name: u4, dtype: uint32}, {name: u8, dtype: uint64}, {name: yes, dtype: bool}, \
    {name: text, dtype: string}, {name: raw, dtype: binary, size: 20}, \
    {name: vector, dtype: float32, size: 24}, {name: half, dtype: float16, size: 3}, \
    {name: shorts, dtype: int16, size: 5}, {name: any, dtype: list, size: 7}]";

fn columns() -> Value {
    json!([
        ["f2", "halffloat"],
        ["f4", "float"],
        ["f8", "double"],
        ["i1", "int8"],
        ["i2", "int16"],
        ["i4", "int32"],
        ["i8", "int64"],
        ["u1", "uint8"],
        ["u2", "uint16"],
        ["u4", "uint32"],
        ["u8", "uint64"],
        ["yes", "bool"],
        ["text", "string"],
        ["raw", "binary"],
        ["vector", "list<float>:24"],
        ["half", "list<halffloat>:3"],
        ["shorts", "list<int16>:5"],
        ["any", "list<float>:7"],
    ])
}

#[test]
fn parquet_opens_in_pyarrow_with_all_types_codecs_and_row_groups() {
    let groups: &[&str] = &[
        "dataset.record_length_bytes=64",
        "dataset.parquet.row_group_size=1000",
        "dataset.parquet.generation_batch_size=1200",
    ];
    let mut cases: Vec<(Value, &[&str])> = vec![
        (case("parquet", 3, 1, json!({"shape": [31, 31]})), &["dataset.record_length_bytes=1000"]),
        (
            case(
                "parquet",
                2,
                2500,
                json!({"shape": [8, 8], "groups": [1000, 200, 1000, 200, 100]}),
            ),
            groups,
        ),
        (case("parquet", 4, 1, json!({"shapes": SIDES})), &[DEVIATING]),
    ];
    for compression in ["none", "snappy", "zstd", "gzip", "lz4"] {
        let told =
            json!({"columns": columns(), "compression": compression, "groups": [64, 64, 22]});
        cases
            .push((case("parquet", 2, 150, told), &[COLUMNS, "dataset.parquet.row_group_size=64"]));
    }
    generated(cases);
}

#[test]
fn a_column_that_partitions_names_the_folders_and_leaves_the_files() {
    let place = Place::new();
    let told = case("parquet", 6, 10, json!({"columns": [["value", "double"]]}));
    make(
        &place,
        &told,
        &[
            "dataset.parquet.columns=[{name: day, dtype: int32}, {name: value, dtype: float64}]",
            "dataset.parquet.partition_by=day",
            "dataset.num_subfolders_train=3",
        ],
        "store",
    );
    let folder = place.directory().join("store/data/t0/train");
    let name = |number: usize| folder.join(format!("day={}/img_{number}_of_6.parquet", number % 3));
    let mut expected_names: Vec<_> = (0..6).map(name).collect();
    expected_names.sort();
    assert_eq!(files_below(&folder), expected_names);
    check_files(&[expected(&place, told, "store")]);
}

/// T08. Whoever makes a file, it is the same.
#[test]
fn sizes_that_deviate_and_contents_do_not_depend_on_how_many_make_them() {
    let place = Place::new();
    let mut cases = Vec::new();
    for (format, sizes) in [
        ("npz", json!([83_302, 52_988, 64_258, 68_834])),
        ("npy", json!([82_972, 52_658, 63_928, 68_504])),
        ("indexed_binary", json!([82_844, 52_530, 63_800, 68_376])),
        ("tfrecord", json!([82_904, 52_590, 63_860, 68_436])),
        ("parquet", json!(null)),
    ] {
        let told = case(format, 4, 1, json!({"shapes": SIDES, "sizes": sizes}));
        let mut contents = Vec::new();
        for threads in [1, 2, 4] {
            let store = format!("{format}{threads}");
            let threads = format!("reader.write_threads={threads}");
            make(&place, &told, &[DEVIATING, &threads], &store);
            let files = files_below(&place.directory().join(&store));
            contents.push(files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>());
        }
        assert!(contents.iter().all(|content| *content == contents[0]), "{format}");
        cases.push(expected(&place, told, &format!("{format}1")));
    }
    check_files(&cases);
}

/// Larger than what goes in one request.
#[test]
fn objects_that_go_in_parts_are_the_files_of_a_folder_byte_for_byte() {
    let place = Place::new();
    let kept = place.directory().join("kept");
    let server = serve().keeping_files_in(&kept).start();
    let large = case("npz", 1, 1, json!({"shape": [6324, 6324]}));
    let vectors =
        json!({"columns": [["vector", "list<float>:1024"]], "groups": [2000, 2000, 1000]});
    let columns = [
        "dataset.parquet.columns=[{name: vector, dtype: float32, size: 1024}]",
        "dataset.parquet.row_group_size=2000",
    ];
    let mut cases = Vec::new();
    for (told, settings, parts) in [
        (large, &["dataset.record_length_bytes=40e6"][..], 5),
        (case("parquet", 1, 5000, vectors), &columns, 3),
    ] {
        let format = told["format"].as_str().unwrap().to_owned();
        make(&place, &told, settings, &format);
        let own = [
            format!("dataset.format={format}"),
            format!("dataset.num_samples_per_file={}", told["samples"]),
            format!("reader.batch_size={}", told["samples"]),
            format!("dataset.data_folder=data/{format}"),
            "dataset.num_files_train=1".to_owned(),
        ];
        let settings: Vec<&str> =
            own.iter().map(String::as_str).chain(settings.iter().copied()).collect();
        server.reset();
        place.feedrate("datagen t0.yaml").set(&settings).on(&server).succeeds();
        assert_eq!(server.status().requests.part, parts, "{format}");

        let name = format!("train/img_0_of_1.{format}");
        let local = place.directory().join(&format).join("data/t0").join(&name);
        let remote = kept.join("bench/data").join(&format).join(&name);
        assert!(fs::read(local).unwrap() == fs::read(remote).unwrap(), "{format}");
        // Reading by ranges brings the same bytes.
        place.feedrate("run t0.yaml --verify").set(&settings).on(&server).succeeds();
        cases.push(expected(&place, told, &format));
    }
    check_files(&cases);
}
