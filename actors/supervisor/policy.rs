//! When an actor that ended is started again: a pure function of what happened so far.

use std::time::Duration;

use tokio::time::Instant;

use super::exit::{AfterStop, Exit, StopReason};

/// Whether an ended child comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartType {
    /// Always, even after it said that its work is complete.
    Permanent,
    /// Only after an end that nobody asked for.
    Transient,
    /// Never by itself; its entry leaves the tree when it ends.
    Temporary,
}

/// What happens to a child that ends more often than its policy allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExhausted {
    /// It stays down until a person resumes it; its siblings notice nothing.
    Quarantine,
    /// Its supervisor cannot do without it and gives up too.
    Escalate,
}

/// A share of the spread that is taken off a delay, in 65,536ths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Jitter(pub u16);

/// Delays that double from the first to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
}

impl Backoff {
    /// One delay divided by this is the spread: children that fell together do not rise in one instant, and
    /// none waits less than three quarters of what its policy says.
    const SPREAD: u32 = 4;

    /// Makes delays of `first`, twice `first` and so on, none above `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self { first: first.min(max), max }
    }

    /// Returns the delay before the start that follows the `exits`-th exit in a row.
    pub fn delay(self, exits: u32, jitter: Jitter) -> Duration {
        // Beyond 2^31 every delay is the maximum anyway.
        let doublings = exits.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.max);
        let spread = full / Self::SPREAD;
        full - spread.saturating_mul(u32::from(jitter.0)) / (u32::from(u16::MAX) + 1)
    }
}

/// How one child is restarted, and when that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Whether it comes back at all.
    pub restart: RestartType,
    /// How many exits in a row are answered by a restart.
    pub exits_max: u32,
    /// An incarnation that lived this long has proved itself.
    pub proven_after: Duration,
    /// The delays between restarts.
    pub backoff: Backoff,
    /// What the exit after the last permitted one leads to.
    pub on_exhausted: OnExhausted,
}

impl RestartPolicy {
    /// For a consumer or producer: five restarts within about eight seconds of delay, then quarantine.
    pub fn quarantine() -> Self {
        Self {
            restart: RestartType::Permanent,
            exits_max: 5,
            proven_after: Duration::from_secs(60),
            backoff: Backoff::new(Duration::from_millis(250), Duration::from_secs(300)),
            on_exhausted: OnExhausted::Quarantine,
        }
    }

    /// For an actor the others cannot do without: the same restarts, then its supervisor gives up.
    pub fn escalate() -> Self {
        Self { on_exhausted: OnExhausted::Escalate, ..Self::quarantine() }
    }

    /// Replaces the restart type.
    #[must_use]
    pub fn with_restart(self, restart: RestartType) -> Self {
        Self { restart, ..self }
    }

    /// Replaces the number of exits in a row that are answered by a restart.
    #[must_use]
    pub fn with_exits_max(self, exits_max: u32) -> Self {
        Self { exits_max, ..self }
    }

    /// Replaces the delays.
    #[must_use]
    pub fn with_backoff(self, first: Duration, max: Duration) -> Self {
        Self { backoff: Backoff::new(first, max), ..self }
    }

    /// Decides what follows `exit`, and returns the history with it.
    ///
    /// Exits are counted since the child last settled work or lived [`Self::proven_after`]; the time it spent
    /// waiting does not thin the count out, so growing delays cannot hide a child that never gets anywhere.
    pub fn decide(&self, history: &History, exit: Exit, now: Instant, jitter: Jitter) -> (Decision, History) {
        let mut history = if history.proven(self.proven_after, now) { History::default() } else { *history };
        history.started = None;
        if let Exit::Planned(reason) = exit {
            match (reason.after(), self.restart) {
                (AfterStop::StayDown, _) | (AfterStop::Complete, RestartType::Transient) => {
                    return (Decision::Stopped, history);
                }
                (AfterStop::StartAgain, RestartType::Temporary) if reason == StopReason::Group => {
                    return (Decision::Stopped, history);
                }
                (AfterStop::StartAgain, _) => {
                    return (Decision::Restart { after: Duration::ZERO }, history);
                }
                (AfterStop::Complete, RestartType::Permanent | RestartType::Temporary)
                | (AfterStop::Failure, _) => {}
            }
        }
        if self.restart == RestartType::Temporary {
            return (Decision::Stopped, history);
        }
        history.exits = history.exits.saturating_add(1);
        let decision = match (history.exits > self.exits_max, self.on_exhausted) {
            (false, _) => Decision::Restart { after: self.backoff.delay(history.exits, jitter) },
            (true, OnExhausted::Quarantine) => Decision::Quarantine,
            (true, OnExhausted::Escalate) => Decision::GiveUp,
        };
        (decision, history)
    }
}

/// What a policy needs to know of the incarnations so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct History {
    exits: u32,
    started: Option<Instant>,
    settled: bool,
}

impl History {
    /// Notes that a new incarnation is being started.
    #[must_use]
    pub fn started(self, now: Instant) -> Self {
        Self { started: Some(now), settled: false, ..self }
    }

    /// Notes that the present incarnation finished a piece of work.
    #[must_use]
    pub fn settled(self) -> Self {
        Self { settled: true, ..self }
    }

    /// Returns how many exits in a row led nowhere.
    pub fn exits(&self) -> u32 {
        self.exits
    }

    fn proven(&self, after: Duration, now: Instant) -> bool {
        self.settled || self.started.is_some_and(|started| now.duration_since(started) >= after)
    }
}

/// What a supervisor does about an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Starts the next incarnation after a delay.
    Restart {
        /// Counted from the end of the clean-up.
        after: Duration,
    },
    /// Leaves it down until a person resumes it.
    Quarantine,
    /// Stops the siblings and itself, and says so upward.
    GiveUp,
    /// Leaves it down: that was the plan.
    Stopped,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::exit::ReasonCode;
    use super::*;

    const CRASH: Exit = Exit::Failed(ReasonCode::PANICKED);

    fn policy(exits_max: u32) -> RestartPolicy {
        RestartPolicy::quarantine().with_exits_max(exits_max)
    }

    /// Lets a child live for `lived` and end with `exit`.
    fn after_life(
        policy: &RestartPolicy,
        history: History,
        lived: Duration,
        exit: Exit,
    ) -> (Decision, History) {
        let born = Instant::now();
        policy.decide(&history.started(born), exit, born + lived, Jitter::default())
    }

    #[test]
    fn delays_double_up_to_the_maximum() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        let delays: Vec<u64> = (1..=6).map(|exits| backoff.delay(exits, Jitter(0)).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff.delay(u32::MAX, Jitter(0)), Duration::from_secs(10));
        assert!(backoff.delay(1, Jitter(u16::MAX)) > Duration::from_millis(749));
    }

    #[test]
    fn the_exit_after_the_last_permitted_one_exhausts() {
        let policy = policy(2);
        let mut history = History::default();
        for _ in 0..2 {
            let (decision, next) = after_life(&policy, history, Duration::ZERO, CRASH);
            assert!(matches!(decision, Decision::Restart { .. }));
            history = next;
        }
        assert_eq!(after_life(&policy, history, Duration::ZERO, CRASH).0, Decision::Quarantine);
        let escalating = RestartPolicy { on_exhausted: OnExhausted::Escalate, ..policy };
        assert_eq!(after_life(&escalating, history, Duration::ZERO, CRASH).0, Decision::GiveUp);
    }

    #[test]
    fn settled_work_or_a_long_life_starts_the_count_anew() {
        let policy = policy(1);
        let (_, tired) = after_life(&policy, History::default(), Duration::ZERO, CRASH);
        assert_eq!(tired.exits(), 1);
        let born = Instant::now();
        let worked = tired.started(born).settled();
        assert_eq!(policy.decide(&worked, CRASH, born, Jitter(0)).1.exits(), 1);
        assert_eq!(after_life(&policy, tired, Duration::from_secs(60), CRASH).1.exits(), 1);
        assert_eq!(after_life(&policy, tired, Duration::from_secs(59), CRASH).0, Decision::Quarantine);
    }

    #[test]
    fn a_kill_is_no_normal_end() {
        let transient = policy(3).with_restart(RestartType::Transient);
        for exit in [Exit::Killed, Exit::Cancelled, CRASH, Exit::Planned(StopReason::GaveUp)] {
            let (decision, _) = after_life(&transient, History::default(), Duration::ZERO, exit);
            assert!(matches!(decision, Decision::Restart { .. }), "{exit}");
        }
        let (done, _) =
            after_life(&transient, History::default(), Duration::ZERO, Exit::Planned(StopReason::Finished));
        assert_eq!(done, Decision::Stopped);
    }

    fn exits() -> impl Strategy<Value = Exit> {
        prop_oneof![
            Just(Exit::Killed),
            Just(Exit::Cancelled),
            Just(CRASH),
            Just(Exit::StartFailed(ReasonCode::TIMED_OUT)),
            prop::sample::select(StopReason::ALL.to_vec()).prop_map(Exit::Planned),
        ]
    }

    fn restarts() -> impl Strategy<Value = RestartType> {
        prop::sample::select(vec![RestartType::Permanent, RestartType::Transient, RestartType::Temporary])
    }

    #[derive(Debug, Clone)]
    struct Life {
        waited_ms: u64,
        lived_ms: u64,
        settled: bool,
        exit: Exit,
        jitter: u16,
    }

    fn lives() -> impl Strategy<Value = Vec<Life>> {
        let life = (0..600_000_u64, 0..90_000_u64, prop::bool::weighted(0.1), exits(), any::<u16>());
        let life = life.prop_map(|(waited_ms, lived_ms, settled, exit, jitter)| Life {
            waited_ms,
            lived_ms,
            settled,
            exit,
            jitter,
        });
        prop::collection::vec(life, 1..60)
    }

    proptest! {
        /// Whatever happens, restarts without progress are bounded, delays stay within their bounds, and
        /// waiting longer between two lives changes nothing.
        #[test]
        fn restarts_without_progress_are_bounded(
            lives in lives(), exits_max in 0..6_u32, restart in restarts(), first_ms in 1..5_000_u64,
        ) {
            let first = Duration::from_millis(first_ms);
            let max = Duration::from_secs(60);
            let policy = policy(exits_max).with_restart(restart).with_backoff(first, max);
            let (mut now, mut history, mut in_a_row) = (Instant::now(), History::default(), 0_u32);
            for life in lives {
                now += Duration::from_millis(life.waited_ms);
                history = history.started(now);
                if life.settled {
                    history = history.settled();
                }
                now += Duration::from_millis(life.lived_ms);
                if life.settled || life.lived_ms >= 60_000 {
                    in_a_row = 0;
                }
                let (decision, next) = policy.decide(&history, life.exit, now, Jitter(life.jitter));
                let counted = next.exits() == in_a_row + 1;
                prop_assert!(counted || next.exits() == in_a_row);
                prop_assert!(!counted || life.exit.is_abnormal() || restart == RestartType::Permanent);
                match decision {
                    Decision::Restart { after } if counted => {
                        prop_assert!(next.exits() <= exits_max);
                        prop_assert!(after >= first * 3 / 4 && after <= max);
                    }
                    Decision::Restart { after } => prop_assert_eq!(after, Duration::ZERO),
                    Decision::Quarantine => prop_assert_eq!(next.exits(), exits_max + 1),
                    Decision::GiveUp => prop_assert!(false, "this policy does not escalate"),
                    Decision::Stopped => prop_assert!(!counted),
                }
                if restart == RestartType::Temporary {
                    prop_assert!(!counted);
                }
                if decision == Decision::Quarantine {
                    break;
                }
                (in_a_row, history) = (next.exits(), next);
            }
        }

        /// A longer row of exits never waits less, at equal jitter.
        #[test]
        fn delays_never_shrink(exits in 1..100_u32, jitter in any::<u16>(), first_ms in 1..5_000_u64) {
            let backoff = Backoff::new(Duration::from_millis(first_ms), Duration::from_secs(300));
            prop_assert!(backoff.delay(exits, Jitter(jitter)) <= backoff.delay(exits + 1, Jitter(jitter)));
        }
    }
}
