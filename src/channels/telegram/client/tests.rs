use super::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const TOKEN: &str = "123456:secret-TOKEN_of_a_bot";

/// Answers one connection with these bytes, after the whole request came; then closes.
async fn answering(bytes: Vec<u8>) -> (Client, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let read = stream.read(&mut buffer).await.unwrap();
            request.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&request);
            let complete = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                body.len() >= length.map_or(0, |length| length.parse().unwrap())
            });
            if complete || read == 0 {
                break;
            }
        }
        stream.write_all(&bytes).await.unwrap();
        drop(stream);
        // Whoever asks again finds nobody.
        drop(listener);
        String::from_utf8_lossy(&request).into_owned()
    });
    (client(&base), asked)
}

fn client(base: &str) -> Client {
    Client::new(ApiBase::parse(base).unwrap(), Token::new(&TOKEN.to_owned().into()).unwrap()).unwrap()
}

fn http(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn sent(bytes: Vec<u8>) -> Result<SentMessage, CallError> {
    let (client, asked) = answering(bytes).await;
    let sent = client.send(ChatId::new(7), "hello *[").await;
    let request = asked.await.unwrap();
    assert!(request.starts_with(&format!("POST /bot{TOKEN}/sendMessage ")), "one request, to one method");
    assert!(request.contains("\"text\":\"hello *[\"") && !request.contains("parse_mode"));
    if let Err(error) = &sent {
        assert!(!format!("{error} {error:?} {client:?}").contains("secret"), "the token shows");
    }
    sent
}

#[tokio::test]
async fn a_receipt_is_read() {
    let body = r#"{"ok":true,"result":{"message_id":55,"date":1700000000,"chat":{"id":7},"text":"x"}}"#;
    let receipt = sent(http("200 OK", body)).await.unwrap();
    assert_eq!(receipt.message, MessageId::new(55));
    assert_eq!(receipt.at, Some(Timestamp::from_millis(1_700_000_000_000)));
}

#[tokio::test]
async fn what_was_refused_is_told_from_what_may_have_been_taken() {
    let limited = r#"{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":9}}"#;
    let refused = |status, retry_after| Err(CallError::Refused { status, retry_after });
    assert_eq!(sent(http("429 Too Many Requests", limited)).await, refused(429, Some(9)));
    let header = b"HTTP/1.1 429 x\r\nretry-after: 3\r\ncontent-length: 0\r\n\r\n".to_vec();
    assert_eq!(sent(header).await, refused(429, Some(3)));
    assert_eq!(sent(http("400 Bad Request", "can't parse")).await, refused(400, None));
    assert_eq!(sent(http("403 Forbidden", "")).await, refused(403, None));
    let unknown = |code| Err(CallError::Unknown { code });
    assert_eq!(sent(http("500 Oops", "")).await, unknown("server-error"));
    assert_eq!(sent(http("302 Found\r\nlocation: /elsewhere", "")).await, unknown("redirect"));
    assert_eq!(sent(http("200 OK", "<html>")).await, unknown("answer-malformed"));
    assert_eq!(sent(http("200 OK", r#"{"ok":false,"error_code":400}"#)).await, unknown("answer-malformed"));
    assert_eq!(sent(Vec::new()).await, unknown("connection-lost"));
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"ok\":true".to_vec();
    assert_eq!(sent(cut).await, unknown("connection-lost"));
}

#[tokio::test]
async fn a_connection_that_never_stood_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = client(&base).send(ChatId::new(7), "x").await.unwrap_err();
    assert_eq!(error, CallError::NotSent { code: "connect-failed" });
}

#[tokio::test]
async fn a_file_is_bounded_and_its_path_is_not_believed() {
    let (client, _) = answering(http("200 OK", &"x".repeat(100))).await;
    assert_eq!(client.content("photos/file_1.jpg", 99).await, Ok(None));
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n40\r\n".to_vec();
    let chunked = [chunked, vec![b'x'; 64], b"\r\n40\r\n".to_vec(), vec![b'x'; 64]].concat();
    let (client, _) = answering(chunked).await;
    assert_eq!(client.content("photos/file_1.jpg", 100).await, Ok(None));
    let (client, asked) = answering(http("200 OK", "bytes")).await;
    assert_eq!(client.content("photos/file_1.jpg", 100).await, Ok(Some(b"bytes".to_vec())));
    assert!(asked.await.unwrap().starts_with(&format!("GET /file/bot{TOKEN}/photos/file_1.jpg ")));
    for path in ["", "/etc/passwd", "a/../b", "a?b", "a#b", "a//b", "https://elsewhere/x", "a b", "."] {
        let body = serde_json::json!({ "ok": true, "result": { "file_path": path } }).to_string();
        let (client, _) = answering(http("200 OK", &body)).await;
        assert_eq!(client.file("id").await, Err(CallError::Unknown { code: "no-file-path" }), "{path}");
    }
}

#[test]
fn the_token_travels_in_the_clear_on_this_machine_only() {
    for good in [
        "https://api.telegram.org",
        "http://127.0.0.1:8081",
        "http://[::1]:1/",
        concat!("http://local", "host:2/x"),
    ] {
        assert!(ApiBase::parse(good).is_ok(), "{good}");
    }
    assert_eq!(ApiBase::parse("http://api.telegram.org"), Err(BaseError::Clear));
    assert_eq!(ApiBase::parse("http://localhost.example.org"), Err(BaseError::Clear));
    assert_eq!(ApiBase::parse("https://a:b@api.telegram.org"), Err(BaseError::Extra));
    assert_eq!(ApiBase::parse("https://api.telegram.org/?x=1"), Err(BaseError::Extra));
    for bad in ["", "api.telegram.org", "ftp://127.0.0.1", "file:///x"] {
        assert_eq!(ApiBase::parse(bad), Err(BaseError::Malformed), "{bad}");
    }
}

#[test]
fn a_token_is_one_or_is_refused() {
    for bad in ["", "123456", ":abc", "12a:abc", "123:", "123:a/b", "123:a b", "123:a?b"] {
        assert!(Token::new(&bad.to_owned().into()).is_err(), "{bad}");
    }
    let token = Token::new(&format!("{TOKEN}\n").into()).unwrap();
    assert!(!format!("{token:?}").contains("secret"));
}
