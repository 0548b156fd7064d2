//! A reply on its way out: who answers the next message of that chat would like to know what became of it.

use crate::id::EventId;
use crate::time::Timestamp;

/// How long the next message of a chat waits for the end of a delivery, from the moment the reply was settled.
///
/// A delivery that goes well takes a second. What takes longer is not being sent: the dispatcher is stopped, or
/// Telegram refuses for a while; a person who wrote twice is answered all the same.
const GIVEN_UP_AFTER_MS: i64 = 30_000;

/// Is a reply that was settled and whose delivery has no end yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedReply {
    /// The message that it answers.
    pub message: EventId,
    /// The output that is to be delivered.
    pub output: EventId,
    /// When it was settled.
    pub since: Timestamp,
}

impl AwaitedReply {
    /// Says why somebody waits.
    pub const CODE: &'static str = "awaiting-reply";

    /// Returns until when anybody waits for it; a clock that was set back ends the wait.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = self.since.plus_millis(GIVEN_UP_AFTER_MS);
        (self.since <= now && now < until).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_itself_and_whenever_the_clock_is_set_back() {
        let id = EventId::from_bytes([1; 32]);
        let since = Timestamp::from_millis(1_000_000);
        let awaited = AwaitedReply { message: id, output: id, since };
        let until = Some(since.plus_millis(GIVEN_UP_AFTER_MS));
        assert_eq!(awaited.until(since), until);
        assert_eq!(awaited.until(since.plus_millis(GIVEN_UP_AFTER_MS - 1)), until);
        assert_eq!(awaited.until(since.plus_millis(GIVEN_UP_AFTER_MS)), None);
        assert_eq!(awaited.until(since.plus_millis(-1)), None);
    }
}
