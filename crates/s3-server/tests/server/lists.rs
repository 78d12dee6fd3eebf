//! Listing a bucket.

use crate::client::{Client, TestServer};

/// All keys and common prefixes, and the number of requests it took.
async fn walk(client: &Client, query: &[(&str, &str)]) -> (Vec<String>, Vec<String>, usize) {
    let (mut keys, mut prefixes) = (Vec::new(), Vec::new());
    let mut token = String::new();
    for pages in 1.. {
        let mut query = query.to_vec();
        if !token.is_empty() {
            query.push(("continuation-token", &token));
        }
        let page = client.list(&query).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let common = page.elements("CommonPrefixes");
        assert_eq!(
            page.element("KeyCount"),
            (page.elements("Key").len() + common.len()).to_string()
        );
        keys.extend(page.elements("Key").iter().map(ToString::to_string));
        let prefix = |text: &&str| text.strip_prefix("<Prefix>").unwrap().to_owned();
        prefixes.extend(common.iter().map(prefix));
        page.element("NextContinuationToken").clone_into(&mut token);
        assert_eq!(page.element("IsTruncated"), (!token.is_empty()).to_string());
        if token.is_empty() {
            return (keys, prefixes, pages);
        }
    }
    unreachable!("a listing has an end")
}

async fn filled(keys: impl IntoIterator<Item = String>) -> TestServer {
    let server = TestServer::start().await;
    for key in keys {
        assert_eq!(server.client().put(&key, "x").await.status, 200);
    }
    server
}

#[tokio::test]
async fn many_keys_come_in_pages_once_and_sorted() {
    let names: Vec<String> = (0..2500).map(|index| format!("train/img_{index:04}.npz")).collect();
    let server = filled(names.iter().rev().cloned()).await;
    server.client().put("valid/img.npz", "x").await;
    let client = server.client();
    for (max_keys, requests) in [("1000", 3), ("7", 358), ("100000", 3)] {
        let query = [("prefix", "train/"), ("max-keys", max_keys)];
        let (keys, prefixes, pages) = walk(&client, &query).await;
        assert!(keys == names, "{max_keys} keys a page: {} keys", keys.len());
        assert!(prefixes.is_empty());
        assert_eq!(pages, requests);
    }
    assert_eq!(server.status().await.requests.list, 3 + 358 + 3);
}

#[tokio::test]
async fn a_delimiter_gives_common_prefixes() {
    let keys = ["a/1", "a/2", "b", "c/x/1", "c/x/2", "c/y"];
    let server = filled(keys.map(str::to_owned)).await;
    for max_keys in ["1", "2", "1000"] {
        let query = [("delimiter", "/"), ("max-keys", max_keys)];
        let (keys, prefixes, _) = walk(&server.client(), &query).await;
        assert_eq!((keys, prefixes), (vec!["b".into()], vec!["a/".into(), "c/".into()]));
        let query = [("delimiter", "/"), ("prefix", "c/"), ("max-keys", max_keys)];
        let (keys, prefixes, _) = walk(&server.client(), &query).await;
        assert_eq!((keys, prefixes), (vec!["c/y".into()], vec!["c/x/".into()]));
    }
}

#[tokio::test]
async fn a_list_may_start_behind_a_key() {
    let server = filled(["a", "b", "c"].map(str::to_owned)).await;
    let (keys, ..) = walk(&server.client(), &[("start-after", "a"), ("max-keys", "1")]).await;
    assert_eq!(keys, ["b", "c"]);
}

#[tokio::test]
async fn names_are_url_encoded_on_request() {
    let server = filled(["ds a+b%20/ü=1&x".to_owned(), "<\u{1}>/k".to_owned()]).await;
    let page = server.client().list(&[("encoding-type", "url"), ("prefix", "ds a+")]).await;
    assert_eq!(page.element("Key"), "ds%20a%2Bb%2520/%C3%BC%3D1%26x");
    assert_eq!(page.element("Prefix"), "ds%20a%2B");
    assert_eq!(page.element("EncodingType"), "url");
    let page = server.client().list(&[("encoding-type", "url"), ("delimiter", "/")]).await;
    assert_eq!(page.elements("CommonPrefixes")[0], "<Prefix>%3C%01%3E/");
}

#[tokio::test]
async fn wrong_questions_are_refused() {
    let server = TestServer::start().await;
    for query in [("max-keys", "-1"), ("continuation-token", "nonsense"), ("encoding-type", "x")] {
        assert_eq!(server.client().list(&[query]).await.error(), (400, "InvalidArgument"));
    }
    let page = server.client().list(&[("max-keys", "0")]).await;
    assert_eq!((page.element("KeyCount"), page.element("IsTruncated")), ("0", "false"));
}
