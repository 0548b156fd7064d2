//! A consumer's state: its lanes, what runs, and what it tells about itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use thoughtstream_domain::commit::{Commit, Control, Row};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::lane::{Lane, Step};
use thoughtstream_domain::lifecycle::Execution;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::RowError;
use tokio::task::JoinSet;

use super::attempt::{Attempt, Ended};
use super::board::Board;
use super::resume::{Found, at_sight, heads, matching, standing};
use super::{CONFLICT, ConsumerArgs, ConsumerMessage, LifecycleMode, Lost, Page};
use crate::hub::{NewsPage, Subscribed};
use crate::killpoint::{KillPoint, KillSite};
use crate::log::STORE_UNREADABLE;
use crate::supervisor::{Detail, Fault, ReasonCode, StatusCell, StopReason};

const PAUSED: ReasonCode = ReasonCode::new("paused");
const HELD: ReasonCode = ReasonCode::new("held");
const DAMAGED: ReasonCode = ReasonCode::new("damaged");
const RUNNING: ReasonCode = ReasonCode::new("running");
const WAITING: ReasonCode = ReasonCode::new("waiting");
const BEHIND: ReasonCode = ReasonCode::new("behind");
const DRAINING: ReasonCode = ReasonCode::new("draining");

/// The most damaged events that are told by name: a disk that loses more is a matter of `verify`.
const DAMAGED_TOLD_MAX: usize = 16;

/// How many lanes are read before the first of them go on.
const LANES_A_PIECE: usize = 32;

/// Is the state of a consumer actor. Dropping it ends its tasks: a killed consumer leaves none behind.
pub struct Lanes {
    pub(super) args: ConsumerArgs,
    me: ActorRef<ConsumerMessage>,
    site: KillSite,
    subscribed: Option<Subscribed>,
    lanes: BTreeMap<SourceId, Lane>,
    /// Lanes that something happened to since they were last asked for their next step.
    touched: BTreeSet<SourceId>,
    /// Lanes to be read again when their attempts have ended; until then they take no step.
    stale: BTreeSet<SourceId>,
    board: Board,
    /// What lanes asked to be read: everything that was asked for while a read was under way goes out as one.
    wanted: Vec<Wanted>,
    reading: bool,
    /// The log could not be read any further: what was read before is finished, and then this incarnation ends.
    unreadable: bool,
    tasks: JoinSet<()>,
    running: usize,
    paused: bool,
    cautious: bool,
    draining: Option<StopReason>,
    /// Tells attempts that have opened nothing yet that they need not.
    leaving: tokio::sync::watch::Sender<bool>,
    alarm: Option<(Timestamp, tokio::task::AbortHandle)>,
}

impl Lanes {
    pub(super) fn new(args: ConsumerArgs, me: ActorRef<ConsumerMessage>) -> Self {
        let site = args.points.site(Arc::clone(&args.path), Some(me.get_cell()));
        let (paused, cautious) = (args.paused, args.cautious);
        Self {
            args,
            me,
            site,
            subscribed: None,
            lanes: BTreeMap::new(),
            touched: BTreeSet::new(),
            stale: BTreeSet::new(),
            board: Board::default(),
            wanted: Vec::new(),
            reading: false,
            unreadable: false,
            tasks: JoinSet::new(),
            running: 0,
            paused,
            cautious,
            draining: None,
            leaving: tokio::sync::watch::Sender::new(false),
            alarm: None,
        }
    }

    /// Listens before it reads, so that nothing falls between the backlog and what is live.
    pub(super) fn subscribe(&mut self) {
        let me = self.me.clone();
        // An actor that is gone needs no waking.
        let bell = Arc::new(move || drop(me.send_message(ConsumerMessage::Look)));
        let spec = &self.args.spec;
        self.subscribed = Some(self.args.log.hub().subscribe(spec.types(), spec.filter(), bell));
    }

    /// Reads in the log where the consumer stands. A lane with open attempts is read when they have ended.
    pub(super) async fn resync(&mut self) -> Result<(), Fault> {
        self.stale = self.lanes.iter().filter(|(_, l)| l.running() > 0).map(|(s, _)| s.clone()).collect();
        let (reader, spec, skip) =
            (self.args.reader.clone(), Arc::clone(&self.args.spec), self.stale.clone());
        let standing = self.blocking(move || standing(&reader, &spec, &skip)).await?;
        self.lanes.retain(|source, _| self.stale.contains(source));
        self.lanes.extend(standing.lanes);
        self.obey(standing.control.as_ref());
        self.touch_all();
        Ok(())
    }

    /// Reads whether the consumer is paused.
    async fn reread_control(&mut self) -> Result<(), Fault> {
        let (reader, id) = (self.args.reader.clone(), self.args.spec.key.id.clone());
        let control = self.blocking(move || Ok(reader.control(&id)?)).await?;
        let before = self.paused;
        self.obey(control.as_ref());
        if self.paused != before {
            self.touch_all();
        }
        Ok(())
    }

    fn obey(&mut self, control: Option<&Control>) {
        self.paused = self.args.paused || control.is_some_and(Control::is_paused);
    }

    /// Reads off the async threads; a row that cannot be read is the end of the actor, which names it.
    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Lost> + Send + 'static,
    ) -> Result<T, Fault> {
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(Lost::Fault(fault))) => Err(fault),
            Ok(Err(Lost::Unreadable(error))) => {
                name(&self.args.status, &error);
                Err(Fault(STORE_UNREADABLE))
            }
            Err(_) => Err(Fault(STORE_UNREADABLE)),
        }
    }

    /// Looks at every lane again, and forgets what was told of those that are gone.
    fn touch_all(&mut self) {
        self.board = Board::default();
        self.touched = self.lanes.keys().cloned().collect();
    }

    /// Reads in the log where the consumer stands on some sources.
    async fn reread(&mut self, sources: Vec<SourceId>) -> Result<(), Fault> {
        let (reader, spec) = (self.args.reader.clone(), Arc::clone(&self.args.spec));
        self.touched.extend(sources.iter().cloned());
        let lanes = self.blocking(move || at_sight(&reader, &spec, sources)).await?;
        self.lanes.extend(lanes);
        Ok(())
    }

    /// Notes what moved.
    pub(super) async fn look(&mut self) -> Result<(), Fault> {
        let look = self.subscribed.as_ref().map(Subscribed::take).unwrap_or_default();
        let now = self.args.clock.now();
        let mut unknown = Vec::new();
        for (source, news) in look.sources {
            let Some(lane) = self.lanes.get_mut(&source) else {
                unknown.push(source);
                continue;
            };
            lane.moved(news.head);
            if let Some(NewsPage { after, through, events }) = news.page {
                let events = events.into_iter().map(Arc::unwrap_or_clone);
                let events = events.filter(|event| self.args.spec.subscription().matches(event)).collect();
                lane.offered(after, events, through, now, &self.args.spec.limits);
            }
            self.touched.insert(source);
        }
        if look.missed {
            self.look_everywhere(&mut unknown).await?;
        }
        if unknown.is_empty() { Ok(()) } else { self.reread(unknown).await }
    }

    /// Asks the log how far every source reaches.
    async fn look_everywhere(&mut self, unknown: &mut Vec<SourceId>) -> Result<(), Fault> {
        let (reader, spec) = (self.args.reader.clone(), Arc::clone(&self.args.spec));
        for head in self.blocking(move || Ok(heads(&reader, &spec)?)).await? {
            match self.lanes.get_mut(&head.source) {
                Some(lane) => {
                    lane.moved(head.sequence);
                    self.touched.insert(head.source);
                }
                None if unknown.contains(&head.source) => {}
                None => unknown.push(head.source),
            }
        }
        Ok(())
    }

    /// Looks at the lanes whose time has come.
    pub(super) fn alarmed(&mut self) {
        // A clock that was set back does not call the time that was waited for into question.
        let at = self.alarm.take().map_or(Timestamp::default(), |(at, _)| at);
        self.touched.extend(self.board.due(at.max(self.args.clock.now())));
    }

    /// Takes the pages that were read.
    pub(super) fn took_pages(&mut self, pages: Option<Vec<Page>>, last: bool) {
        self.reading = !last;
        let now = self.args.clock.now();
        self.unreadable |= pages.is_none();
        for Page { source, after, events, looked_at, damaged } in pages.into_iter().flatten() {
            if let Some(lane) = self.lanes.get_mut(&source) {
                if lane.read(after, events, looked_at, now)
                    && let Some(damaged) = damaged
                {
                    lane.stop_before(damaged);
                }
                self.touched.insert(source);
            }
        }
    }

    /// Takes the end of an attempt.
    pub(super) async fn took_end(
        &mut self,
        source: &SourceId,
        position: u64,
        end: Ended,
    ) -> Result<(), Fault> {
        self.running -= 1;
        self.touched.insert(source.clone());
        match end {
            Ended::Stands { execution, completed } => {
                if completed {
                    self.cautious = false;
                }
                self.args.status.settled();
                if let Some(lane) = self.lanes.get_mut(source) {
                    lane.ended(*execution);
                }
            }
            Ended::Paused => {
                self.forget(source, position);
                self.reread_control().await?;
            }
            // Somebody else wrote first.
            Ended::Overtaken => self.forget(source, position),
            Ended::Damaged(damaged) => {
                if let Some(lane) = self.lanes.get_mut(source) {
                    lane.stop_at(position, damaged);
                }
            }
            Ended::Conflict => return Err(Fault(CONFLICT)),
            Ended::Unreadable(error) => {
                if let Some(error) = &error {
                    name(&self.args.status, error);
                }
                return Err(Fault(STORE_UNREADABLE));
            }
            Ended::Fault(fault) => return Err(fault),
            Ended::Closed => return Ok(()),
        }
        let ran_out = self.lanes.get(source).is_none_or(|lane| lane.running() == 0);
        if ran_out && self.stale.remove(source) {
            self.reread(vec![source.clone()]).await?;
        }
        Ok(())
    }

    /// Forgets an attempt that was kept out. What the lane believes of its own claims is wrong from there on:
    /// the log tells it anew as soon as nothing of it is under way.
    fn forget(&mut self, source: &SourceId, position: u64) {
        if let Some(lane) = self.lanes.get_mut(source) {
            lane.forget(position);
        }
        self.stale.insert(source.clone());
    }

    /// Starts nothing more.
    pub(super) fn drain(&mut self, reason: StopReason) {
        self.draining = Some(reason);
        self.leaving.send_replace(true);
    }

    /// Says that it has drained, and for what reason it was to.
    pub(super) fn drained(&self) -> Option<StopReason> {
        self.draining.filter(|_| self.running == 0)
    }

    /// Takes every step that the lanes ask for.
    pub(super) fn advance(&mut self) -> Result<(), Fault> {
        while self.tasks.try_join_next().is_some() {}
        let works = !self.paused && self.draining.is_none();
        for source in std::mem::take(&mut self.touched) {
            let steps = works && !self.stale.contains(&source);
            let alarm = if steps { self.advance_lane(&source) } else { None };
            match self.lanes.get(&source) {
                Some(lane) => self.board.show(&source, lane, alarm),
                None => self.board.remove(&source),
            }
        }
        if !self.unreadable {
            self.read();
        } else if self.running == 0 && self.draining.is_none() {
            return Err(Fault(STORE_UNREADABLE));
        }
        self.set_alarm(if works { self.board.next_alarm() } else { None });
        self.tell();
        Ok(())
    }

    fn advance_lane(&mut self, source: &SourceId) -> Option<Timestamp> {
        loop {
            let now = self.args.clock.now();
            let limits = self.args.spec.limits;
            let step = self.lanes.get_mut(source)?.step(now, &limits);
            match step {
                Step::Claim { events, previous } => {
                    let frame = self.args.spec.frame(self.args.incarnation, now);
                    let execution = Execution::fix(&frame, &events);
                    self.start(source, execution, Some(events), previous);
                }
                Step::Retry(execution) => self.start(source, *execution, None, 0),
                Step::Read { after, limit } => {
                    self.wanted.push(Wanted { source: source.clone(), after, limit });
                }
                Step::Pass(sequence) => self.pass(source, sequence),
                Step::Wait(at) => return Some(at),
                Step::Idle => return None,
            }
        }
    }

    fn start(&mut self, source: &SourceId, execution: Execution, events: Option<Vec<Event>>, previous: u64) {
        let spec = &self.args.spec;
        let at_once = spec.lifecycle == LifecycleMode::Settled && execution.attempts == 0 && !self.cautious;
        let attempt = Attempt {
            spec: Arc::clone(spec),
            log: self.args.log.clone(),
            reader: self.args.reader.clone(),
            registry: Arc::clone(&self.args.registry),
            clock: Arc::clone(&self.args.clock),
            site: self.site.clone(),
            incarnation: self.args.incarnation,
            status: Arc::clone(&self.args.status),
            leaving: self.leaving.subscribe(),
        };
        self.running += 1;
        let (me, source, position) = (self.me.clone(), source.clone(), execution.position());
        let ending = attempt.begin(execution, events, previous, at_once);
        self.tasks.spawn(async move {
            let _guard = Confession(me.clone());
            let end = Box::new(ending.await);
            // Whoever started the attempt may be gone; recovery has it then.
            drop(me.send_message(ConsumerMessage::Ended { source, position, end }));
        });
    }

    /// Reads what lanes asked for, unless a read is under way: what comes meanwhile goes together.
    fn read(&mut self) {
        if self.reading || self.wanted.is_empty() {
            return;
        }
        self.reading = true;
        let (reader, spec) = (self.args.reader.clone(), Arc::clone(&self.args.spec));
        let (me, wanted, status) =
            (self.me.clone(), std::mem::take(&mut self.wanted), Arc::clone(&self.args.status));
        self.tasks.spawn_blocking(move || {
            let _guard = Confession(me.clone());
            // In pieces, so that the first are worked on while the rest is read.
            let mut pieces = wanted.chunks(LANES_A_PIECE).peekable();
            while let Some(piece) = pieces.next() {
                let pages = piece.iter().map(|Wanted { source, after, limit }| {
                    let Found { events, looked_at, damaged } =
                        matching(&reader, &spec, source, *after, *limit)?;
                    Ok(Page { source: source.clone(), after: *after, events, looked_at, damaged })
                });
                let pages: Result<Vec<Page>, RowError> = pages.collect();
                if let Err(error) = &pages {
                    name(&status, error);
                }
                let (pages, last) = (pages.ok(), pieces.peek().is_none());
                // An actor that is gone has nobody who waits for the rest.
                if me.send_message(ConsumerMessage::Read { pages, last }).is_err() {
                    return;
                }
            }
        });
    }

    fn pass(&mut self, source: &SourceId, sequence: u64) {
        let consumer = self.args.spec.key.clone();
        let rows = vec![Row::Pass { consumer, source: source.clone(), sequence }];
        let (log, me, site) = (self.args.log.clone(), self.me.clone(), self.site.clone());
        self.tasks.spawn(async move {
            let _guard = Confession(me);
            if site.pass(KillPoint::ProgressBefore).await.is_err() {
                return;
            }
            let submitted = log.submit(Arc::new(Commit { rows, ..Commit::default() }));
            if site.pass(KillPoint::ProgressInside).await.is_err() || submitted.settled().await.is_err() {
                return; // progress is written again another time
            }
            site.pass(KillPoint::ProgressAfter).await.ok();
        });
    }

    /// Rings at `at`, replacing an alarm for another time.
    fn set_alarm(&mut self, at: Option<Timestamp>) {
        if self.alarm.as_ref().map(|(set, _)| *set) == at {
            return;
        }
        if let Some((_, alarm)) = self.alarm.take() {
            alarm.abort();
        }
        let Some(at) = at else { return };
        let wait = u64::try_from(at.millis_since(self.args.clock.now())).unwrap_or(0);
        let me = self.me.clone();
        let alarm = self.tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(wait.max(1))).await;
            drop(me.send_message(ConsumerMessage::Alarm));
        });
        self.alarm = Some((at, alarm));
    }

    /// Writes down what the tree shows.
    fn tell(&self) {
        let (held, retry_at) = (self.board.held(), self.board.retry_at());
        let note = if self.draining.is_some() {
            Some(DRAINING)
        } else if held.is_some() {
            Some(HELD)
        } else if self.board.damaged().next().is_some() {
            Some(DAMAGED)
        } else if self.paused {
            Some(PAUSED)
        } else if self.running > 0 {
            Some(RUNNING)
        } else if retry_at.is_some() {
            Some(WAITING)
        } else if self.board.is_behind() {
            Some(BEHIND)
        } else {
            None
        };
        self.args.status.tell(note, |details| {
            details.insert("behind", Detail::Count(self.board.behind()));
            details.insert("running", Detail::Count(self.running as u64));
            match retry_at {
                Some(at) => details.insert("retryAt", Detail::At(at)),
                None => details.remove("retryAt"),
            };
            match held {
                Some(execution) => details.insert("held", Detail::id(&execution)),
                None => details.remove("held"),
            };
            let damaged: Vec<String> =
                self.board.damaged().take(DAMAGED_TOLD_MAX).map(ToString::to_string).collect();
            if damaged.is_empty() {
                details.remove("damaged");
            } else {
                details.insert("damaged", Detail::Ids(damaged));
            }
        });
    }
}

/// Is what a lane asked to be read.
struct Wanted {
    source: SourceId,
    after: u64,
    limit: usize,
}

/// Lets whoever looks at a consumer that stopped over damage see which row it was.
pub(super) fn name(status: &StatusCell, error: &RowError) {
    if let RowError::Damaged { place } = error {
        status.set("unreadable", Detail::id(place));
    }
}

/// Tells the actor when a task of its own panics.
struct Confession(ActorRef<ConsumerMessage>);

impl Drop for Confession {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // An actor that is gone has nobody to tell.
            drop(self.0.send_message(ConsumerMessage::Panicked));
        }
    }
}
