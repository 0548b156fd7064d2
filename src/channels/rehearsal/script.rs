//! What a rehearsal plays, written as a file of YAML or made in a test.

mod happening;
mod keys;
mod read;
#[cfg(test)]
mod tests;

pub use read::{BYTES_MAX, codes};
use thoughtstream_domain::yaml::{Problem, json_schema};

use super::provider::{Answer, ProviderScript, Rule};
use super::telegram::TelegramScript;

/// Is what a rehearsal plays.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// What the provider does.
    pub provider: ProviderScript,
    /// What Telegram does.
    pub telegram: TelegramScript,
}

/// A script to start from: it answers, refuses, stumbles once, and lets somebody write.
pub const EXAMPLE: &str = include_str!("../../../ops/rehearsal.example.yaml");

impl Script {
    /// Reads a script from its text; `name` is what problems call the file.
    ///
    /// # Errors
    /// Every problem, in the order of the text.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        read::parse(name, bytes)
    }

    /// Returns the JSON Schema of a script, for editors.
    #[must_use]
    pub fn schema() -> serde_json::Value {
        json_schema("thoughtstream rehearsal", "What a rehearsal plays.", &keys::SCRIPT)
    }

    /// Makes a script whose provider answers everything with one answer.
    #[must_use]
    pub fn answering(answer: Answer) -> Self {
        let provider = ProviderScript { otherwise: answer, ..ProviderScript::default() };
        Self { provider, telegram: TelegramScript::default() }
    }

    /// Adds a rule of the provider behind those there are.
    #[must_use]
    pub fn with_rule(mut self, rule: Rule) -> Self {
        self.provider.rules.push(rule);
        self
    }
}
