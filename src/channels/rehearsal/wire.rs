//! HTTP/1.1 by hand: reading one request, and answering it as badly as a script wants.
//!
//! A library that serves HTTP keeps its promises: it never announces a hundred bytes and resets after ten, and never
//! answers with something that is not HTTP. Here that is the whole point, so requests are read and answers written on
//! the bare connection, good answers and bad ones by the same few lines.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thoughtstream_domain::content::Content;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// A request line and its headers are a few hundred bytes; more than this is no client of ours.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Holds a context with images, and bounds what a client that has gone wrong can make us keep.
const BODY_BYTES_MAX: usize = 64 << 20;

/// What is made up is written in pieces of this size, so that a huge body costs no memory.
const FILL_BYTES: usize = 64 << 10;

/// Is a request that was read to its end.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    headers: Vec<(String, String)>,
    pub(super) body: Content<Vec<u8>>,
}

impl Request {
    /// Returns a header by its lower-case name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Is a connection that requests come in on.
pub(super) type Connection = BufReader<TcpStream>;

/// Reads the next request, or nothing when the client is done.
///
/// # Errors
/// The connection broke, or what came is not HTTP/1.1 within our bounds.
pub(super) async fn read_request(connection: &mut Connection) -> io::Result<Option<Request>> {
    let Some(line) = read_line(connection).await? else { return Ok(None) };
    let mut words = line.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
    let mut headers = Vec::new();
    loop {
        let line = read_line(connection).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { method, path, query, headers, body: Content::new(Vec::new()) };
    request.body = Content::new(read_body(connection, &request).await?);
    Ok(Some(request))
}

async fn read_line(connection: &mut Connection) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    connection.take(HEAD_BYTES_MAX).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map(Some).map_err(|_| io::ErrorKind::InvalidData.into())
}

async fn read_body(connection: &mut Connection, request: &Request) -> io::Result<Vec<u8>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    if request.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return read_chunks(connection).await;
    }
    let Some(length) = request.header("content-length") else { return Ok(Vec::new()) };
    let length: usize = length.parse().map_err(|_| invalid())?;
    if length > BODY_BYTES_MAX {
        return Err(invalid());
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await?;
    Ok(body)
}

async fn read_chunks(connection: &mut Connection) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(connection).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        if size > BODY_BYTES_MAX - body.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let from = body.len();
        body.resize(from + size, 0);
        connection.read_exact(&mut body[from..]).await?;
        // The line break behind the chunk, and behind the last one the trailer's end.
        read_line(connection).await?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// Is an answer as it goes over the wire, before anything is done to it.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
}

/// Is what an answer's body is made of.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// Bytes of a known length.
    Whole(Content<Vec<u8>>),
    /// Pieces that come one after the other, as a stream does.
    Pieces(Vec<Content<Vec<u8>>>),
    /// So many bytes of nothing in particular, of announced length.
    Fill(u64),
    /// Bytes without an end.
    Endless,
    /// These bytes instead of an HTTP answer.
    Raw(Content<Vec<u8>>),
}

impl Reply {
    /// Makes an answer of a JSON value.
    pub(super) fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::bytes(status, "application/json", value.to_string().into_bytes())
    }

    /// Makes an answer of bytes of some type.
    pub(super) fn bytes(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self { status, headers, body: Body::Whole(Content::new(body)) }
    }

    fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.extend([name.as_str(), ": ", value.as_str(), "\r\n"]);
        }
        match &self.body {
            Body::Whole(body) => head.push_str(&format!("content-length: {}\r\n", body.reveal().len())),
            Body::Fill(bytes) => head.push_str(&format!("content-length: {bytes}\r\n")),
            Body::Pieces(_) | Body::Endless => head.push_str("transfer-encoding: chunked\r\n"),
            Body::Raw(_) => return Vec::new(),
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// Names a status as the line of an answer does; what stands there means nothing to a client.
const fn reason(status: u16) -> &'static str {
    match status {
        200..300 => "OK",
        300..400 => "Elsewhere",
        400..500 => "Refused",
        _ => "Failed",
    }
}

/// Says how an answer is brought: late, slowly, not to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manner {
    /// Nothing is answered until this gate is opened.
    pub hold: Option<String>,
    /// How long nothing is answered, in milliseconds.
    pub delay_ms: u64,
    /// How the body trickles, if it does.
    pub drip: Option<Drip>,
    /// Where the answer ends before its end, if it does.
    pub cut: Option<Cut>,
}

/// Says how slowly a body comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drip {
    /// So many bytes at a time.
    pub bytes: usize,
    /// So many milliseconds between them.
    pub every_ms: u64,
}

/// Says where and how a connection ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Where.
    pub at: CutAt,
    /// How.
    pub how: CutHow,
}

/// Is the place where a connection ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutAt {
    /// Nothing of the answer was sent.
    Request,
    /// The head was sent, and nothing of the body.
    Head,
    /// So many bytes of the body were sent.
    Body(u64),
}

/// Is the way in which a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutHow {
    /// In good order, as if everything had been said.
    Close,
    /// With a reset, as if the other machine had gone.
    Reset,
}

/// Is what came of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Played {
    /// How many bytes were handed to the connection.
    pub(super) bytes: u64,
    /// Whether the connection can carry another request.
    pub(super) open: bool,
}

/// Writes `reply` in its `manner`.
///
/// # Errors
/// The client went away.
pub(super) async fn play(connection: &mut Connection, reply: &Reply, manner: &Manner) -> io::Result<Played> {
    if manner.delay_ms > 0 {
        // A client that leaves is not waited for.
        tokio::select! {
            () = sleep(Duration::from_millis(manner.delay_ms)) => {}
            () = gone(connection) => return Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
    let mut writer = Writer { connection, manner, body: 0, bytes: 0 };
    let finished = writer.answer(reply).await?;
    let bytes = writer.bytes;
    if !finished && manner.cut.is_some_and(|cut| cut.how == CutHow::Reset) {
        connection.get_ref().set_zero_linger()?;
    }
    let open = finished && !matches!(reply.body, Body::Raw(_));
    Ok(Played { bytes, open })
}

/// Returns when the client has closed its side.
pub(super) async fn gone(connection: &Connection) {
    let mut one = [0];
    match connection.get_ref().peek(&mut one).await {
        Ok(0) | Err(_) => {}
        // It sent more and so is there; whether it leaves behind that cannot be seen.
        Ok(_) => std::future::pending().await,
    }
}

struct Writer<'a> {
    connection: &'a mut Connection,
    manner: &'a Manner,
    /// Bytes of the body so far, without the framing of chunks.
    body: u64,
    /// All bytes so far.
    bytes: u64,
}

impl Writer<'_> {
    /// Writes the answer as far as it may go, and says whether that was to its end.
    async fn answer(&mut self, reply: &Reply) -> io::Result<bool> {
        let cut = self.manner.cut.map(|cut| cut.at);
        if cut == Some(CutAt::Request) {
            return Ok(false);
        }
        let head = reply.head();
        let slow = self.manner.drip.is_some() || cut.is_some();
        if let (Body::Whole(body), false) = (&reply.body, slow) {
            // One write for a good answer, as a real server does.
            self.write(&[head, body.reveal().clone()].concat()).await?;
            return Ok(true);
        }
        self.write(&head).await?;
        if cut == Some(CutAt::Head) {
            return Ok(false);
        }
        match &reply.body {
            Body::Whole(body) | Body::Raw(body) => self.piece(body.reveal()).await,
            Body::Pieces(pieces) => {
                for piece in pieces {
                    if !self.chunk(piece.reveal()).await? {
                        return Ok(false);
                    }
                }
                self.write(b"0\r\n\r\n").await?;
                Ok(true)
            }
            Body::Fill(bytes) => self.fill(*bytes).await,
            Body::Endless => {
                let chunk = vec![b' '; FILL_BYTES];
                while self.chunk(&chunk).await? {}
                Ok(false)
            }
        }
    }

    async fn fill(&mut self, bytes: u64) -> io::Result<bool> {
        let filling = vec![b'x'; FILL_BYTES];
        let mut left = bytes;
        while left > 0 {
            let next = left.min(FILL_BYTES as u64);
            if !self.piece(&filling[..usize::try_from(next).unwrap_or(FILL_BYTES)]).await? {
                return Ok(false);
            }
            left -= next;
        }
        Ok(true)
    }

    /// Writes one chunk with its frame; the frame promises all of it, whatever follows.
    async fn chunk(&mut self, piece: &[u8]) -> io::Result<bool> {
        self.write(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        let finished = self.piece(piece).await?;
        if finished {
            self.write(b"\r\n").await?;
        }
        Ok(finished)
    }

    /// Writes bytes of the body up to the cut, in drops if they trickle.
    async fn piece(&mut self, piece: &[u8]) -> io::Result<bool> {
        let room = match self.manner.cut {
            Some(Cut { at: CutAt::Body(bytes), .. }) => bytes.saturating_sub(self.body),
            _ => u64::MAX,
        };
        let end = usize::try_from(room).unwrap_or(usize::MAX).min(piece.len());
        let drop = self.manner.drip.map_or(usize::MAX, |drip| drip.bytes.max(1));
        for part in piece[..end].chunks(drop) {
            self.write(part).await?;
            self.body += part.len() as u64;
            if let Some(drip) = self.manner.drip {
                sleep(Duration::from_millis(drip.every_ms)).await;
            }
        }
        Ok(end == piece.len())
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.get_mut().write_all(bytes).await?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Posts JSON to an `http://` address and returns the status of the answer.
///
/// # Errors
/// The address is none of ours, or whoever listens there did not answer.
pub(super) async fn post(url: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<u16> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let rest = url.strip_prefix("http://").ok_or_else(invalid)?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address: SocketAddr = host.parse().map_err(|_| invalid())?;
    if !address.ip().is_loopback() {
        // A rehearsal never speaks to another machine.
        return Err(invalid());
    }
    let mut stream = TcpStream::connect(address).await?;
    let mut head = format!("POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()));
    stream.write_all(&[head.as_bytes(), body].concat()).await?;
    let mut answer = BufReader::new(stream);
    let line = read_line(&mut answer).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    line.split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}
