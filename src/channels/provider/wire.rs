//! Knows whether anything of a request can have left, and lets it leave once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;

/// Is what is known about the bytes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireState {
    /// None has been handed to the connection.
    Unsent,
    /// They were handed over: some may have arrived.
    Sent,
    /// Nobody waits any more, and none will be handed over.
    Revoked,
}

/// Is shared by whoever sends a request and whoever waits for it: exactly one of *sent* and *revoked* happens.
#[derive(Debug)]
pub struct Wire(watch::Sender<WireState>);

impl Wire {
    /// Makes the wire of a request that has not been sent.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(WireState::Unsent)))
    }

    /// Gives the request up, if nothing of it was handed over; says whether that is so.
    pub fn revoke(&self) -> bool {
        self.0.send_if_modified(|state| {
            let unsent = *state == WireState::Unsent;
            if unsent {
                *state = WireState::Revoked;
            }
            unsent
        });
        *self.0.borrow() == WireState::Revoked
    }

    /// Returns what is known.
    #[must_use]
    pub fn state(&self) -> WireState {
        *self.0.borrow()
    }

    /// Waits until the request was handed over; for ever if it never is.
    pub async fn sent(&self) {
        let mut changes = self.0.subscribe();
        if changes.wait_for(|state| *state == WireState::Sent).await.is_err() {
            // The sending half is ours, so this does not happen.
            std::future::pending::<()>().await;
        }
    }

    fn hand_over(&self) -> bool {
        self.0.send_if_modified(|state| {
            let unsent = *state == WireState::Unsent;
            if unsent {
                *state = WireState::Sent;
            }
            unsent
        })
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
        let wire = Wire::new();
        assert!(wire.hand_over() && !wire.hand_over() && !wire.revoke());
        assert_eq!(wire.state(), WireState::Sent);
        let wire = Wire::new();
        assert!(wire.revoke() && wire.revoke() && !wire.hand_over());
        assert_eq!(wire.state(), WireState::Revoked);
    }
}
