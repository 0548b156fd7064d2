//! The configured bots as the service runs them: each with its credentials, which are looked up when needed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use thoughtstream_actors::dispatcher::DispatcherSpec;
use thoughtstream_actors::telegram::{BotSpec, LONG_POLL, Mode};
use thoughtstream_channels::credential::Credentials;
use thoughtstream_channels::telegram::access::{BotApi, Credential};
use thoughtstream_domain::id::{ConsumerId, SourceId};
use thoughtstream_domain::provider::CredentialName;

use crate::config::Config;
use crate::config::telegram::{Bot, Webhook};

/// Returns what the service runs for each configured bot; credentials lie where `config` says.
pub(crate) fn specs(config: &Config, directory: &Path) -> Vec<BotSpec> {
    let credentials = Credentials::of_process(directory);
    config.bots.iter().map(|bot| spec(bot, &credentials)).collect()
}

/// Returns what the configured bots are called, by their sources.
pub(crate) fn usernames(config: &Config) -> BTreeMap<SourceId, String> {
    let named = |bot: &Bot| Some((bot.source.clone(), bot.rules.username.clone()?));
    config.bots.iter().filter_map(named).collect()
}

/// Returns whose replies the configured bots deliver, by their sources.
pub(crate) fn answering(config: &Config) -> BTreeMap<SourceId, ConsumerId> {
    let answered = |bot: &Bot| Some((bot.source.clone(), bot.routes.direct.clone()?));
    config.bots.iter().filter_map(answered).collect()
}

/// Returns how a bot is reached; its credential lies where `directory` says.
pub(crate) fn api(bot: &Bot, directory: &Path) -> BotApi {
    reached(bot, &Credentials::of_process(directory))
}

fn reached(bot: &Bot, credentials: &Credentials) -> BotApi {
    let token = credential(credentials, bot.credential.clone(), bot.credential_variable.clone());
    BotApi { base: bot.api.clone(), credential: token }
}

fn spec(bot: &Bot, credentials: &Credentials) -> BotSpec {
    let api = reached(bot, credentials);
    let mode = match &bot.webhook {
        Some(Webhook { listen, secret, url }) => Mode::Webhook {
            listen: *listen,
            secret: credential(credentials, secret.clone(), None),
            url: url.clone(),
        },
        None => Mode::Poll { wait: LONG_POLL },
    };
    let delivers = bot.delivers().then(|| DispatcherSpec {
        routes: bot.routes.clone(),
        velocity: bot.velocity,
        api: api.clone(),
    });
    BotSpec {
        source: bot.source.clone(),
        api,
        mode,
        rules: bot.rules.clone(),
        privacy: bot.privacy,
        image_bytes_max: bot.image_bytes_max,
        delivers,
    }
}

fn credential(credentials: &Credentials, name: CredentialName, variable: Option<String>) -> Credential {
    let credentials = credentials.clone();
    Arc::new(move || match credentials.find(&name, variable.as_deref()) {
        Ok(found) => Ok(found.secret),
        Err(error) if error.is_unusable() => Err("credential-unusable"),
        Err(_) => Err("credential-missing"),
    })
}
