//! A consumer: one enabled declaration, subscriber and runner in one actor.
//!
//! It reads each source from its own progress, claims matching events in order, runs attempts in tasks and hands
//! what came of them to the log. What to do next is decided by a [`Lane`](thoughtstream_domain::lane::Lane) for
//! each source; everything the actor believes, it has read in the log or been told by a verdict.

mod attempt;
mod board;
mod lanes;
mod model;
mod resume;
mod spec;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::lane::DamagedEvent;
use thoughtstream_domain::registry::Registry;
use thoughtstream_store::Reader;

use crate::clock::Clock;
use crate::killpoint::KillPoints;
use crate::log::LogHandle;
use crate::supervisor::{Fault, ReasonCode, StatusCell, StopReason};
use attempt::Ended;
use lanes::Lanes;

pub use model::{Facilities, ModelWork};
pub use spec::{ConsumerSpec, Work};
pub use thoughtstream_domain::declaration::LifecycleMode;

/// An attempt of an earlier incarnation is still open; only the supervisor closes it.
pub const ATTEMPT_LEFT_OPEN: ReasonCode = ReasonCode::new("attempt-left-open");
/// The log has another event under the id of one of ours.
pub const CONFLICT: ReasonCode = ReasonCode::new("conflict");

/// Is the consumer actor; all of it is in its state.
#[derive(Debug)]
pub struct Consumer;

/// Is what a consumer is told.
#[derive(Debug)]
pub enum ConsumerMessage {
    /// Something moved: look.
    Look,
    /// The time has come for which an alarm was set.
    Alarm,
    /// Matching events were read on some of the sources that asked.
    Read {
        /// What was read; `None` if the store could not be read.
        pages: Option<Vec<Page>>,
        /// Whether this was the last of what was asked for.
        last: bool,
    },
    /// An attempt ended.
    Ended {
        /// The source.
        source: SourceId,
        /// The position of the execution's first trigger.
        position: u64,
        /// How.
        end: Box<Ended>,
    },
    /// A task of its own panicked: this incarnation cannot know what it left.
    Panicked,
    /// A person or a decision changed what stands in the log: read it again.
    Resync,
    /// Finish what is open, start nothing, then stop.
    Drain(StopReason),
}

/// Is what was read on one source.
#[derive(Debug)]
pub struct Page {
    /// The source.
    pub source: SourceId,
    /// Behind which sequence.
    pub after: u64,
    /// What matches, in order.
    pub events: Vec<Event>,
    /// The last sequence that was looked at.
    pub looked_at: u64,
    /// The event behind it that is not what was recorded, if that is what comes next.
    pub damaged: Option<DamagedEvent>,
}

/// Is what a consumer is started with.
#[derive(Clone)]
pub struct ConsumerArgs {
    /// What it does.
    pub spec: Arc<ConsumerSpec>,
    /// Where commits go.
    pub log: LogHandle,
    /// Where it reads.
    pub reader: Reader,
    /// The types that outputs are checked against.
    pub registry: Arc<Registry>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where it can be made to fail.
    pub points: Arc<KillPoints>,
    /// The number of this service's start, as the store counts them.
    pub incarnation: u64,
    /// Whether the incarnation before ended uncleanly: `started` is then written first even in settled mode.
    pub cautious: bool,
    /// Whether nothing may be started whatever the control row says (`serve --paused`).
    pub paused: bool,
    /// Its path in the tree.
    pub path: Arc<str>,
    /// Where it says how it is doing.
    pub status: Arc<StatusCell>,
}

impl Actor for Consumer {
    type Msg = ConsumerMessage;
    type State = Lanes;
    type Arguments = ConsumerArgs;

    async fn pre_start(
        &self,
        me: ActorRef<ConsumerMessage>,
        args: ConsumerArgs,
    ) -> Result<Lanes, ActorProcessingErr> {
        Ok(Lanes::new(args, me))
    }

    async fn post_start(
        &self,
        _: ActorRef<ConsumerMessage>,
        lanes: &mut Lanes,
    ) -> Result<(), ActorProcessingErr> {
        lanes.subscribe();
        lanes.resync().await?;
        lanes.advance()?;
        Ok(())
    }

    async fn handle(
        &self,
        me: ActorRef<ConsumerMessage>,
        message: ConsumerMessage,
        lanes: &mut Lanes,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ConsumerMessage::Look => lanes.look().await?,
            ConsumerMessage::Alarm => lanes.alarmed(),
            ConsumerMessage::Read { pages, last } => lanes.took_pages(pages, last),
            ConsumerMessage::Ended { source, position, end } => {
                lanes.took_end(&source, position, *end).await?;
            }
            ConsumerMessage::Panicked => return Err(Fault(ReasonCode::PANICKED).into()),
            ConsumerMessage::Resync => lanes.resync().await?,
            ConsumerMessage::Drain(reason) => lanes.drain(reason),
        }
        lanes.advance()?;
        if let Some(reason) = lanes.drained() {
            me.stop(Some(reason.stop_text()));
        }
        Ok(())
    }
}

/// Says why a consumer does not know where it stands.
enum Lost {
    /// A row could not be read.
    Unreadable(thoughtstream_store::RowError),
    /// Something else.
    Fault(Fault),
}

impl From<thoughtstream_store::RowError> for Lost {
    fn from(error: thoughtstream_store::RowError) -> Self {
        Self::Unreadable(error)
    }
}
