use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[derive(Default)]
struct Noted {
    updates: Mutex<Vec<Vec<u8>>>,
    refused: AtomicUsize,
    full: std::sync::atomic::AtomicBool,
}

impl Sink for Noted {
    async fn take(&self, update: &[u8]) -> Taken {
        if self.full.load(Ordering::SeqCst) {
            return Taken::Later;
        }
        self.updates.lock().unwrap().push(update.to_vec());
        Taken::Durable
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::SeqCst);
    }
}

struct Open {
    sink: Arc<Noted>,
    url: String,
    http: reqwest::Client,
}

async fn open() -> Open {
    rustls::crypto::ring::default_provider().install_default().ok();
    let listening = Listening::open(([127, 0, 0, 1], 0).into(), &"s3cret_A".to_owned().into()).await.unwrap();
    let url = format!("http://{}/bot", listening.address().unwrap());
    let sink = Arc::new(Noted::default());
    tokio::spawn(listening.serve(Arc::clone(&sink), std::future::pending()));
    Open { sink, url, http: reqwest::Client::new() }
}

impl Open {
    async fn post(&self, secrets: &[&str], body: Vec<u8>) -> u16 {
        let mut request = self.http.post(&self.url).body(body);
        for secret in secrets {
            request = request.header("X-Telegram-Bot-Api-Secret-Token", *secret);
        }
        request.send().await.unwrap().status().as_u16()
    }
}

#[tokio::test]
async fn only_who_knows_the_secret_is_heard() {
    let open = open().await;
    for wrong in [&[][..], &[""], &["s3cret_B"], &["s3cret_A "], &["s3cret_"], &["s3cret_A", "s3cret_B"]] {
        let heard = open.post(wrong, b"{}".to_vec()).await;
        assert_eq!(heard, if wrong == ["s3cret_A "] { 200 } else { 401 }, "{wrong:?}");
    }
    assert_eq!(open.post(&["s3cret_A"], b"{\"update_id\":1}".to_vec()).await, 200);
    assert_eq!(open.sink.refused.load(Ordering::SeqCst), 5);
    // White space around a header's value is no part of it.
    assert_eq!(open.sink.updates.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_not_durable_is_not_acknowledged() {
    let open = open().await;
    open.sink.full.store(true, Ordering::SeqCst);
    assert_eq!(open.post(&["s3cret_A"], b"{}".to_vec()).await, 503);
    open.sink.full.store(false, Ordering::SeqCst);
    assert_eq!(open.post(&["s3cret_A"], b"{}".to_vec()).await, 200);
}

/// Never comes to an end with an update; says when it has got one.
struct Stuck(tokio::sync::Notify);

impl Sink for Stuck {
    async fn take(&self, _: &[u8]) -> Taken {
        self.0.notify_one();
        std::future::pending().await
    }

    fn refused(&self) {}
}

#[tokio::test]
async fn what_is_open_when_nobody_serves_any_more_is_told_again_at_once() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let listening = Listening::open(([127, 0, 0, 1], 0).into(), &"s3cret_A".to_owned().into()).await.unwrap();
    let url = format!("http://{}/bot", listening.address().unwrap());
    let sink = Arc::new(Stuck(tokio::sync::Notify::new()));
    let serving = tokio::spawn(listening.serve(Arc::clone(&sink), std::future::pending()));
    let open = Open { sink: Arc::default(), url, http: reqwest::Client::new() };
    let (status, ()) = tokio::join!(open.post(&["s3cret_A"], b"{}".to_vec()), async {
        sink.0.notified().await;
        serving.abort();
    });
    // Left alone, it would end as one that took too long.
    assert_eq!(status, 503);
}

#[tokio::test]
async fn a_body_is_bounded() {
    let open = open().await;
    assert_eq!(open.post(&["s3cret_A"], vec![b'x'; BODY_BYTES_MAX + 1]).await, 413);
    assert_eq!(open.post(&["s3cret_A"], vec![b'x'; BODY_BYTES_MAX]).await, 200);
    let get = open.http.get(&open.url).header(SECRET, "s3cret_A").send().await.unwrap();
    assert_eq!(get.status().as_u16(), 405);
}

#[tokio::test]
async fn it_does_not_start_without_a_secret_or_for_everybody() {
    let here: SocketAddr = ([127, 0, 0, 1], 0).into();
    for secret in ["", "a b", "ä", &"x".repeat(257)] {
        let refused = Listening::open(here, &secret.to_owned().into()).await.unwrap_err();
        assert!(matches!(refused, ListenError::Secret), "{refused}");
    }
    let everywhere = Listening::open(([0, 0, 0, 0], 0).into(), &"x".to_owned().into()).await.unwrap_err();
    assert!(matches!(everywhere, ListenError::NotLoopback));
}
