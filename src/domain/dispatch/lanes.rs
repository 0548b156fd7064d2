//! What waits to be sent, by chat: in order, one at a time, and no faster than it may.

use std::collections::{BTreeMap, VecDeque};

use super::{ASKED_MAX_MS, Velocity};
use crate::id::{DeliveryId, SourceId};
use crate::payload::delivery::DeliveryBinding;
use crate::payload::telegram::ChatId;
use crate::time::Timestamp;

/// Is a delivery that waits for its next claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What the claim binds, under the number it will have.
    pub binding: DeliveryBinding,
    /// Not before this time.
    pub not_before: Option<Timestamp>,
    /// Where the run that made the output ended, for one that was never claimed.
    pub found: Option<(SourceId, u64)>,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Item>,
    busy: Option<DeliveryId>,
    sent: VecDeque<Timestamp>,
}

/// Is everything that waits. Whatever stands first in a chat holds up what is behind it: a conversation whose
/// answers overtake one another is none.
#[derive(Debug, Default)]
pub struct Lanes {
    lanes: BTreeMap<ChatId, Lane>,
    waiting: usize,
    /// The time at which it was looked for what is due.
    looked: Option<Timestamp>,
}

/// Is what may be sent now, and when to look again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// What may be sent: at most one for each chat.
    pub now: Vec<Item>,
    /// When something that waits for its time may go.
    pub wake: Option<Timestamp>,
}

impl Lanes {
    /// Notes that a message went into a chat.
    pub fn note_sent(&mut self, chat: ChatId, at: Timestamp) {
        self.lanes.entry(chat).or_default().sent.push_back(at);
    }

    /// Puts something behind everything that waits for its chat, unless it is there.
    pub fn put_last(&mut self, item: Item) {
        if !self.holds(&item.binding) {
            self.waiting += 1;
            self.lanes.entry(item.binding.chat).or_default().waiting.push_back(item);
        }
    }

    /// Puts something before everything that waits for its chat: it was first before, and was not sent.
    pub fn put_first(&mut self, item: Item) {
        if !self.holds(&item.binding) {
            self.waiting += 1;
            self.lanes.entry(item.binding.chat).or_default().waiting.push_front(item);
        }
    }

    /// Says whether a delivery waits or is being sent.
    #[must_use]
    pub fn holds(&self, binding: &DeliveryBinding) -> bool {
        self.lanes.get(&binding.chat).is_some_and(|lane| {
            lane.busy == Some(binding.delivery)
                || lane.waiting.iter().any(|item| item.binding.delivery == binding.delivery)
        })
    }

    /// Takes out what may be sent now, at most `most`; its chat is busy until [`Self::done`].
    pub fn due(&mut self, velocity: Velocity, now: Timestamp, most: usize) -> Due {
        self.follow_clock(now);
        let mut due = Due::default();
        for lane in self.lanes.values_mut().filter(|lane| lane.busy.is_none()) {
            let Some(first) = lane.waiting.front() else { continue };
            let held = velocity.held_until(&mut lane.sent, now);
            // Nobody waits longer than may be asked for: the time was set by a clock that was ahead.
            let waits = |at: &Timestamp| (1..=ASKED_MAX_MS).contains(&at.millis_since(now));
            let until = first.not_before.filter(waits).max(held);
            if let Some(until) = until {
                due.wake = Some(due.wake.map_or(until, |wake| wake.min(until)));
            } else if due.now.len() < most
                && let Some(item) = lane.waiting.pop_front()
            {
                self.waiting -= 1;
                lane.busy = Some(item.binding.delivery);
                lane.sent.push_back(now);
                due.now.push(item);
            }
        }
        due
    }

    /// Takes a clock that was set back into account: whatever waits for a time waits as long as it would have.
    fn follow_clock(&mut self, now: Timestamp) {
        let back = self.looked.replace(now).map_or(0, |before| before.millis_since(now));
        if back <= 0 {
            return;
        }
        for lane in self.lanes.values_mut() {
            let waiting = lane.waiting.iter_mut().filter_map(|item| item.not_before.as_mut());
            for at in waiting.chain(&mut lane.sent) {
                *at = at.plus_millis(-back);
            }
        }
    }

    /// Frees a chat for what comes next.
    pub fn done(&mut self, chat: ChatId) {
        if let Some(lane) = self.lanes.get_mut(&chat) {
            lane.busy = None;
        }
    }

    /// Returns how much waits.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the first place of what was found in a source and waits for its first claim.
    #[must_use]
    pub fn first_found(&self, source: &SourceId) -> Option<u64> {
        let found = self.lanes.values().flat_map(|lane| &lane.waiting).filter_map(|item| item.found.as_ref());
        found.filter(|(place, _)| place == source).map(|(_, sequence)| *sequence).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{EventId, RunId};
    use crate::payload::delivery::Route;

    fn item(chat: i64, number: u8) -> Item {
        let bot = SourceId::parse("telegram:me").unwrap();
        let output = EventId::from_bytes([number; 32]);
        let binding = DeliveryBinding {
            delivery: DeliveryId::derive(&bot, "direct-reply", &output),
            claim: 1,
            route: Route::DirectReply,
            bot,
            chat: ChatId::new(chat),
            sender: None,
            root: output,
            run: RunId::from_bytes([0; 20]),
            output,
        };
        let found = Some((SourceId::parse("agent:a").unwrap(), u64::from(number)));
        Item { binding, not_before: None, found }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_chat_is_served_in_order_and_no_chat_waits_for_another() {
        let mut lanes = Lanes::default();
        for (chat, number) in [(1, 1), (1, 2), (2, 3), (1, 1)] {
            lanes.put_last(item(chat, number));
        }
        assert_eq!(lanes.waiting(), 3, "twice the same is once");
        let due = lanes.due(Velocity::default(), at(0), 8);
        assert_eq!(due.now, [item(1, 1), item(2, 3)]);
        assert_eq!(lanes.due(Velocity::default(), at(0), 8), Due::default());
        // What was not sent comes again before what is behind it, and holds it up.
        lanes.done(ChatId::new(1));
        lanes.put_first(Item { not_before: Some(at(50)), ..item(1, 1) });
        assert_eq!(lanes.due(Velocity::default(), at(10), 8), Due { now: Vec::new(), wake: Some(at(50)) });
        assert_eq!(lanes.due(Velocity::default(), at(50), 8).now[0].binding, item(1, 1).binding);
        lanes.done(ChatId::new(1));
        assert_eq!(lanes.due(Velocity::default(), at(60), 8).now, [item(1, 2)]);
        assert_eq!(lanes.waiting(), 0);
    }

    #[test]
    fn a_clock_that_is_set_back_draws_no_wait_out() {
        let velocity = Velocity { messages: 1, per_ms: 100 };
        let mut lanes = Lanes::default();
        let start = 10 * ASKED_MAX_MS;
        lanes.put_last(Item { not_before: Some(at(start + 50)), ..item(1, 1) });
        lanes.note_sent(ChatId::new(2), at(start));
        lanes.put_last(item(2, 2));
        assert_eq!(lanes.due(velocity, at(start), 8), Due { now: Vec::new(), wake: Some(at(start + 50)) });
        // An hour back: as much is left as was.
        let back = start - 3_600_000;
        assert_eq!(lanes.due(velocity, at(back), 8), Due { now: Vec::new(), wake: Some(at(back + 50)) });
        assert_eq!(
            lanes.due(velocity, at(back + 50), 8).now,
            [Item { not_before: Some(at(back + 50)), ..item(1, 1) }]
        );
        assert_eq!(lanes.due(velocity, at(back + 100), 8).now, [item(2, 2)]);
        // Set back while nobody looked: what the log says of a time that far ahead holds nothing up.
        let mut lanes = Lanes::default();
        let ahead = at(start + ASKED_MAX_MS + 1);
        lanes.note_sent(ChatId::new(1), ahead);
        lanes.put_last(Item { not_before: Some(ahead), ..item(1, 1) });
        assert_eq!(lanes.due(velocity, at(start), 8).now.len(), 1);
    }

    #[test]
    fn what_is_held_back_by_its_velocity_keeps_its_order() {
        let velocity = Velocity { messages: 1, per_ms: 100 };
        let mut lanes = Lanes::default();
        lanes.note_sent(ChatId::new(1), at(0));
        lanes.put_last(item(1, 1));
        lanes.put_last(item(1, 2));
        assert_eq!(lanes.due(velocity, at(10), 8).wake, Some(at(100)));
        assert_eq!(lanes.first_found(&SourceId::parse("agent:a").unwrap()), Some(1));
        assert_eq!(lanes.due(velocity, at(100), 8).now, [item(1, 1)]);
        lanes.done(ChatId::new(1));
        assert_eq!(lanes.due(velocity, at(150), 8).wake, Some(at(200)));
        assert_eq!(lanes.due(velocity, at(200), 8).now, [item(1, 2)]);
    }
}
