//! What an owner leaves behind to say who it is: eight short lines, one more when it is on its way out.

use super::{Draining, OwnerKind, OwnerRecord, OwnerToken};
use crate::process::ProcessIdentity;

/// What an owner writes that is on its way out.
const FIRST_LINE_4: &str = "thoughtstream owner 4";
const FIRST_LINE: &str = "thoughtstream owner 3";
/// What was written before owners had tokens.
const FIRST_LINE_2: &str = "thoughtstream owner 2";
/// What a service wrote before owners said of which kind they are.
const FIRST_LINE_1: &str = "thoughtstream owner 1";
const LAST_LINE: &str = "end";

impl OwnerRecord {
    pub(super) fn to_text(&self) -> String {
        let ProcessIdentity { pid, start_ticks, boot } = &self.process;
        let (kind, since) = (self.kind.word(), self.since_ms);
        let (first, token) = match (&self.token, &self.draining) {
            (Some(token), Some(draining)) => {
                let Draining { since_ms, bound_ms } = **draining;
                (FIRST_LINE_4, format!("token {token}\ndraining {since_ms} {bound_ms}\n"))
            }
            (Some(token), None) => (FIRST_LINE, format!("token {token}\n")),
            (None, _) => (FIRST_LINE_2, String::new()),
        };
        format!(
            "{first}\nkind {kind}\npid {pid}\nstart {start_ticks}\nboot {boot}\nsince {since}\n{token}{LAST_LINE}\n"
        )
    }

    /// Reads exactly what [`OwnerRecord::to_text`] writes; the last line shows that nothing was cut off.
    pub(super) fn from_text(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
        if text.is_empty() {
            return Err("it is empty");
        }
        let lines: Vec<&str> = text.strip_suffix('\n').ok_or("it is cut off")?.split('\n').collect();
        let mut draining = None;
        let (kind, pid, start, boot, since, token) = match lines[..] {
            [FIRST_LINE_4, kind, pid, start, boot, since, token, drains, LAST_LINE] => {
                let times = drains.strip_prefix("draining ").and_then(|times| times.split_once(' '));
                let times = times.and_then(|(since, bound)| Some((since.parse().ok()?, bound.parse().ok()?)));
                let (since_ms, bound_ms) = times.ok_or("it does not say since when it drains")?;
                draining = Some(Box::new(Draining { since_ms, bound_ms }));
                let token = token.strip_prefix("token ").and_then(OwnerToken::parse);
                (kind, pid, start, boot, since, Some(token.ok_or("its token is not one")?))
            }
            [FIRST_LINE, kind, pid, start, boot, since, token, LAST_LINE] => {
                let token = token.strip_prefix("token ").and_then(OwnerToken::parse);
                (kind, pid, start, boot, since, Some(token.ok_or("its token is not one")?))
            }
            [FIRST_LINE_2, kind, pid, start, boot, since, LAST_LINE] => (kind, pid, start, boot, since, None),
            [FIRST_LINE_1, pid, start, boot, since, LAST_LINE] => {
                ("kind service", pid, start, boot, since, None)
            }
            _ => return Err("it is cut off or of another kind"),
        };
        let kind = [OwnerKind::Service, OwnerKind::Command, OwnerKind::Materializer]
            .into_iter()
            .find(|known| kind.strip_prefix("kind ") == Some(known.word()))
            .filter(|kind| *kind != OwnerKind::Materializer || token.is_some())
            .ok_or("it does not say which kind of owner")?;
        Ok(Self {
            kind,
            process: ProcessIdentity {
                pid: field(pid, "pid ").ok_or("its process number is not one")?,
                start_ticks: field(start, "start ").ok_or("its start time is not one")?,
                boot: field::<String>(boot, "boot ")
                    .filter(|boot| !boot.is_empty())
                    .ok_or("its boot is missing")?,
            },
            since_ms: field(since, "since ").ok_or("its time is not one")?,
            draining,
            token,
        })
    }
}

fn field<T: std::str::FromStr>(line: &str, key: &str) -> Option<T> {
    line.strip_prefix(key)?.parse().ok()
}
