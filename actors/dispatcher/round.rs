//! The dispatcher's task: look, start what may go, wait for a reason to look again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use thoughtstream_channels::telegram::access::Reached;
use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::dispatch::{self, Deliveries, Due, Item, Lanes, Open, Sent, Standing};
use thoughtstream_domain::id::{DeliveryId, SourceId, TypeName};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::delivery::{DeliveryDelivered, DeliveryFailed};
use thoughtstream_domain::payload::run::RunCompleted;
use thoughtstream_domain::time::Timestamp;
use tokio::task::JoinSet;

use super::find::{self, Finder, Opened};
use super::send::{COPIED, Sending, deliver};
use super::{DispatcherArgs, Nudges, ROUND_FAILED};
use crate::hub::{SourceFilter, Subscribed};
use crate::killpoint::KillSite;
use crate::supervisor::{Detail, Fault, ReasonCode};

const PAUSED: ReasonCode = ReasonCode::new("paused");
const SENDING: ReasonCode = ReasonCode::new("sending");
const HELD_BACK: ReasonCode = ReasonCode::new("held-back");

/// How many messages are on their way at a time, to different chats.
const SENDS_MAX: usize = 8;

/// How many deliveries wait in memory; the others wait in the log.
const WAITING_MAX: usize = 512;

/// After how many runs without a delivery it is recorded how far this dispatcher has looked, so that its next
/// start does not look at them again.
const UNRECORDED_MAX: u64 = 1_000;

/// The longest wait: clocks may jump.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Says how the task ended.
pub(super) enum Ending {
    /// Nothing is on its way any more, and nothing is started.
    Drained,
    /// It cannot go on.
    Fault(Fault),
}

/// Delivers until it is told to drain, or something goes wrong.
pub(super) async fn keep_delivering(
    args: DispatcherArgs,
    opened: Opened,
    site: KillSite,
    nudges: Arc<Nudges>,
) -> Ending {
    let worked = async {
        let mut round = Round::start(args, opened, site, Arc::clone(&nudges)).await?;
        loop {
            let due = round.look(&nudges).await?;
            if nudges.is_draining() && round.sends.is_empty() {
                return Ok(());
            }
            round.wait(&nudges, due).await?;
        }
    };
    match worked.await {
        Ok(()) => Ending::Drained,
        Err(fault) => Ending::Fault(fault),
    }
}

struct Round {
    args: DispatcherArgs,
    sending: Sending,
    finder: Finder,
    deliveries: Deliveries,
    lanes: Lanes,
    sends: JoinSet<(Item, Result<(), Fault>)>,
    /// Where the runs ended whose outputs are being claimed for the first time.
    claiming: BTreeMap<DeliveryId, (SourceId, u64)>,
    /// Up to which position the log is a copy: what follows from it may have been sent by the one it is a copy of.
    copied: u64,
    /// How far it is recorded that each source was looked at.
    recorded: BTreeMap<SourceId, u64>,
    ended: u64,
    bell: Subscribed,
}

impl Round {
    async fn start(
        args: DispatcherArgs,
        opened: Opened,
        site: KillSite,
        nudges: Arc<Nudges>,
    ) -> Result<Self, Fault> {
        let reached = Reached::open(args.spec.api.clone()).map_err(|code| Fault(ReasonCode::new(code)))?;
        let bell = subscribe(&args, nudges);
        let holder = args.begun.take_over();
        let sending = Sending { args: args.clone(), site, reached, holder };
        let finder = Finder::new(&args, opened);
        let reader = args.reader.clone();
        let copied = find::blocking(move || reader.copied_through()).await?;
        let (deliveries, sent) = find::resume(&args).await?;
        let mut lanes = Lanes::default();
        for (chat, at) in sent {
            lanes.note_sent(chat, at);
        }
        let recorded = finder.read().clone();
        let sends = JoinSet::new();
        let (claiming, ended) = (BTreeMap::new(), 0);
        Ok(Self { args, sending, finder, deliveries, lanes, sends, claiming, copied, recorded, ended, bell })
    }

    /// Reads what was recorded of deliveries, and ends the claims that an earlier dispatcher left.
    ///
    /// Those may have been sent, unless it is known that their sending had not begun. One may still land after this
    /// dispatcher has started, since it was handed in before; its holder cannot begin any more.
    async fn follow(&mut self) -> Result<(), Fault> {
        let ours = (self.args.incarnation, self.sending.holder);
        loop {
            self.deliveries = find::follow(&self.args, std::mem::take(&mut self.deliveries)).await?;
            let mut ended = false;
            for Open { binding, standing, latest, .. } in self.deliveries.open() {
                let Standing::Claimed { incarnation, holder } = *standing else { continue };
                // The starts of another log may have had the same numbers.
                let copied = latest.position <= self.copied;
                if (incarnation, holder) == ours && !copied {
                    continue;
                }
                let here = incarnation == self.args.incarnation;
                let sent = if copied {
                    Sent::Unknown { code: COPIED }
                } else if here && !self.args.begun.has_begun(binding.delivery, binding.claim) {
                    Sent::NotSent { code: "interrupted", retry_after: None }
                } else {
                    Sent::Unknown { code: if here { "interrupted" } else { "service-ended" } }
                };
                let commit = dispatch::end(binding, latest, sent, self.args.clock.now());
                self.args.log.commit(commit).await.map_err(Fault::from)?;
                self.args.begun.forget(binding.delivery, binding.claim);
                self.args.status.settled();
                ended = true;
            }
            if !ended {
                return Ok(());
            }
        }
    }

    /// Reads what is new, starts what may go, and says when to look again.
    async fn look(&mut self, nudges: &Nudges) -> Result<Option<Timestamp>, Fault> {
        // What moves from here on rings again.
        drop(self.bell.take());
        self.follow().await?;
        self.take_up().await?;
        while self.lanes.waiting() < WAITING_MAX {
            let (found, more) = self.finder.candidates().await?;
            for (candidate, source, sequence) in found {
                if candidate.position <= self.copied {
                    self.sending.hold(&candidate.binding).await?;
                    continue;
                }
                let found = Some((source, sequence));
                self.lanes.put_last(Item { binding: candidate.binding, not_before: None, found });
            }
            if !more {
                break;
            }
        }
        self.record().await?;
        let Due { now, wake } = if self.args.paused || nudges.is_draining() {
            Due::default()
        } else {
            let free = SENDS_MAX.saturating_sub(self.sends.len());
            self.lanes.due(self.args.spec.velocity, self.args.clock.now(), free)
        };
        for item in &now {
            // Behind the claims before it, this one says how far everything is settled when it is durable.
            let rows = find::progress(&self.args.spec, self.settled());
            if let Some(found) = &item.found {
                self.claiming.insert(item.binding.delivery, found.clone());
            }
            self.sends.spawn(deliver(self.sending.clone(), item.clone(), rows));
        }
        self.tell(wake);
        Ok(wake)
    }

    /// Puts what was not sent, and what a person wants sent again, in line.
    async fn take_up(&mut self) -> Result<(), Fault> {
        for open in self.deliveries.open() {
            let Standing::Waiting { at, .. } = open.standing else { continue };
            let mut binding = open.binding.clone();
            binding.claim += 1;
            if open.latest.position <= self.copied {
                self.sending.hold(&binding).await?;
                continue;
            }
            self.lanes.put_last(Item { binding, not_before: Some(at), found: None });
        }
        Ok(())
    }

    /// Returns how far each source is settled once nothing of what waits or is being claimed is in front.
    fn settled(&self) -> Vec<(SourceId, u64)> {
        let first = |source: &SourceId| {
            let claiming = self.claiming.values().filter(|(place, _)| place == source);
            claiming.map(|(_, sequence)| *sequence).chain(self.lanes.first_found(source)).min()
        };
        let through = |(source, read): (&SourceId, &u64)| {
            (source.clone(), first(source).map_or(*read, |first| first.saturating_sub(1)))
        };
        let mut settled: Vec<(SourceId, u64)> = self.finder.read().iter().map(through).collect();
        settled.push((self.args.spec.routes.deliveries(), self.deliveries.settled_through()));
        settled
    }

    /// Records how far it has looked, when that is much and no claim says it.
    async fn record(&mut self) -> Result<(), Fault> {
        let behind = |(source, through): &(SourceId, u64)| {
            through.saturating_sub(self.recorded.get(source).copied().unwrap_or_default()) > UNRECORDED_MAX
        };
        let settled = self.settled();
        if !settled.iter().any(behind) {
            return Ok(());
        }
        let rows = find::progress(&self.args.spec, settled.clone());
        let commit = Commit { rows, ..Commit::default() };
        self.args.log.commit(commit).await.map_err(Fault::from)?;
        self.recorded.extend(settled);
        Ok(())
    }

    fn tell(&self, wake: Option<Timestamp>) {
        let status = &self.args.status;
        let note = match (self.args.paused, self.sends.is_empty()) {
            (true, _) => Some(PAUSED),
            (false, false) => Some(SENDING),
            (false, true) => (self.lanes.waiting() > 0).then_some(HELD_BACK),
        };
        status.tell(note, |details| {
            details.insert("waiting", Detail::Count(self.lanes.waiting() as u64));
            details.insert("ended", Detail::Count(self.ended));
            match wake {
                Some(at) => details.insert("until", Detail::At(at)),
                None => details.remove("until"),
            };
        });
    }

    /// Waits for a wake-up, the end of a send, or the time.
    async fn wait(&mut self, nudges: &Nudges, wake: Option<Timestamp>) -> Result<(), Fault> {
        let until = wake.map(|at| at.millis_since(self.args.clock.now()));
        let until = until.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        let until = until.map(|wait| wait.clamp(Duration::from_millis(1), WAIT_MAX));
        let time = async {
            match until {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = nudges.look.notified() => Ok(()),
            () = time => Ok(()),
            Some(ended) = self.sends.join_next() => self.took_end(ended).await,
        }
    }

    async fn took_end(
        &mut self,
        ended: Result<(Item, Result<(), Fault>), tokio::task::JoinError>,
    ) -> Result<(), Fault> {
        let (item, done) = ended.map_err(|_| Fault(ROUND_FAILED))?;
        done?;
        self.args.status.settled();
        self.ended += 1;
        self.claiming.remove(&item.binding.delivery);
        self.follow().await?;
        self.lanes.done(item.binding.chat);
        if let Some(Open { standing: Standing::Waiting { at, .. }, binding, .. }) =
            self.deliveries.get(&item.binding.delivery)
        {
            let mut binding = binding.clone();
            binding.claim += 1;
            // It was first, and is so again.
            self.lanes.put_first(Item { binding, not_before: Some(*at), found: None });
        }
        Ok(())
    }
}

/// Listens to the ends of runs, and to what others say about deliveries.
fn subscribe(args: &DispatcherArgs, nudges: Arc<Nudges>) -> Subscribed {
    let routes = &args.spec.routes;
    let types: [TypeName; 3] =
        [RunCompleted::kind().name, DeliveryFailed::kind().name, DeliveryDelivered::kind().name];
    let agents = routes.agents();
    let sources = agents.iter().map(SourceId::agent).chain([routes.deliveries()]).collect();
    let filter = SourceFilter { sources, kinds: BTreeSet::new() };
    args.log.hub().subscribe(types, filter, Arc::new(move || nudges.look.notify_one()))
}
