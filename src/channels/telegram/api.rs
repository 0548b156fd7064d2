//! The members of the Bot API's objects that are read; everything else in them is passed over.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Is an update, as far as it says what it carries.
#[derive(Deserialize)]
pub(super) struct Update<'a> {
    pub(super) update_id: Option<i64>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) edited_message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message_reaction: Option<&'a RawValue>,
}

/// Is who and where, of a message or a reaction: all that is kept of a stranger.
#[derive(Deserialize)]
pub(super) struct Parties {
    pub(super) message_id: Option<i64>,
    pub(super) chat: Option<Chat>,
    pub(super) from: Option<User>,
    pub(super) user: Option<User>,
    pub(super) sender_chat: Option<Chat>,
}

#[derive(Deserialize)]
pub(super) struct Chat {
    pub(super) id: i64,
}

#[derive(Deserialize)]
pub(super) struct User {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) is_bot: bool,
}

#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) message_id: i64,
    pub(super) date: i64,
    pub(super) edit_date: Option<i64>,
    pub(super) text: Option<String>,
    pub(super) caption: Option<String>,
    #[serde(default)]
    pub(super) photo: Vec<PhotoSize>,
    pub(super) document: Option<Document>,
    pub(super) media_group_id: Option<String>,
    pub(super) reply_to_message: Option<Replied>,
    pub(super) animation: Option<IgnoredAny>,
    pub(super) audio: Option<IgnoredAny>,
    pub(super) contact: Option<IgnoredAny>,
    pub(super) location: Option<IgnoredAny>,
    pub(super) poll: Option<IgnoredAny>,
    pub(super) sticker: Option<IgnoredAny>,
    pub(super) story: Option<IgnoredAny>,
    pub(super) video: Option<IgnoredAny>,
    pub(super) video_note: Option<IgnoredAny>,
    pub(super) voice: Option<IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct Replied {
    pub(super) message_id: i64,
}

#[derive(Deserialize)]
pub(super) struct PhotoSize {
    pub(super) file_id: String,
    pub(super) file_size: Option<u64>,
    #[serde(default)]
    pub(super) width: u32,
    #[serde(default)]
    pub(super) height: u32,
}

#[derive(Deserialize)]
pub(super) struct Document {
    pub(super) file_id: String,
    pub(super) file_size: Option<u64>,
    pub(super) mime_type: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Reaction {
    pub(super) message_id: i64,
    pub(super) date: i64,
    #[serde(default)]
    pub(super) old_reaction: Vec<ReactionType>,
    #[serde(default)]
    pub(super) new_reaction: Vec<ReactionType>,
}

#[derive(Deserialize)]
pub(super) struct ReactionType {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) emoji: Option<String>,
    pub(super) custom_emoji_id: Option<String>,
}
