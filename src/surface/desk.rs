//! Answers what comes through the doors of a running service.

mod looking;
mod proposals;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use thoughtstream_actors::log::{LogError, LogState};
use thoughtstream_actors::service::{OperateError, ReloadError, ServiceHandle};
use thoughtstream_actors::supervisor::TreeNode;
use thoughtstream_domain::commit::{Refusal, Verdict};
use thoughtstream_domain::declaration::Catalog;
use thoughtstream_domain::id::{ConsumerId, SourceId};
use thoughtstream_domain::time::Timestamp;
use thoughtstream_domain::yaml::render_all;
use thoughtstream_store::RowError;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::activate::{ActivateRequest, Told, activate, menu};
use crate::ask::{Ask, EventFilter, Operate, Operated, Submit, Target};
use crate::at_start::AtStart;
use crate::chance;
use crate::copies;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate::{self, Decision, Done, Operation};
use crate::out::CLOSED;
use crate::places::Places;
use crate::query::inbox::Failures;
use crate::query::proposals::Home;
use crate::query::{self, Live, Look, Sink, Unwritable, events, tree};
use crate::rehearsal;
use crate::session::now;
use crate::socket::{Desk, Door, Gone, Greeting, PROTOCOL, Peer, Progress, Reply};

use crate::submit;

/// Two pictures of the tree are at least this far apart.
const WATCH_PAUSE: Duration = Duration::from_millis(250);

/// A picture of the tree comes at least this often: ages grow although nothing happens.
const WATCH_AT_LEAST: Duration = Duration::from_secs(2);

/// A decision is one commit; an answer that takes longer means that the log is stuck.
const DECIDE_PATIENCE: Duration = Duration::from_secs(30);

/// How often a judgment is worked out anew because others judged the same output meanwhile: far more than people
/// are at it.
const LOOKS_MAX: usize = 64;

/// Is the service's side of both doors.
#[derive(Debug, Clone)]
pub struct ServiceDesk {
    /// The service.
    pub service: ServiceHandle,
    /// Since when it runs.
    pub since: Timestamp,
    /// Where its configuration is read.
    pub places: Places,
    /// What it took from its configuration for good.
    pub at_start: Arc<AtStart>,
    /// What is kept of attempts that did not complete, from one look at what waits to the next.
    pub failures: Arc<Failures>,
    /// Ends answers that would never end by themselves.
    pub closing: CancellationToken,
    /// Is cancelled once the service has come up.
    pub ready: CancellationToken,
    /// Asks the process to drain and stop.
    pub stop: CancellationToken,
}

impl Desk for ServiceDesk {
    fn greeting(&self, door: Door) -> Greeting {
        Greeting {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            door,
            pid: std::process::id(),
            since: self.since,
        }
    }

    async fn answer(self: Arc<Self>, request: Operated, peer: Peer, reply: Reply) -> Result<Exit, Failure> {
        match request {
            Operated::Ask(Ask::Tree { watch: true }) => self.watch(reply).await,
            Operated::Ask(Ask::Tail(filter)) => {
                let named = filter.clone();
                let alive = filter.source.is_some();
                self.looking(alive, move |look| query::names::check_events(look, &named)).await?;
                self.tail(filter, reply).await
            }
            Operated::Ask(ask) => self.ask(ask, reply).await,
            Operated::Submit(submit) => self.submit(*submit, &peer, &reply).await,
            Operated::Operate(operation) => self.operate(operation, &peer, &reply).await,
        }
    }
}

/// Sends values from a thread that may block; a reader that went away ends the answer.
struct Sending(Reply);

impl Sink for Sending {
    fn value(&mut self, value: Value) -> Result<(), Failure> {
        self.0.blocking_item(value).map_err(gone)
    }

    fn progress(&mut self, progress: Progress) {
        self.0.progress(progress.done, progress.total);
    }
}

fn gone(gone: Gone) -> Failure {
    Failure::new(Exit::Done, CLOSED, gone.to_string())
}

fn bug(what: &str) -> Failure {
    Failure::new(Exit::Bug, "service.bug", what)
}

impl ServiceDesk {
    async fn live(&self) -> Result<Live, Failure> {
        let live = live_of(&self.service, self.since).await?;
        let failures = Arc::clone(&self.failures);
        Ok(Live { starting: !self.ready.is_cancelled(), failures, ..live })
    }

    async fn ask(&self, ask: Ask, reply: Reply) -> Result<Exit, Failure> {
        let alive = ask.looks_at_actors();
        self.looking(alive, move |look| query::answer(&ask, look, &mut Sending(reply))).await
    }

    /// Looks at the log, and with `alive` at who is, on a thread that may block.
    async fn looking<T: Send + 'static>(
        &self,
        alive: bool,
        look_at: impl FnOnce(&Look<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let live = if alive { Some(self.live().await?) } else { None };
        let service = self.service.clone();
        let answered = tokio::task::spawn_blocking(move || {
            let (declared, catalog) = (service.declarations(), Catalog::of(&service.registry()));
            let (reader, home) = (service.reader(), Home::of(service.context_root()));
            let look = Look {
                reader: &reader,
                live: live.as_ref(),
                declared: Some(&declared),
                catalog: &catalog,
                home: &home,
                now: now(),
            };
            look_at(&look)
        });
        answered.await.map_err(|_| bug("an answer failed"))?
    }

    /// Sends a picture of the tree with every change, and now and then without one.
    async fn watch(&self, reply: Reply) -> Result<Exit, Failure> {
        let mut head = self.service.head();
        let (mut last, mut sent) = (Value::Null, Instant::now());
        loop {
            let begun = Instant::now();
            let picture = self.picture().await?;
            // Drawing thousands of consumers takes a while: a watcher gets a fifth of one processor at most.
            let pause = WATCH_PAUSE.max(begun.elapsed() * 4);
            if picture != last || sent.elapsed() >= WATCH_AT_LEAST {
                reply.item(picture.clone()).await.map_err(gone)?;
                (last, sent) = (picture, Instant::now());
            }
            tokio::select! {
                () = self.closing.cancelled() => return Ok(Exit::Done),
                () = reply.gone() => return Ok(Exit::Done),
                // Not every change of an actor is a commit, so nothing is waited for without end.
                _ = timeout(pause * 2, head.changed()) => sleep(pause).await,
            }
        }
    }

    async fn picture(&self) -> Result<Value, Failure> {
        let drawn = self.looking(true, |look| {
            let node = tree::tree(look)?;
            serde_json::to_value(&node).map_err(|error| bug("the tree cannot be written").because(&error))
        });
        drawn.await
    }

    /// Sends events behind a position, then each new one.
    async fn tail(&self, filter: EventFilter, reply: Reply) -> Result<Exit, Failure> {
        let mut head = self.service.head();
        let mut after = match filter.after {
            Some(after) => after,
            None => *head.borrow_and_update(),
        };
        loop {
            let (reader, filter, sending) =
                (self.service.reader().showing_damage(), filter.clone(), reply.clone());
            let read = tokio::task::spawn_blocking(move || {
                let kinds = events::Kinds::parse(filter.kind.as_deref())?;
                let mut sending = Sending(sending);
                events::forward(&reader, &filter, &kinds, after, &mut |event| {
                    sending.value(events::shown(event, filter.content)).map(|()| true)
                })
            });
            after = read.await.map_err(|_| bug("the log could not be followed"))??;
            tokio::select! {
                () = self.closing.cancelled() => return Ok(Exit::Done),
                () = reply.gone() => return Ok(Exit::Done),
                changed = head.changed() => if changed.is_err() { return Ok(Exit::Done) },
            }
        }
    }

    async fn submit(&self, submit: Submit, peer: &Peer, reply: &Reply) -> Result<Exit, Failure> {
        let (source, key) = (submit.source.clone(), submit.key.clone());
        let candidate = submit::admit(&self.service.registry(), submit, peer.uid)?;
        let appended = timeout(DECIDE_PATIENCE, self.service.append(candidate)).await;
        let verdict = appended.map_err(|_| stuck())?.map_err(|error| log_failure(&error))?;
        let appended = submit::answer(verdict, source, key)?;
        self.say(reply, &appended).await
    }

    async fn operate(&self, operation: Operate, peer: &Peer, reply: &Reply) -> Result<Exit, Failure> {
        match &operation {
            Operate::Pause { consumer, .. } | Operate::Resume { consumer } => {
                let done = self.decide(operation.clone(), peer).await?;
                // A consumer that is not enabled has nobody to tell; its row is what counts.
                self.tell(consumer).await?;
                self.say(reply, &done).await
            }
            Operate::Reconcile { .. } => self.say(reply, &self.decide(operation.clone(), peer).await?).await,
            Operate::Redact { .. } => self.redact(operation, peer, reply).await,
            Operate::Skip { target: Target::Place { consumer, source, sequence }, reason } => {
                let place = (consumer.clone(), source.clone(), *sequence);
                self.skip_damaged(place, reason.clone(), peer, reply).await
            }
            Operate::Judge(_) | Operate::Retract { .. } => {
                self.say(reply, &self.judge(operation.clone(), peer).await?).await
            }
            Operate::Postpone { id, until } => {
                self.say(reply, &self.postpone(id.clone(), *until, peer).await?).await
            }
            Operate::DecideProposal(request) => {
                self.say(reply, &proposals::decide(self, request.as_ref().clone(), peer).await?).await
            }
            Operate::ProjectProposals { proposal } => proposals::project(self, *proposal, reply).await,
            Operate::Retry { .. } | Operate::Skip { .. } => {
                let (done, consumer) = self.decide_execution(operation.clone(), peer).await?;
                self.tell(&consumer).await?;
                self.say(reply, &done).await
            }
            Operate::Restart { consumer } => self.restart(consumer, peer, reply).await,
            Operate::Reload => self.reload(peer, reply).await,
            Operate::Stop => {
                self.service.note_stop(peer.operator());
                // How long that may take is said here as well: where nothing can be written, nobody else is told.
                let bound_ms = crate::serve::signals::bound_ms(self.at_start.drain());
                let stopping =
                    serde_json::json!({ "done": "stopping", "id": "service", "boundMs": bound_ms });
                self.say(reply, &stopping).await?;
                self.stop.cancel();
                Ok(Exit::Done)
            }
            Operate::Arm { point, action, passage, actor } => {
                self.arm(point, action, *passage, actor.as_deref()).await?;
                self.said(reply, "armed", point).await
            }
            Operate::Kill { path } => {
                let tree = self.tree().await?;
                let path = rehearsal::path_below(&tree, path);
                if self.service.points().is_rehearsal() {
                    rehearsal::check_killed(&tree, path)?;
                }
                self.service.kill(path).map_err(actor_failure)?;
                self.said(reply, "killed", &path).await
            }
            Operate::LookAt { source } => self.look_at(source, reply).await,
            Operate::AcceptRemovals { source } => {
                let done = self.accept_removals(source, peer).await?;
                self.say(reply, &done).await
            }
            Operate::TrainingExport { .. } | Operate::PrivateTrainingExport { .. } => {
                self.export_training(operation.clone(), reply).await
            }
            Operate::Activate(request) => self.activate(request.as_ref().clone(), peer, reply).await,
            Operate::RegisterMenu { skip_help_notice } => self.set_menus(*skip_help_notice, reply).await,
            Operate::Copy { form, path, acknowledge_sensitive } => {
                self.copy(*form, path.clone(), *acknowledge_sensitive, reply).await
            }
        }
    }

    /// Sets a trap, for one actor if one is named: by its whole path, or by the one below the root.
    async fn arm(&self, point: &str, action: &str, passage: u32, actor: Option<&str>) -> Result<(), Failure> {
        let mut whole = None;
        if let Some(actor) = actor {
            let tree = self.tree().await?;
            let actor = rehearsal::whole_path(&tree, actor);
            rehearsal::check_armed(&tree, &actor)?;
            whole = Some(actor);
        }
        let trap = rehearsal::trap(point, action, passage, whole.as_deref())?;
        let armed = self.service.points().arm(trap);
        armed.map(drop).map_err(|error| Failure::of(Exit::Refused, "rehearsal.arm", &error))
    }

    async fn activate(&self, request: ActivateRequest, peer: &Peer, reply: &Reply) -> Result<Exit, Failure> {
        let (told, operator) = (Told(reply.clone()), peer.operator());
        activate(&self.service, &self.places, request, operator, &told).await?;
        Ok(Exit::Done)
    }

    async fn set_menus(&self, skip_help_notice: bool, reply: &Reply) -> Result<Exit, Failure> {
        for done in &menu::register_all(&self.service, &self.places, skip_help_notice).await? {
            self.say(reply, done).await?;
        }
        Ok(Exit::Done)
    }

    /// Hides a thing in the list of what waits, as the running service has it.
    async fn postpone(&self, id: String, until: Timestamp, peer: &Peer) -> Result<Done, Failure> {
        let by = Operation { operator: peer.operator(), now: now(), key: chance::key("decision")? };
        let hide =
            move |look: &Look<'_>| query::inbox::postpone(&query::inbox::everything(look)?, &id, until, &by);
        self.settle_decision(self.looking(true, hide).await?).await
    }

    async fn tree(&self) -> Result<TreeNode, Failure> {
        self.service.tree().await.ok_or_else(|| bug("the tree is not up"))
    }

    async fn restart(&self, consumer: &ConsumerId, peer: &Peer, reply: &Reply) -> Result<Exit, Failure> {
        let key = chance::key("decision")?;
        let commit = thoughtstream_domain::operate::restart(consumer, peer.operator(), key);
        let event = commit.appends.first().map(|candidate| candidate.id());
        let id = consumer.to_string();
        let note = self.pause_note(consumer).await?;
        let done = Done { done: "restarted".to_owned(), id, already: false, note, event };
        let done = self.settle(commit, done).await?;
        self.service.restart_consumer(consumer).await.map_err(actor_failure)?;
        self.say(reply, &done).await
    }

    async fn reload(&self, peer: &Peer, reply: &Reply) -> Result<Exit, Failure> {
        let reloaded =
            self.service.reload(Some(peer.operator())).await.map_err(|error| reload_failure(&error))?;
        let mut answer = serde_json::to_value(&reloaded).unwrap_or_default();
        let restart_for = self.at_start.restart_for();
        if !restart_for.is_empty() {
            answer["restartFor"] = restart_for.into();
        }
        self.say(reply, &answer).await
    }

    async fn copy(
        &self,
        form: copies::Form,
        path: std::path::PathBuf,
        acknowledged: bool,
        reply: &Reply,
    ) -> Result<Exit, Failure> {
        let (reader, sending, places) = (self.service.reader(), reply.clone(), self.places.clone());
        let copied = tokio::task::spawn_blocking(move || {
            let mut told = |p: Progress| sending.progress(p.done, p.total);
            copies::copy(&reader, &places, form, &path, acknowledged, &mut told)
        });
        let copied = copied.await.map_err(|_| bug("a copy failed"))??;
        self.say(reply, &copied).await
    }

    /// Writes a data set on a thread that may block.
    async fn export_training(&self, operation: Operate, reply: &Reply) -> Result<Exit, Failure> {
        let (reader, places) = (self.service.reader(), self.places.clone());
        let written = |answer: Result<Value, serde_json::Error>| {
            answer.map_err(|error| bug("an answer cannot be written").because(&error))
        };
        let exported = tokio::task::spawn_blocking(move || {
            if let Operate::PrivateTrainingExport { path, acknowledged } = &operation {
                let exported = crate::training::private::export(&reader, &places, path, *acknowledged)?;
                return written(serde_json::to_value(exported));
            }
            let Operate::TrainingExport { path, include_private } = operation else {
                return Err(bug("this operation writes no data set"));
            };
            written(serde_json::to_value(crate::training::export(&reader, &places, &path, include_private)?))
        });
        let exported = exported.await.map_err(|_| bug("an export failed"))??;
        self.say(reply, &exported).await
    }

    /// Says that a consumer which is started anew stays paused.
    async fn pause_note(&self, consumer: &ConsumerId) -> Result<Option<String>, Failure> {
        let id = consumer.clone();
        let control = self.looking(false, move |look| Ok(look.reader.control(&id)?)).await?;
        let paused = control.is_some_and(|control| control.is_paused());
        Ok(paused.then(|| format!("it is paused and starts nothing: thought consumer resume {consumer}")))
    }

    /// Lets removals pass that a source holds back, once the log says who does.
    async fn accept_removals(&self, source: &SourceId, peer: &Peer) -> Result<Done, Failure> {
        self.check_removals_wait(source).await?;
        let key = chance::key("decision")?;
        let commit = thoughtstream_domain::operate::accept_removals(source, peer.operator(), key);
        let event = commit.appends.first().map(|candidate| candidate.id());
        let (done, id) = ("accepted".to_owned(), source.to_string());
        let done = self.settle(commit, Done { done, id, already: false, note: None, event }).await?;
        self.service.acknowledge_removals(source.as_str()).map_err(actor_failure)?;
        Ok(done)
    }

    /// Refuses to let removals pass where none wait.
    async fn check_removals_wait(&self, source: &SourceId) -> Result<(), Failure> {
        let subject = source.clone();
        let wait =
            self.looking(false, move |look| query::inbox::holds_removals(look.reader, &subject)).await?;
        if wait || !self.at_start.watches(source) {
            return Ok(());
        }
        Err(Failure::new(Exit::Refused, "source.nothing-held", format!("{source} holds no removals back"))
            .with_hint("`thought inbox` lists what waits for you"))
    }

    async fn said(
        &self,
        reply: &Reply,
        word: &str,
        id: &(impl std::fmt::Display + Sync),
    ) -> Result<Exit, Failure> {
        let done =
            Done { done: word.to_owned(), id: id.to_string(), already: false, note: None, event: None };
        self.say(reply, &done).await
    }

    async fn say<T: serde::Serialize + Sync>(&self, reply: &Reply, value: &T) -> Result<Exit, Failure> {
        let value = serde_json::to_value(value)
            .map_err(|error| bug("an answer cannot be written").because(&error))?;
        // A client that went away does not undo what was done.
        reply.item(value).await.ok();
        Ok(Exit::Done)
    }

    /// Works a decision out from the log, and hands it in.
    async fn decide(&self, operation: Operate, peer: &Peer) -> Result<Done, Failure> {
        self.settle_decision(self.work_out(operation, peer).await?).await
    }

    /// Works a judgment out from what was said so far, and hands it in; if somebody said more meanwhile, again.
    async fn judge(&self, operation: Operate, peer: &Peer) -> Result<Done, Failure> {
        for _ in 0..LOOKS_MAX {
            match self.work_out(operation.clone(), peer).await? {
                Decision::Already(done) => return Ok(done),
                Decision::Commit(commit, done) => {
                    let verdict = self.hand_in(*commit).await?;
                    if !matches!(verdict, Verdict::Refused(Refusal::Precondition { .. })) {
                        return operate::settle(verdict, done);
                    }
                }
            }
        }
        let what = format!("others judged the same output {LOOKS_MAX} times meanwhile: nothing was written");
        Err(Failure::new(Exit::Refused, "decision.overtaken", what).with_hint("look again and decide again"))
    }

    async fn settle_decision(&self, decision: Decision) -> Result<Done, Failure> {
        match decision {
            Decision::Already(done) => Ok(done),
            Decision::Commit(commit, done) => self.settle(*commit, done).await,
        }
    }

    async fn decide_execution(&self, operation: Operate, peer: &Peer) -> Result<(Done, ConsumerId), Failure> {
        let reader = self.service.reader();
        let (Operate::Retry { target } | Operate::Skip { target, .. }) = operation.clone() else {
            return Err(bug("this operation is about no execution"));
        };
        let found = tokio::task::spawn_blocking(move || operate::find(&reader, &target)).await;
        let consumer = found.map_err(|_| bug("an execution could not be found"))??.consumer.id;
        Ok((self.decide(operation, peer).await?, consumer))
    }

    async fn work_out(&self, operation: Operate, peer: &Peer) -> Result<Decision, Failure> {
        let reader = self.service.reader();
        let by = Operation { operator: peer.operator(), now: now(), key: chance::key("decision")? };
        let decided = tokio::task::spawn_blocking(move || operate::decide(&reader, &operation, &by)).await;
        decided.map_err(|_| bug("a decision could not be worked out"))?
    }

    async fn settle(
        &self,
        commit: thoughtstream_domain::commit::Commit,
        done: Done,
    ) -> Result<Done, Failure> {
        operate::settle(self.hand_in(commit).await?, done)
    }

    async fn hand_in(&self, commit: thoughtstream_domain::commit::Commit) -> Result<Verdict, Failure> {
        let decided = timeout(DECIDE_PATIENCE, self.service.decide(commit)).await;
        decided.map_err(|_| stuck())?.map_err(|error| log_failure(&error))
    }

    /// Erases an event, and lets consumers look again that stand still because it is damaged.
    async fn redact(&self, operation: Operate, peer: &Peer, reply: &Reply) -> Result<Exit, Failure> {
        let done = self.decide(operation, peer).await?;
        for (_, consumers) in query::damaged::standing(&self.live().await?.tree) {
            for consumer in &consumers {
                self.tell(consumer).await?;
            }
        }
        self.say(reply, &done).await
    }

    /// Passes a damaged event for a consumer.
    async fn skip_damaged(
        &self,
        (consumer, source, sequence): (ConsumerId, SourceId, u64),
        reason: String,
        peer: &Peer,
        reply: &Reply,
    ) -> Result<Exit, Failure> {
        let by = Operation { operator: peer.operator(), now: now(), key: chance::key("decision")? };
        let id = consumer.clone();
        let skip = move |look: &Look<'_>| query::damaged::skip(look, (&id, &source, sequence), &reason, &by);
        let done = self.settle_decision(self.looking(false, skip).await?).await?;
        self.tell(&consumer).await?;
        self.say(reply, &done).await
    }

    async fn tell(&self, consumer: &ConsumerId) -> Result<(), Failure> {
        match self.service.consumer_changed(consumer).await {
            Ok(()) | Err(OperateError::NotEnabled) => Ok(()),
            Err(error) => Err(actor_failure(error)),
        }
    }
}

/// Looks at what only the running service knows.
pub(crate) async fn live_of(service: &ServiceHandle, since: Timestamp) -> Result<Live, Failure> {
    let tree = service.tree().await.ok_or_else(|| bug("the tree is not up"))?;
    let tree = serde_json::to_value(&tree).and_then(serde_json::from_value::<tree::Node>);
    let tree = tree.map_err(|error| bug("the tree cannot be written").because(&error))?;
    let unwritable = match &*service.log_state().borrow() {
        LogState::Writable => None,
        LogState::Unwritable { code, since } => Some(Unwritable { code: code.clone(), since: Some(*since) }),
        LogState::Damaged { what } => Some(Unwritable { code: format!("damaged: {what}"), since: None }),
    };
    Ok(Live {
        pid: std::process::id(),
        since,
        starting: false,
        paused: service.is_paused(),
        unwritable,
        tree,
        failures: Arc::default(),
        skipped: service.skipped(),
    })
}

fn stuck() -> Failure {
    let what =
        format!("the log has not answered for {} s: it may or may not be done", DECIDE_PATIENCE.as_secs());
    Failure::new(Exit::Unknown, "log.stuck", what)
}

fn log_failure(error: &LogError) -> Failure {
    let exit = match error {
        LogError::Damaged { place } => return RowError::Damaged { place: place.clone() }.into(),
        LogError::Unwritable { .. } | LogError::Closed => Exit::CouldNotLook,
        LogError::Unknown => Exit::Unknown,
    };
    Failure::of(exit, "log.write", error)
}

fn actor_failure(error: OperateError) -> Failure {
    let code = match error {
        OperateError::NotEnabled => "consumer.not-enabled",
        OperateError::NotWatched => "source.not-watched",
        OperateError::NotConnected => "source.not-connected",
        OperateError::Actor(_) => "actor.refused",
        OperateError::NotARehearsal => "rehearsal.none",
        OperateError::Stopping => "service.stopping",
    };
    Failure::of(Exit::Refused, code, &error)
}

/// Says why a reload changed nothing.
pub(crate) fn reload_failure(error: &ReloadError) -> Failure {
    match error {
        ReloadError::Problems(problems) => {
            Failure::new(Exit::Usage, "config.problems", "nothing was changed")
                .with_lines(&render_all(problems))
        }
        ReloadError::Types(_) => Failure::of(Exit::Usage, "schema.changed", error),
        ReloadError::Read(error) => Failure::from(error),
        ReloadError::Unwritable => Failure::of(Exit::CouldNotLook, "log.reload", error),
        ReloadError::Refused(_) | ReloadError::NotStopping(_) => {
            Failure::of(Exit::Refused, "reload.refused", error)
        }
    }
}
