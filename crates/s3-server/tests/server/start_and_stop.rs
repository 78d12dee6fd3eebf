//! Starting and stopping.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::client::TestServer;

#[tokio::test]
async fn stopping_ends_idle_and_busy_connections_and_frees_the_port() {
    let mut server = TestServer::failing(&["get delay_first_byte=60s"]).await;
    let idle = TcpStream::connect(server.address).await.unwrap();
    let client = server.client();
    let busy = tokio::spawn(async move { client.send_get("k").await });
    while server.status().await.gets_in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let start = Instant::now();
    server.stop.take().unwrap().send(()).unwrap();
    (&mut server.task).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(busy.await.unwrap().is_err());
    assert!(TcpStream::connect(server.address).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn a_request_under_way_is_answered_before_the_end() {
    let mut server = TestServer::failing(&["get delay_first_byte=200ms"]).await;
    let client = server.client();
    client.put("k", "x").await;
    let under_way = tokio::spawn(async move { client.send_get("k").await });
    while server.status().await.gets_in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.stop.take().unwrap().send(()).unwrap();
    assert_eq!(under_way.await.unwrap().unwrap().text(), "x");
    (&mut server.task).await.unwrap();
}
