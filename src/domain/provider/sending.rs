//! How far the one request of a run has come, and the proof that nothing of it was sent.

use crate::id::RunId;

/// Is what is known about the bytes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireState {
    /// None has been handed to the connection.
    Unsent,
    /// They were handed over: some may have arrived.
    Sent,
    /// It was given up before: none was handed over, and none will be.
    Revoked,
}

/// Is the one request that a run may send. It is handed over once or given up, and never both: whichever comes first
/// keeps the other from happening. So whoever has given it up knows that it never left.
#[derive(Debug)]
pub struct Sending {
    run: RunId,
    state: WireState,
}

/// Proves that a run sent nothing and will send nothing. It is made by giving the run's request up and in no other
/// way; whoever holds one may give that run's reservation back
/// ([`Reservation::release`](crate::accounting::Reservation::release)).
#[derive(Debug, PartialEq, Eq)]
pub struct NotSent {
    run: RunId,
}

impl NotSent {
    /// Returns the run it is about.
    #[must_use]
    pub const fn run(&self) -> RunId {
        self.run
    }
}

impl Sending {
    /// Begins with a run whose request has not been sent.
    #[must_use]
    pub const fn of(run: RunId) -> Self {
        Self { run, state: WireState::Unsent }
    }

    /// Returns the run.
    #[must_use]
    pub const fn run(&self) -> RunId {
        self.run
    }

    /// Returns what is known.
    #[must_use]
    pub const fn state(&self) -> WireState {
        self.state
    }

    /// Lets the bytes go, if they have not gone and the request was not given up; says whether they may go now.
    pub const fn hand_over(&mut self) -> bool {
        match self.state {
            WireState::Unsent => {
                self.state = WireState::Sent;
                true
            }
            WireState::Sent | WireState::Revoked => false,
        }
    }

    /// Gives the request up. `None` if bytes of it were handed over: what became of it is for others to say.
    pub const fn give_up(&mut self) -> Option<NotSent> {
        match self.state {
            WireState::Unsent | WireState::Revoked => {
                self.state = WireState::Revoked;
                Some(NotSent { run: self.run })
            }
            WireState::Sent => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is tried in whatever order: it goes at most once, and a proof is never beside it.
        #[test]
        fn what_was_handed_over_is_never_proved_unsent(steps in proptest::collection::vec(any::<bool>(), 0..12)) {
            let mut sending = Sending::of(RunId::from_bytes([1; 20]));
            let (mut gone, mut proved) = (0, 0);
            for hand_over in &steps {
                if *hand_over {
                    gone += usize::from(sending.hand_over());
                } else if let Some(proof) = sending.give_up() {
                    prop_assert_eq!(proof.run(), sending.run());
                    proved += 1;
                }
            }
            prop_assert!(gone <= 1 && (gone == 0 || proved == 0));
            let expected = match steps.first() {
                None => WireState::Unsent,
                Some(true) => WireState::Sent,
                Some(false) => WireState::Revoked,
            };
            prop_assert_eq!(sending.state(), expected);
        }
    }
}
