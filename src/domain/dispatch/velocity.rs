//! How fast messages may follow one another into one chat.

use std::collections::VecDeque;

use crate::time::Timestamp;

/// Bounds how many messages go into one chat within a span of time. What is held back keeps its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Velocity {
    /// How many.
    pub messages: u32,
    /// Within how many milliseconds.
    pub per_ms: u64,
}

impl Default for Velocity {
    /// What Telegram itself lets a bot send into one group.
    fn default() -> Self {
        Self { messages: 20, per_ms: 60_000 }
    }
}

impl Velocity {
    /// Returns when the next message may go, given when the last ones went, oldest first; `None`: now. What no
    /// longer counts is forgotten, and so is what went at a time that has not come: the clock was set back.
    #[must_use]
    pub fn held_until(&self, sent: &mut VecDeque<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let span = i64::try_from(self.per_ms).unwrap_or(i64::MAX);
        sent.retain(|at| (0..span).contains(&now.millis_since(*at)));
        let over = (sent.len() + 1).checked_sub(self.messages.max(1) as usize)?;
        let counted = over.checked_sub(1)?;
        sent.get(counted).map(|at| at.plus_millis(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_span_has_more_messages_than_it_may() {
        let velocity = Velocity { messages: 3, per_ms: 1_000 };
        let mut sent = VecDeque::new();
        let mut now = Timestamp::from_millis(0);
        let mut all = Vec::new();
        for _ in 0..10 {
            if let Some(at) = velocity.held_until(&mut sent, now) {
                assert!(at > now);
                now = at;
                assert_eq!(velocity.held_until(&mut sent, now), None);
            }
            sent.push_back(now);
            all.push(now.as_millis());
            now = now.plus_millis(10);
        }
        for window in all.windows(4) {
            assert!(window[3] - window[0] >= 1_000, "{all:?}");
        }
        assert!(sent.len() <= 3);
    }

    #[test]
    fn what_went_at_a_time_that_has_not_come_holds_nothing_up() {
        let velocity = Velocity { messages: 1, per_ms: 1_000 };
        let at = Timestamp::from_millis;
        let mut sent: VecDeque<Timestamp> = [at(9_000_000), at(9_000_001), at(100)].into();
        assert_eq!(velocity.held_until(&mut sent, at(500)), Some(at(1_100)));
        assert_eq!(velocity.held_until(&mut sent, at(50)), None);
    }
}
