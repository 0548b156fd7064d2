//! `thought serve`: the resident service.

use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::producer_only;
use crate::serve::{self, How};
use crate::session::Session;

/// Our own crates say what happens; of the others only errors, and nothing of the watcher, which names paths.
const OURS: &str = "error,notify=off,thoughtstream_surface=info,thoughtstream_actors=info,\
                    thoughtstream_store=info,thoughtstream_channels=info,thoughtstream_effects=info";

/// Says how the service is started.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Run nothing but the producer of this source, for a service that has `producerOnly: true` for it
    #[arg(long, value_name = "SOURCE", conflicts_with = "paused")]
    pub producer_only: Option<String>,
    /// Start no consumer: look, answer and take what comes in
    #[arg(long)]
    pub paused: bool,
    /// How its own log is written to stderr
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    pub log: LogForm,
}

/// Is a form of the service's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// One line of text each
    Text,
    /// One JSON object a line
    Json,
}

/// Runs the service until it is told to stop.
///
/// # Errors
/// [`Failure`] if it cannot start, or gave up.
pub fn run(args: &ServeArgs, session: &Session) -> Result<Exit, Failure> {
    log_to_stderr(args.log);
    if let Some(source) = &args.producer_only {
        return producer_only::run(session, source);
    }
    serve::run(session, How { paused: args.paused })
}

/// Starts the log of this process: codes, counts and ids, never content. `THOUGHTSTREAM_LOG` filters it.
pub(crate) fn log_to_stderr(form: LogForm) {
    let filter = EnvFilter::try_from_env("THOUGHTSTREAM_LOG").unwrap_or_else(|_| EnvFilter::new(OURS));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match form {
        LogForm::Json => builder.json().try_init(),
        // A service manager writes the time itself, and nobody reads colours there.
        LogForm::Text if std::env::var_os("JOURNAL_STREAM").is_some() => {
            builder.without_time().with_ansi(false).try_init()
        }
        LogForm::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
    if started.is_err() {
        // Somebody else's subscriber is in place: a test's.
        tracing::debug!("a log is in place already");
    }
}
