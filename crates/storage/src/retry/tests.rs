use std::collections::VecDeque;
use std::sync::Mutex;

use super::*;
use crate::Operation;

/// A store whose next outcomes are written down, and which remembers when it was asked.
#[derive(Debug)]
struct Scripted {
    script: Mutex<VecDeque<Result<(), Cause>>>,
    asked: Mutex<Vec<Instant>>,
    /// How long each attempt takes.
    takes: Duration,
    endpoint: Option<String>,
}

impl Scripted {
    fn new(script: impl IntoIterator<Item = Result<(), Cause>>) -> Self {
        let script = Mutex::new(script.into_iter().collect());
        Self { script, asked: Mutex::default(), takes: Duration::ZERO, endpoint: None }
    }

    /// With as many good outcomes behind `script` as a test may want.
    fn at(endpoint: &str, script: impl IntoIterator<Item = Cause>) -> Self {
        let good = (0..1_000).map(|_| Ok(()));
        let script = Self::new(script.into_iter().map(Err).chain(good));
        Self { endpoint: Some(endpoint.to_owned()), ..script }
    }

    async fn next(&self, operation: Operation, target: &str) -> Result<(), StoreError> {
        let began = Instant::now();
        self.asked.lock().unwrap().push(began);
        tokio::time::sleep(self.takes).await;
        let outcome = self.script.lock().unwrap().pop_front().expect("a written outcome");
        outcome.map_err(|cause| StoreError {
            operation,
            target: target.to_owned(),
            location: self.location(),
            attempts: 1,
            elapsed: began.elapsed(),
            cause: Box::new(cause),
        })
    }

    /// The times between attempts.
    fn waits(&self) -> Vec<Duration> {
        self.asked.lock().unwrap().windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

/// Lists the keys `000`, `001` … in pages of two; the script decides what follows each page.
impl Store for Scripted {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        _: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            self.next(Operation::Get, key.as_str()).await?;
            into.extend_from_slice(b"body");
            let (first_byte, last_byte) = (Duration::from_millis(3), Duration::from_millis(5));
            Ok(Fetched { bytes: 4, first_byte, last_byte })
        })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, _: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.next(Operation::Put, key.as_str()))
    }

    fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move { self.next(Operation::Head, key.as_str()).await.map(|()| 4) })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.next(Operation::Delete, key.as_str()))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            for at in (0..10).step_by(2) {
                self.next(Operation::List, prefix).await?;
                let listed = |at| Listed { key: ObjectKey::new(format!("{at:03}")), size: 1 };
                page(vec![listed(at), listed(at + 1)]);
            }
            Ok(())
        })
    }

    fn location(&self) -> String {
        self.endpoint.as_ref().map_or("a script".to_owned(), |url| format!("s3://data at {url}"))
    }

    fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }
}

fn slow_down(retry_after: Option<Duration>) -> Cause {
    let code = Some("SlowDown".to_owned());
    Cause::Status { status: 503, code, message: None, retry_after }
}

fn refused() -> Cause {
    Cause::Connect { reason: "Connection refused".to_owned() }
}

fn reset() -> Cause {
    Cause::Reset { reason: "Connection reset by peer".to_owned() }
}

async fn sized_and_deleted(store: &impl Store) -> Result<u64, StoreError> {
    let key = ObjectKey::new("key");
    store.delete(&key).await?;
    store.size(&key).await
}

#[tokio::test(start_paused = true)]
async fn sizes_and_removals_are_repeated_like_reads() {
    let script = [Err(reset()), Ok(()), Err(slow_down(None)), Err(slow_down(None)), Ok(())];
    let (store, stats) = retrying(Scripted::new(script));
    assert_eq!(sized_and_deleted(&store).await.unwrap(), 4);
    assert_eq!(waits(&store).len(), 4);
    let summary = stats.summary();
    assert_eq!((summary.gets, summary.retries_total()), (0, 3));

    let missing = || Err(Cause::NotFound { code: None });
    let (store, _) = retrying(Scripted::new([Ok(()), missing()]));
    let error = sized_and_deleted(&store).await.unwrap_err();
    assert_eq!((error.operation, error.attempts), (Operation::Head, 1));
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_one_attempt_repeats_nothing() {
    let policy = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let script = Scripted::new([Err(reset())]);
    let store = Retrying::new(script, policy, Arc::new(RequestStats::new()));
    assert_eq!(get(&store).await.unwrap_err().attempts, 1);
}

/// The chance 0.5 makes each wait three quarters of its bound.
fn retrying(script: Scripted) -> (Retrying<Scripted>, Arc<RequestStats>) {
    let stats = Arc::new(RequestStats::new());
    let store = Retrying::new(script, RetryPolicy::default(), Arc::clone(&stats));
    (store.with_chance(|| 0.5), stats)
}

fn spread(scripts: impl IntoIterator<Item = Scripted>) -> (Retrying<Scripted>, Arc<RequestStats>) {
    let stats = Arc::new(RequestStats::new());
    let store = Retrying::over(scripts, RetryPolicy::default(), Arc::clone(&stats));
    (store.with_chance(|| 0.5), stats)
}

fn waits(store: &Retrying<Scripted>) -> Vec<Duration> {
    store.endpoints.at(0).store.waits()
}

/// How often each endpoint was asked, good answers and bad.
fn asked<const N: usize>(store: &Retrying<Scripted>) -> [usize; N] {
    std::array::from_fn(|at| store.endpoints.at(at).store.asked.lock().unwrap().len())
}

async fn get(store: &impl Store) -> Result<Fetched, StoreError> {
    store.get(&ObjectKey::new("key"), None, &mut Vec::new()).await
}

fn millis(times: &[u64]) -> Vec<Duration> {
    times.iter().map(|&time| Duration::from_millis(time)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_throttled_read_is_repeated_and_counted_once() {
    let script = [Err(slow_down(None)), Err(reset()), Err(slow_down(None)), Ok(())];
    let (store, stats) = retrying(Scripted::new(script));
    get(&store).await.unwrap();
    let summary = stats.summary();
    assert_eq!(summary.gets, 1);
    assert_eq!(summary.bytes.0, 4);
    assert_eq!(
        summary.retries.into_iter().collect::<Vec<_>>(),
        [("503".to_owned(), 2), ("reset".to_owned(), 1)]
    );
    let within = |ms: Option<f64>, of: f64| ms.is_some_and(|ms| (ms - of).abs() < 0.01);
    assert!(within(summary.first_byte_ms.max, 3.0), "the successful attempt's own times");
    assert!(within(summary.last_byte_ms.max, 5.0), "the successful attempt's own times");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_discards_is_repeated_and_counted_like_any_other() {
    let script = [Err(slow_down(None)), Err(reset()), Ok(())];
    let (store, stats) = retrying(Scripted::new(script));
    assert_eq!(store.get_discarding(&ObjectKey::new("key"), None).await.unwrap().bytes, 4);
    let summary = stats.summary();
    assert_eq!((summary.gets, summary.bytes.0), (1, 4));
    assert_eq!(
        summary.retries.into_iter().collect::<Vec<_>>(),
        [("503".to_owned(), 1), ("reset".to_owned(), 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn waits_double_and_the_last_error_speaks_for_all_attempts() {
    let (store, stats) = retrying(Scripted::new((0..5).map(|_| Err(slow_down(None)))));
    let error = get(&store).await.unwrap_err();
    assert_eq!(waits(&store), millis(&[75, 150, 300, 600]));
    assert_eq!(error.attempts, 5);
    assert_eq!(error.elapsed, Duration::from_millis(75 + 150 + 300 + 600));
    assert_eq!(
        error.to_string(),
        "GET key at a script failed after 5 attempts in 1.1s: 503 SlowDown"
    );
    assert_eq!(stats.summary().retries["503"], 4, "the attempt given up on was not repeated");
    assert_eq!(stats.summary().gets, 0);
}

#[test]
fn a_wait_lies_between_half_and_all_of_a_bound_that_doubles_to_its_cap() {
    let policy = RetryPolicy::default();
    for (retry, most) in [(1, 100), (2, 200), (3, 400), (6, 3_200), (7, 5_000), (99, 5_000)] {
        let most = Duration::from_millis(most);
        assert_eq!(policy.wait(retry, 0.0), most / 2, "retry {retry}");
        assert_eq!(policy.wait(retry, 1.0), most, "retry {retry}");
    }
}

#[test]
fn waits_differ_by_chance() {
    let (store, policy) = (crate::MemoryStore::new(), RetryPolicy::default());
    let store = Retrying::new(store, policy, Arc::default());
    let waits: std::collections::BTreeSet<_> =
        (0..50).map(|_| store.policy.wait(1, (store.chance)())).collect();
    assert!(waits.len() > 10, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_is_not_asked_before_the_time_it_named() {
    let asked = Duration::from_secs(7);
    let script = [Err(slow_down(Some(asked))), Err(slow_down(Some(Duration::ZERO))), Ok(())];
    let (store, _) = retrying(Scripted::new(script));
    get(&store).await.unwrap();
    assert_eq!(waits(&store), millis(&[7_000, 150]));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_asks_for_more_time_than_there_is_ends_the_operation() {
    // The second is what a header of 2^64 - 1 seconds says.
    for asked in [Duration::from_mins(10), Duration::from_secs(u64::MAX)] {
        let mut script = Scripted::new([Err(slow_down(Some(asked)))]);
        script.takes = Duration::from_secs(2);
        let (store, stats) = retrying(script);
        let error = get(&store).await.unwrap_err();
        assert_eq!((error.attempts, error.elapsed), (1, Duration::from_secs(2)));
        assert_eq!(stats.summary().retries_total(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_will_not_pass_is_tried_once() {
    let denied = || Cause::Status {
        status: 403,
        code: Some("AccessDenied".to_owned()),
        message: None,
        retry_after: None,
    };
    for cause in [denied(), Cause::NoSuchBucket, Cause::Tls { reason: String::new() }] {
        let (store, stats) = retrying(Scripted::new([Err(cause)]));
        let error = store.put(&ObjectKey::new("key"), Bytes::new()).await.unwrap_err();
        assert_eq!(error.attempts, 1);
        assert_eq!(stats.summary().retries_total(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn refused_connections_end_within_two_seconds() {
    let (store, stats) = retrying(Scripted::new((0..5).map(|_| Err(refused()))));
    let error = get(&store).await.unwrap_err();
    assert_eq!(error.attempts, 5);
    assert!(error.elapsed < Duration::from_secs(2), "{error}");
    assert_eq!(stats.summary().retries["connect"], 4);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_drops_packets_is_given_up_after_one_connect_timeout() {
    let mut script = Scripted::new([Err(refused())]);
    script.takes = Duration::from_secs(5);
    let (store, _) = retrying(script);
    let error = get(&store).await.unwrap_err();
    assert_eq!((error.attempts, error.elapsed), (1, Duration::from_secs(5)));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hung_for_its_whole_time_is_repeated_once() {
    let limit = Duration::from_mins(1);
    let hung = || Err(Cause::Timeout { limit });
    let mut script = Scripted::new([Ok(()), hung(), hung()]);
    script.takes = limit;
    let (store, stats) = retrying(script);
    get(&store).await.unwrap();
    let error = get(&store).await.unwrap_err();
    assert_eq!(error.attempts, 2);
    assert_eq!(stats.summary().retries["timeout"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_takes_connections_and_never_answers_is_given_up_after_one_attempt() {
    let limit = Duration::from_secs(20);
    let mut script = Scripted::new([Err(Cause::Timeout { limit })]);
    script.takes = limit;
    let (store, _) = retrying(script);
    let error = get(&store).await.unwrap_err();
    assert_eq!((error.attempts, error.elapsed), (1, limit));
    assert!(error.to_string().contains("Check the endpoint"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_listing_goes_on_where_it_broke_off_and_hands_no_page_over_twice() {
    // Pages 1 and 2 arrive, the third fails twice; every later failure has the whole budget again.
    let script = [
        vec![Ok(()), Ok(()), Err(slow_down(None)), Err(slow_down(None))],
        vec![Ok(()), Ok(()), Ok(()), Err(reset())],
        (0..5).map(|_| Ok(())).collect(),
    ];
    let (store, stats) = retrying(Scripted::new(script.into_iter().flatten()));
    let mut keys = Vec::new();
    let mut keep = |page: Vec<Listed>| keys.extend(page.iter().map(|it| it.key.to_string()));
    store.list("", &mut keep).await.unwrap();
    assert_eq!(keys, (0..10).map(|at| format!("{at:03}")).collect::<Vec<_>>());
    assert_eq!(stats.summary().retries_total(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_makes_no_progress_ends() {
    let script = [Ok(()), Ok(())].into_iter().chain((0..5).map(|_| Err(slow_down(None))));
    let (store, _) = retrying(Scripted::new(script));
    let mut pages = 0;
    let error = store.list("p", &mut |_| pages += 1).await.unwrap_err();
    assert_eq!((pages, error.attempts), (2, 5));
    assert_eq!((error.operation, error.target.as_str()), (Operation::List, "p"));
}

#[tokio::test(start_paused = true)]
async fn operations_of_all_kinds_take_turns_and_are_counted_where_they_ended() {
    let (store, stats) =
        spread(["http://a", "http://b", "http://c"].map(|url| Scripted::at(url, [])));
    for _ in 0..10 {
        get(&store).await.unwrap();
    }
    store.put(&ObjectKey::new("key"), Bytes::new()).await.unwrap();
    store.list("", &mut |_| ()).await.unwrap();
    // The last listing has five pages, all from one endpoint.
    assert_eq!(asked(&store), [4, 4, 8]);
    let summary = stats.summary();
    let shown = summary.endpoints.iter();
    let shown: Vec<_> =
        shown.map(|(url, it)| (url.as_str(), it.gets, it.puts, it.lists, it.bytes.0)).collect();
    let expected =
        [("http://a", 4, 0, 0, 16), ("http://b", 3, 1, 0, 12), ("http://c", 3, 0, 1, 12)];
    assert_eq!(shown, expected);
    assert_eq!(store.location(), "s3://data at http://a, http://b, http://c");
}

#[tokio::test(start_paused = true)]
async fn operations_under_way_at_once_are_spread_evenly_too() {
    let (store, stats) = spread(["http://a", "http://b"].map(|url| {
        let mut script = Scripted::at(url, []);
        script.takes = Duration::from_millis(if url == "http://a" { 1 } else { 50 });
        script
    }));
    let outcomes = futures::future::join_all((0..301).map(|_| get(&store))).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let gets: Vec<_> = stats.summary().endpoints.values().map(|counts| counts.gets).collect();
    assert_eq!(gets, [151, 150], "a slow endpoint keeps its share");
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_repeated_at_the_next_endpoint_and_counted_where_it_failed() {
    let (store, stats) = spread([
        Scripted::at("http://a", [slow_down(None), reset()]),
        Scripted::at("http://b", [slow_down(None)]),
    ]);
    // Fails at a, at b and at a; b delivers. The next operation's turn is b's all the same.
    get(&store).await.unwrap();
    assert_eq!(asked(&store), [2, 2]);
    get(&store).await.unwrap();
    assert_eq!(asked(&store), [2, 3]);
    let summary = stats.summary();
    let retries: Vec<_> = summary.endpoints.values().map(|counts| counts.retries).collect();
    assert_eq!(retries, [2, 1]);
    assert_eq!(summary.retries_total(), 3);
    assert_eq!(summary.endpoints["http://b"].gets, summary.gets);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_never_answered_is_named_and_not_covered_up() {
    let (store, stats) =
        spread([Scripted::at("http://a", []), Scripted::at("http://b", (0..5).map(|_| refused()))]);
    get(&store).await.unwrap();
    let error = get(&store).await.unwrap_err();
    assert_eq!(error.attempts, 5);
    assert_eq!(error.location, "s3://data at http://b");
    assert_eq!(stats.summary().endpoints["http://b"].retries, 4);
    // Once it has answered, the others stand in for it.
    let (store, _) = spread([
        Scripted::at("http://a", [slow_down(None), refused()]),
        Scripted::at("http://b", []),
    ]);
    for _ in 0..3 {
        get(&store).await.unwrap();
    }
    assert_eq!(asked(&store), [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_broke_off_goes_on_at_the_next_endpoint() {
    let mut first = Scripted::at("http://a", []);
    first.script = Mutex::new([Ok(()), Ok(()), Err(reset())].into());
    let (store, stats) = spread([first, Scripted::at("http://b", [])]);
    let mut keys = Vec::new();
    let mut keep = |page: Vec<Listed>| keys.extend(page.iter().map(|it| it.key.to_string()));
    store.list("", &mut keep).await.unwrap();
    assert_eq!(keys, (0..10).map(|at| format!("{at:03}")).collect::<Vec<_>>());
    let endpoints = stats.summary().endpoints;
    assert_eq!((endpoints["http://a"].lists, endpoints["http://a"].retries), (0, 1));
    assert_eq!(endpoints["http://b"].lists, 1);
}

#[test]
fn a_store_without_endpoints_counts_none() {
    let stats = Arc::new(RequestStats::new());
    let store = Retrying::new(crate::MemoryStore::new(), RetryPolicy::default(), stats.clone());
    assert_eq!(stats.summary().endpoints.len(), 0);
    assert_eq!(store.location(), "memory");
}

#[tokio::test]
async fn folders_are_tidied_through_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("train/0")).unwrap();
    let store = crate::LocalStore::new(folder.path()).unwrap();
    let store = Retrying::new(store, RetryPolicy::default(), Arc::default());
    store.tidy("train/0").await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_store_that_is_wrapped_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::LocalStore::new(folder.path()).unwrap();
    let store = Retrying::new(store, RetryPolicy::default(), Arc::default());
    crate::contract::check(Arc::new(store)).await;
}
