//! Reads one line of bounded length.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Says why there is no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineError {
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
    let mut line = Vec::new();
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
            return Ok(Some(line));
        }
    }
}
