//! Printed commands that reach the same log: with the directories that the caller named on the command line.
//!
//! What answers does not know how it was asked, so commands are named without them and completed here, the one place,
//! on their way to the caller.

use std::path::Path;

use serde_json::Value;

use crate::failure::Failure;

/// Is what a caller named on the command line, as a shell takes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// Takes the directories that were named; what comes from the environment is there for the next command too.
    #[must_use]
    pub fn of(data: Option<&Path>, config: Option<&Path>) -> Self {
        let named = [("--data", data), ("--config", config)];
        let named = named.into_iter().filter_map(|(flag, path)| Some((flag, path?)));
        Self(named.fold(String::new(), |text, (flag, path)| format!("{text} {flag} {}", quoted(path))))
    }

    /// Completes a command.
    #[must_use]
    pub fn command(&self, command: &str) -> String {
        match command.strip_prefix("thought ") {
            Some(rest) => format!("thought{} {rest}", self.0),
            None => command.to_owned(),
        }
    }

    /// Completes the commands that an answer names, and leaves alone what it quotes.
    pub(crate) fn answer(&self, value: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.answer(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    match (name.as_str(), member) {
                        ("command", Value::String(command)) => *command = self.command(command),
                        ("commands" | "ways", Value::Array(commands)) => {
                            for command in commands {
                                if let Value::String(text) = command {
                                    *text = self.command(text);
                                }
                            }
                        }
                        // What somebody else wrote.
                        ("content" | "payload", _) => {}
                        (_, member) => self.answer(member),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Completes the commands in the way out of a failure.
    #[must_use]
    pub fn failure(&self, failure: Failure) -> Failure {
        let Some(hint) = failure.hint.clone() else { return failure };
        let whole = self.command(&hint);
        let spelled = format!("`thought{} ", self.0);
        failure.with_hint(
            whole.replace("`thought ", &spelled).replace(": thought ", &format!(": thought{} ", self.0)),
        )
    }
}

/// Writes a path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%,:=".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exit::Exit;

    #[test]
    fn commands_carry_what_was_named_and_nothing_that_is_quoted_does() {
        let address = Address::of(Some(Path::new("/d a")), Some(Path::new("/c")));
        let mut answer = json!([{ "command": "thought inbox show X", "ways": ["thought why X", "ask"],
            "content": { "command": "thought stop" }, "payload": { "ways": ["thought stop"] }, "why": "thought stop",
            "consumers": [{ "commands": ["thought consumer retry Y"] }] }]);
        address.answer(&mut answer);
        let flags = "thought --data '/d a' --config /c";
        assert_eq!(
            answer,
            json!([{ "command": format!("{flags} inbox show X"), "ways": [format!("{flags} why X"), "ask"],
                "content": { "command": "thought stop" }, "payload": { "ways": ["thought stop"] },
                "why": "thought stop", "consumers": [{ "commands": [format!("{flags} consumer retry Y")] }] }])
        );
        let failure =
            Failure::new(Exit::Refused, "x", "thought x").with_hint("run `thought why X`: thought tree");
        let hint = address.failure(failure.clone()).hint.unwrap();
        assert_eq!(hint, format!("run `{flags} why X`: {flags} tree"));
        assert_eq!(Address::default().failure(failure.clone()), failure);
        assert_eq!(Address::default().command("thought why X"), "thought why X");
    }
}
