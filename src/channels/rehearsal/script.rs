//! What a rehearsal plays, written as a file of YAML or made in a test.

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

impl Script {
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
