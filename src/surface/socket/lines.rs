//! Reads one line of bounded length.

use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::time::timeout;

/// Says why there is no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineError {
    /// It is longer than its bound.
    TooLong,
    /// The connection failed, or ended inside a line.
    Io,
}

/// Reads up to the next line break, which is not part of the line; nothing at the end of the stream.
pub(super) async fn read_line(
    read: &mut (impl AsyncBufRead + Unpin),
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, LineError> {
    read_on(read, &mut Vec::new(), bytes_max).await
}

/// Reads lines, and what follows them, from one connection. Giving up on a line loses nothing of it.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    read: BufReader<R>,
    begun: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads from `read`.
    pub(crate) fn new(read: R) -> Self {
        Self { read: BufReader::new(read), begun: Vec::new() }
    }

    /// Reads the next line as [`read_line`] does.
    pub(crate) async fn next(&mut self, bytes_max: usize) -> Result<Option<Vec<u8>>, LineError> {
        read_on(&mut self.read, &mut self.begun, bytes_max).await
    }

    /// Reads exactly so many bytes behind a line, as long as some come within `patience` each time.
    pub(crate) async fn bytes(&mut self, count: usize, patience: Duration) -> Result<Vec<u8>, LineError> {
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            let rest = u64::try_from(count - bytes.len()).unwrap_or(u64::MAX);
            let mut part = (&mut self.read).take(rest);
            let read = timeout(patience, part.read_buf(&mut bytes)).await;
            if read.map_err(|_| LineError::Io)?.map_err(|_| LineError::Io)? == 0 {
                return Err(LineError::Io);
            }
        }
        Ok(bytes)
    }
}

async fn read_on(
    read: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, LineError> {
    loop {
        let available = read.fill_buf().await.map_err(|_| LineError::Io)?;
        if available.is_empty() {
            return if line.is_empty() { Ok(None) } else { Err(LineError::Io) };
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if line.len() + part.len() > bytes_max {
            return Err(LineError::TooLong);
        }
        line.extend_from_slice(part);
        let used = end.map_or(available.len(), |end| end + 1);
        read.consume(used);
        if end.is_some() {
            return Ok(Some(std::mem::take(line)));
        }
    }
}
