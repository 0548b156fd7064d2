//! What a message from somebody who is listened to becomes: conversation, a correction, or neither.

use serde_json::value::RawValue;
use thoughtstream_domain::payload::telegram::{
    IMAGES_MAX, ImageArtifact, ImageType, MESSAGE_UNITS_MAX, MessageId, MessageText, REJECTED_MAX,
    RejectedAttachment, TelegramCorrection, TelegramMessage, TelegramNonconversation,
};
use thoughtstream_domain::slash;

use super::api;
use super::normalise::{About, Observed, Rules, time};

/// The longest id of a file or an album that is kept.
const ID_BYTES_MAX: usize = 256;
/// The longest name of an album.
const ALBUM_BYTES_MAX: usize = 64;

/// Is an image that a message brings and that is still to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedImage {
    /// How the API names its file.
    pub file: String,
    /// What kind of attachment it is.
    pub kind: &'static str,
    /// What it claims to be.
    pub claimed: ImageType,
    /// How large it claims to be.
    pub bytes: Option<u64>,
}

/// Is a message whose images are not fetched yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    message: TelegramMessage,
    /// The images to fetch.
    pub wanted: Vec<WantedImage>,
    otherwise: TelegramNonconversation,
}

/// Is what a message became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    /// A turn of a conversation.
    Message(TelegramMessage),
    /// Nothing that can be answered.
    Nonconversation(TelegramNonconversation),
}

impl Draft {
    /// Puts the fetched images in. Text is conversation whatever became of its images; without text it takes
    /// exactly one verified image to be one.
    #[must_use]
    pub fn finish(self, fetched: Vec<Result<ImageArtifact, RejectedAttachment>>) -> Finished {
        let Self { mut message, otherwise, .. } = self;
        for image in fetched {
            match image {
                Ok(image) if message.images.len() < IMAGES_MAX => message.images.push(image),
                Ok(image) => message.rejected.push(RejectedAttachment {
                    kind: "image".to_owned(),
                    code: "too-many".to_owned(),
                    bytes: Some(image.bytes),
                }),
                Err(rejected) => message.rejected.push(rejected),
            }
        }
        message.rejected.truncate(REJECTED_MAX);
        if !message.text.is_empty() || message.images.len() == 1 {
            return Finished::Message(message);
        }
        let code =
            message.rejected.first().map_or_else(|| otherwise.code.clone(), |first| first.code.clone());
        Finished::Nonconversation(TelegramNonconversation { code, rejected: message.rejected, ..otherwise })
    }
}

/// Reads a message of somebody who is listened to.
pub(super) fn observed(raw: &RawValue, edited: bool, about: &About, rules: &Rules) -> Observed {
    let (Some(update), Some((chat, sender, id))) = (about.update, about.parties) else {
        return about.nonconversation("malformed");
    };
    let Ok(message) = serde_json::from_str::<api::Message>(raw.get()) else {
        return about.nonconversation("malformed");
    };
    let seconds = message.edit_date.filter(|_| edited).unwrap_or(message.date);
    let Some(sent_at) = time(seconds).filter(|_| message.message_id == id.get()) else {
        return about.nonconversation("malformed");
    };
    let text = message.text.as_deref().or(message.caption.as_deref()).unwrap_or_default();
    // Telegram counts what people see; the bound here is only a bound.
    if text.chars().count() > MESSAGE_UNITS_MAX {
        return about.nonconversation("too-long");
    }
    let reply_to = message.reply_to_message.as_ref().map(|replied| MessageId::new(replied.message_id));
    if let Some(replacement) = slash::argument(text, "correct", rules.username.as_deref()) {
        return Observed::Correction(TelegramCorrection {
            update,
            chat,
            sender,
            message: id,
            sent_at,
            target: reply_to,
            replacement: (!replacement.is_empty()).then(|| MessageText::new(replacement.to_owned())),
            edited,
        });
    }
    let text = if text.trim().is_empty() { "" } else { text };
    let (wanted, rejected) = attachments(&message);
    let album = message.media_group_id.filter(|album| {
        (1..=ALBUM_BYTES_MAX).contains(&album.len()) && album.bytes().all(|b| b.is_ascii_graphic())
    });
    let message = TelegramMessage {
        update,
        chat,
        sender,
        message: id,
        sent_at,
        text: MessageText::new(text.to_owned()),
        images: Vec::new(),
        rejected,
        reply_to,
        album,
        edited,
    };
    Observed::Message(Box::new(Draft { message, wanted, otherwise: about.evidence("empty") }))
}

/// Returns the images to fetch, and names everything else that is attached.
fn attachments(message: &api::Message) -> (Vec<WantedImage>, Vec<RejectedAttachment>) {
    let mut wanted = Vec::new();
    let mut rejected = Vec::new();
    let mut reject = |kind: &str, code: &str, bytes: Option<u64>| {
        rejected.push(RejectedAttachment { kind: kind.to_owned(), code: code.to_owned(), bytes });
    };
    // One photo comes in several sizes, of which the largest is the photo.
    let size = |photo: &&api::PhotoSize| (u64::from(photo.width) * u64::from(photo.height), photo.file_size);
    if let Some(photo) = message.photo.iter().max_by_key(size) {
        let (kind, bytes) = ("photo", photo.file_size);
        match file_id(&photo.file_id) {
            Some(file) => wanted.push(WantedImage { file, kind, claimed: ImageType::Jpeg, bytes }),
            None => reject(kind, "malformed", bytes),
        }
    }
    let others = [
        ("animation", message.animation.is_some()),
        ("audio", message.audio.is_some()),
        ("contact", message.contact.is_some()),
        ("location", message.location.is_some()),
        ("poll", message.poll.is_some()),
        ("sticker", message.sticker.is_some()),
        ("story", message.story.is_some()),
        ("video", message.video.is_some()),
        ("video-note", message.video_note.is_some()),
        ("voice", message.voice.is_some()),
    ];
    for (kind, _) in others.iter().filter(|(_, is_there)| *is_there) {
        reject(kind, "unsupported", None);
    }
    // An animation is repeated as a document.
    if let Some(document) = message.document.as_ref().filter(|_| message.animation.is_none()) {
        let claimed = document.mime_type.as_deref().and_then(ImageType::parse);
        match (claimed, file_id(&document.file_id)) {
            (Some(claimed), Some(file)) => {
                wanted.push(WantedImage { file, kind: "document", claimed, bytes: document.file_size });
            }
            (Some(_), None) => reject("document", "malformed", document.file_size),
            (None, _) => reject("document", "unsupported", document.file_size),
        }
    }
    (wanted, rejected)
}

fn file_id(id: &str) -> Option<String> {
    let fits = (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| id.to_owned())
}
