//! What happens in a chat, and the updates that tell a bot of it.

use serde_json::{Map, Value as Json, json};
use thoughtstream_domain::content::Content;

use super::{File, Queued, Telegram};

/// Is something that happens, and how the bot is told of it.
#[derive(Debug, Clone)]
pub struct Scripted {
    /// What happens.
    pub item: Item,
    /// When, after what stands before it in the script.
    pub after: After,
    /// The update's number; the next one if absent.
    pub update: Option<i64>,
    /// How often the update is handed out at once.
    pub copies: u32,
    /// How often the update comes once more after it was confirmed.
    pub again: u32,
    /// Whether it does not come from Telegram: it is posted to the webhook with a wrong secret, and only there.
    pub forged: bool,
}

impl Scripted {
    /// Makes something that happens at once and is told once.
    #[must_use]
    pub const fn new(item: Item) -> Self {
        Self { item, after: After::Now, update: None, copies: 1, again: 0, forged: false }
    }
}

/// Says when something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// At once.
    Now,
    /// After so many milliseconds.
    Delay(u64),
    /// When the bot has written to the same chat since what stands before it happened.
    Reply,
}

/// Is what happens in a chat.
#[derive(Debug, Clone)]
pub enum Item {
    /// Somebody writes.
    Message(Message),
    /// Somebody changes what they wrote.
    Edit {
        /// The chat.
        chat: i64,
        /// Who.
        from: i64,
        /// Which message.
        message: MessageRef,
        /// What it says now.
        text: Content<String>,
    },
    /// Somebody reacts.
    Reaction {
        /// The chat.
        chat: i64,
        /// Who.
        from: i64,
        /// To which message.
        message: MessageRef,
        /// With which emoji; none takes the reaction back.
        emoji: Option<String>,
    },
    /// An update of the script's own; it gets a number if it has none.
    Raw(Content<String>),
}

impl Item {
    /// Returns the chat it happens in, if that can be told.
    pub(super) const fn chat(&self) -> Option<i64> {
        match self {
            Self::Message(message) => Some(message.chat),
            Self::Edit { chat, .. } | Self::Reaction { chat, .. } => Some(*chat),
            Self::Raw(_) => None,
        }
    }
}

/// Is a message that somebody writes.
#[derive(Debug, Clone)]
pub struct Message {
    /// The chat; that of a person with the bot alone has the person's id.
    pub chat: i64,
    /// Who writes.
    pub from: i64,
    /// The name that is shown.
    pub name: String,
    /// What is written; below an image, its caption.
    pub text: Content<String>,
    /// The message it replies to.
    pub reply_to: Option<MessageRef>,
    /// The image that comes with it.
    pub image: Option<Image>,
    /// The album it is part of.
    pub album: Option<String>,
}

impl Message {
    /// Makes a message of text.
    #[must_use]
    pub fn text(chat: i64, from: i64, text: impl Into<String>) -> Self {
        Self {
            chat,
            from,
            name: "Ada".to_owned(),
            text: Content::new(text.into()),
            reply_to: None,
            image: None,
            album: None,
        }
    }
}

/// Names a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRef {
    /// By its number in the chat.
    Number(i64),
    /// The bot's latest.
    LastReply,
    /// The latest that a person wrote.
    LastSaid,
}

/// Is an image of a message.
#[derive(Debug, Clone)]
pub struct Image {
    /// Its bytes, whatever they are.
    pub bytes: Content<Vec<u8>>,
    /// Its width, as it is told.
    pub width: u32,
    /// Its height, as it is told.
    pub height: u32,
    /// Its size as it is told; the true one if absent.
    pub claims: Option<u64>,
    /// How it was sent.
    pub kind: ImageKind,
}

/// Says how an image was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageKind {
    /// As a photo, which Telegram shows in several sizes.
    Photo,
    /// As a file with a type and a name, whether they fit or not.
    File {
        /// Its type as it is told.
        mime: String,
        /// Its name.
        name: String,
    },
}

impl Telegram {
    /// Lets something happen now, at `date` in seconds; returns the update's number, or nothing if the bot is not told.
    ///
    /// What refers to a message that does not exist does not happen.
    pub(in super::super) fn happen(&mut self, scripted: &Scripted, date: i64) -> Option<i64> {
        let id = scripted.update.unwrap_or(self.next_update);
        let (kind, update) = self.update(&scripted.item, id, date)?;
        // The script may name an update's number itself, in a raw one too.
        let id = update.get("update_id").and_then(Json::as_i64).unwrap_or(id);
        self.next_update = self.next_update.max(id.saturating_add(1));
        self.counters.updates += 1;
        self.queue.push_back(Queued {
            id,
            update: Content::new(update.to_string()),
            kind,
            copies: scripted.copies.max(1),
            again: scripted.again,
            is_replay: false,
        });
        Some(id)
    }

    /// Makes the update that tells of `item` without letting it happen: whoever forges one makes no message.
    pub(super) fn forge(&self, item: &Item, date: i64) -> Json {
        match item {
            Item::Message(message) => {
                let mut body = self.skeleton(message.chat, message.from, &message.name, 1, date);
                body.insert("text".to_owned(), json!(message.text.reveal()));
                json!({ "update_id": self.next_update, "message": body })
            }
            Item::Raw(text) => serde_json::from_str(text.reveal()).unwrap_or(Json::Null),
            Item::Edit { .. } | Item::Reaction { .. } => json!({ "update_id": self.next_update }),
        }
    }

    fn update(&mut self, item: &Item, id: i64, date: i64) -> Option<(String, Json)> {
        let (kind, body) = match item {
            Item::Message(message) => ("message", self.message(message, date)?),
            Item::Edit { chat, from, message, text } => {
                ("edited_message", self.edit(*chat, *from, *message, text.reveal(), date)?)
            }
            Item::Reaction { chat, from, message, emoji } => {
                ("message_reaction", self.reaction(*chat, *from, *message, emoji.as_deref(), date)?)
            }
            Item::Raw(text) => {
                let mut update: Json = serde_json::from_str(text.reveal()).ok()?;
                let members = update.as_object_mut()?;
                let kind = members.keys().find(|name| *name != "update_id").cloned().unwrap_or_default();
                members.entry("update_id").or_insert(json!(id));
                return Some((kind, update));
            }
        };
        Some((kind.to_owned(), json!({ "update_id": id, kind: body })))
    }

    fn message(&mut self, message: &Message, date: i64) -> Option<Json> {
        let reply_to = match message.reply_to {
            Some(named) => Some(self.message_json(message.chat, named)?),
            None => None,
        };
        let chat = self.chats.entry(message.chat).or_default();
        chat.latest += 1;
        let number = chat.latest;
        chat.last_said = Some(number);
        let mut body = self.skeleton(message.chat, message.from, &message.name, number, date);
        let text = message.text.reveal();
        match &message.image {
            Some(image) => {
                let name = format!("{}-{number}", message.chat);
                self.attach(&mut body, image, &name);
                if !text.is_empty() {
                    body.insert("caption".to_owned(), json!(text));
                }
            }
            None => {
                body.insert("text".to_owned(), json!(text));
            }
        }
        if let Some(length) = command_length(text) {
            let entity = json!([{ "type": "bot_command", "offset": 0, "length": length }]);
            body.insert("entities".to_owned(), entity);
        }
        body.extend(message.album.as_ref().map(|album| ("media_group_id".to_owned(), json!(album))));
        body.extend(reply_to.map(|reply_to| ("reply_to_message".to_owned(), reply_to)));
        let body = Json::Object(body);
        self.remember(message.chat, number, &body);
        Some(body)
    }

    fn skeleton(&self, chat: i64, from: i64, name: &str, number: i64, date: i64) -> Map<String, Json> {
        let kind = if chat < 0 { "group" } else { "private" };
        let mut body = Map::new();
        body.insert("message_id".to_owned(), json!(number));
        body.insert("from".to_owned(), json!({ "id": from, "is_bot": false, "first_name": name }));
        body.insert("chat".to_owned(), json!({ "id": chat, "type": kind, "first_name": name }));
        body.insert("date".to_owned(), json!(date));
        body
    }

    fn attach(&mut self, body: &mut Map<String, Json>, image: &Image, name: &str) {
        let bytes = image.bytes.reveal().len() as u64;
        let claims = image.claims.unwrap_or(bytes);
        let id = format!("file-{name}");
        let size = |id: &str, width: u32, height: u32, bytes: u64| {
            json!({
                "file_id": id, "file_unique_id": format!("unique-{id}"),
                "width": width, "height": height, "file_size": bytes,
            })
        };
        let path = match &image.kind {
            ImageKind::Photo => {
                let small = format!("small-{name}");
                let sizes = json!([
                    size(&small, image.width.div_ceil(4), image.height.div_ceil(4), bytes.div_ceil(8)),
                    size(&id, image.width, image.height, claims),
                ]);
                body.insert("photo".to_owned(), sizes);
                format!("photos/{name}.jpg")
            }
            ImageKind::File { mime, name: file_name } => {
                let mut document = size(&id, image.width, image.height, claims);
                document["mime_type"] = json!(mime);
                document["file_name"] = json!(file_name);
                body.insert("document".to_owned(), document);
                format!("documents/{name}")
            }
        };
        self.files.insert(id, File { path, bytes: image.bytes.clone(), claims });
    }

    fn edit(&mut self, chat: i64, from: i64, message: MessageRef, text: &str, date: i64) -> Option<Json> {
        let mut body = self.message_json(chat, message)?;
        let member =
            if body.get("photo").is_some() || body.get("document").is_some() { "caption" } else { "text" };
        body[member] = json!(text);
        body["from"]["id"] = json!(from);
        body["edit_date"] = json!(date);
        let number = body.get("message_id").and_then(Json::as_i64)?;
        self.remember(chat, number, &body);
        Some(body)
    }

    fn reaction(
        &mut self,
        chat: i64,
        from: i64,
        message: MessageRef,
        emoji: Option<&str>,
        date: i64,
    ) -> Option<Json> {
        let number = self.message_json(chat, message)?.get("message_id").and_then(Json::as_i64)?;
        let reactions = &mut self.chats.get_mut(&chat)?.reactions;
        let old = match emoji {
            Some(emoji) => reactions.insert((number, from), emoji.to_owned()),
            None => reactions.remove(&(number, from)),
        };
        let shown = |emoji: Option<&str>| -> Vec<Json> {
            emoji.iter().map(|emoji| json!({ "type": "emoji", "emoji": emoji })).collect()
        };
        Some(json!({
            "chat": { "id": chat, "type": if chat < 0 { "group" } else { "private" } },
            "message_id": number,
            "user": { "id": from, "is_bot": false, "first_name": "Ada" },
            "date": date,
            "old_reaction": shown(old.as_deref()),
            "new_reaction": shown(emoji),
        }))
    }

    /// Returns a message as the API shows it.
    fn message_json(&self, chat: i64, message: MessageRef) -> Option<Json> {
        let chat = self.chats.get(&chat)?;
        let number = match message {
            MessageRef::Number(number) => number,
            MessageRef::LastReply => chat.last_reply?,
            MessageRef::LastSaid => chat.last_said?,
        };
        serde_json::from_str(chat.messages.get(&number)?.reveal()).ok()
    }

    /// Keeps a message so that it can be replied to. A reply shows one message behind it and no more.
    fn remember(&mut self, chat: i64, number: i64, body: &Json) {
        let mut body = body.clone();
        if let Some(members) = body.as_object_mut() {
            members.remove("reply_to_message");
        }
        self.chats.entry(chat).or_default().messages.insert(number, Content::new(body.to_string()));
    }

    /// Lets the bot write into a chat; returns the message as the API shows it.
    pub(super) fn reply(&mut self, chat: i64, text: &str, reply_to: Option<i64>, date: i64) -> (i64, Json) {
        let shown = reply_to.and_then(|number| self.message_json(chat, MessageRef::Number(number)));
        let state = self.chats.entry(chat).or_default();
        state.latest += 1;
        state.replies += 1;
        let number = state.latest;
        state.last_reply = Some(number);
        let bot = &self.script.bot;
        let mut body = json!({
            "message_id": number,
            "from": { "id": bot.id, "is_bot": true, "first_name": bot.name, "username": bot.username },
            "chat": { "id": chat, "type": if chat < 0 { "group" } else { "private" } },
            "date": date,
            "text": text,
        });
        if let Some(shown) = shown {
            body["reply_to_message"] = shown;
        }
        self.remember(chat, number, &body);
        (number, body)
    }
}

/// Returns how long the command at the start of a text is, in UTF-16 units.
fn command_length(text: &str) -> Option<usize> {
    let command = text.split_whitespace().next().filter(|word| text.starts_with(word))?;
    (command.starts_with('/') && command.len() > 1).then(|| command.encode_utf16().count())
}
