//! Reading what happens in a script's chats, and what answers otherwise than Telegram would.

use std::collections::BTreeSet;

use thoughtstream_domain::content::Content;
use thoughtstream_domain::yaml::{Node, duration_ms};

use super::super::telegram::{
    After, Image, ImageKind, Item, Message, MessageRef, Outcome, Scripted, TelegramAnswer, TelegramRule,
    TelegramWhen,
};
use super::read::{Reader, codes, id, size, status, text};

/// The keys of which an update has exactly one.
const ITEMS: [&str; 4] = ["message", "edit", "reaction", "raw"];

impl Reader<'_> {
    pub(super) fn updates(&mut self, node: &Node) -> Vec<Scripted> {
        let items = node.get("updates").map(Node::items).unwrap_or_default();
        items.iter().filter_map(|item| self.update(item)).collect()
    }

    fn update(&mut self, node: &Node) -> Option<Scripted> {
        let items: Vec<&str> =
            node.entries().iter().map(|entry| entry.key.as_str()).filter(|key| ITEMS.contains(key)).collect();
        if let [_, other, ..] = items.as_slice() {
            let span = node.entry(other).map_or(node.span, |entry| entry.key_span);
            self.report(
                span,
                codes::ONE_OF,
                "something else happens already",
                "one thing happens in each update",
            );
        } else if items.is_empty() {
            self.report(
                node.span,
                codes::ONE_OF,
                "nothing says what happens",
                "one of message, edit, reaction, raw",
            );
        }
        let forged = node.get("forged").and_then(Node::bool).unwrap_or_default();
        if forged {
            self.only_beside(node, "forged", &["message", "raw"]);
        }
        let count = |key: &str| node.get(key).and_then(size).and_then(|count| u32::try_from(count).ok());
        Some(Scripted {
            item: self.item(node)?,
            after: after(node),
            update: node.get("update").and_then(Node::integer),
            copies: count("copies").unwrap_or(1),
            again: count("again").unwrap_or_default(),
            forged,
        })
    }

    fn item(&mut self, node: &Node) -> Option<Item> {
        if let Some(message) = node.get("message") {
            return self.message(message).map(Item::Message);
        }
        if let Some(edit) = node.get("edit") {
            let (chat, from) = people(edit)?;
            let message = edit.get("message").and_then(message_ref)?;
            return Some(Item::Edit { chat, from, message, text: text(edit, "text").map(Content::new)? });
        }
        if let Some(reaction) = node.get("reaction") {
            let (chat, from) = people(reaction)?;
            let message = reaction.get("message").and_then(message_ref)?;
            return Some(Item::Reaction { chat, from, message, emoji: text(reaction, "emoji") });
        }
        let raw = node.get("raw")?;
        if self.json(raw).is_some_and(|json| !json.is_object()) {
            self.report(raw.span, codes::JSON, "an update is a JSON object", "such as '{\"poll\": {}}'");
        }
        raw.text().map(|text| Item::Raw(Content::new(text.to_owned())))
    }

    fn message(&mut self, node: &Node) -> Option<Message> {
        if let (Some(_), Some(file)) = (node.get("photo"), node.entry("file")) {
            self.report(
                file.key_span,
                codes::TOGETHER,
                "there is a photo already",
                "a message has one image",
            );
        }
        let image = match (node.get("photo"), node.get("file")) {
            (Some(photo), _) => Some(self.image(photo, ImageKind::Photo)),
            (None, Some(file)) => {
                let mime = text(file, "mime").unwrap_or_default();
                let name = text(file, "name").unwrap_or_else(|| "file".to_owned());
                Some(self.image(file, ImageKind::File { mime, name }))
            }
            (None, None) => None,
        };
        if image.is_none() && node.get("text").is_none() {
            let hint = "an empty message is written as `text: \"\"`";
            self.report(node.span, codes::ONE_OF, "the message holds nothing", hint);
        }
        let (chat, from) = people(node)?;
        Some(Message {
            name: text(node, "name").unwrap_or_else(|| "Ada".to_owned()),
            reply_to: node.get("replyTo").and_then(message_ref),
            image,
            album: text(node, "album"),
            ..Message::text(chat, from, text(node, "text").unwrap_or_default())
        })
    }

    fn image(&mut self, node: &Node, kind: ImageKind) -> Image {
        let bytes = node.get("base64").map(|encoded| self.base64(encoded)).unwrap_or_default();
        let side = |key: &str| node.get(key).and_then(size).and_then(|side| u32::try_from(side).ok());
        Image {
            bytes: Content::new(bytes),
            width: side("width").unwrap_or(320),
            height: side("height").unwrap_or(240),
            claims: node.get("claims").and_then(size),
            kind,
        }
    }

    pub(super) fn call_rules(&mut self, node: &Node) -> Vec<TelegramRule> {
        let mut names = BTreeSet::new();
        let mut rules = Vec::new();
        for (at, item) in node.get("rules").map(Node::items).unwrap_or_default().iter().enumerate() {
            let name = self.rule_name(item, at, &mut names);
            let when = item.get("when").map(call_when).unwrap_or_default();
            let answer = item.get("answer").map(|node| self.call_answer(node)).unwrap_or_default();
            rules.push(TelegramRule { name, when, answer });
        }
        rules
    }

    fn call_answer(&mut self, node: &Node) -> TelegramAnswer {
        self.only_beside(node, "retryAfter", &["status"]);
        self.only_beside(node, "done", &["status", "body", "bodyBase64"]);
        let said = node.get("status").and_then(status);
        let outcome = match (self.body(node), said) {
            (Some(bytes), said) => Outcome::Body { status: said.unwrap_or(200), bytes },
            (None, Some(status)) => {
                Outcome::Refused { status, retry_after: self.seconds(node, "retryAfter") }
            }
            (None, None) => Outcome::Good,
        };
        let done = node.get("done").and_then(Node::bool);
        TelegramAnswer { outcome, done, manner: self.manner(node) }
    }
}

/// Returns the chat and who acts in it: a person alone with the bot, if nobody is named.
fn people(node: &Node) -> Option<(i64, i64)> {
    let chat = node.get("chat").and_then(id)?;
    Some((chat, node.get("from").and_then(id).unwrap_or(chat)))
}

fn message_ref(node: &Node) -> Option<MessageRef> {
    match node.text() {
        Some("last-reply") => Some(MessageRef::LastReply),
        Some("last-said") => Some(MessageRef::LastSaid),
        Some(_) => None,
        None => node.integer().map(MessageRef::Number),
    }
}

fn after(node: &Node) -> After {
    match node.get("after").and_then(Node::text) {
        None => After::Now,
        Some("reply") => After::Reply,
        Some(text) => duration_ms(text).map_or(After::Now, After::Delay),
    }
}

fn call_when(node: &Node) -> TelegramWhen {
    TelegramWhen {
        method: text(node, "method"),
        nth: node.get("nth").and_then(size),
        contains: text(node, "contains").map(Content::new),
        chat: node.get("chat").and_then(id),
        times: node.get("times").and_then(size),
    }
}
