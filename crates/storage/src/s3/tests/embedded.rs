//! The client against the embedded server, which checks signatures and checksums for real.

use feedrate_s3_server::{KeyPair, Options, Server as S3Server};

use super::*;

with_both_engines! {
    a_bucket_keeps_the_contract,
    a_bucket_behind_several_endpoints_keeps_the_contract,
    a_bucket_keeps_the_contract_with_signed_bodies,
    wrong_keys_and_a_missing_bucket_are_told_as_such,
}

async fn store(engine: GetEngine, sign_payload: bool) -> S3Store {
    let keys = KeyPair {
        access_key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_access_key: "hush-hush".to_owned(),
    };
    let options = Options {
        buckets: vec!["data".to_owned()],
        ..Options::in_memory(([127, 0, 0, 1], 0).into(), keys)
    };
    let server = S3Server::bind(options).await.unwrap();
    let endpoint = format!("http://{}", server.local_addr());
    tokio::spawn(server.serve(std::future::pending()));
    let settings = S3Settings { get_engine: engine, sign_payload, ..settings(&endpoint) };
    S3Store::new(settings).unwrap()
}

async fn a_bucket_keeps_the_contract(engine: GetEngine) {
    crate::contract::check(Arc::new(store(engine, false).await)).await;
}

async fn a_bucket_behind_several_endpoints_keeps_the_contract(engine: GetEngine) {
    let one = store(engine, false).await;
    let other = S3Store::new(one.settings.clone()).unwrap();
    let store = Retrying::over([one, other], RetryPolicy::default(), Arc::default());
    crate::contract::check(Arc::new(store)).await;
}

async fn a_bucket_keeps_the_contract_with_signed_bodies(engine: GetEngine) {
    crate::contract::check(Arc::new(store(engine, true).await)).await;
}

/// Keys as DLIO once wrote them: signed, sent and listed with all their slashes. `object_store` has no
/// name for them.
#[tokio::test]
async fn whole_uris_are_keys_like_any_other() {
    let store = store(GetEngine::Feedrate, false).await;
    let key = |name: &str| ObjectKey::new(format!("s3://data/unet3d/train/{name}"));
    for name in ["img_0_of_2.npz", "img_1_of_2.npz"] {
        store.put(&key(name), Bytes::from_static(b"body")).await.unwrap();
        let mut buffer = Vec::new();
        store.get(&key(name), None, &mut buffer).await.unwrap();
        assert_eq!((buffer.as_slice(), store.size(&key(name)).await.unwrap()), (&b"body"[..], 4));
    }
    let mut found = Vec::new();
    let mut keep = |page: Vec<Listed>| found.extend(page.into_iter().map(|it| it.key));
    store.list("s3://data/unet3d/train", &mut keep).await.unwrap();
    assert_eq!(found, [key("img_0_of_2.npz"), key("img_1_of_2.npz")]);
    store.delete(&found[0]).await.unwrap();
    assert!(store.size(&found[0]).await.is_err());
}

async fn wrong_keys_and_a_missing_bucket_are_told_as_such(engine: GetEngine) {
    let right = store(engine, false).await;
    let with = |change: fn(&mut S3Settings)| {
        let mut settings = right.settings.clone();
        change(&mut settings);
        S3Store::new(settings).unwrap()
    };
    let wrong_secret = with(|settings| {
        settings.credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", "not-it", None, "a test");
    });
    let error = get(&wrong_secret).await.unwrap_err().to_string();
    assert!(error.contains("403 SignatureDoesNotMatch"), "{error}");
    let wrong_id = with(|settings| {
        settings.credentials = Credentials::new("AKIAOTHER", "hush-hush", None, "a test");
    });
    let error = listed(&wrong_id).await.unwrap_err().to_string();
    assert!(error.contains("403 InvalidAccessKeyId"), "{error}");
    let no_bucket = with(|settings| settings.bucket = "nosuch".to_owned());
    for error in
        [listed(&no_bucket).await.unwrap_err(), get(&no_bucket).await.map(drop).unwrap_err()]
    {
        assert!(matches!(*error.cause, Cause::NoSuchBucket), "{error:?}");
        assert!(error.to_string().contains("s3://nosuch at http://127.0.0.1:"), "{error}");
    }
}
