//! What would happen to the next calls of an account.

use serde::{Deserialize, Serialize};

use super::{Denial, Imagined, OnExhaustion, Policy};
use crate::time::Timestamp;

/// Is what would happen to a number of calls that are wanted now, if each used what it reserves and nothing else was
/// reserved meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Simulation {
    /// How many would be made, and when.
    pub steps: Vec<Step>,
    /// Why the first that would not be made at once would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<Denial>,
    /// How many would not be made at all: the declaration passes what does not fit.
    pub passed: u32,
}

/// Is a moment at which calls would be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// When.
    pub at: Timestamp,
    /// How many.
    pub calls: u32,
}

impl Policy {
    /// Answers what would happen to `calls` calls that are wanted now.
    #[must_use]
    pub fn simulate(&self, mut account: Imagined, now: Timestamp, calls: u32) -> Simulation {
        let mut found = Simulation { steps: Vec::new(), denial: None, passed: 0 };
        let (mut at, mut left) = (now, calls);
        while left > 0 {
            let Ok(denial) = self.deny(&mut account, at);
            let Some(denial) = denial else {
                account.reserve(at);
                match found.steps.last_mut() {
                    Some(step) if step.at == at => step.calls += 1,
                    Some(_) | None => found.steps.push(Step { at, calls: 1 }),
                }
                left -= 1;
                continue;
            };
            found.denial.get_or_insert(denial);
            let waits = self.on_exhaustion == OnExhaustion::Defer;
            if !waits || denial.retry_at <= at {
                found.passed = left;
                break;
            }
            at = denial.retry_at;
        }
        found
    }
}
