use super::*;

type Env = BTreeMap<String, String>;

fn env(variables: &[(&str, &str)]) -> Env {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A home with `.aws/credentials` and `.aws/config`, and the environment that points to it.
fn home(credentials: Option<&str>, config: Option<&str>) -> (tempfile::TempDir, Env) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".aws");
    std::fs::create_dir(&folder).unwrap();
    for (name, text) in [("credentials", credentials), ("config", config)] {
        if let Some(text) = text {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    let variables = env(&[("HOME", home.path().to_str().unwrap())]);
    (home, variables)
}

const KEYS: &str = "\
[default]
aws_access_key_id = AKIADEFAULT000000001
aws_secret_access_key = default/Secret+with=\"odd\\chars'

# a comment
[lab]
aws_access_key_id=AKIALAB0000000000001
aws_secret_access_key=lab-secret
aws_session_token=lab-token
[half]
aws_access_key_id=AKIAHALF000000000001
";

fn found(env: &Env) -> Credentials {
    find_credentials(None, env, &Env::new(), &SharedFiles::load(env).unwrap()).unwrap()
}

#[test]
fn each_place_comes_before_the_next() {
    let (home, mut variables) = home(Some(KEYS), None);
    let shared = SharedFiles::load(&variables).unwrap();
    let pair = |name: &str| env(&[(KEY_ID, name), (SECRET, "s")]);
    let dotenv = pair("from-dotenv");
    let explicit = Credentials::new("from-flags", "s", None, "the flag --access-key-id");
    let from = |explicit, env: &Env, dotenv: &Env| {
        find_credentials(explicit, env, dotenv, &shared).unwrap()
    };

    variables.extend(pair("from-env"));
    assert_eq!(from(Some(explicit), &variables, &dotenv).access_key_id(), "from-flags");
    let found = from(None, &variables, &dotenv);
    assert_eq!((found.access_key_id(), found.source()), ("from-env", "the environment"));
    let found = from(None, &Env::new(), &dotenv);
    assert_eq!((found.access_key_id(), found.source()), ("from-dotenv", "the file .env"));
    let found = from(None, &Env::new(), &Env::new());
    assert_eq!(found.access_key_id(), "AKIADEFAULT000000001");
    assert_eq!(found.secret_access_key(), "default/Secret+with=\"odd\\chars'");
    let file = home.path().join(".aws/credentials");
    assert_eq!(found.source(), format!("{}, profile default", file.display()));
}

#[test]
fn an_empty_variable_counts_as_absent() {
    let (_home, mut variables) = home(Some(KEYS), None);
    variables.extend(env(&[(KEY_ID, ""), (SECRET, "")]));
    assert_eq!(found(&variables).access_key_id(), "AKIADEFAULT000000001");
}

#[test]
fn a_profile_is_chosen_by_name_in_both_files() {
    let config = "[default]\nregion = eu-north-1\n[profile lab]\nregion=eu-west-3\n\
                  endpoint_url = http://lab:9000\n";
    let (home, mut variables) = home(Some(KEYS), Some(config));
    variables.insert("AWS_PROFILE".to_owned(), "lab".to_owned());
    let keys = found(&variables);
    assert_eq!(
        (keys.access_key_id(), keys.session_token()),
        ("AKIALAB0000000000001", Some("lab-token"))
    );
    let shared = SharedFiles::load(&variables).unwrap();
    let source = format!("{}, profile lab", home.path().join(".aws/config").display());
    let sourced = |value: &str| Some(Sourced { value: value.to_owned(), source: source.clone() });
    assert_eq!(shared.region, sourced("eu-west-3"));
    assert_eq!(shared.endpoint_url, sourced("http://lab:9000"));
}

#[test]
fn keys_in_the_config_file_come_behind_those_in_the_credentials_file() {
    let config = "[default]\naws_access_key_id = from-config\naws_secret_access_key = s\n";
    let (_home, variables) = home(Some("[other]\nx = y\n"), Some(config));
    assert_eq!(found(&variables).access_key_id(), "from-config");
    let (_home, variables) = home(Some(KEYS), Some(config));
    assert_eq!(found(&variables).access_key_id(), "AKIADEFAULT000000001");
}

#[test]
fn variables_move_the_files_and_a_tilde_is_the_home() {
    let (home, mut variables) = home(None, None);
    std::fs::write(home.path().join("k"), KEYS).unwrap();
    std::fs::write(home.path().join("c"), "[default]\nregion = r\n").unwrap();
    let config = home.path().join("c");
    variables.insert("AWS_SHARED_CREDENTIALS_FILE".to_owned(), "~/k".to_owned());
    variables.insert("AWS_CONFIG_FILE".to_owned(), config.to_str().unwrap().to_owned());
    assert_eq!(found(&variables).access_key_id(), "AKIADEFAULT000000001");
    assert_eq!(SharedFiles::load(&variables).unwrap().region.unwrap().value, "r");
}

#[test]
fn the_services_section_names_the_s3_endpoint() {
    let config = "\
[default]
services = local
endpoint_url = http://everything
s3 =
  addressing_style = path
  region = not-this
[services local]
dynamodb =
  endpoint_url = http://dynamo
s3 =
  signature_version = s3v4
  endpoint_url = http://s3:9000
";
    let (_home, variables) = home(None, Some(config));
    let shared = SharedFiles::load(&variables).unwrap();
    assert_eq!(shared.endpoint_url.as_ref().unwrap().value, "http://s3:9000");
    assert!(shared.endpoint_url.unwrap().source.ends_with("config, services local"));
    assert_eq!(shared.region, None, "a nested region is not the profile's");
}

#[test]
fn a_profile_that_is_nowhere_is_an_error_that_names_the_files() {
    let (home, mut variables) = home(Some(KEYS), None);
    variables.insert("AWS_PROFILE".to_owned(), "nosuch".to_owned());
    let folder = home.path().join(".aws");
    assert_eq!(
        SharedFiles::load(&variables).unwrap_err().to_string(),
        format!(
            "AWS_PROFILE names the profile `nosuch`, which is nowhere to be found. Looked at: \
             {0}/credentials (no profile nosuch); {0}/config (no such file)",
            folder.display()
        )
    );
}

#[test]
fn half_a_pair_is_an_error_that_names_both_halves() {
    let shared = SharedFiles::default();
    let find = |variables: &Env| find_credentials(None, variables, &Env::new(), &shared);
    assert_eq!(
        find(&env(&[(KEY_ID, "AKIA")])).unwrap_err().to_string(),
        "the environment has AWS_ACCESS_KEY_ID but not AWS_SECRET_ACCESS_KEY; set both or neither"
    );
    let error = find(&env(&[(SECRET, "hush-hush")])).unwrap_err().to_string();
    assert!(error.contains("AWS_SECRET_ACCESS_KEY but not AWS_ACCESS_KEY_ID"), "{error}");
    assert!(!error.contains("hush"), "{error}");

    let (_home, mut variables) = home(Some(KEYS), None);
    variables.insert("AWS_PROFILE".to_owned(), "half".to_owned());
    let shared = SharedFiles::load(&variables).unwrap();
    let error = find_credentials(None, &variables, &Env::new(), &shared).unwrap_err().to_string();
    assert!(error.contains("credentials, profile half has aws_access_key_id but not"), "{error}");
}

#[test]
fn when_there_are_none_every_place_looked_at_is_listed() {
    let config = "[default]\nsso_session = corp\n";
    let (home, variables) = home(None, Some(config));
    let shared = SharedFiles::load(&variables).unwrap();
    let error = find_credentials(None, &variables, &Env::new(), &shared).unwrap_err().to_string();
    let folder = home.path().join(".aws").display().to_string();
    for place in [
        "flags and workload (none given)".to_owned(),
        "the environment (AWS_ACCESS_KEY_ID not set)".to_owned(),
        "the file .env (AWS_ACCESS_KEY_ID not set)".to_owned(),
        format!("{folder}/credentials (no such file)"),
        format!("{folder}/config, profile default (it gives keys by sso_session, which is not"),
        "aws configure export-credentials --profile default --format env".to_owned(),
    ] {
        assert!(error.contains(&place), "`{place}` is missing in: {error}");
    }

    let shared = SharedFiles::load(&Env::new()).unwrap();
    let error = find_credentials(None, &Env::new(), &Env::new(), &shared).unwrap_err().to_string();
    assert!(error.contains("~/.aws/credentials (HOME is not set)"), "{error}");
}

#[test]
fn a_broken_file_is_named_with_its_line_and_without_its_text() {
    let broken = "[default]\naws_access_key_id = AKIA\nhush-hush without a sign\n";
    let (_home, variables) = home(Some(broken), None);
    let error = SharedFiles::load(&variables).unwrap_err().to_string();
    assert!(error.contains(".aws/credentials, line "), "{error}");
    assert!(!error.contains("hush"), "{error}");
}

#[test]
fn secrets_are_in_no_debug_and_no_display() {
    let (_home, mut variables) = home(Some(KEYS), None);
    variables.insert("AWS_PROFILE".to_owned(), "lab".to_owned());
    let keys = found(&variables);
    let shared = SharedFiles::load(&variables).unwrap();
    let shown = format!("{keys} {keys:?} {:?} {shared:?}", keys.expose());
    for secret in ["lab-secret", "lab-token", "AKIALAB0000000000001"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(keys.to_string().starts_with("access key AKIA… from /"), "{keys}");
    assert_eq!(Credentials::new("test", "s", None, "x").masked_key_id(), "t…");
}

#[test]
fn a_child_process_gets_the_same_credentials() {
    let (_home, mut variables) = home(Some(KEYS), None);
    variables.insert("AWS_PROFILE".to_owned(), "lab".to_owned());
    let keys = found(&variables);
    let piped = serde_json::to_string(&keys.expose()).unwrap();
    let exposed: ExposedCredentials = serde_json::from_str(&piped).unwrap();
    assert_eq!(Credentials::from(exposed), keys);
}
