//! The keeper of the sources' doors: the actor that serves them, and closes them before anything else stops.

use std::sync::{Arc, Mutex, PoisonError};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_actors::service::ServiceHandle;
use thoughtstream_actors::supervisor::{ChildName, ChildSpec};
use thoughtstream_domain::time::Timestamp;
use tokio_util::sync::CancellationToken;

use super::door::SourceDoors;
use super::session::{Entrance, serve};
use crate::socket::keeper::DoorEnded;

/// Is the keeper; all of it is in its arguments.
#[derive(Debug)]
pub struct SourceKeeper;

/// Is what it is started with.
#[derive(Debug)]
pub struct SourceKeeperArgs {
    doors: Arc<SourceDoors>,
    service: ServiceHandle,
    since: Timestamp,
    closing: CancellationToken,
}

impl Actor for SourceKeeper {
    type Msg = DoorEnded;
    type State = CancellationToken;
    type Arguments = SourceKeeperArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<DoorEnded>,
        args: SourceKeeperArgs,
    ) -> Result<CancellationToken, ActorProcessingErr> {
        let SourceKeeperArgs { doors, service, since, closing } = args;
        for door in &doors.doors {
            let listener = door.listener()?;
            let entrance = Entrance {
                expected: door.expected.clone(),
                uid: door.uid,
                service: service.clone(),
                since,
                closing: closing.clone(),
            };
            let (closing, myself) = (closing.clone(), myself.clone());
            tokio::spawn(async move {
                let served = serve(listener, Arc::new(entrance)).await;
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
        Err("the door of a source ended".into())
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

/// Declares the keeper as a child.
pub fn child(doors: Arc<SourceDoors>, service: ServiceHandle, since: Timestamp) -> ChildSpec {
    // An incarnation that was killed could not close its own: the next one does it.
    let last = Mutex::new(CancellationToken::new());
    ChildSpec::actor(ChildName::fixed("source-doors"), "doorkeeper", move |_| {
        let closing = CancellationToken::new();
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *last, closing.clone()).cancel();
        let args = SourceKeeperArgs { doors: Arc::clone(&doors), service: service.clone(), since, closing };
        (SourceKeeper, args)
    })
}
