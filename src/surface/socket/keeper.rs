//! The doorkeeper: the actor that serves doors, and closes them before anything else stops.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_actors::supervisor::{ChildName, ChildSpec};
use tokio_util::sync::CancellationToken;

use super::{Desk, Door, Doors, serve};

/// Is a door that is being served; it ends when its keeper closes, or because it cannot go on.
pub type Serving = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Begins to serve doors, which are told when to close.
type Open = dyn Fn(&CancellationToken) -> io::Result<Vec<Serving>> + Send + Sync;

/// Is a doorkeeper; all of it is in its arguments.
#[derive(Debug)]
pub struct Doorkeeper;

/// Is what a doorkeeper is started with.
pub struct KeeperArgs {
    open: Arc<Open>,
    closing: CancellationToken,
}

/// A door ended although nobody closed it.
#[derive(Debug)]
pub struct DoorEnded;

impl Actor for Doorkeeper {
    type Msg = DoorEnded;
    type State = CancellationToken;
    type Arguments = KeeperArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<DoorEnded>,
        args: KeeperArgs,
    ) -> Result<CancellationToken, ActorProcessingErr> {
        let KeeperArgs { open, closing } = args;
        for serving in open(&closing)? {
            let (closing, myself) = (closing.clone(), myself.clone());
            tokio::spawn(async move {
                if serving.await.is_err() && !closing.is_cancelled() {
                    myself.cast(DoorEnded).ok();
                }
            });
        }
        Ok(closing)
    }

    async fn handle(
        &self,
        _: ActorRef<DoorEnded>,
        DoorEnded: DoorEnded,
        _: &mut CancellationToken,
    ) -> Result<(), ActorProcessingErr> {
        // Started anew, it listens again.
        Err("a door ended".into())
    }

    async fn post_stop(
        &self,
        _: ActorRef<DoorEnded>,
        closing: &mut CancellationToken,
    ) -> Result<(), ActorProcessingErr> {
        closing.cancel();
        Ok(())
    }
}

/// Declares a keeper as a child; each of its incarnations begins to serve by `open`.
pub fn child(
    name: &'static str,
    open: impl Fn(&CancellationToken) -> io::Result<Vec<Serving>> + Send + Sync + 'static,
) -> ChildSpec {
    let open: Arc<Open> = Arc::new(open);
    // An incarnation that was killed could not close its own: the next one does it.
    let last = Mutex::new(CancellationToken::new());
    ChildSpec::actor(ChildName::fixed(name), "doorkeeper", move |_| {
        let closing = CancellationToken::new();
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *last, closing.clone()).cancel();
        (Doorkeeper, KeeperArgs { open: Arc::clone(&open), closing })
    })
}

/// Declares the keeper of the two doors for people and their programs; `desk` makes what answers, told when to end
/// what would never end.
pub fn doors<D: Desk>(
    doors: Arc<Doors>,
    our_uid: u32,
    desk: impl Fn(CancellationToken) -> D + Send + Sync + 'static,
) -> ChildSpec {
    child("doors", move |closing| {
        let (ask, operator) = doors.listeners()?;
        let desk = Arc::new(desk(closing.clone()));
        let serving = [(Door::Ask, ask), (Door::Operator, operator)].map(|(door, listener)| -> Serving {
            Box::pin(serve(door, listener, Arc::clone(&desk), our_uid, closing.clone()))
        });
        Ok(serving.into())
    })
}
