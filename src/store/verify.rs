//! Shows that nothing is missing, doubled, out of line or edited; the same check for operators and tests.
//!
//! It recomputes what it can instead of trusting what is stored: ids, payload hashes, chains, places, lineage,
//! indexes in both directions, executions, attempts, claims and progress. It claims no more than the chains
//! can show: an edit followed by a full rewrite passes, unless an earlier head digest was kept outside
//! ([`Options::since`]).
//!
//! Events are walked in pages of short transactions, so that a long check pins nothing; rows that change are
//! checked in one transaction at the end, together with the events that came in between.
//!
//! What it holds in memory grows with what was done, not with what was said: about 32 bytes for each attempt (its two
//! digests, and the places of its triggers), so 32 MB for a million, twice that for a moment as the lists grow; and some
//! hundred bytes for each attempt that asked a model.

mod accounts;
mod documents;
mod events;
mod judgments;
mod materializations;
mod named;
mod progress;
mod proposals;
mod runs;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::{ChainHash, tagged};
use thoughtstream_domain::id::{ConsumerKey, SourceId};

use crate::place;
use crate::reader::{Reader, View};
use crate::rows::{RowError, unless_panicking};
use crate::tables::Table;

/// At most this many findings are listed; more say nothing new about a log that is this broken.
pub const FINDINGS_MAX: usize = 100;

/// How many events are walked within one short transaction.
const PAGE_EVENTS: u64 = 512;

/// Answers whether this consumer version was to process this event: its subscription matches, and the event
/// lies behind where it began.
pub type Matches<'a> = dyn Fn(&ConsumerKey, &Event) -> bool + 'a;

/// Is what a verification is asked for beyond the log itself.
#[derive(Default)]
pub struct Options<'a> {
    /// The head digest of an earlier time that this log must extend.
    pub since: Option<Head>,
    /// Decides what each consumer had to process; without it progress is checked against claims alone.
    pub matches: Option<&'a Matches<'a>>,
    /// Is told how many events of how many are done.
    pub progress: Option<&'a mut dyn FnMut(u64, u64)>,
}

/// Names everything the log holds up to a position in one short text: `POSITION-DIGEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The position.
    pub position: u64,
    /// The digest over every source's name, sequence and chain link at that position.
    pub digest: ChainHash,
}

impl Head {
    /// Reads what `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (position, digest) = text.split_once('-')?;
        let canonical = position == "0" || !position.starts_with('0');
        let digits = canonical && position.bytes().all(|byte| byte.is_ascii_digit());
        let position = if digits { position.parse().ok()? } else { return None };
        Some(Self { position, digest: ChainHash::parse(digest).ok()? })
    }

    fn of(position: u64, heads: &BTreeMap<SourceId, (u64, ChainHash)>) -> Self {
        let mut bytes = Vec::new();
        for (source, (sequence, chain)) in heads {
            crate::codec::put_bytes(&mut bytes, source.as_str().as_bytes());
            bytes.extend_from_slice(&sequence.to_be_bytes());
            bytes.extend_from_slice(chain.as_bytes());
        }
        let digest = tagged("thoughtstream 2026 log head v1", &[&position.to_be_bytes(), &bytes]);
        Self { position, digest: ChainHash::from_bytes(digest) }
    }
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.position, self.digest)
    }
}

impl Serialize for Head {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The kind of a finding; programs may rely on the spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A row's bytes are not what its table promises.
    Malformed,
    /// A row is not the one that was written under its key.
    Seal,
    /// Part of the file cannot be read at all.
    Unreadable,
    /// An event is missing between others.
    Gap,
    /// An event's id is not derived from its source, type and key.
    Id,
    /// A payload does not have the hash recorded for it.
    Payload,
    /// A payload is erased and no event says so.
    Redaction,
    /// A link of a source's chain does not follow from the one before and the event.
    Chain,
    /// An event was recorded before one with a lower position.
    Time,
    /// A parent is missing or comes later, or depth or root do not follow from it.
    Lineage,
    /// An event is weaker in privacy than its parent.
    Privacy,
    /// An index disagrees with what it indexes.
    Index,
    /// An execution row is wrong.
    Execution,
    /// A run row and its lifecycle events disagree.
    Run,
    /// An attempt has more than one terminal event.
    DoubleTerminal,
    /// An execution was completed more than once.
    DoubleCompletion,
    /// Progress is not where the closed events say.
    Progress,
    /// An entry of an account and its attempt or its events disagree, or sums and entries do.
    Account,
    /// What stands behind a proposal, a decision about one or what followed from it does not hold.
    Proposal,
    /// A judgment is not about what it hangs on, or two that hold contradict each other.
    Judgment,
    /// A document row or version is wrong.
    Document,
    /// Stored content does not have the hash it is stored under, or is missing.
    Blob,
    /// The log is not an extension of the one the given digest names.
    NotAnExtension,
}

/// Is one thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The table and key of the row.
    pub place: String,
    /// What was found; ids and numbers only.
    pub message: String,
}

/// Is what a verification found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether there is no finding.
    pub ok: bool,
    /// How many events were walked.
    pub events: u64,
    /// How many runs were checked.
    pub runs: u64,
    /// The head digest.
    pub head: Head,
    /// Whether each consumer's subscription was compared with its progress, or its claims alone.
    pub matched: bool,
    /// The findings, in the order they were met; the first names the first bad row.
    pub findings: Vec<Finding>,
    /// How many findings there were beyond those listed.
    pub unlisted: u64,
}

/// Collects findings up to [`FINDINGS_MAX`].
#[derive(Default)]
pub(crate) struct Findings {
    listed: Vec<Finding>,
    unlisted: u64,
}

impl Findings {
    fn add(&mut self, kind: FindingKind, place: impl std::fmt::Display, message: impl std::fmt::Display) {
        if self.listed.len() < FINDINGS_MAX {
            self.listed.push(Finding { kind, place: place.to_string(), message: message.to_string() });
        } else {
            self.unlisted += 1;
        }
    }

    /// Adds what others found behind what was found so far.
    fn append(&mut self, others: Self) {
        self.unlisted += others.unlisted;
        for Finding { kind, place, message } in others.listed {
            self.add(kind, place, message);
        }
    }

    /// Turns an error of one row into a finding.
    fn add_error(&mut self, place: impl std::fmt::Display, error: &RowError) {
        match error {
            // A row that is named already is not named once more for everyone who needs it.
            RowError::Damaged { place } if self.listed.iter().any(|finding| finding.place == *place) => {}
            RowError::Damaged { place } => self.add(FindingKind::Malformed, place, "the row cannot be read"),
            RowError::Storage(source) => self.add(FindingKind::Unreadable, place, source),
        }
    }

    /// Reads a row; one that cannot be read is a finding, which says whether it is the one that was written.
    fn read<T>(
        &mut self,
        view: &View<'_>,
        (table, key, row): (Table, &[u8], &[u8]),
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let place = || place::of(table, key, &view.shared().names);
        let Ok(body) = view.open(table, key, row) else {
            self.add(FindingKind::Seal, place(), "the row is not the one that was written");
            return None;
        };
        let found = read(body);
        if found.is_none() {
            self.add(FindingKind::Malformed, place(), "the row cannot be read");
        }
        found
    }
}

/// Verifies the log that `reader` looks at. Damage is a finding, never an error: there is always a report.
///
/// # Errors
/// Only if the log is not open at all.
pub fn verify(reader: &Reader, mut options: Options<'_>) -> Result<Report, RowError> {
    let mut findings = Findings::default();
    let mut walk = events::Walk::new(options.since);
    let mut fall_back = |done: u64, all: u64| {
        if let Some(progress) = &mut options.progress {
            progress(done, all);
        }
    };
    loop {
        let last = guarded(|| {
            reader.view(|view| {
                let last = view.last_position()?;
                let end = last.min(walk.position() + PAGE_EVENTS);
                walk.page(view, end, &mut findings).map(|()| last)
            })
        });
        let last = match last {
            Ok(last) => last,
            Err(error) if walk.position() == 0 && !walk.has_begun() => return Err(error),
            Err(error) => {
                let place = format!("{} {}", Table::Events.name(), walk.position() + 1);
                findings.add_error(place, &error);
                break;
            }
        };
        fall_back(walk.position(), last);
        if walk.position() + PAGE_EVENTS > last {
            break;
        }
    }
    let checked =
        guarded(|| reader.view(|view| check_rows(view, &mut walk, &options.matches, &mut findings)));
    let runs = checked.unwrap_or_else(|error| {
        findings.add_error("rows", &error);
        0
    });
    if let Err(error) = guarded(|| proposals::check(reader, &mut findings)) {
        findings.add_error("proposals", &error);
    }
    if let Err(error) = guarded(|| judgments::check(reader, &mut findings)) {
        findings.add_error("judgments", &error);
    }
    if let Err(error) = guarded(|| materializations::check(reader, &mut findings)) {
        findings.add_error("materializations", &error);
    }
    walk.finish(&mut findings);
    Ok(Report {
        ok: findings.listed.is_empty(),
        events: walk.position(),
        runs,
        head: walk.head(),
        matched: options.matches.is_some(),
        findings: findings.listed,
        unlisted: findings.unlisted,
    })
}

/// Makes an error of a panic that damage caused.
fn guarded<T>(look: impl FnOnce() -> Result<T, RowError>) -> Result<T, RowError> {
    unless_panicking(look).unwrap_or_else(|| Err(RowError::Storage("reading the log made redb panic".into())))
}

/// Checks everything that is not an event, in one transaction that also holds the newest events.
fn check_rows(
    view: &View<'_>,
    walk: &mut events::Walk,
    matches: &Option<&Matches<'_>>,
    findings: &mut Findings,
) -> Result<u64, RowError> {
    let last = view.last_position()?;
    walk.page(view, last, findings)?;
    walk.check_heads_and_counts(view, findings)?;
    let runs = runs::check(view, walk, findings)?;
    progress::check(view, matches, &walk.passed, findings)?;
    documents::check(view, findings)?;
    accounts::check(view, walk, findings)?;
    Ok(runs)
}
