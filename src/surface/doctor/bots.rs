//! Looks at the bots: whether their tokens open what they should, and where Telegram tells their updates.

use std::time::Duration;

use thoughtstream_channels::credential::{CredentialError, Credentials, Origin};
use thoughtstream_channels::telegram::client::{CallError, WebhookInfo};
use tokio::time::timeout;

use super::{Check, Health, check};
use crate::bots;
use crate::config::telegram::Bot;
use crate::load::load;
use crate::places::Places;

/// A machine without a network is told so soon.
const ASKED_WITHIN: Duration = Duration::from_secs(10);

/// Looks at each bot of the configuration; what is wrong with the configuration itself is said elsewhere.
#[must_use]
pub fn telegram(places: &Places) -> Vec<Check> {
    let Ok(loaded) = load(places) else { return Vec::new() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let credentials = Credentials::of_process(&places.config);
    loaded.config.bots.iter().map(|bot| runtime.block_on(judged(bot, places, &credentials))).collect()
}

async fn judged(bot: &Bot, places: &Places, credentials: &Credentials) -> Check {
    let id = format!("bot-{}", bot.source.name());
    let file = credentials.file(&bot.credential).display().to_string();
    let found = match credentials.find(&bot.credential, bot.credential_variable.as_deref()) {
        Ok(found) => found,
        Err(CredentialError::Missing) => {
            let fix = format!(
                "put it into {file} (mode 0600); one that systemd hands to the service is not seen here"
            );
            return check(&id, Health::Advice, "its token was not found", Some(&fix));
        }
        Err(error) => {
            let fix = match error {
                CredentialError::Open(_) => format!("chmod 600 {file}"),
                CredentialError::Missing
                | CredentialError::Unreadable(_)
                | CredentialError::NotAFile
                | CredentialError::Owner(_)
                | CredentialError::Form => format!("write it anew into {file}"),
            };
            return check(&id, Health::Finding, format!("its token is not used: {error}"), Some(&fix));
        }
    };
    let (health, seen, fix) = match timeout(ASKED_WITHIN, asked(bot, places)).await {
        Ok(Ok(info)) => at(bot, &info),
        Ok(Err(trouble)) => trouble,
        Err(_) => unreached("no answer"),
    };
    if health == Health::Ok && found.origin == Origin::Environment {
        let fix = format!("move its token into {file} (mode 0600)");
        return check(&id, Health::Advice, format!("{seen}; token in the environment"), Some(&fix));
    }
    check(&id, health, seen, fix)
}

type Seen = (Health, String, Option<&'static str>);

fn unreached(code: &str) -> Seen {
    let fix = "look whether this machine reaches the bot API; the service goes on trying by itself";
    (Health::CouldNotLook, format!("Telegram was not reached: {code}"), Some(fix))
}

/// Asks who the bot is, and where its updates are told. Nothing is changed by it.
async fn asked(bot: &Bot, places: &Places) -> Result<WebhookInfo, Seen> {
    let said = |error: CallError| match &error {
        CallError::Refused { status: 401 | 404, .. } => {
            let fix = "get the bot's token from @BotFather and write it into its file";
            (Health::Finding, "Telegram does not know its token".to_owned(), Some(fix))
        }
        CallError::NotSent { .. } | CallError::Refused { .. } | CallError::Unknown { .. } => {
            unreached(&error.to_string())
        }
    };
    let client = bots::api(bot, &places.config).client().map_err(unreached)?;
    client.me().await.map_err(said)?;
    client.webhook().await.map_err(said)
}

/// Judges where updates are told.
fn at(bot: &Bot, info: &WebhookInfo) -> Seen {
    let waiting = info.waiting;
    let nowhere = info.url.reveal().is_empty();
    let failing = if info.last_error.is_some() { ", telling failed lately" } else { "" };
    match &bot.webhook {
        None if nowhere => (Health::Ok, format!("asks for updates, {waiting} wait"), None),
        None => {
            let fix = "a webhook takes its updates: write `mode: webhook`, or have the webhook deleted";
            (Health::Finding, "asks for updates, and Telegram tells them elsewhere".to_owned(), Some(fix))
        }
        Some(webhook) => match &webhook.url {
            Some(url) if info.is_at(url) => {
                (Health::Ok, format!("is told of updates, {waiting} wait{failing}"), None)
            }
            Some(_) => {
                let fix = "start the service: it asks Telegram to tell the configured address";
                (Health::Finding, "Telegram tells its updates nowhere or elsewhere".to_owned(), Some(fix))
            }
            None if nowhere => {
                let fix = "name the proxy's address as `url` under `webhook`, and it is set by itself";
                (Health::Finding, "waits to be told, and Telegram tells nobody".to_owned(), Some(fix))
            }
            None => (Health::Ok, format!("is told of updates, {waiting} wait{failing}"), None),
        },
    }
}
