//! What is wrong when a look for updates does not succeed, and how long to wait before the next.

use std::time::Duration;

use super::client::CallError;

/// The first wait; it doubles.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait for what passes by itself.
const LONGEST: Duration = Duration::from_secs(60);
/// The wait for what only a person can change.
const FOR_A_PERSON: Duration = Duration::from_secs(300);
/// The longest wait that the other side may ask for.
const ASKED_MAX: Duration = Duration::from_secs(3600);

/// Names what is wrong with a look for updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Another program asks for this bot's updates, or a webhook takes them.
    AnotherPoller,
    /// The token is not one of a bot.
    Unauthorised,
    /// The API asks for patience.
    RateLimited(Option<u64>),
    /// The API refuses the request.
    Refused,
    /// No connection stands.
    Unreachable,
    /// The connection or the API broke.
    Broken,
    /// The answer is more than is read.
    TooLarge,
    /// The answer is none.
    Garbage,
}

impl Trouble {
    /// Classifies a failed look.
    #[must_use]
    pub fn of(error: &CallError) -> Self {
        match error {
            CallError::Refused { status: 409, .. } => Self::AnotherPoller,
            CallError::Refused { status: 401 | 404, .. } => Self::Unauthorised,
            CallError::Refused { status: 429, retry_after } => Self::RateLimited(*retry_after),
            CallError::Refused { .. } => Self::Refused,
            CallError::NotSent { .. } => Self::Unreachable,
            CallError::Unknown { code: "answer-too-large" } => Self::TooLarge,
            CallError::Unknown { code: "answer-malformed" } => Self::Garbage,
            CallError::Unknown { .. } => Self::Broken,
        }
    }

    /// Returns the stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::AnotherPoller => "another-poller",
            Self::Unauthorised => "unauthorised",
            Self::RateLimited(_) => "rate-limited",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Broken => "connection-broken",
            Self::TooLarge => "answer-too-large",
            Self::Garbage => "answer-malformed",
        }
    }

    /// Says, of the code of a trouble, what is wrong and what a person can do; nothing for any other code.
    #[must_use]
    pub fn advice(code: &str) -> Option<&'static str> {
        Some(match code {
            "another-poller" => {
                "another program asks for this bot's updates, or a webhook takes them: end it, or give this bot a \
                 token of its own"
            }
            "unauthorised" => {
                "Telegram does not know the token: put the right one into its file, which is read for each attempt"
            }
            "rate-limited" => "Telegram asks for patience, and gets it",
            "refused" => "Telegram refuses to be asked for updates: `thought doctor` asks it who the bot is",
            "unreachable" => "no connection to Telegram stands: look at the network; it is tried again",
            "connection-broken" => "the connection broke, or Telegram failed; it is tried again",
            "answer-too-large" => "an answer is more than is read; updates are asked for one at a time",
            "answer-malformed" => "what answers is not Telegram's API: look at `api` in config.yaml",
            _ => return None,
        })
    }

    /// Returns the wait after `failures` looks of this kind in a row; `jitter` lies between 0 and `u16::MAX`.
    ///
    /// What the other side asks for is honoured in full. Everything else waits between a half and the whole of
    /// a time that doubles, so that two pollers do not knock together for ever.
    #[must_use]
    pub fn wait(self, failures: u32, jitter: u16) -> Duration {
        let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST);
        let whole = match self {
            Self::RateLimited(Some(seconds)) => return Duration::from_secs(seconds).clamp(FIRST, ASKED_MAX),
            Self::Unauthorised | Self::Refused if failures > 3 => FOR_A_PERSON,
            Self::AnotherPoller
            | Self::Unauthorised
            | Self::RateLimited(None)
            | Self::Refused
            | Self::Unreachable
            | Self::Broken
            | Self::TooLarge
            | Self::Garbage => doubled,
        };
        whole / 2 + (whole / 2).mul_f64(f64::from(jitter) / f64::from(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_its_own_trouble() {
        let refused = |status| CallError::Refused { status, retry_after: None };
        assert_eq!(Trouble::of(&refused(409)), Trouble::AnotherPoller);
        assert_eq!(Trouble::of(&refused(401)), Trouble::Unauthorised);
        assert_eq!(Trouble::of(&refused(400)), Trouble::Refused);
        assert_eq!(Trouble::of(&CallError::Unknown { code: "server-error" }), Trouble::Broken);
        assert_eq!(Trouble::of(&CallError::NotSent { code: "connect-failed" }), Trouble::Unreachable);
        let limited = CallError::Refused { status: 429, retry_after: Some(7) };
        assert_eq!(Trouble::of(&limited).wait(1, 0), Duration::from_secs(7));
    }

    #[test]
    fn each_trouble_says_what_to_do() {
        let all = [
            Trouble::AnotherPoller,
            Trouble::Unauthorised,
            Trouble::RateLimited(None),
            Trouble::Refused,
            Trouble::Unreachable,
            Trouble::Broken,
            Trouble::TooLarge,
            Trouble::Garbage,
        ];
        assert!(all.iter().all(|trouble| Trouble::advice(trouble.code()).is_some()));
        assert_eq!(Trouble::advice("root-missing"), None);
    }

    #[test]
    fn waits_grow_up_to_a_bound_and_differ_by_chance() {
        let waits: Vec<u64> = (1..=8).map(|n| Trouble::AnotherPoller.wait(n, u16::MAX).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(Trouble::AnotherPoller.wait(7, 0), Duration::from_secs(30));
        assert_eq!(Trouble::AnotherPoller.wait(u32::MAX, 0), Duration::from_secs(30));
        assert_eq!(Trouble::Unauthorised.wait(9, u16::MAX), FOR_A_PERSON);
        assert_eq!(Trouble::RateLimited(Some(u64::MAX)).wait(1, 0), ASKED_MAX);
        assert_eq!(Trouble::RateLimited(Some(0)).wait(1, 0), FIRST);
    }
}
