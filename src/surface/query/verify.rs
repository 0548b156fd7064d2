//! Whether the log is whole: the same check that the tests run after every kill.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use thoughtstream_domain::activation;
use thoughtstream_domain::commit::Registered;
use thoughtstream_domain::declaration::{Declaration, VersionChange};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerKey, SourceId};
use thoughtstream_domain::lifecycle::{Closure, Execution, ExecutionState};
use thoughtstream_domain::payload::activation::Step;
use thoughtstream_domain::subscription::Replay;
use thoughtstream_store::PAGE_ROWS_MAX;
use thoughtstream_store::verify::{Head, Options, Report, verify as check};

use super::behind::declared;
use super::{Look, Sink};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::socket::Progress;

/// Verifies the log; with `from`, also that it extends what that head digest names.
///
/// # Errors
/// [`Failure`] if the digest is malformed or the log is not open. Damage is a finding, never an error.
pub fn verify(look: &Look<'_>, from: Option<&str>, sink: &mut dyn Sink) -> Result<Report, Failure> {
    let since = match from {
        None => None,
        Some(text) => Some(Head::parse(text).ok_or_else(|| {
            Failure::new(Exit::Usage, "verify.digest", format!("`{text}` is no head digest"))
                .with_hint("it is what `thought verify` prints as head: POSITION-DIGEST")
        })?),
    };
    let duties = Duties::of(look);
    let matches = |key: &ConsumerKey, event: &Event| duties.has(key, event);
    let mut progress = |done: u64, total: u64| sink.progress(Progress { done, total });
    let options = Options { since, matches: Some(&matches), progress: Some(&mut progress) };
    Ok(check(look.reader, options)?)
}

/// What each consumer had to process, as far as the log can say.
///
/// The first version of a consumer begins where its declaration says. A later one begins where the one before it
/// stood, which that one's own rows still tell: it has moved no further but over what was taken from it.
struct Duties<'a> {
    look: &'a Look<'a>,
    registered: BTreeMap<ConsumerKey, Registered>,
    known: RefCell<BTreeMap<ConsumerKey, Option<Rc<Duty>>>>,
}

/// What one version had to process.
struct Duty {
    declaration: Declaration,
    /// The last position before it was registered.
    position: u64,
    before: Option<Before>,
    /// The source that was frozen when it was installed, and where it began there.
    frozen: Option<(SourceId, u64)>,
}

/// What a version took over from.
struct Before {
    /// Where it stood when it was followed, on each source that was there and that it had begun with.
    stood: BTreeMap<SourceId, u64>,
}

impl<'a> Duties<'a> {
    fn of(look: &'a Look<'a>) -> Self {
        // Rows that cannot be read are findings of their own.
        let all = look.reader.registered_all().unwrap_or_default();
        let registered =
            all.into_iter().map(|registered| (registered.consumer.clone(), registered)).collect();
        Self { look, registered, known: RefCell::default() }
    }

    fn has(&self, key: &ConsumerKey, event: &Event) -> bool {
        let known = self.known.borrow().get(key).cloned();
        let duty = known.unwrap_or_else(|| {
            let duty = self.duty(key).map(Rc::new);
            self.known.borrow_mut().insert(key.clone(), duty.clone());
            duty
        });
        duty.is_some_and(|duty| duty.begun(event) && duty.declaration.subscription().matches(event))
    }

    fn duty(&self, key: &ConsumerKey) -> Option<Duty> {
        let registered = self.registered.get(key)?;
        let declaration = declared(registered, self.look.catalog)?;
        let versions = self.registered.values().filter(|other| {
            let (id, version) = (&other.consumer.id, other.consumer.version);
            *id == key.id && version < key.version && other.position <= registered.position
        });
        let before = match versions.max_by_key(|other| other.consumer.version) {
            None => None,
            Some(before) => Some(self.before(before, registered.position)?),
        };
        let frozen = self.frozen(key)?;
        Some(Duty { declaration, position: registered.position, before, frozen })
    }

    /// Returns where an activation made a version begin.
    fn frozen(&self, key: &ConsumerKey) -> Option<Option<(SourceId, u64)>> {
        let all = activation::all(&key.id, |id| self.look.reader.event(id)).ok()?;
        let ours = all.into_iter().rev().find(|found| found.begun.to == *key && found.has(Step::Installed));
        Some(ours.and_then(|found| found.frozen_head().map(|head| (found.begun.source, head))))
    }

    fn before(&self, registered: &Registered, followed: u64) -> Option<Before> {
        let (reader, key) = (self.look.reader, &registered.consumer);
        let subscription = declared(registered, self.look.catalog)?.subscription().clone();
        let floor = match subscription.replay() {
            Replay::Sequence(first) => first.saturating_sub(1),
            Replay::Beginning | Replay::Now => 0,
        };
        let mut stood: BTreeMap<SourceId, u64> = BTreeMap::new();
        for head in reader.sources_where(|source| subscription.includes(source)).ok()? {
            // One that waited for the event it was to begin with stood nowhere.
            let was_there = |after| {
                let page = reader.source_page(&head.source, after, 1).ok()?;
                Some(page.first().is_some_and(|event| event.position <= followed))
            };
            match reader.progress_row(key, &head.source).ok()? {
                Some(progress) => drop(stood.insert(head.source, progress)),
                None if was_there(floor.saturating_sub(1))? => drop(stood.insert(head.source, floor)),
                None => {}
            }
        }
        let mut before = None;
        loop {
            let page = reader.executions_before(key, before, PAGE_ROWS_MAX).ok()?;
            let Some(last) = page.last() else { return Some(Before { stood }) };
            before = Some(last.position());
            let taken = |execution: &Execution| {
                execution.state == ExecutionState::Closed { how: Closure::Superseded }
            };
            for execution in page.into_iter().filter(taken) {
                let first = execution.triggers.first().map_or(0, |trigger| trigger.sequence);
                if let Some(stood) = stood.get_mut(&execution.source) {
                    *stood = (*stood).min(first.saturating_sub(1));
                }
            }
        }
    }
}

impl Duty {
    /// Says whether an event lies behind where the version began.
    fn begun(&self, event: &Event) -> bool {
        let source = &event.source;
        if let Some((_, head)) = self.frozen.as_ref().filter(|(frozen, _)| frozen == source) {
            return event.sequence > *head;
        }
        let replayed = |sources: &BTreeSet<SourceId>| sources.contains(source);
        if let Some(before) = &self.before {
            let stood = before.stood.get(source);
            match (self.declaration.on_version_change(), stood) {
                (VersionChange::Replay(sources), _) if replayed(sources) => return true,
                (VersionChange::Preserve | VersionChange::Replay(_), Some(stood)) => {
                    return event.sequence > *stood;
                }
                (VersionChange::Preserve | VersionChange::Replay(_) | VersionChange::New, _) => {}
            }
        }
        match self.declaration.subscription().replay() {
            Replay::Beginning => true,
            Replay::Now => event.position > self.position,
            Replay::Sequence(sequence) => event.sequence >= sequence,
        }
    }
}

#[cfg(test)]
mod tests;
