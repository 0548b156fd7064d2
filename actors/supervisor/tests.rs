//! The kernel under every way an actor can end. One puppet actor does what the tests tell it to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::Notify;

use super::*;
use crate::address::Address;
use crate::clock::{JitterSource, PinnedClock};

mod chaos;
mod commands;
mod exits;
mod inspect;
mod quarantine;
mod stops;
mod storms;
mod strategies;

const ODD: ReasonCode = ReasonCode::new("odd");

/// What a puppet does in one of its callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Panic,
    Fail,
    FailUncoded,
    Hang,
}

/// Deeds for callbacks, each done once, by whichever incarnation gets there first.
#[derive(Default)]
struct Script {
    pre_start: Mutex<Option<Deed>>,
    post_start: Mutex<Option<Deed>>,
    post_stop: Mutex<Option<Deed>>,
}

enum Order {
    Do(Deed),
    Settle,
    Finish,
    /// Blocks the thread, deaf to everything, until the gate is opened.
    Block(Arc<Gate>),
}

/// Holds a thread until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    entered: Notify,
}

impl Gate {
    fn open(&self) {
        *lock(&self.open) = true;
        self.opened.notify_all();
    }
}

struct Puppet;

struct Strings {
    name: String,
    journal: Journal,
    script: Arc<Script>,
    status: Arc<StatusCell>,
}

async fn act(deed: Option<Deed>) -> Result<(), ActorProcessingErr> {
    match deed {
        None => Ok(()),
        Some(Deed::Panic) => panic!("what the person wrote"),
        Some(Deed::Fail) => Err(Fault(ODD).into()),
        Some(Deed::FailUncoded) => Err(std::io::Error::other("what the person wrote").into()),
        Some(Deed::Hang) => std::future::pending().await,
    }
}

fn next(deed: &Mutex<Option<Deed>>) -> Option<Deed> {
    lock(deed).take()
}

impl Actor for Puppet {
    type Msg = Order;
    type State = Strings;
    type Arguments = Strings;

    async fn pre_start(&self, _: ActorRef<Order>, strings: Strings) -> Result<Strings, ActorProcessingErr> {
        act(next(&strings.script.pre_start)).await?;
        Ok(strings)
    }

    async fn post_start(&self, _: ActorRef<Order>, strings: &mut Strings) -> Result<(), ActorProcessingErr> {
        act(next(&strings.script.post_start)).await?;
        strings.journal.write(format!("up {}", strings.name));
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Order>, strings: &mut Strings) -> Result<(), ActorProcessingErr> {
        act(next(&strings.script.post_stop)).await?;
        strings.journal.write(format!("down {}", strings.name));
        Ok(())
    }

    async fn handle(
        &self,
        me: ActorRef<Order>,
        order: Order,
        strings: &mut Strings,
    ) -> Result<(), ActorProcessingErr> {
        match order {
            Order::Do(deed) => act(Some(deed)).await?,
            Order::Settle => {
                strings.status.settled();
                strings.journal.write(format!("settled {}", strings.name));
            }
            Order::Finish => me.stop(Some(StopReason::Finished.stop_text())),
            Order::Block(gate) => {
                gate.entered.notify_one();
                let open = gate.opened.wait_while(lock(&gate.open), |open| !*open);
                drop(open.unwrap());
            }
        }
        Ok(())
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn write(&self, line: String) {
        lock(&self.0).push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0))
    }
}

/// Keeps notices for a test to read.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<Notice>>>);

impl NoticeSink for Notices {
    fn take(&self, notice: Notice) {
        lock(&self.0).push(notice);
    }
}

impl Notices {
    fn words(&self) -> Vec<String> {
        lock(&self.0).iter().map(|notice| format!("{} {}", notice.path, notice.what.name())).collect()
    }

    fn kinds(&self) -> Vec<NoticeKind> {
        lock(&self.0).iter().map(|notice| notice.what).collect()
    }
}

/// One declared puppet and its strings.
#[derive(Clone)]
struct Hand {
    name: &'static str,
    address: Address<Order>,
    script: Arc<Script>,
}

impl Hand {
    fn tell(&self, order: Order) {
        self.address.send(order).unwrap();
    }
}

/// What the tests share: a journal, notices and a clock.
struct Stage {
    journal: Journal,
    notices: Notices,
    clock: Arc<PinnedClock>,
}

/// The moment at which the pinned clock stands.
const NOW: i64 = 1_700_000_000_000;

impl Stage {
    fn new() -> Self {
        Self {
            journal: Journal::default(),
            notices: Notices::default(),
            clock: Arc::new(PinnedClock::at(NOW)),
        }
    }

    fn env(&self) -> Env {
        Env {
            clock: self.clock.clone(),
            jitter: Arc::new(JitterSource::seeded(7)),
            notices: Arc::new(self.notices.clone()),
        }
    }

    /// Declares a puppet that is restarted after one second, five times at most.
    fn puppet(&self, name: &'static str) -> (ChildSpec, Hand) {
        let hand = Hand { name, address: Address::new(), script: Arc::default() };
        let (journal, script) = (self.journal.clone(), hand.script.clone());
        let spec =
            ChildSpec::actor_at(ChildName::fixed(name), "puppet", hand.address.clone(), move |context| {
                let name = format!("{name}#{}", context.incarnation);
                let (journal, script, status) = (journal.clone(), script.clone(), context.status.clone());
                (Puppet, Strings { name, journal, script, status })
            });
        (spec.policy(policy()), hand)
    }

    /// Adds a hook to `spec` that writes down what it was told.
    fn with_hook(&self, spec: ChildSpec) -> ChildSpec {
        let journal = self.journal.clone();
        spec.on_exit(move |report| {
            journal.write(format!("closed {}#{} {}", report.name, report.incarnation, report.exit));
            async { Recovery::Done }
        })
    }

    async fn launch(&self, spec: SupervisorSpec) -> Root {
        let root = launch(spec, self.env()).await.unwrap();
        root.handle().wait_started().await;
        root
    }
}

fn policy() -> RestartPolicy {
    RestartPolicy::quarantine().with_backoff(Duration::from_secs(1), Duration::from_secs(60))
}

fn one_for_one(name: &'static str) -> SupervisorSpec {
    SupervisorSpec::new(ChildName::fixed(name), Strategy::OneForOne)
}

/// Waits until the given incarnation of a child runs.
async fn running(handle: &SupervisorHandle, name: &str, incarnation: u64) -> TreeNode {
    handle.wait_until(name, |node| node.state == ChildState::Running && node.incarnation == incarnation).await
}

async fn in_state(handle: &SupervisorHandle, name: &str, state: ChildState) -> TreeNode {
    handle.wait_until(name, |node| node.state == state).await
}
