//! A source whose producer is a process of its own: the place that is kept for it in this service.
//!
//! The seat is taken by one process at a time and says who has it, or since when nobody has. Its actor stands where
//! a producer of this process would, so that whoever wants the source looked at need not know which it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_domain::time::Timestamp;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::ProducerMessage;
use crate::clock::Clock;
use crate::supervisor::{Detail, ReasonCode, StatusCell};

/// A producer is connected.
const CONNECTED: ReasonCode = ReasonCode::new("connected");
/// None is.
const NOT_CONNECTED: ReasonCode = ReasonCode::new("not-connected");
/// None is: the last one was there and said nothing any more.
const NOT_ANSWERING: ReasonCode = ReasonCode::new("not-answering");

/// What a producer is told waits here while it is busy; a look that is asked for again is one look.
const TOLD_MAX: usize = 64;

/// Whoever comes waits so long for one that is on its way out: a process that was killed is noticed in between.
const SEAT_PATIENCE: Duration = Duration::from_secs(3);

/// Is the process that has a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sitter {
    /// Its user.
    pub uid: u32,
    /// Its process, as it was when it connected.
    pub pid: i32,
}

/// Another process has the seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("process {pid} has been its producer since {since}", pid = sitter.pid)]
pub struct Taken {
    /// Who.
    pub sitter: Sitter,
    /// Since when.
    pub since: Timestamp,
}

/// Is the place of one source's producer.
pub struct Seat {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    freed: Notify,
}

struct State {
    since: Timestamp,
    sitter: Option<(Sitter, mpsc::Sender<ProducerMessage>)>,
    /// Who had it last, if that one was put out because it did not answer.
    silent: Option<Sitter>,
    cell: Arc<StatusCell>,
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").field("taken", &self.is_taken()).finish_non_exhaustive()
    }
}

impl Seat {
    /// Makes a seat that nobody has.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = State { since: clock.now(), sitter: None, silent: None, cell: Arc::default() };
        Arc::new(Self { clock, state: Mutex::new(state), freed: Notify::new() })
    }

    /// Takes the seat, waiting a moment for one that is about to leave it.
    ///
    /// # Errors
    /// [`Taken`] says who has it.
    pub async fn take(self: &Arc<Self>, sitter: Sitter) -> Result<Seated, Taken> {
        let taking = async {
            loop {
                let freed = self.freed.notified();
                if let Ok(seated) = self.try_take(sitter) {
                    return seated;
                }
                freed.await;
            }
        };
        match timeout(SEAT_PATIENCE, taking).await {
            Ok(seated) => Ok(seated),
            Err(_) => self.try_take(sitter),
        }
    }

    fn try_take(self: &Arc<Self>, sitter: Sitter) -> Result<Seated, Taken> {
        let mut state = self.state();
        if let Some((sitter, _)) = state.sitter {
            return Err(Taken { sitter, since: state.since });
        }
        let (sender, told) = mpsc::channel(TOLD_MAX);
        state.since = self.clock.now();
        (state.sitter, state.silent) = (Some((sitter, sender)), None);
        state.show();
        Ok(Seated { seat: Arc::clone(self), told, sitter, silent: false })
    }

    /// Says whether a producer is connected.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.state().sitter.is_some()
    }

    /// Returns the process that does not answer, if one was put out for that and none has come since.
    #[must_use]
    pub fn silent(&self) -> Option<Sitter> {
        self.state().silent
    }

    pub(super) fn cell(&self) -> Arc<StatusCell> {
        Arc::clone(&self.state().cell)
    }

    pub(super) fn word(&self) -> ReasonCode {
        self.state().word()
    }

    /// Passes a word on; what nobody hears is dropped, and whoever waits for its answer with it.
    fn pass(&self, message: ProducerMessage) {
        if let Some((_, told)) = &self.state().sitter {
            told.try_send(message).ok();
        }
    }

    /// Shows itself in the cell of a new incarnation of its actor.
    fn show_in(&self, cell: Arc<StatusCell>) {
        let mut state = self.state();
        state.cell = cell;
        state.show();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn word(&self) -> ReasonCode {
        match (&self.sitter, &self.silent) {
            (Some(_), _) => CONNECTED,
            (None, Some(_)) => NOT_ANSWERING,
            (None, None) => NOT_CONNECTED,
        }
    }

    fn show(&self) {
        let at = Detail::At(self.since);
        self.cell.tell(Some(self.word()), |details| match self.sitter {
            Some((Sitter { uid, pid }, _)) => {
                details.remove("notConnectedSince");
                details.insert("connectedSince", at);
                details.insert("pid", Detail::Count(u64::try_from(pid).unwrap_or(0)));
                details.insert("uid", Detail::Count(uid.into()));
            }
            None => {
                details.remove("connectedSince");
                details.remove("pid");
                details.remove("uid");
                details.insert("notConnectedSince", at);
                if let Some(Sitter { uid, pid }) = self.silent {
                    details.insert("pid", Detail::Count(u64::try_from(pid).unwrap_or(0)));
                    details.insert("uid", Detail::Count(uid.into()));
                }
            }
        });
    }
}

/// Is a seat that was taken; dropped, it is free.
#[derive(Debug)]
pub struct Seated {
    seat: Arc<Seat>,
    told: mpsc::Receiver<ProducerMessage>,
    sitter: Sitter,
    silent: bool,
}

impl Seated {
    /// Frees the seat of one that is there and does not answer.
    pub fn put_out(mut self) {
        self.silent = true;
    }

    /// Waits for something that the producer is to be told.
    pub async fn told(&mut self) -> ProducerMessage {
        match self.told.recv().await {
            Some(message) => message,
            // The seat holds the sending half for as long as this one lives.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        {
            let mut state = self.seat.state();
            state.sitter = None;
            state.silent = self.silent.then_some(self.sitter);
            state.since = self.seat.clock.now();
            state.show();
        }
        self.seat.freed.notify_waiters();
    }
}

/// Is the actor that stands for a producer apart.
#[derive(Debug)]
pub struct Apart;

impl Actor for Apart {
    type Msg = ProducerMessage;
    type State = Arc<Seat>;
    type Arguments = (Arc<Seat>, Arc<StatusCell>);

    async fn pre_start(
        &self,
        _: ActorRef<ProducerMessage>,
        (seat, cell): (Arc<Seat>, Arc<StatusCell>),
    ) -> Result<Arc<Seat>, ActorProcessingErr> {
        seat.show_in(cell);
        Ok(seat)
    }

    async fn handle(
        &self,
        _: ActorRef<ProducerMessage>,
        message: ProducerMessage,
        seat: &mut Arc<Seat>,
    ) -> Result<(), ActorProcessingErr> {
        seat.pass(message);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    const ONE: Sitter = Sitter { uid: 7, pid: 11 };
    const OTHER: Sitter = Sitter { uid: 7, pid: 12 };

    fn shown(seat: &Seat) -> (String, Vec<&'static str>) {
        let told = seat.cell().told();
        let details: std::collections::BTreeMap<&'static str, Detail> = told.details.into();
        (told.note.unwrap().to_string(), details.into_keys().collect())
    }

    #[tokio::test(start_paused = true)]
    async fn one_process_has_a_seat_and_the_next_is_told_who() {
        let seat = Seat::new(Arc::new(SystemClock));
        seat.show_in(Arc::default());
        assert_eq!(shown(&seat), ("not-connected".to_owned(), vec!["notConnectedSince"]));
        let seated = seat.take(ONE).await.unwrap();
        assert_eq!(shown(&seat), ("connected".to_owned(), vec!["connectedSince", "pid", "uid"]));
        let taken = seat.take(OTHER).await.unwrap_err();
        assert_eq!(taken.sitter, ONE);
        assert!(taken.to_string().starts_with("process 11 has been its producer since "), "{taken}");
        // One that leaves in time makes room.
        let waiting = tokio::spawn({
            let seat = Arc::clone(&seat);
            async move { seat.take(OTHER).await }
        });
        tokio::task::yield_now().await;
        drop(seated);
        let seated = waiting.await.unwrap().unwrap();
        assert!(seat.is_taken());
        drop(seated);
        assert_eq!(shown(&seat), ("not-connected".to_owned(), vec!["notConnectedSince"]));
        assert!(!seat.is_taken());
    }

    #[tokio::test]
    async fn one_that_does_not_answer_is_named_until_another_comes() {
        let seat = Seat::new(Arc::new(SystemClock));
        seat.show_in(Arc::default());
        seat.take(ONE).await.unwrap().put_out();
        assert_eq!((seat.is_taken(), seat.silent()), (false, Some(ONE)));
        assert_eq!(shown(&seat), ("not-answering".to_owned(), vec!["notConnectedSince", "pid", "uid"]));
        let seated = seat.take(OTHER).await.unwrap();
        assert_eq!((shown(&seat).0.as_str(), seat.silent()), ("connected", None));
        drop(seated);
        assert_eq!(shown(&seat), ("not-connected".to_owned(), vec!["notConnectedSince"]));
    }

    #[tokio::test]
    async fn what_a_producer_is_told_reaches_the_one_that_is_there_and_nobody_later() {
        let seat = Seat::new(Arc::new(SystemClock));
        let (asker, answer) = tokio::sync::oneshot::channel();
        seat.pass(ProducerMessage::LookFor(asker));
        assert!(answer.await.is_err(), "nobody is there to look");
        let mut seated = seat.take(ONE).await.unwrap();
        seat.pass(ProducerMessage::AcknowledgeRemovals);
        assert!(matches!(seated.told().await, ProducerMessage::AcknowledgeRemovals));
        for _ in 0..TOLD_MAX + 1 {
            seat.pass(ProducerMessage::Look);
        }
        drop(seated);
        // The next incarnation of its actor shows what stands.
        seat.show_in(Arc::default());
        assert_eq!(shown(&seat).0, "not-connected");
    }
}
