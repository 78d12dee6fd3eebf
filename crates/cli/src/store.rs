//! From a command line to a workload and the store it names.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use feedrate_metrics::requests::RequestStats;
use feedrate_report::Store as ShownStore;
use feedrate_storage::credentials::ExposedCredentials;
use feedrate_storage::{
    Credentials, GetEngine, LocalStore, RetryPolicy, Retrying, S3Settings, S3Store, SimulatedStore,
    Store, find_credentials,
};
use feedrate_workload::{
    Override, Request, ResolveError, Resolved, Storage, Target, clean_prefix, resolve,
};
use serde::{Deserialize, Serialize};

use crate::args::{StoreArgs, UploadArgs, WorkloadArgs};
use crate::embedded::EmbeddedServer;
use crate::environment::Environment;
use crate::exit::usage;

const STORAGE_TYPE: &str = "storage.storage_type";
const STORAGE_ROOT: &str = "storage.storage_root";
const ENDPOINT: &str = "storage.storage_options.endpoint_url";
const REGION: &str = "storage.storage_options.region";

/// Resolves the workload that the flags describe. `defaults` are laid below the flags and above the
/// workload's own values.
pub(crate) fn resolve_workload(
    workload: &WorkloadArgs,
    store: &StoreArgs,
    defaults: Vec<Override>,
    environment: &Environment,
) -> anyhow::Result<Resolved> {
    let mut overrides = defaults;
    if let Some(files) = workload.files {
        let typed = format!("--files {files}");
        overrides.push(Override::flag(&typed, "dataset.num_files_train", files.get()));
    }
    if let Some(epochs) = workload.epochs {
        let typed = format!("--epochs {epochs}");
        overrides.push(Override::flag(&typed, "train.epochs", epochs.get()));
    }
    if let Some(compat) = &workload.compat {
        overrides.push(Override::flag(&format!("--compat {compat}"), "compat", compat.as_str()));
    }
    overrides.extend(store_overrides(store));
    overrides.extend(workload.set.iter().map(|option| Override::set(option)));
    let request = Request {
        workload: workload.workload.clone().into(),
        overrides,
        environment: environment.variables.clone(),
        dotenv: environment.dotenv.clone(),
        store_defaults: environment.store_defaults(),
        aws: store.aws,
        strict: workload.strict,
        started: Some(environment.started.clone()),
        directory: environment.directory.clone(),
    };
    resolve(&request).map_err(|error| match error {
        ResolveError::UnknownWorkload { .. } => usage(error.to_string()),
        error => error.into(),
    })
}

fn store_overrides(store: &StoreArgs) -> Vec<Override> {
    let mut overrides = Vec::new();
    let mut flag = |typed: String, key: &str, value: &str| {
        overrides.push(Override::flag(&typed, key, value));
    };
    if let Some(folder) = &store.local {
        let folder = folder.to_string_lossy();
        flag(format!("--local {folder}"), STORAGE_TYPE, "local_fs");
        flag(format!("--local {folder}"), STORAGE_ROOT, &folder);
    }
    if !store.endpoint_urls.is_empty() {
        let typed = format!("--endpoint-url {}", store.endpoint_urls.join(" --endpoint-url "));
        flag(typed.clone(), STORAGE_TYPE, "s3");
        flag(typed, ENDPOINT, &store.endpoint_urls.join(","));
    }
    if let Some(bucket) = &store.bucket {
        let typed = format!("--bucket {bucket}");
        flag(typed.clone(), STORAGE_TYPE, "s3");
        flag(typed, STORAGE_ROOT, bucket);
    }
    if store.aws {
        flag("--aws".to_owned(), STORAGE_TYPE, "s3");
    }
    if let Some(region) = &store.region {
        flag(format!("--region {region}"), REGION, region);
    }
    overrides
}

/// How to reach a store, so that a child process can too: made once, secrets included, and never
/// written anywhere but into a pipe.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Access {
    target: Target,
    /// Where the data set lies below what is opened.
    prefix: String,
    /// Attempts of a request, if the workload says how many.
    max_attempts: Option<u32>,
    credentials: Option<ExposedCredentials>,
    sign_payload: bool,
    /// Whose code reads objects.
    get_engine: feedrate_workload::GetEngine,
    ca_bundle: Option<PathBuf>,
    /// How it is shown.
    pub(crate) shown: ShownStore,
}

impl Access {
    /// To the store that `resolved` names. Credentials are looked for here; nothing is contacted.
    pub(crate) fn new(
        resolved: &Resolved,
        upload: &UploadArgs,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let storage = &resolved.workload.storage;
        let target = storage.target.clone();
        let (credentials, shown) = match &target {
            Target::Local { root } => (None, ShownStore::folder(root.to_string_lossy())),
            Target::S3 { bucket, prefix, endpoint_urls, region } => {
                let found = find_credentials(
                    given_credentials(resolved),
                    &environment.variables,
                    &environment.dotenv,
                    &environment.shared,
                )
                .with_context(|| format!("the bucket {bucket} needs credentials"))?;
                let region = region.as_deref().unwrap_or("us-east-1");
                let public = [format!("https://s3.{region}.amazonaws.com")];
                let endpoints: &[_] =
                    if endpoint_urls.is_empty() { &public } else { endpoint_urls };
                let place = format!("{bucket}/{prefix}");
                (Some(found), shown_bucket(endpoints, place.trim_end_matches('/')))
            }
        };
        Ok(Self {
            prefix: prefix_of(storage),
            max_attempts: storage.max_attempts,
            get_engine: storage.get_engine,
            target,
            credentials: credentials.map(|found| found.expose()),
            sign_payload: upload.sign_payload,
            ca_bundle: environment.get("AWS_CA_BUNDLE").map(PathBuf::from),
            shown,
        })
    }

    /// To `server`'s bucket, with the data folder of `resolved` below it. The workload is told, too.
    pub(crate) fn embedded(
        server: &EmbeddedServer,
        resolved: &mut Resolved,
        upload: &UploadArgs,
    ) -> anyhow::Result<Self> {
        let workload = &mut resolved.workload;
        let folder = &workload.dataset.data_folder;
        let prefix = clean_prefix(folder)
            .map_err(|why| anyhow!("dataset.data_folder = {folder:?}: {why}"))?;
        let (bucket, endpoint) = (EmbeddedServer::bucket().to_owned(), server.endpoint_url());
        let shown = ShownStore::s3(&endpoint, format!("{bucket}/{prefix}"), true);
        let target = Target::S3 { bucket, prefix, endpoint_urls: vec![endpoint], region: None };
        workload.storage.target = target.clone();
        let prefix = prefix_of(&workload.storage);
        let (max_attempts, get_engine) =
            (workload.storage.max_attempts, workload.storage.get_engine);
        let keys = server.keys();
        let credentials = Credentials::new(
            &keys.access_key_id,
            &keys.secret_access_key,
            None,
            "the embedded server",
        );
        Ok(Self {
            target,
            prefix,
            max_attempts,
            get_engine,
            credentials: Some(credentials.expose()),
            sign_payload: upload.sign_payload,
            ca_bundle: None,
            shown,
        })
    }

    /// Where the data set lies below what [`Access::open`] opens.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Opens the store, with retries around it that are counted in `requests`.
    pub(crate) fn open(&self, requests: Arc<RequestStats>) -> anyhow::Result<Arc<dyn Store>> {
        let usual = RetryPolicy::default();
        let policy = RetryPolicy { attempts: self.max_attempts.unwrap_or(usual.attempts), ..usual };
        match &self.target {
            Target::Local { root } => {
                let store = LocalStore::new(root).context("no thread for reading files")?;
                Ok(Arc::new(Retrying::new(store, policy, requests)))
            }
            Target::S3 { bucket, endpoint_urls, region, .. } => {
                let credentials = self.credentials.clone().context("the store has no keys")?;
                let mut settings = S3Settings::new(None, bucket, credentials.into());
                if let Some(region) = region {
                    settings.region.clone_from(region);
                }
                settings.sign_payload = self.sign_payload;
                settings.get_engine = match self.get_engine {
                    feedrate_workload::GetEngine::Feedrate => GetEngine::Feedrate,
                    feedrate_workload::GetEngine::ObjectStore => GetEngine::ObjectStore,
                };
                settings.ca_bundle.clone_from(&self.ca_bundle);
                let store =
                    |endpoint_url| S3Store::new(S3Settings { endpoint_url, ..settings.clone() });
                let stores = if endpoint_urls.is_empty() {
                    vec![store(None)?]
                } else {
                    let urls = endpoint_urls.iter().cloned();
                    urls.map(|url| store(Some(url))).collect::<Result<_, _>>()?
                };
                Ok(Arc::new(Retrying::over(stores, policy, requests)))
            }
        }
    }
}

/// Where the data set lies below what is opened: nowhere deeper for a folder, which is opened itself.
fn prefix_of(storage: &Storage) -> String {
    match &storage.target {
        Target::Local { .. } => String::new(),
        // The form that DLIO once wrote (spec/dlio.md D32).
        Target::S3 { bucket, prefix, .. } if storage.full_object_uri => {
            format!("s3://{bucket}/{prefix}")
        }
        Target::S3 { prefix, .. } => prefix.clone(),
    }
}

/// A store for I/O that is simulated: every file has `bytes` bytes, and reads are counted in
/// `requests`.
pub(crate) fn simulated(bytes: u64, requests: Arc<RequestStats>) -> Arc<dyn Store> {
    Arc::new(Retrying::new(SimulatedStore::new(bytes), RetryPolicy::default(), requests))
}

/// A bucket behind `endpoints`, all of them named; co-located if any of them is this host.
fn shown_bucket(endpoints: &[String], place: &str) -> ShownStore {
    let stores: Vec<_> =
        endpoints.iter().map(|endpoint| ShownStore::s3(endpoint, place, false)).collect();
    let named: Vec<_> = stores.iter().filter_map(|store| store.endpoint.as_deref()).collect();
    ShownStore {
        endpoint: Some(named.join(", ")),
        location: place.to_owned(),
        co_located: stores.iter().any(|store| store.co_located),
        embedded: false,
    }
}

/// Keys that the workload or an option gave.
fn given_credentials(resolved: &Resolved) -> Option<Credentials> {
    let secrets = &resolved.secrets;
    let (key, secret) = (secrets.access_key_id.as_ref()?, secrets.secret_access_key.as_ref()?);
    let source =
        secrets.origin.as_ref().map_or_else(|| "the workload".to_owned(), ToString::to_string);
    Some(Credentials::new(key, secret, None, source))
}

/// `run` and `datagen` need a store that somebody named.
pub(crate) fn require_named(resolved: &Resolved, command: &str) -> anyhow::Result<()> {
    let touches_none =
        !resolved.workload.reads_storage() && !resolved.workload.workflow.generate_data;
    if resolved.store_named.is_some() || (touches_none && command == "run") {
        return Ok(());
    }
    Err(usage(format!(
        "{command} needs a store, and none is named. Give one:\n  \
         --endpoint-url URL --bucket NAME   an S3-compatible store (keys from AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY or a profile)\n  \
         --local DIR                        a folder of a file system\n\
         or start one for trying things out with `feedrate serve`, which prints what to export"
    )))
}

#[cfg(test)]
mod tests {
    use feedrate_storage::ObjectKey;

    use super::*;

    /// Access to a bucket as a child process gets it.
    fn handed_over(get_engine: feedrate_workload::GetEngine) -> Access {
        let access = Access {
            target: Target::S3 {
                bucket: "bench".to_owned(),
                prefix: String::new(),
                endpoint_urls: vec!["http://127.0.0.1:1".to_owned()],
                region: None,
            },
            prefix: String::new(),
            max_attempts: Some(1),
            credentials: Some(Credentials::new("id", "secret", None, "a test").expose()),
            sign_payload: false,
            get_engine,
            ca_bundle: None,
            shown: ShownStore::folder("not shown"),
        };
        serde_json::from_str(&serde_json::to_string(&access).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_child_process_reads_by_the_engine_that_was_chosen() {
        for (engine, problem) in [
            (feedrate_workload::GetEngine::Feedrate, "cannot connect"),
            (feedrate_workload::GetEngine::ObjectStore, "object_store has no name for this key"),
        ] {
            let store = handed_over(engine).open(Arc::default()).unwrap();
            // A key that tells the engines apart before anything is sent.
            let error = store.get_discarding(&ObjectKey::new("a//b"), None).await.unwrap_err();
            assert!(error.to_string().contains(problem), "{engine:?}: {error}");
        }
    }
}
