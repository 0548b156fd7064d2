//! Fetching an image that a message brings: bounded, and believed only by its first bytes.

use thoughtstream_domain::content::Content;
use thoughtstream_domain::payload::telegram::{ImageArtifact, RejectedAttachment};

use super::client::{CallError, Client};
use super::message::WantedImage;

/// The largest image that is taken, if the configuration does not say: larger than any photo Telegram makes.
pub const IMAGE_BYTES_MAX: u64 = 8 << 20;

/// Is a verified image with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The reference that the event carries.
    pub artifact: ImageArtifact,
    /// The bytes that are stored under its hash.
    pub bytes: Content<Vec<u8>>,
}

/// Says why there is no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotFetched {
    /// It is not taken, now or later.
    Rejected(RejectedAttachment),
    /// It could not be had this time.
    Later(CallError),
}

/// Fetches an image once.
///
/// # Errors
/// [`NotFetched`] saying whether it may be tried again.
pub async fn fetch(client: &Client, wanted: &WantedImage, bytes_max: u64) -> Result<Fetched, NotFetched> {
    let reject = |code: &str, bytes: Option<u64>| NotFetched::Rejected(rejected(wanted, code, bytes));
    let too_large = |bytes: Option<u64>| bytes.is_some_and(|bytes| bytes > bytes_max);
    if too_large(wanted.bytes) {
        return Err(reject("too-large", wanted.bytes));
    }
    let asked = client.file(&wanted.file).await;
    let (path, told) = asked.map_err(|error| after(wanted, error))?;
    if too_large(told) {
        return Err(reject("too-large", told));
    }
    let most = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let content = client.content(&path, most).await.map_err(|error| after(wanted, error))?;
    let Some(bytes) = content else { return Err(reject("too-large", told)) };
    let size = Some(bytes.len() as u64);
    match ImageArtifact::of(&bytes) {
        None => Err(reject("not-an-image", size)),
        Some(artifact) if artifact.mime != wanted.claimed => Err(reject("mislabelled", size)),
        Some(artifact) => Ok(Fetched { artifact, bytes: Content::new(bytes) }),
    }
}

/// Names an image that is not taken.
#[must_use]
pub fn rejected(wanted: &WantedImage, code: &str, bytes: Option<u64>) -> RejectedAttachment {
    RejectedAttachment { kind: wanted.kind.to_owned(), code: code.to_owned(), bytes }
}

/// A refusal stays one; a limit, an outage and a lost answer pass.
fn after(wanted: &WantedImage, error: CallError) -> NotFetched {
    match error {
        CallError::Refused { status: 429, .. } | CallError::NotSent { .. } | CallError::Unknown { .. } => {
            NotFetched::Later(error)
        }
        CallError::Refused { .. } => NotFetched::Rejected(rejected(wanted, "refused", wanted.bytes)),
    }
}
