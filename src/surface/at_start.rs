//! What a service took from its configuration when it started and keeps until it ends: folders, providers, bots and
//! the time it drains. A reload reads declarations and event types anew; of the rest it can only say what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thoughtstream_domain::id::SourceId;

use crate::config::{Config, Folder};

/// What is said of the time that open work is given.
const DRAIN: &str = "drain";

/// The parts of a configuration by their names, each with all that is configured of it; two of the same text are the
/// same. A credential is named in there and never read.
type Parts = BTreeMap<String, String>;

/// Is what stands since the start, beside what the configuration says by now.
#[derive(Debug)]
pub struct AtStart {
    started: Parts,
    drain: Duration,
    read: Mutex<Parts>,
}

impl AtStart {
    /// Takes what a service starts with.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let started = parts(config);
        let drain = Duration::from_millis(config.drain_ms);
        Self { read: Mutex::new(started.clone()), started, drain }
    }

    /// Returns how long open work may go on once the service is told to stop.
    #[must_use]
    pub const fn drain(&self) -> Duration {
        self.drain
    }

    /// Notes what the configuration says now.
    pub fn note(&self, config: &Config) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = parts(config);
    }

    /// Names everything that the next start will do otherwise, in order.
    #[must_use]
    pub fn restart_for(&self) -> Vec<String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let names: BTreeSet<&String> = self.started.keys().chain(read.keys()).collect();
        let changed = names.into_iter().filter(|name| self.started.get(*name) != read.get(*name));
        changed.cloned().collect()
    }

    /// Says whether this source is a folder that is watched.
    #[must_use]
    pub fn watches(&self, source: &SourceId) -> bool {
        source.kind() == "filesystem" && self.started.contains_key(source.as_str())
    }
}

fn parts(config: &Config) -> Parts {
    let folders = config.folders.iter().map(|folder| {
        let Folder { root, patterns, rules, privacy, producer, .. } = folder;
        let what = (root, patterns, rules.bounds, privacy, producer);
        (folder.source.to_string(), format!("{what:?}"))
    });
    let providers =
        config.providers.iter().map(|profile| (format!("provider:{}", profile.name), format!("{profile:?}")));
    let bots = config.bots.iter().map(|bot| (bot.source.to_string(), format!("{bot:?}")));
    let drain = [(DRAIN.to_owned(), config.drain_ms.to_string())];
    folders.chain(providers).chain(bots).chain(drain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "sources:
  - filesystem: notes
    root: /notes
    ignore: [a, b, c]
  - filesystem: mail
    root: /mail
providers:
  - name: local
    endpoint: http://127.0.0.1:1/v1
    models: [m]
telegram:
  - bot: bot
    credential: bot
    chats: [\"1\"]
    senders: [\"1\"]
";

    fn config(text: &str) -> Config {
        crate::config::parse("config.yaml", text.as_bytes(), None).unwrap()
    }

    #[test]
    fn whatever_waits_for_a_restart_is_named_and_nothing_else() {
        let at_start = AtStart::of(&config(CONFIG));
        for (was, is, restart_for) in [
            ("", "# nothing\n", &[][..]),
            ("root: /notes", "root: /other", &["filesystem:notes"]),
            ("[a, b, c]", "[a, b]", &["filesystem:notes"]),
            ("[a, b, c]", "[a, b, c]\n    maxBytes: 7", &["filesystem:notes"]),
            ("[a, b, c]", "[a, b, c]\n    privacy: sensitive", &["filesystem:notes"]),
            ("[a, b, c]", "[a, b, c]\n    producerOnly: true", &["filesystem:notes"]),
            ("filesystem: mail", "filesystem: post", &["filesystem:mail", "filesystem:post"]),
            ("127.0.0.1:1", "127.0.0.1:2", &["provider:local"]),
            ("[m]", "[m, other]", &["provider:local"]),
            ("name: local", "name: other", &["provider:local", "provider:other"]),
            ("chats: [\"1\"]", "chats: [\"2\"]", &["telegram:bot"]),
            ("sources:", "drain: 1s\nsources:", &["drain"]),
        ] {
            at_start.note(&config(&CONFIG.replacen(was, is, 1)));
            assert_eq!(at_start.restart_for(), restart_for, "{is}");
            // What is put back waits for nothing.
            at_start.note(&config(CONFIG));
            assert_eq!(at_start.restart_for(), [""; 0]);
        }
        let watched = |name: &str| at_start.watches(&SourceId::parse(name).unwrap());
        assert!(watched("filesystem:notes") && !watched("filesystem:post") && !watched("telegram:bot"));
    }
}
