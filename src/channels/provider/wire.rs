//! Knows whether anything of a request can have left, and lets it leave once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use thoughtstream_domain::id::RunId;
use thoughtstream_domain::provider::{NotSent, Sending, WireState};
use tokio::sync::watch;

/// Is shared by whoever sends a request and whoever waits for it: exactly one of *sent* and *revoked* happens, as
/// [`Sending`] decides.
#[derive(Debug)]
pub struct Wire(watch::Sender<Sending>);

impl Wire {
    /// Makes the wire of a run's request, which has not been sent.
    #[must_use]
    pub fn of(run: RunId) -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(Sending::of(run))))
    }

    /// Returns the run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.0.borrow().run()
    }

    /// Gives the request up, if nothing of it was handed over; says whether that is so.
    pub fn revoke(&self) -> bool {
        self.give_up().is_some()
    }

    /// Gives the request up and returns the proof that nothing of it was sent; `None` if some of it may have been.
    pub fn give_up(&self) -> Option<NotSent> {
        let mut proof = None;
        self.0.send_if_modified(|sending| {
            let before = sending.state();
            proof = sending.give_up();
            sending.state() != before
        });
        proof
    }

    /// Returns what is known.
    #[must_use]
    pub fn state(&self) -> WireState {
        self.0.borrow().state()
    }

    /// Waits until the request was handed over; for ever if it never is.
    pub async fn sent(&self) {
        let mut changes = self.0.subscribe();
        if changes.wait_for(|sending| sending.state() == WireState::Sent).await.is_err() {
            // The sending half is ours, so this does not happen.
            std::future::pending::<()>().await;
        }
    }

    fn hand_over(&self) -> bool {
        self.0.send_if_modified(Sending::hand_over)
    }

    /// Makes the body that can be handed over once. It cannot be cloned, so no client can send it again.
    pub(super) fn body(self: &Arc<Self>, bytes: Vec<u8>) -> reqwest::Body {
        reqwest::Body::wrap(Once { wire: Arc::clone(self), bytes: Some(Bytes::from(bytes)) })
    }
}

/// A body of one piece. The connection asks for it when the head of the request is written and not flushed.
struct Once {
    wire: Arc<Wire>,
    bytes: Option<Bytes>,
}

/// Nobody waits for the answer any more, or the bytes were handed over before.
#[derive(Debug, thiserror::Error)]
#[error("the request was given up")]
struct GivenUp;

impl Body for Once {
    type Data = Bytes;
    type Error = GivenUp;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GivenUp>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        if self.wire.hand_over() {
            Poll::Ready(Some(Ok(Frame::data(bytes))))
        } else {
            Poll::Ready(Some(Err(GivenUp)))
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_of_sent_and_revoked_happens() {
        let run = RunId::from_bytes([1; 20]);
        let wire = Wire::of(run);
        assert!(wire.hand_over() && !wire.hand_over() && !wire.revoke() && wire.give_up().is_none());
        assert_eq!(wire.state(), WireState::Sent);
        let wire = Wire::of(run);
        assert!(wire.revoke() && wire.revoke() && !wire.hand_over());
        assert_eq!(wire.give_up().map(|proof| proof.run()), Some(run));
        assert_eq!(wire.state(), WireState::Revoked);
    }
}
