//! The forms of overrides, the value grammar row by row, and what is applied to a tree.

use proptest::prelude::*;

use super::*;
use crate::tree::yaml;

fn value(text: &str) -> Result<Value, String> {
    value::parse(text, &Origin::Default).map(|node| node.value)
}

fn json(text: &str) -> String {
    let value = value(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    serde_json::to_string(&value).unwrap()
}

/// The rows of the grammar's table in the specification, each with all its inputs.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_row_of_the_value_grammar_gives_its_type() {
    let same = |texts: &[&str]| -> Vec<(String, String)> {
        texts.iter().map(|text| ((*text).to_owned(), format!("{text:?}"))).collect()
    };
    let to = |texts: &[(&str, &str)]| -> Vec<(String, String)> {
        texts.iter().map(|(text, json)| ((*text).to_owned(), (*json).to_owned())).collect()
    };
    let rows = [
        ("integers", to(&[("1", "1"), ("-3", "-3"), ("+3", "3"), ("1_000", "1000"), ("0", "0")])),
        (
            "no integers",
            same(&["007", "0x10", "0b1", "1__0", "1.2.3", "10.0.0.1", "00", "1-2", "1e"]),
        ),
        (
            "floats",
            to(&[
                ("1.5", "1.5"),
                ("1e3", "1000.0"),
                ("1E+3", "1000.0"),
                ("1e-3", "0.001"),
                (".5", "0.5"),
                ("5.", "5.0"),
                ("1_0.5", "10.5"),
                ("1.e3", "1000.0"),
            ]),
        ),
        (
            "truth values",
            to(&[("true", "true"), ("True", "true"), ("TRUE", "true"), ("fAlse", "false")]),
        ),
        ("words", same(&["yes", "no", "on", "off", "none", "None", "infinity"])),
        ("null", to(&[("null", "null"), ("Null", "null"), ("NULL", "null")])),
        ("empty", to(&[("", r#""""#), ("  ", r#""""#)])),
        (
            "text",
            same(&[
                "abc",
                "a/b",
                "./x",
                "s3://bucket/p",
                "http://h:9000",
                "a:b",
                "a b",
                "a%b",
                "a@b",
                "a+b",
                "a|b",
                "*",
                "?",
                "$",
                "-",
                "a  b",
                "a\tb",
                "$x",
                "a.b",
                "e3",
                "true false",
                "1 2",
                "a:",
            ]),
        ),
        ("outer blanks", to(&[("  a b  ", r#""a b""#), (" 1 ", "1"), ("' a '", r#"" a ""#)])),
        (
            "quoted",
            to(&[
                ("'a b'", r#""a b""#),
                (r#""a b""#, r#""a b""#),
                (r"'it\'s'", r#""it's""#),
                (r#""1""#, r#""1""#),
                ("'true'", r#""true""#),
                ("'null'", r#""null""#),
                ("''", r#""""#),
                ("'é#=('", r#""é#=(""#),
                (r"'a\b'", r#""a\\b""#),
                (r"'a\\b'", r#""a\\\\b""#),
                (r"'a\\'", r#""a\\""#),
                (r"'a\\\'b'", r#""a\\'b""#),
            ]),
        ),
        (
            "escaped",
            to(&[
                (r"a\,b", r#""a,b""#),
                (r"a\ b", r#""a b""#),
                (r"a\=b", r#""a=b""#),
                (r"\\", r#""\\""#),
                (r"\(a\)", r#""(a)""#),
                (r"\[1\]", r#""[1]""#),
                (r"\{a\}", r#""{a}""#),
                (r"a\:b", r#""a:b""#),
                (r"\ a\ ", r#"" a ""#),
                (r"\a", r#""\\a""#),
                (r"a\", r#""a\\""#),
            ]),
        ),
        (
            "lists",
            to(&[
                ("[1,2]", "[1,2]"),
                (r#"[a,"b c"]"#, r#"["a","b c"]"#),
                ("[]", "[]"),
                ("[ ]", "[]"),
                ("[[1],[]]", "[[1],[]]"),
                ("[a b, c:d]", r#"["a b","c:d"]"#),
                ("['é']", r#"["é"]"#),
            ]),
        ),
        (
            "mappings",
            to(&[
                ("{a:1,b:[1,2]}", r#"{"a":1,"b":[1,2]}"#),
                ("{a: 1}", r#"{"a":1}"#),
                ("{}", "{}"),
                ("{a: {b: c}}", r#"{"a":{"b":"c"}}"#),
                ("{url: http://h:9000}", r#"{"url":"http://h:9000"}"#),
                ("{a b: 1, 1: 2}", r#"{"a b":1,"1":2}"#),
            ]),
        ),
        (
            "interpolations",
            same(&[
                "${x.y}",
                "a-${x}",
                "${now:%Y-%m-%d}",
                "${oc.env:A,b}",
                "${.x}",
                "${x}${y}",
                "${a b}",
                "${oc.env:A,${b}}",
                "${oc.env:A,#(é}",
                "${oc.env:A,b\\,c}",
            ]),
        ),
        ("interpolations in lists", to(&[("[${oc.env:A,b},c]", r#"["${oc.env:A,b}","c"]"#)])),
        (
            "casts",
            to(&[
                (r#"int("3")"#, "3"),
                ("int('007')", "7"),
                ("int(' 1_0 ')", "10"),
                ("int(3.7)", "3"),
                ("int(-3.7)", "-3"),
                ("int(true)", "1"),
                ("float(3)", "3.0"),
                (r#"float("1.5")"#, "1.5"),
                ("float(true)", "1.0"),
                ("str(3)", r#""3""#),
                ("str(1e3)", r#""1000.0""#),
                ("str(1e16)", r#""1e+16""#),
                ("str(true)", r#""true""#),
                ("str(a b)", r#""a b""#),
                ("str([1,2])", r#"["1","2"]"#),
                ("int({a: '1'})", r#"{"a":1}"#),
                ("int(int(3))", "3"),
                ("[int(3),str(4)]", r#"[3,"4"]"#),
                ("bool(1)", "true"),
                ("bool('FALSE')", "false"),
            ]),
        ),
    ];
    for (row, inputs) in rows {
        for (text, expected) in inputs {
            assert_eq!(json(&text), expected, "{row}: {text}");
        }
    }
    assert_eq!(value("inf"), Ok(Value::Float(f64::INFINITY)));
    assert_eq!(value("-inf"), Ok(Value::Float(f64::NEG_INFINITY)));
    assert!(matches!(value("nan"), Ok(Value::Float(value)) if value.is_nan()));
}

/// The rows that are errors, and what is not well-formed.
#[test]
fn what_is_no_value_says_why() {
    for text in [
        "a=b", "a#b", "a;b", "a&b", "a!b", "a<b", "a>b", "~a", "a(b", "(a)", "é", "a^b", "a`b",
        "it's", "a]", "a}", "a[b]", "a{b}", "x 'a'", "[!]", "{a: é}", "a\u{a0}b", "a\nb", "foo(1)",
        "$ {x}",
    ] {
        let message = value(text).unwrap_err();
        assert!(message.contains("must stand in quotes"), "{text}: {message}");
    }
    for (text, part) in [
        ("1,2", "list without brackets"),
        ("a, b", "would be a sweep"),
        ("a,", "list without brackets"),
        ("choice(a,b)", "choice() is for sweeps"),
        ("range(1,3)", "range() is for sweeps"),
        ("glob(*)", "glob() is for sweeps"),
        ("sort(1,2)", "sort() is for sweeps"),
        ("shuffle([1])", "shuffle() is for sweeps"),
        ("interval(1,2)", "interval() is for sweeps"),
        ("tag(a,choice(b))", "tag() is for sweeps"),
        ("[choice(a,b)]", "choice() is for sweeps"),
        ("int(x)", "int() cannot be made of \"x\""),
        ("int('3.5')", "int() cannot"),
        ("int(inf)", "int() cannot"),
        ("int(null)", "int() cannot"),
        ("float(x)", "float() cannot"),
        ("bool(yes)", "bool() cannot"),
        ("int(${x})", "int() cannot"),
        ("int()", "a value is missing"),
        ("int(1,2)", "int() takes one value"),
        ("int(1", "int() takes one value"),
        ("int(1)2", "behind the end"),
        ("[1", "without its ']'"),
        ("[a,]", "a value is missing"),
        ("[,]", "a value is missing"),
        ("{b}", "{name: value"),
        ("{b:1", "without its '}'"),
        ("{b:}", "a value is missing"),
        ("{b:1,b:2}", "twice"),
        ("'b", "without its closing '"),
        (r"'b\'", "without its closing '"),
        ("'b'c", "behind the end"),
        ("[1]]", "behind the end"),
        ("[1][2]", "behind the end"),
        ("${b", "interpolation without"),
    ] {
        let message = value(text).unwrap_err();
        assert!(message.contains(part), "{text}: {message}");
    }
    assert!(value(&"[".repeat(1000)).unwrap_err().contains("deeper"));
    assert!(value(&"int(".repeat(1000)).unwrap_err().contains("deeper"));
}

fn applied(tree: &str, arguments: &[&str]) -> Result<String, String> {
    let mut root = yaml::read(&Arc::from("t.yaml"), tree).unwrap();
    let mut findings = Findings::default();
    for argument in arguments {
        Override::argument(argument).apply(&mut root, &mut findings);
    }
    match findings.problems.as_slice() {
        [] => Ok(serde_json::to_string(&root).unwrap()),
        problems => Err(problems.iter().map(Remark::to_string).collect::<Vec<_>>().join("\n")),
    }
}

const ROOT: &str =
    "{workload: {reader: {batch_size: 4, list: [1, 2]}, none: ~, train: 3}, mine: 1}";

#[test]
fn the_five_forms_change_add_and_delete() {
    let reader = |reader: &str| {
        format!(r#"{{"workload":{{"reader":{reader},"none":null,"train":3}},"mine":1}}"#)
    };
    let beside = |more: &str| {
        let reader = r#""reader":{"batch_size":4,"list":[1,2]}"#;
        format!(r#"{{"workload":{{{reader},{more}}},"mine":1}}"#)
    };
    for (arguments, expected) in [
        (&["workload.reader.batch_size=5"][..], reader(r#"{"batch_size":5,"list":[1,2]}"#)),
        (&["workload.reader={batch_size: 5}"], reader(r#"{"batch_size":5,"list":[1,2]}"#)),
        (&["workload.reader={}"], reader(r#"{"batch_size":4,"list":[1,2]}"#)),
        (&["workload.reader.list=[3]"], reader(r#"{"batch_size":4,"list":[3]}"#)),
        (&["workload.reader=3"], reader("3")),
        (
            &["+workload.reader.odirect=true"],
            reader(r#"{"batch_size":4,"list":[1,2],"odirect":true}"#),
        ),
        (
            &["+workload.reader={odirect: true}"],
            reader(r#"{"batch_size":4,"list":[1,2],"odirect":true}"#),
        ),
        (&["++workload.reader={batch_size: 5}"], reader(r#"{"batch_size":5,"list":[1,2]}"#)),
        (&["workload={reader: {batch_size: 5}}"], reader(r#"{"batch_size":5,"list":[1,2]}"#)),
        (&["+workload.reader.list=[3]"], reader(r#"{"batch_size":4,"list":[3]}"#)),
        (&["+workload.train={epochs: 2}"], beside(r#""none":null,"train":{"epochs":2}"#)),
        (&["~workload.reader.list"], reader(r#"{"batch_size":4}"#)),
        (&["~workload.reader.list=[1,2]"], reader(r#"{"batch_size":4}"#)),
        (&["~workload.reader.batch_size=4.0"], reader(r#"{"list":[1,2]}"#)),
        (&["workload.none={a: 1}"], beside(r#""none":{"a":1},"train":3"#)),
        (&["+workload.none=1"], beside(r#""none":1,"train":3"#)),
        (&["++workload.train.epochs=2"], beside(r#""none":null,"train":{"epochs":2}"#)),
        (&["++workload.a.b.c=1"], beside(r#""none":null,"train":3,"a":{"b":{"c":1}}"#)),
        (&["++workload.train=1", "workload.train=2"], beside(r#""none":null,"train":2"#)),
        (&["~workload.train", "+workload.train=2"], beside(r#""none":null,"train":2"#)),
    ] {
        assert_eq!(applied(ROOT, arguments).as_deref(), Ok(expected.as_str()), "{arguments:?}");
    }
    let changed = applied(ROOT, &["mine=2"]).unwrap();
    assert!(changed.ends_with(r#""mine":2}"#), "{changed}");
    let deleted = applied(ROOT, &["~mine"]).unwrap();
    assert!(!deleted.contains("mine"), "{deleted}");
}

#[test]
fn a_form_that_does_not_fit_what_is_there_is_refused_with_the_one_that_does() {
    for (argument, part) in [
        (
            "workload.reader.odirect=1",
            "write +workload.reader.odirect=VALUE to add it, or ++workload",
        ),
        ("workload.reader={odirect: 1}", "workload.reader.odirect is not there"),
        ("workload.train.epochs=1", "not there, so it cannot be changed"),
        (
            "+workload.reader.batch_size=5",
            "there already, so it cannot be added: write workload.reader",
        ),
        ("+workload.reader=5", "there already"),
        ("~workload.reader.odirect", "cannot be deleted: it is not there"),
        ("~workload.none", "cannot be deleted: it is not there"),
        ("~workload.reader.batch_size=5", "not deleted, because its value is 4"),
        ("~workload.reader.batch_size='4'", "not deleted"),
        ("~workload", "cannot be deleted as a whole"),
        ("++workload=3", "accepts a mapping"),
        ("reader.batch_size=5", "such as ++workload.reader.batch_size=VALUE"),
        ("+reader.batch_size=5", "no such key at the root"),
        ("++reader.batch_size=5", "no such key at the root"),
        ("~reader.batch_size", "no such key at the root"),
        ("workload.reader.batch_size", "no '=' in it: write workload.reader.batch_size=VALUE"),
        ("++workload.reader.batch_size", "no '='"),
        ("", "is no key"),
        ("=1", "is no key"),
        ("a..b=1", "is no key"),
        ("a b=1", "is no key"),
        ("1a=1", "is no key"),
        ("é=1", "is no key"),
        ("a[0]=1", "is no key"),
        ("++ a=1", "is no key"),
        ("+++a=1", "+++ does not stand before a key"),
        ("+~a=1", "+~ does not stand before a key"),
        ("workload.a=1,2", "list without brackets"),
        ("workload.a=b#c", "must stand in quotes"),
    ] {
        let message = applied(ROOT, &[argument]).unwrap_err();
        assert!(message.starts_with(argument) && message.contains(part), "{argument}: {message}");
    }
}

#[test]
fn a_key_is_there_in_whatever_spelling_and_what_is_typed_is_kept() {
    let root = "{workload: {dataset: {record_length_bytes: 1}, model: a}}";
    let json = |dataset: &str, model: &str| {
        format!(r#"{{"workload":{{"dataset":{{{dataset}}},"model":{model}}}}}"#)
    };
    let both = r#""record_length_bytes":1,"record_length":2"#;
    for (argument, expected) in [
        ("++workload.dataset.record_length=2", json(both, r#""a""#)),
        ("workload.dataset.record_length=2", json(r#""record_length_bytes":2"#, r#""a""#)),
        ("workload.model=b", json(r#""record_length_bytes":1"#, r#""b""#)),
        ("~workload.dataset.record_length=1", json("", r#""a""#)),
    ] {
        assert_eq!(applied(root, &[argument]), Ok(expected), "{argument}");
    }
    // Something set below a model that is only a name leaves it its name.
    let named = applied(root, &["++workload.model.type=cnn"]).unwrap();
    assert!(named.contains(r#""model":{"name":"a","type":"cnn"}"#), "{named}");
    assert!(
        applied(root, &["+workload.dataset.record_length=2"])
            .unwrap_err()
            .contains("there already")
    );
}

#[test]
fn what_stands_behind_set_is_checked_as_a_key_of_the_workload() {
    for (option, part) in [
        ("a.b", "no '='"),
        ("=1", "is no key"),
        ("a..b=1", "is no key"),
        ("a b=1", "is no key"),
        ("~a=1", "is no key"),
        ("+a=1", "is no key"),
        ("1a=1", "is no key"),
        ("workload=x", "the command's argument"),
        ("a=1,2", "a list without brackets"),
        ("a=x=y", "must stand in quotes"),
    ] {
        let message = Override::set(option).content.unwrap_err();
        assert!(message.contains(part), "{option}: {message}");
    }
    let long = Override::set(&format!("a={}", "x".repeat(MAX_BYTES)));
    assert!(long.content.unwrap_err().contains("longer"));
}

#[test]
fn prefixes_of_dlios_command_line_are_dropped_behind_set() {
    for option in ["a.b=1", "++a.b=1", "workload.a.b=1", "++workload.a.b=1"] {
        let option = Override::set(option);
        assert_eq!(option.change().unwrap().key, "workload.a.b");
        assert_eq!(option.text(), "++workload.a.b=1");
    }
}

#[test]
fn arguments_keep_their_form() {
    for argument in
        ["a.b=1", "+a.b=1", "++a.b= 'x y'", "~a.b", "~a.b=1", "workload=x", "hydra.run.dir=/x"]
    {
        assert_eq!(Override::argument(argument).text(), argument);
    }
    let flag = Override::flag("--compat x", "compat", "x").unlisted();
    assert_eq!((flag.text(), format!("{flag:?}").as_str()), ("", "Override(\"--compat x\")"));
}

#[test]
fn the_value_of_a_flag_is_written_so_that_it_is_read_as_it_was() {
    for (value, expected) in [
        (Value::from("/data"), "++workload.k=/data"),
        (Value::from("a,b"), "++workload.k='a,b'"),
        (Value::from("é #"), "++workload.k='é #'"),
        (Value::from("1e3"), "++workload.k='1e3'"),
        (Value::from("it's"), r"++workload.k='it\'s'"),
        (Value::from(3_u32), "++workload.k=3"),
        (Value::from(true), "++workload.k=true"),
    ] {
        let flag = Override::flag("--k", "k", value.clone());
        assert_eq!(flag.text(), expected);
        let read = Override::set(&flag.text()["++".len()..]);
        let Action::Set(node) = &read.change().unwrap().action else { panic!("{read:?}") };
        assert_eq!(node.value, value);
    }
}

#[test]
fn what_could_be_a_secret_is_not_shown() {
    for option in [
        "storage.storage_options.secret_access_key=hunter2",
        "++workload.storage.storage_options.access_key_id=hunter2",
        "storage.storage_options={secret_access_key: hunter2}",
        "storage={storage_options: {access_key_id: hunter2}}",
        "storage.storage_options.secretkey=hunter2",
        "storage.storage_options.sekret=hunter2",
        "storage.storage_options.endpoint_url=http://u:hunter2@h",
        "storage.storage_options.secret_access_key='hunter2",
        "secret access key=hunter2",
    ] {
        let typed = option.trim_start_matches("++workload.");
        let mut forms = vec![Override::set(option)];
        forms.extend(
            ["", "+", "++", "~"].map(|s| Override::argument(&format!("{s}workload.{typed}"))),
        );
        forms.push(Override::argument("++workload={storage: {storage_options: {x: hunter2}}}"));
        for form in forms {
            let mut findings = Findings::default();
            let mut root =
                yaml::read(&Arc::from("t.yaml"), "{workload: {storage: {storage_options: {}}}}");
            form.apply(root.as_mut().unwrap(), &mut findings);
            let shown = format!("{form:?} {} {:?}", form.text(), findings.problems);
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
    let deleted = applied(
        "{workload: {storage: {storage_options: {secret_access_key: hunter2}}}}",
        &["~workload.storage.storage_options.secret_access_key=x"],
    );
    assert!(!deleted.unwrap_err().contains("hunter2"));
}

#[test]
fn remarks_about_the_keys_of_a_long_option_repeat_only_its_beginning() {
    let names: Vec<_> = (0..1000).map(|at| format!("k{at}: 1")).collect();
    let option = Override::argument(&format!("++workload={{{}}}", names.join(", ")));
    let origin = option.origin().to_string();
    assert!(origin.starts_with("++workload={k0: 1,") && origin.ends_with("..."), "{origin}");
    assert!(origin.len() < 250, "{origin}");
    assert!(option.text().ends_with("k999: 1}"), "{}", option.text());
}

proptest! {
    #[test]
    fn no_text_makes_parsing_panic(option in ".{0,100}") {
        let _ = (Override::set(&option), Override::argument(&option));
    }

    #[test]
    fn no_text_of_the_grammars_characters_makes_parsing_panic(
        text in "[a-c0-1 :,\\[\\]{}()$\\\\'\"=.é_-]{0,100}"
    ) {
        let _ = value(&text);
    }

    #[test]
    fn no_arguments_make_applying_panic(
        arguments in proptest::collection::vec(
            "[+~]{0,2}(workload|mine|reader|model)(\\.(reader|batch_size|model|train|a)){0,4}(=(1|x|\\{a: 1\\}|\\[\\]))?",
            0..6,
        )
    ) {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let _ = applied(ROOT, &arguments);
    }

    #[test]
    fn text_is_written_so_that_it_is_read_as_it_was(text in "[^\u{0}]{0,50}") {
        prop_assert_eq!(value(&value::written(&text)), Ok(Value::Text(text)));
    }

    #[test]
    fn what_is_added_can_be_deleted(name in "[a-z]{1,5}", number in any::<i32>()) {
        let arguments = [format!("++workload.x.{name}={number}"), format!("~workload.x.{name}={number}")];
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let after = applied("{workload: {x: {}}}", &arguments);
        prop_assert_eq!(after, Ok(r#"{"workload":{"x":{}}}"#.to_owned()));
    }
}
