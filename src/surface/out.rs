//! Where a command's answer goes: data to stdout, everything else to stderr.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use thoughtstream_domain::text::json_printable;

use crate::exit::Exit;
use crate::failure::Failure;

/// Writes what a command answers.
pub struct Out {
    stdout: Box<dyn Write>,
    stderr: Box<dyn Write>,
    terminal: bool,
    silent: bool,
}

/// Says that the reader of the output went away, which ends a command quietly, or that it cannot be written.
#[derive(Debug)]
pub enum OutError {
    /// Nobody reads any more (`thought event list | head`).
    Closed,
    /// Writing failed.
    Failed(io::Error),
}

impl From<io::Error> for OutError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Failed(error) }
    }
}

impl From<OutError> for Failure {
    fn from(error: OutError) -> Self {
        match error {
            OutError::Closed => Self::new(Exit::Done, CLOSED, "nobody reads the output any more"),
            OutError::Failed(error) => {
                Self::new(Exit::CouldNotLook, "output.write", "cannot write the output").because(&error)
            }
        }
    }
}

/// The code of a failure that is none: whoever read the output has what they wanted.
pub const CLOSED: &str = "output.closed";

impl Out {
    /// Writes to the process's own streams.
    #[must_use]
    pub fn of_process() -> Self {
        let terminal = io::stdout().is_terminal();
        if terminal {
            crate::render::for_a_terminal();
        }
        let stdout = io::BufWriter::new(io::stdout().lock());
        Self { stdout: Box::new(stdout), stderr: Box::new(io::stderr()), terminal, silent: true }
    }

    /// Writes into given streams, for tests.
    #[must_use]
    pub fn to(stdout: Box<dyn Write>, stderr: Box<dyn Write>) -> Self {
        Self { stdout, stderr, terminal: false, silent: true }
    }

    /// Says whether a person looks at stdout.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Says whether nothing was answered so far.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.silent
    }

    /// Writes one JSON value on one line, escaped so that it is safe on a terminal.
    ///
    /// # Errors
    /// [`OutError`] if nobody reads or writing fails.
    pub fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), OutError> {
        self.silent = false;
        let text = serde_json::to_string(value).map_err(io::Error::other)?;
        self.stdout.write_all(json_printable(&text).as_bytes())?;
        self.stdout.write_all(b"\n")?;
        Ok(())
    }

    /// Writes rendered text as it is.
    ///
    /// # Errors
    /// [`OutError`] if nobody reads or writing fails.
    pub fn text(&mut self, text: &str) -> Result<(), OutError> {
        self.silent = false;
        Ok(self.stdout.write_all(text.as_bytes())?)
    }

    /// Writes one line.
    ///
    /// # Errors
    /// [`OutError`] if nobody reads or writing fails.
    pub fn line(&mut self, text: &str) -> Result<(), OutError> {
        self.text(text)?;
        self.text("\n")
    }

    /// Writes bytes that are meant for a program, not a terminal.
    ///
    /// # Errors
    /// [`OutError`] if nobody reads or writing fails.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), OutError> {
        self.silent = false;
        Ok(self.stdout.write_all(bytes)?)
    }

    /// Writes a remark beside the answer.
    pub fn remark(&mut self, text: &str) {
        // A remark that cannot be written changes nothing about what was done.
        self.stderr.write_all(text.as_bytes()).and_then(|()| self.stderr.write_all(b"\n")).ok();
    }

    /// Writes a failure, for a person or for a program.
    pub fn failure(&mut self, failure: &Failure, json: bool) {
        if failure.code != CLOSED {
            let text = if json { failure.render_json() } else { failure.render() };
            self.stderr.write_all(text.as_bytes()).ok();
        }
    }

    /// Sends on what is buffered.
    ///
    /// # Errors
    /// [`OutError`] if nobody reads or writing fails.
    pub fn flush(&mut self) -> Result<(), OutError> {
        Ok(self.stdout.flush()?)
    }
}

impl std::fmt::Debug for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Out").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}
