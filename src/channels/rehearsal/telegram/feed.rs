//! Lets the script's updates happen one after the other, and posts them to the webhook while there is one.

use std::sync::Arc;
use std::time::Duration;

use thoughtstream_domain::content::Content;
use tokio::time::{sleep, timeout};

use super::super::stage::{Stage, seconds_now};
use super::super::wire;
use super::{After, Item, Scripted, Telegram};

/// A webhook that does not answer is given up after this long; the update stays.
const POST_TIMEOUT: Duration = Duration::from_secs(60);

/// The first wait after a webhook said no; it doubles up to [`AGAIN_MAX`].
const AGAIN_FIRST: Duration = Duration::from_millis(100);

/// A webhook is asked again at least this often, so that a rehearsal goes on soon after a restart.
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// The header that carries the secret.
const SECRET: &str = "x-telegram-bot-api-secret-token";

/// Lets what the script says happen, in its order, each at its time.
pub(in super::super) async fn feed(stage: Arc<Stage>, updates: Vec<Scripted>) {
    let mut replies_before = std::collections::BTreeMap::new();
    for scripted in updates {
        let chat = scripted.item.chat().unwrap_or_default();
        match scripted.after {
            After::Now => {}
            After::Delay(ms) => sleep(Duration::from_millis(ms)).await,
            After::Reply => {
                let seen: u64 = replies_before.get(&chat).copied().unwrap_or_default();
                stage.until(|state| state.telegram.replies(chat) > seen).await;
            }
        }
        if scripted.forged {
            forge(&stage, &scripted.item).await;
            stage.change(|state| state.telegram.counters.to_come -= 1);
            continue;
        }
        let replies = stage.change(|state| {
            state.telegram.counters.to_come -= 1;
            state.telegram.happen(&scripted, seconds_now());
            state.telegram.replies(chat)
        });
        replies_before.insert(chat, replies);
    }
}

/// Posts an update with a wrong secret, once there is a webhook to post it to.
async fn forge(stage: &Stage, item: &Item) {
    stage.until(|state| state.telegram.webhook.is_some()).await;
    let (url, update) = stage.look(|state| {
        let telegram = &state.telegram;
        let url = telegram.webhook.as_ref().map(|webhook| webhook.url.clone()).unwrap_or_default();
        (url, telegram.forge(item, seconds_now()).to_string())
    });
    let wrong = Content::new("not-the-secret".to_owned());
    let status = post(&url, Some(&wrong), update).await;
    stage.change(|state| *state.telegram.counters.forged.entry(status).or_default() += 1);
}

/// Posts updates to the webhook in their order, each until the webhook says yes.
pub(in super::super) async fn deliver(stage: Arc<Stage>) {
    let mut again = AGAIN_FIRST;
    loop {
        stage.until(|state| state.telegram.has_post()).await;
        let Some((webhook, queued)) = stage.change(|state| state.telegram.next_post()) else { continue };
        let mut status = 0;
        for _ in 0..queued.copies {
            status = post(&webhook.url, webhook.secret.as_ref(), queued.update.reveal().clone()).await;
        }
        let taken = (200..300).contains(&status);
        stage.change(|state| {
            *state.telegram.counters.webhook.entry(status).or_default() += 1;
            if taken {
                state.telegram.posted(queued.id);
            }
        });
        again = if taken { AGAIN_FIRST } else { again };
        if !taken {
            sleep(again).await;
            again = (again * 2).min(AGAIN_MAX);
        }
    }
}

/// Posts one update; 0 stands for no answer.
async fn post(url: &str, secret: Option<&Content<String>>, update: String) -> u16 {
    let headers: Vec<(&str, &str)> =
        secret.map(|secret| (SECRET, secret.reveal().as_str())).into_iter().collect();
    let posted = timeout(POST_TIMEOUT, wire::post(url, &headers, update.as_bytes())).await;
    posted.ok().and_then(Result::ok).unwrap_or_default()
}

impl Telegram {
    fn has_post(&self) -> bool {
        self.webhook.is_some() && self.queue.iter().any(|queued| self.is_allowed(&queued.kind))
    }

    fn next_post(&mut self) -> Option<(super::Webhook, super::Queued)> {
        let webhook = self.webhook.clone()?;
        self.withhold();
        Some((webhook, self.queue.front()?.clone()))
    }

    /// Forgets an update that the webhook took, unless it comes once more.
    fn posted(&mut self, id: i64) {
        let Some(at) = self.queue.iter().position(|queued| queued.id == id) else { return };
        match self.queue.get_mut(at) {
            Some(queued) if queued.again > 0 => queued.again -= 1,
            _ => {
                self.queue.remove(at);
            }
        }
    }
}
