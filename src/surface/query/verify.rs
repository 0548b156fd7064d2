//! Whether the log is whole: the same check that the tests run after every kill.

use std::cell::RefCell;
use std::collections::BTreeMap;

use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::ConsumerKey;
use thoughtstream_domain::subscription::{Replay, Subscription};
use thoughtstream_store::verify::{Head, Options, Report, verify as check};

use super::behind::subscription;
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
    let duties = Duties::of(look)?;
    let matches = |key: &ConsumerKey, event: &Event| duties.has(key, event);
    let mut progress = |done: u64, total: u64| sink.progress(Progress { done, total });
    let options = Options { since, matches: Some(&matches), progress: Some(&mut progress) };
    Ok(check(look.reader, options)?)
}

/// What each consumer had to process, as far as the log alone can say.
///
/// Only the first version of a consumer begins where its declaration says; a later one begins where the one
/// before it left off, which no row keeps. So later versions are checked against their claims alone.
struct Duties<'a> {
    look: &'a Look<'a>,
    first: BTreeMap<ConsumerKey, u64>,
    compiled: RefCell<BTreeMap<ConsumerKey, Option<Subscription>>>,
}

impl<'a> Duties<'a> {
    fn of(look: &'a Look<'a>) -> Result<Self, Failure> {
        let mut first: BTreeMap<_, (ConsumerKey, u64)> = BTreeMap::new();
        for registered in look.reader.registered_all().unwrap_or_default() {
            let (key, position) = (registered.consumer, registered.position);
            let entry = first.entry(key.id.clone()).or_insert_with(|| (key.clone(), position));
            if key.version < entry.0.version {
                *entry = (key, position);
            }
        }
        Ok(Self { look, first: first.into_values().collect(), compiled: RefCell::default() })
    }

    fn has(&self, key: &ConsumerKey, event: &Event) -> bool {
        let Some(registered) = self.first.get(key) else { return false };
        let mut compiled = self.compiled.borrow_mut();
        let found = compiled.entry(key.clone()).or_insert_with(|| {
            // One that cannot be read is a finding of its own.
            subscription(self.look, key).ok().flatten().map(std::borrow::Cow::into_owned)
        });
        let Some(subscription) = found else { return false };
        let begun = match subscription.replay() {
            Replay::Beginning => true,
            Replay::Now => event.position > *registered,
            Replay::Sequence(sequence) => event.sequence >= sequence,
        };
        begun && subscription.matches(event)
    }
}
