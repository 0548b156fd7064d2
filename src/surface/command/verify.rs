//! `thought verify`: whether the log is whole.

use clap::Args;
use serde_json::Value;

use super::asking::{ask, read};
use crate::ask::Ask;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::progress::Bar;
use crate::query::Sink;
use crate::render;
use crate::session::Session;
use crate::socket::Progress;

/// Says what the log is held against.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// A head digest kept from an earlier verification, which this log must extend
    #[arg(long, value_name = "DIGEST")]
    pub from: Option<String>,
}

/// Verifies the log.
///
/// # Errors
/// [`Failure`] if it cannot be looked at. What is wrong with it is a finding.
pub fn run(args: VerifyArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let mut report = Reported { bar: Bar::new("verifying", "events"), value: Value::Null };
    ask(session, Ask::Verify { from: args.from }, &mut report)?;
    let Reported { bar, value } = report;
    bar.done();
    let parsed: render::verify::Report = read(value.clone())?;
    if session.json {
        out.json(&value)?;
    } else {
        out.text(&render::verify::report(&parsed))?;
    }
    Ok(if parsed.ok { Exit::Done } else { Exit::Refused })
}

/// Shows how far it has come, and keeps the report.
pub(crate) struct Reported {
    pub(crate) bar: Bar,
    pub(crate) value: Value,
}

impl Sink for Reported {
    fn value(&mut self, value: Value) -> Result<(), Failure> {
        self.value = value;
        Ok(())
    }

    fn progress(&mut self, progress: Progress) {
        self.bar.at(progress);
    }
}
