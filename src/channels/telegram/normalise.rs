//! What an update becomes: a function of its text and the rules, without the network.
//!
//! Who is not allowed leaves ids, kind and size, and what cannot be read leaves its kind and size: both are
//! evidence, and neither can hold up what comes after it.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::IdempotencyKey;
use thoughtstream_domain::payload::telegram::{
    ChatId, MessageId, REACTIONS_MAX, SenderId, TelegramNonconversation, TelegramReaction, UpdateId,
    unnamed_key, update_key,
};
use thoughtstream_domain::time::Timestamp;

use super::api;
use super::message::{self, Draft};

/// The kinds of updates whose name is kept; any other is `unknown`, since it is text from outside.
const KINDS: [&str; 16] = [
    "message",
    "edited_message",
    "message_reaction",
    "message_reaction_count",
    "channel_post",
    "edited_channel_post",
    "business_message",
    "callback_query",
    "chat_boost",
    "chat_join_request",
    "chat_member",
    "inline_query",
    "my_chat_member",
    "poll",
    "poll_answer",
    "pre_checkout_query",
];

/// The last second that a time of the API may name: the end of the year 9999.
const SECONDS_MAX: i64 = 253_402_300_799;

/// Says who is listened to, and what the bot is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// The chats; a message from any other is a stranger's.
    pub chats: BTreeSet<ChatId>,
    /// The people; a message from any other is a stranger's.
    pub senders: BTreeSet<SenderId>,
    /// The bot's user name, without the `@`.
    pub username: Option<String>,
}

/// Is an update that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normalised {
    /// Its id, if it names one.
    pub update: Option<UpdateId>,
    /// The key of the one event that it becomes.
    pub key: IdempotencyKey,
    /// What it becomes.
    pub observed: Observed,
}

/// Is what an update becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// A message, once its images are fetched; perhaps still nothing to talk about.
    Message(Box<Draft>),
    /// A reaction.
    Reaction(TelegramReaction),
    /// A correction.
    Correction(thoughtstream_domain::payload::telegram::TelegramCorrection),
    /// Anything else.
    Nonconversation(TelegramNonconversation),
}

/// Reads one update as it came.
#[must_use]
pub fn normalise(raw: &[u8], rules: &Rules) -> Normalised {
    let text = std::str::from_utf8(raw).ok();
    let update = text.and_then(|text| serde_json::from_str::<api::Update<'_>>(text).ok());
    let id = update.as_ref().and_then(|update| update.update_id).filter(|id| *id >= 0).map(UpdateId::new);
    let kind = text.map_or("unreadable", kind_of);
    let about = About { update: id, kind, bytes: raw.len() as u64, parties: None };
    let observed = match update.as_ref().filter(|_| id.is_some()) {
        Some(update) => observed(update, &about, rules),
        None => about.nonconversation("malformed"),
    };
    let key = id.map_or_else(|| unnamed_key(&Sha256Hash::of(raw)), update_key);
    Normalised { update: id, key, observed }
}

/// Names the kind of an update by the first member that is one.
fn kind_of(text: &str) -> &'static str {
    let Ok(members) = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(text) else { return "unreadable" };
    KINDS.into_iter().find(|kind| members.contains_key(*kind)).unwrap_or("unknown")
}

/// Is what is known of an update before its content is looked at.
#[derive(Clone, Copy)]
pub(super) struct About {
    pub(super) update: Option<UpdateId>,
    pub(super) kind: &'static str,
    pub(super) bytes: u64,
    pub(super) parties: Option<(ChatId, SenderId, MessageId)>,
}

impl About {
    /// Makes evidence of an update that is none of the others.
    pub(super) fn nonconversation(&self, code: &str) -> Observed {
        Observed::Nonconversation(self.evidence(code))
    }

    pub(super) fn evidence(&self, code: &str) -> TelegramNonconversation {
        TelegramNonconversation {
            update: self.update,
            kind: self.kind.to_owned(),
            code: code.to_owned(),
            bytes: self.bytes,
            chat: self.parties.map(|(chat, _, _)| chat),
            sender: self.parties.map(|(_, sender, _)| sender),
            message: self.parties.map(|(_, _, message)| message),
            rejected: Vec::new(),
        }
    }
}

fn observed(update: &api::Update<'_>, about: &About, rules: &Rules) -> Observed {
    let carried = [update.message, update.edited_message, update.message_reaction];
    let mut carried = carried.into_iter().flatten();
    let Some(raw) = carried.next() else { return about.nonconversation("not-subscribed") };
    if carried.next().is_some() {
        return about.nonconversation("ambiguous");
    }
    let about = match parties(raw, about, rules) {
        Ok(about) => about,
        Err(evidence) => return Observed::Nonconversation(*evidence),
    };
    if update.message_reaction.is_some() {
        return reaction(raw, &about);
    }
    message::observed(raw, update.edited_message.is_some(), &about, rules)
}

/// Finds out who speaks where; evidence if that is nobody who is listened to.
fn parties(raw: &RawValue, about: &About, rules: &Rules) -> Result<About, Box<TelegramNonconversation>> {
    let found: api::Parties =
        serde_json::from_str(raw.get()).map_err(|_| Box::new(about.evidence("malformed")))?;
    let sender = found.from.or(found.user);
    let known = |code: &str| {
        Box::new(TelegramNonconversation {
            chat: found.chat.as_ref().map(|chat| ChatId::new(chat.id)),
            sender: sender.as_ref().map(|user| SenderId::new(user.id)),
            message: found.message_id.map(MessageId::new),
            ..about.evidence(code)
        })
    };
    let (Some(chat), Some(user), Some(message)) = (&found.chat, &sender, found.message_id) else {
        return Err(known("no-sender"));
    };
    let (chat, sender) = (ChatId::new(chat.id), SenderId::new(user.id));
    if !rules.chats.contains(&chat) || !rules.senders.contains(&sender) {
        return Err(known("stranger"));
    }
    if user.is_bot || found.sender_chat.is_some() {
        return Err(known("not-a-person"));
    }
    Ok(About { parties: Some((chat, sender, MessageId::new(message))), ..*about })
}

fn reaction(raw: &RawValue, about: &About) -> Observed {
    let (Some(update), Some((chat, sender, _))) = (about.update, about.parties) else {
        return about.nonconversation("malformed");
    };
    let read = serde_json::from_str::<api::Reaction>(raw.get()).ok();
    let named = read.and_then(|reaction| {
        let old = names(&reaction.old_reaction)?;
        let new = names(&reaction.new_reaction)?;
        Some((reaction.message_id, time(reaction.date)?, old, new))
    });
    let Some((message, sent_at, old, new)) = named else { return about.nonconversation("malformed") };
    Observed::Reaction(TelegramReaction {
        update,
        chat,
        sender,
        message: MessageId::new(message),
        sent_at,
        added: new.iter().filter(|name| !old.contains(name)).cloned().collect(),
        removed: old.iter().filter(|name| !new.contains(name)).cloned().collect(),
    })
}

fn names(reactions: &[api::ReactionType]) -> Option<Vec<String>> {
    let name = |reaction: &api::ReactionType| {
        let name = match reaction.kind.as_str() {
            "emoji" => reaction.emoji.clone()?,
            "custom_emoji" => format!("custom:{}", reaction.custom_emoji_id.as_deref()?),
            "paid" => "paid".to_owned(),
            _ => return None,
        };
        (1..=64).contains(&name.chars().count()).then_some(name)
    };
    if reactions.len() > REACTIONS_MAX {
        return None;
    }
    reactions.iter().map(name).collect()
}

/// Reads a time of the API: whole seconds.
pub(super) fn time(seconds: i64) -> Option<Timestamp> {
    (0..=SECONDS_MAX).contains(&seconds).then(|| Timestamp::from_millis(seconds * 1000))
}

#[cfg(test)]
mod tests;
