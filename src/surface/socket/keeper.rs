//! The doorkeeper: the actor that serves both doors, and closes them first when the service stops.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_actors::supervisor::{ChildName, ChildSpec};
use tokio_util::sync::CancellationToken;

use super::{Desk, Door, Doors, serve};

/// Is the doorkeeper; all of it is in its arguments.
#[derive(Debug)]
pub struct Doorkeeper<D>(std::marker::PhantomData<fn() -> D>);

/// Is what a doorkeeper is started with.
#[derive(Debug)]
pub struct KeeperArgs<D> {
    doors: Arc<Doors>,
    desk: Arc<D>,
    our_uid: u32,
    closing: CancellationToken,
}

/// A door ended although nobody closed it.
#[derive(Debug)]
pub struct DoorEnded;

impl<D: Desk> Actor for Doorkeeper<D> {
    type Msg = DoorEnded;
    type State = CancellationToken;
    type Arguments = KeeperArgs<D>;

    async fn pre_start(
        &self,
        myself: ActorRef<DoorEnded>,
        args: KeeperArgs<D>,
    ) -> Result<CancellationToken, ActorProcessingErr> {
        let KeeperArgs { doors, desk, our_uid, closing } = args;
        let (ask, operator) = doors.listeners()?;
        for (door, listener) in [(Door::Ask, ask), (Door::Operator, operator)] {
            let (desk, closing, myself) = (Arc::clone(&desk), closing.clone(), myself.clone());
            tokio::spawn(async move {
                let served = serve(door, listener, desk, our_uid, closing.clone()).await;
                if served.is_err() && !closing.is_cancelled() {
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

/// Declares the doorkeeper as a child; `desk` makes what answers, told when to end what would never end.
pub fn child<D: Desk>(
    doors: Arc<Doors>,
    our_uid: u32,
    desk: impl Fn(CancellationToken) -> D + Send + Sync + 'static,
) -> ChildSpec {
    // An incarnation that was killed could not close its own: the next one does it.
    let last = std::sync::Mutex::new(CancellationToken::new());
    ChildSpec::actor(ChildName::fixed("doors"), "doorkeeper", move |_| {
        let closing = CancellationToken::new();
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::replace(&mut *last, closing.clone()).cancel();
        let desk = Arc::new(desk(closing.clone()));
        let args = KeeperArgs { doors: Arc::clone(&doors), desk, our_uid, closing };
        (Doorkeeper(std::marker::PhantomData), args)
    })
}
