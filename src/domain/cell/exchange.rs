//! The parent's half of the conversation with a worker, as a state machine over the bytes that arrive.
//!
//! Whatever a worker does besides asking once, repeating the final parts of what it was told and naming the calls in
//! them one for one is one [`Breach`]; the parent then ends it and takes nothing from it.

use super::frame::{
    FrameError, FromWorker, Gather, PACKET_FRAME_BYTES_MAX, REQUEST_FRAME_BYTES_MAX, ToWorker, decode, encode,
};
use super::{CellResult, Outcome, Packet, Request, Told, VERSION};
use crate::id::RunId;
use crate::proposal::capability::WorkerCapability;

/// Says how a worker broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Breach {
    /// A frame is longer than was agreed.
    #[error("the worker's frame is longer than was agreed")]
    Oversize,
    /// A frame holds no message of this protocol.
    #[error("the worker's frame holds no message of this protocol")]
    Malformed,
    /// It speaks another version.
    #[error("the worker speaks another version of the protocol")]
    Version,
    /// It speaks of another run.
    #[error("the worker speaks of another run")]
    OtherRun,
    /// It asked again.
    #[error("the worker asked more than once")]
    SecondAsk,
    /// It had a result before it was answered.
    #[error("the worker had a result before it was answered")]
    EarlyResult,
    /// Its result is not what it was told.
    #[error("the worker's result is not what it was told")]
    Invented,
    /// Its result names other calls than those it was told, or takes one for admitted that is not.
    #[error("the worker's result names other calls than it was told")]
    OtherCalls,
    /// It went on after its result.
    #[error("the worker went on after its result")]
    Trailing,
    /// It closed before its result.
    #[error("the worker closed before its result")]
    EndedEarly,
}

impl Breach {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Oversize,
        Self::Malformed,
        Self::Version,
        Self::OtherRun,
        Self::SecondAsk,
        Self::EarlyResult,
        Self::Invented,
        Self::OtherCalls,
        Self::Trailing,
        Self::EndedEarly,
    ];

    /// Returns the stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Oversize => "worker-frame-oversize",
            Self::Malformed => "worker-frame-malformed",
            Self::Version => "worker-version",
            Self::OtherRun => "worker-other-run",
            Self::SecondAsk => "worker-second-ask",
            Self::EarlyResult => "worker-early-result",
            Self::Invented => "worker-invented",
            Self::OtherCalls => "worker-other-calls",
            Self::Trailing => "worker-trailing-bytes",
            Self::EndedEarly => "worker-ended-early",
        }
    }
}

impl From<FrameError> for Breach {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Oversize => Self::Oversize,
            FrameError::Malformed => Self::Malformed,
        }
    }
}

/// Holds how far the conversation with one worker has come.
#[derive(Debug)]
pub struct Exchange {
    run: RunId,
    answer_bytes_max: usize,
    /// What the worker was told that may be proposed.
    proposals: Option<WorkerCapability>,
    state: State,
    gather: Gather,
}

#[derive(Debug)]
enum State {
    /// The packet is on its way; one request is due.
    Asking,
    /// The request is with the broker.
    Waiting,
    /// The answer is on its way; this result is due.
    Concluding(Box<CellResult>),
    /// The result is there; nothing may follow.
    Concluded(Box<CellResult>),
}

impl Exchange {
    /// Begins a conversation, and returns the first frame for the worker.
    ///
    /// # Errors
    /// [`FrameError::Oversize`] if the packet does not fit into a frame.
    pub fn begin(packet: Packet) -> Result<(Self, Vec<u8>), FrameError> {
        let (run, answer_bytes_max, proposals) =
            (packet.run, packet.answer_bytes_max, packet.proposals.clone());
        let frame = encode(&ToWorker::Packet(packet), PACKET_FRAME_BYTES_MAX)?;
        let (state, gather) = (State::Asking, Gather::default());
        Ok((Self { run, answer_bytes_max, proposals, state, gather }, frame))
    }

    /// Takes bytes that the worker wrote; returns the request once it is complete.
    ///
    /// # Errors
    /// [`Breach`]; the worker is to be ended then.
    pub fn heard(&mut self, bytes: &[u8]) -> Result<Option<Request>, Breach> {
        self.gather.push(bytes);
        match &self.state {
            State::Asking => self.request(),
            State::Waiting => match self.gather.next(REQUEST_FRAME_BYTES_MAX)? {
                None => Ok(None),
                Some(frame) => Err(match decode(&frame)? {
                    FromWorker::Ask(_) => Breach::SecondAsk,
                    FromWorker::Result(_) => Breach::EarlyResult,
                }),
            },
            State::Concluding(_) => self.result().map(|()| None),
            State::Concluded(_) if self.gather.is_empty() => Ok(None),
            State::Concluded(_) => Err(Breach::Trailing),
        }
    }

    /// Answers the request, and returns the frame for the worker.
    ///
    /// # Errors
    /// [`FrameError::Oversize`] if the answer, or the result that is due, does not fit into a frame.
    pub fn told(&mut self, outcome: Outcome) -> Result<Vec<u8>, FrameError> {
        let told = Told::new(self.run, outcome);
        let frame = encode(&ToWorker::Told(told.clone()), self.answer_bytes_max)?;
        let due = CellResult::of(told, self.proposals.as_ref());
        // A result that does not fit would end an honest worker.
        encode(&FromWorker::Result(due.clone()), self.answer_bytes_max)?;
        self.state = State::Concluding(Box::new(due));
        Ok(frame)
    }

    /// Says whether the result is there and only the worker's end is due.
    #[must_use]
    pub const fn is_concluded(&self) -> bool {
        matches!(self.state, State::Concluded(_))
    }

    /// Ends the conversation because the worker closed its side.
    ///
    /// # Errors
    /// [`Breach::EndedEarly`] if its result is missing.
    pub fn closed(self) -> Result<CellResult, Breach> {
        match self.state {
            State::Concluded(result) if self.gather.is_empty() => Ok(*result),
            State::Asking | State::Waiting | State::Concluding(_) | State::Concluded(_) => {
                Err(Breach::EndedEarly)
            }
        }
    }

    fn request(&mut self) -> Result<Option<Request>, Breach> {
        let Some(frame) = self.gather.next(REQUEST_FRAME_BYTES_MAX)? else { return Ok(None) };
        let FromWorker::Ask(ask) = decode(&frame)? else { return Err(Breach::EarlyResult) };
        self.is_ours(ask.version, ask.run)?;
        self.state = State::Waiting;
        // What is there already was written before the answer could be known.
        self.heard(&[])?;
        Ok(Some(ask.request))
    }

    fn result(&mut self) -> Result<(), Breach> {
        let Some(frame) = self.gather.next(self.answer_bytes_max)? else { return Ok(()) };
        let FromWorker::Result(result) = decode(&frame)? else { return Err(Breach::SecondAsk) };
        self.is_ours(result.version, result.run)?;
        let due = std::mem::replace(&mut self.state, State::Concluded(Box::new(result.clone())));
        let State::Concluding(due) = due else { return Err(Breach::Invented) };
        if due.calls != result.calls {
            return Err(Breach::OtherCalls);
        }
        if *due != result {
            return Err(Breach::Invented);
        }
        if self.gather.is_empty() { Ok(()) } else { Err(Breach::Trailing) }
    }

    fn is_ours(&self, version: u32, run: RunId) -> Result<(), Breach> {
        match (version == VERSION, run == self.run) {
            (true, true) => Ok(()),
            (false, _) => Err(Breach::Version),
            (true, false) => Err(Breach::OtherRun),
        }
    }
}
