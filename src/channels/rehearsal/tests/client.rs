//! A client that keeps nothing from a test: the bytes as they came, and how the connection ended.

use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::Rehearsal;

/// Is all that came back before the connection ended.
#[derive(Debug)]
pub(super) struct Got {
    pub(super) bytes: Vec<u8>,
    /// Whether the other side reset the connection.
    pub(super) reset: bool,
}

impl Got {
    pub(super) fn status(&self) -> u16 {
        let text = String::from_utf8_lossy(&self.bytes);
        text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }

    pub(super) fn head(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        text.split("\r\n\r\n").next().unwrap_or_default().to_lowercase()
    }

    /// Returns what stands behind the head, as it came.
    pub(super) fn raw_body(&self) -> &[u8] {
        let end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        &self.bytes[end + 4..]
    }

    pub(super) fn json(&self) -> Json {
        serde_json::from_slice(self.raw_body()).unwrap()
    }
}

/// Sends bytes and returns all that comes back until the connection ends.
pub(super) async fn exchange(rehearsal: &Rehearsal, sent: &[u8]) -> Got {
    let mut stream = TcpStream::connect(rehearsal.address()).await.unwrap();
    stream.write_all(sent).await.unwrap();
    // What is not closed by the other side is closed by ours: good answers keep the connection.
    stream.shutdown().await.unwrap();
    read_all(&mut stream).await
}

pub(super) async fn read_all(stream: &mut TcpStream) -> Got {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await;
    Got { bytes, reset: ended.is_err() }
}

/// Opens a connection, sends a request on it and leaves it open.
pub(super) async fn open(rehearsal: &Rehearsal, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(rehearsal.address()).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream
}

pub(super) fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

/// Makes a request to complete a chat in which the user says `text`.
pub(super) fn chat(text: &str) -> Vec<u8> {
    let body = json!({ "model": "small", "messages": [
        { "role": "system", "content": "You are brief." },
        { "role": "user", "content": text },
    ] });
    completions(&body)
}

pub(super) fn completions(body: &Json) -> Vec<u8> {
    request("POST", "/v1/chat/completions", "", &body.to_string())
}

/// Makes a call of the Bot API.
pub(super) fn call(method: &str, parameters: &Json) -> Vec<u8> {
    let path = format!("/bot100000001:rehearsal/{method}");
    request("POST", &path, "content-type: application/json\r\n", &parameters.to_string())
}
