//! What a Telegram bot observes: messages, reactions, corrections, and everything that is none of these.
//!
//! Every update becomes exactly one event of one of these four types, under a key made from its update id, so
//! that a duplicate, a replay and an update out of order are absorbed. Ids are written as decimal text: they
//! are 64-bit integers, which a JSON number does not carry exactly.

use serde::{Deserialize, Serialize};

use super::TypedPayload;
use crate::event::Reference;
use crate::hash::Sha256Hash;
use crate::id::{IdempotencyKey, SourceId, TypeName};
use crate::registry::Writer;
use crate::time::Timestamp;

/// The longest text of a message or caption, in UTF-16 code units: what Telegram lets anyone send.
pub const MESSAGE_UNITS_MAX: usize = 4096;
/// The most images of one message: an album arrives as one message for each of its images.
pub const IMAGES_MAX: usize = 4;
/// The most rejected attachments that are named.
pub const REJECTED_MAX: usize = 8;
/// The most reactions that one update names on either side.
pub const REACTIONS_MAX: usize = 16;

/// Says why a text is no Telegram id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a Telegram id: expected a whole number in decimal digits, like 8123456789 or -1001234567890")]
pub struct TelegramIdError;

macro_rules! decimal_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(i64);

        impl $name {
            /// Wraps the number.
            #[must_use]
            pub const fn new(number: i64) -> Self {
                Self(number)
            }

            /// Returns the number.
            #[must_use]
            pub const fn get(self) -> i64 {
                self.0
            }

            /// Reads decimal digits, in their one spelling.
            ///
            /// # Errors
            /// [`TelegramIdError`] for anything else.
            pub fn parse(text: &str) -> Result<Self, TelegramIdError> {
                let number: i64 = text.parse().map_err(|_| TelegramIdError)?;
                if number.to_string() == text { Ok(Self(number)) } else { Err(TelegramIdError) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = TelegramIdError;
            fn try_from(text: String) -> Result<Self, TelegramIdError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.to_string()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": "^(0|-?[1-9][0-9]{0,18})$" })
            }
        }
    };
}

decimal_id!(
    /// Identifies a chat; groups and channels are negative.
    ChatId
);
decimal_id!(
    /// Identifies who sent something.
    SenderId
);
decimal_id!(
    /// Identifies a message within its chat.
    MessageId
);
decimal_id!(
    /// Identifies an update of one bot; they rise.
    UpdateId
);

/// Is text from outside, which does not print.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageText(String);

impl MessageText {
    /// Wraps text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Gives the text to code that really needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Says whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for MessageText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MessageText({} bytes)", self.0.len())
    }
}

impl schemars::JsonSchema for MessageText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MessageText".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "maxLength": MESSAGE_UNITS_MAX })
    }
}

/// Is a kind of image that is taken, told by its first bytes and never by what somebody claims.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub enum ImageType {
    /// JPEG.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// PNG.
    #[serde(rename = "image/png")]
    Png,
    /// WebP.
    #[serde(rename = "image/webp")]
    Webp,
}

impl ImageType {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Jpeg, Self::Png, Self::Webp];

    /// Returns the media type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
        }
    }

    /// Returns the ending of an artifact's name.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Png => "png",
            Self::Webp => "webp",
        }
    }

    /// Reads a media type.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Tells the kind by the first bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(&[0xff, 0xd8, 0xff]) {
            return Some(Self::Jpeg);
        }
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            return Some(Self::Png);
        }
        (bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(&b"WEBP"[..])).then_some(Self::Webp)
    }
}

/// Refers to an image that was fetched, verified and stored as content under its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageArtifact {
    /// Its relative name, made from its hash alone: nothing outside chooses it.
    #[schemars(length(min = 1, max = 128))]
    pub path: String,
    /// Its hash; the content is stored under it.
    pub sha256: Sha256Hash,
    /// What it is, by its first bytes.
    pub mime: ImageType,
    /// Its size.
    pub bytes: u64,
}

impl ImageArtifact {
    /// Refers to verified bytes; `None` if they are no image that is taken.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mime = ImageType::of_bytes(bytes)?;
        let sha256 = Sha256Hash::of(bytes);
        let path = Self::path_of(&sha256, mime);
        Some(Self { path, sha256, mime, bytes: bytes.len() as u64 })
    }

    /// Says whether the reference is consistent in itself and these are its bytes.
    #[must_use]
    pub fn verifies(&self, bytes: &[u8]) -> bool {
        Self::of(bytes).as_ref() == Some(self)
    }

    fn path_of(sha256: &Sha256Hash, mime: ImageType) -> String {
        format!("images/{sha256}.{}", mime.ending())
    }
}

/// Names an attachment that was not taken, and why; never what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RejectedAttachment {
    /// What kind of attachment.
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,
    /// Why, as a code.
    #[schemars(length(min = 1, max = 64))]
    pub code: String,
    /// How large it is or claims to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Is a message from an allowed sender in an allowed chat, with text, or with exactly one verified image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TelegramMessage {
    /// The update that brought it.
    pub update: UpdateId,
    /// The chat.
    pub chat: ChatId,
    /// Who wrote it.
    pub sender: SenderId,
    /// The message.
    pub message: MessageId,
    /// When it was sent, or edited, by Telegram's clock.
    pub sent_at: Timestamp,
    /// Its text or its image's caption; empty for an image alone.
    pub text: MessageText,
    /// Its images.
    #[schemars(length(max = 4))]
    pub images: Vec<ImageArtifact>,
    /// Its attachments that were not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub rejected: Vec<RejectedAttachment>,
    /// The message it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<MessageId>,
    /// The album it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub album: Option<String>,
    /// Whether it says what an earlier message says now.
    pub edited: bool,
}

/// Says that somebody changed a reaction to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TelegramReaction {
    /// The update that brought it.
    pub update: UpdateId,
    /// The chat.
    pub chat: ChatId,
    /// Who reacted.
    pub sender: SenderId,
    /// The message reacted to.
    pub message: MessageId,
    /// When, by Telegram's clock.
    pub sent_at: Timestamp,
    /// The reactions that were not there before: emoji, or `custom:ID`.
    #[schemars(length(max = 16), inner(length(min = 1, max = 64)))]
    pub added: Vec<String>,
    /// The reactions that are gone.
    #[schemars(length(max = 16), inner(length(min = 1, max = 64)))]
    pub removed: Vec<String>,
}

/// Is a `/correct` command: feedback, never conversation.
///
/// Only one that answers a delivered reply and brings a text corrects something; the bare command and one that
/// answers nothing are kept as what they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TelegramCorrection {
    /// The update that brought it.
    pub update: UpdateId,
    /// The chat.
    pub chat: ChatId,
    /// Who corrects.
    pub sender: SenderId,
    /// The message with the command.
    pub message: MessageId,
    /// When, by Telegram's clock.
    pub sent_at: Timestamp,
    /// The message that is corrected: the one the command answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<MessageId>,
    /// What it should have said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<MessageText>,
    /// Whether the command's message was edited.
    pub edited: bool,
}

/// Is every other update: a stranger's, a bot's, one without text or image, one that cannot be read.
///
/// Of a stranger it keeps ids, kind and size alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TelegramNonconversation {
    /// The update; absent if it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateId>,
    /// What kind of update, by the member that carries it.
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,
    /// Why it is no conversation, as a code.
    #[schemars(length(min = 1, max = 64))]
    pub code: String,
    /// How large it is as it came.
    pub bytes: u64,
    /// The chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatId>,
    /// The sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderId>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// The attachments that were not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub rejected: Vec<RejectedAttachment>,
}

macro_rules! telegram_payload {
    ($name:ident, $type:literal, $promoted:expr) => {
        impl TypedPayload for $name {
            const NAME: &'static str = $type;
            const VERSION: u32 = 1;
            const WRITER: Writer = Writer::Producer;
            const PROMOTED: &'static [&'static str] = $promoted;
        }
    };
}

telegram_payload!(
    TelegramMessage,
    "stream.thought.source.telegram.message",
    &["chat", "sender", "message", "edited", "replyTo", "album"]
);
telegram_payload!(
    TelegramReaction,
    "stream.thought.source.telegram.reaction",
    &["chat", "sender", "message"]
);
telegram_payload!(
    TelegramCorrection,
    "stream.thought.source.telegram.correction",
    &["chat", "sender", "target"]
);
telegram_payload!(
    TelegramNonconversation,
    "stream.thought.source.telegram.nonconversation",
    &["kind", "code", "chat", "sender"]
);

/// Returns the source of a bot's updates.
///
/// # Errors
/// The id's refusal of a name that makes no source.
pub fn source(bot: &str) -> Result<SourceId, crate::id::IdError> {
    SourceId::parse(&format!("telegram:{bot}"))
}

/// Returns the key of everything that one update can become.
///
/// # Panics
/// Never: digits make a key.
#[must_use]
pub fn update_key(update: UpdateId) -> IdempotencyKey {
    IdempotencyKey::parse(&format!("update/{update}")).expect("digits make a key")
}

/// Returns the key of an update that names no id of its own, by what came.
///
/// # Panics
/// Never: a hash makes a key.
#[must_use]
pub fn unnamed_key(sha256: &Sha256Hash) -> IdempotencyKey {
    IdempotencyKey::parse(&format!("unnamed/{sha256}")).expect("a hash makes a key")
}

/// Returns the four types that an update can become; exactly one of them is written.
#[must_use]
pub fn update_types() -> [TypeName; 4] {
    [
        TelegramMessage::kind().name,
        TelegramReaction::kind().name,
        TelegramCorrection::kind().name,
        TelegramNonconversation::kind().name,
    ]
}

/// Returns what a message is known by outside, as envelopes write it.
///
/// # Panics
/// Never: digits make a reference.
#[must_use]
pub fn external(chat: ChatId, message: MessageId) -> Reference {
    Reference::parse(&format!("telegram:{chat}/{message}")).expect("digits make a reference")
}

/// Returns what groups the events of a chat, as envelopes write it.
///
/// # Panics
/// Never: digits make a reference.
#[must_use]
pub fn correlation(chat: ChatId) -> Reference {
    Reference::parse(&format!("telegram:{chat}")).expect("digits make a reference")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_decimal_text_in_one_spelling() {
        let chat: ChatId = serde_json::from_str("\"-1009007199254740993\"").unwrap();
        assert_eq!(chat.get(), -1_009_007_199_254_740_993);
        assert_eq!(serde_json::to_string(&chat).unwrap(), "\"-1009007199254740993\"");
        for bad in ["7", "\"07\"", "\"+7\"", "\"-0\"", "\" 7\"", "\"9223372036854775808\"", "\"\""] {
            assert!(serde_json::from_str::<ChatId>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_image_is_what_its_first_bytes_say() {
        let png = ImageArtifact::of(b"\x89PNG\r\n\x1a\nrest").unwrap();
        assert_eq!((png.mime, png.bytes), (ImageType::Png, 12));
        assert!(png.path.starts_with("images/") && png.path.ends_with(".png"));
        assert!(png.verifies(b"\x89PNG\r\n\x1a\nrest") && !png.verifies(b"\x89PNG\r\n\x1a\nrust"));
        assert_eq!(ImageType::of_bytes(b"RIFF\x04\0\0\0WEBPVP8 "), Some(ImageType::Webp));
        assert_eq!(ImageType::of_bytes(&[0xff, 0xd8, 0xff, 0xe0]), Some(ImageType::Jpeg));
        for bad in [&b"GIF89a"[..], b"<svg/>", b"%PDF", b"", b"RIFF\0\0\0\0WAVE"] {
            assert!(ImageArtifact::of(bad).is_none());
        }
    }

    #[test]
    fn text_from_outside_does_not_print() {
        let text = MessageText::new("hunter2".to_owned());
        assert_eq!(format!("{text:?}"), "MessageText(7 bytes)");
    }
}
