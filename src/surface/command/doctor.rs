//! `thought doctor`: what is wrong, what could be better, and what could not be looked at.

use clap::Args;
use serde_json::Value;
use thoughtstream_effects::dirs::PrivateDir;

use super::asking::{self, Gather, read};
use super::verify::Reported;
use crate::ask::Ask;
use crate::client;
use crate::doctor::{
    Check, Diagnosis, by_inbox, by_report, by_status, configuration, data_directory, disk_room, memory,
    producers_apart, providers, sandbox, telegram, unseen,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::progress::Bar;
use crate::render::{Rows, line};
use crate::session::Session;

/// Says how thorough the look is.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Leave out the verification of the whole log
    #[arg(long)]
    pub quick: bool,
}

/// Looks at everything.
///
/// # Errors
/// [`Failure`] if the answer cannot be written; what is wrong is the answer.
pub fn run(args: &DoctorArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let mut checks = vec![configuration(&session.places), data_directory(&session.places)];
    checks.extend(providers(&session.places));
    checks.extend(telegram(&session.places));
    checks.extend(memory(&session.places));
    checks.extend(producers_apart(&session.places));
    // Without the directory nothing below it can be looked at, and nothing is made by looking.
    if PrivateDir::open(&session.places.data).is_ok() {
        checks.push(disk_room(&session.places));
        checks.push(sandbox(&session.places));
        checks.extend(log_checks(args, session));
    }
    let diagnosis = Diagnosis::of(checks);
    if session.json {
        out.json(&diagnosis)?;
    } else {
        out.text(&render(&diagnosis))?;
    }
    Ok(diagnosis.status.exit())
}

/// Looks at the log: through the service if one runs.
fn log_checks(args: &DoctorArgs, session: &Session) -> Vec<Check> {
    let mut gather = Gather::default();
    let status = asking::ask(session, Ask::Status { states: Vec::new() }, &mut gather);
    let status = status.and_then(|_| read(gather.0.pop().unwrap_or(Value::Null)));
    let mut checks = match status {
        Ok(status) => by_status(&status, client::read_only(&session.places.data).as_ref(), session.now()),
        // If this could not be asked, nothing else can.
        Err(failure) => return vec![unseen("log", &failure)],
    };
    let mut gather = Gather::default();
    let waiting = asking::ask(session, Ask::Inbox, &mut gather);
    let waiting: Result<Vec<_>, Failure> =
        waiting.and_then(|_| gather.0.into_iter().map(read).collect::<Result<_, _>>());
    checks.push(match waiting {
        Ok(waiting) => by_inbox(&waiting),
        Err(failure) => unseen("inbox", &failure),
    });
    if !args.quick {
        let mut reported = Reported { bar: Bar::new("verifying", "events"), value: Value::Null };
        let asked = asking::ask(session, Ask::Verify { from: None }, &mut reported);
        reported.bar.done();
        checks.push(match asked.and_then(|_| read(reported.value)) {
            Ok(report) => by_report(&report),
            Err(failure) => unseen("log-whole", &failure),
        });
    }
    checks
}

fn render(diagnosis: &Diagnosis) -> String {
    let mut rows = Rows::new(&["CHECK", "STATUS", "SEEN"]);
    for check in &diagnosis.checks {
        rows.row(&[check.id.clone(), check.status.as_str().to_owned(), check.evidence.clone()]);
    }
    let fixes = diagnosis
        .checks
        .iter()
        .filter_map(|check| check.fix.as_ref().map(|fix| format!("{}: {}\n", line(&check.id), line(fix))));
    let fixes: String = fixes.collect();
    if fixes.is_empty() { rows.text() } else { rows.text() + "\n" + &fixes }
}
