//! Everything at a glance.

use std::fmt::Write as _;

use thoughtstream_domain::time::Timestamp;

use super::{View, age, ago, consumers, count};
use crate::query::sources::Apart;
use crate::query::status::Status;

fn apart(one: &Apart, now: Timestamp) -> String {
    let word = if one.connected { "connected" } else { "not connected" };
    let process = one.pid.map_or_else(String::new, |pid| format!(", process {pid}"));
    format!("producer  of {} runs apart, {word} since {}{process}", one.source, age(one.since, now))
}

/// Renders the state of everything on one screen.
#[must_use]
pub fn status(status: &Status, view: View, now: Timestamp) -> String {
    let mut text = String::new();
    let service = &status.service;
    let mut line = format!("service   {}", super::line(&service.state));
    if let (Some(pid), Some(since)) = (service.pid, service.since) {
        write!(line, ", process {pid}, up {}", age(since, now)).expect("writing to a String does not fail");
    }
    if let Some(why) = &service.unwritable {
        write!(line, ", the log cannot be written: {}", super::line(why))
            .expect("writing to a String does not fail");
    }
    let log = &status.log;
    let last = log.last_at.map_or_else(String::new, |at| format!(", the last {}", ago(at, now)));
    let waiting = match status.waiting {
        0 => "nothing waits for you".to_owned(),
        1 => "1 thing waits for you: thought inbox".to_owned(),
        many => format!("{many} things wait for you: thought inbox"),
    };
    writeln!(
        text,
        "{line}\nlog       {} from {}{last}",
        count(log.events, "event"),
        count(log.sources as u64, "source")
    )
    .and_then(|()| writeln!(text, "runs      {} open", status.open))
    .and_then(|()| status.apart.iter().try_for_each(|one| writeln!(text, "{}", apart(one, now))))
    .and_then(|()| writeln!(text, "inbox     {waiting}\n"))
    .expect("writing to a String does not fail");
    text + &consumers::list(&status.consumers, view, now)
}
