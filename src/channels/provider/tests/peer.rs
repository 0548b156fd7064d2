//! A provider made of a bare socket: it counts what arrives and says exactly what a test wants, however wrong.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What the peer does when it has read a request.
#[derive(Clone)]
pub(super) enum Say {
    /// These bytes, then it closes in order.
    Bytes(Vec<u8>),
    /// These bytes, then it breaks the connection.
    Reset(Vec<u8>),
    /// These bytes, then this again and again until nobody listens.
    Drip(Vec<u8>, Vec<u8>),
    /// Nothing, for ever.
    Silence,
}

/// Is a peer on a port of its own.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Peer {
    pub(super) async fn saying(say: Say) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut serving = JoinSet::new();
        let (counted, kept) = (Arc::clone(&connections), Arc::clone(&requests));
        serving.spawn(async move {
            let mut each = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                each.spawn(serve(stream, say.clone(), Arc::clone(&kept)));
            }
        });
        Self { address, connections, requests, _serving: serving }
    }

    pub(super) async fn answering(status: &str, media: &str, body: &[u8]) -> Self {
        Self::saying(Say::Bytes(http(status, media, body))).await
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the requests that arrived whole, head and body.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Writes a response with its length.
pub(super) fn http(status: &str, media: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut bytes = format!("HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n")
        .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

async fn serve(mut stream: TcpStream, say: Say, requests: Arc<Mutex<Vec<String>>>) {
    let Some(request) = read(&mut stream).await else { return };
    requests.lock().unwrap().push(request);
    match say {
        // That nobody listens any more is part of some tests.
        Say::Bytes(bytes) => {
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
        }
        Say::Reset(bytes) => {
            stream.write_all(&bytes).await.ok();
            stream.flush().await.ok();
            stream.set_zero_linger().unwrap();
        }
        Say::Drip(first, again) => {
            if stream.write_all(&first).await.is_err() {
                return;
            }
            while stream.write_all(&again).await.is_ok() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        Say::Silence => {
            // Ends when the other side has gone.
            assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0, "something follows a request");
        }
    }
}

/// Reads one request with a length; anything else is no request.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            if body.len() >= length? {
                return Some(text);
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}
