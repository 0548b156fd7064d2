//! The sealed packets of executions, read back and verified, and the versions that observers are shown.

use thiserror::Error;
use thoughtstream_domain::commit::Document;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, DocumentId, ExecutionId};
use thoughtstream_domain::packet::observe::{Observed, ObservedDocument};
use thoughtstream_domain::packet::{self, DocumentReference, ImageError, Packet, PacketError};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::file::{FileAdded, FileChanged, FileRenamed};
use thoughtstream_domain::provider::ModelRequest;

use super::Reader;
use crate::rows::RowError;

/// Says why the packet of an execution cannot be used. Nothing may be sent then.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The log cannot be read.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The stored bytes are not what was sealed.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// There is a document and not the one version or the content that it should have.
    #[error("the packet of {0} lacks its version or its content")]
    Incomplete(ExecutionId),
}

/// Says why a frozen request cannot be made whole.
#[derive(Debug, Error)]
pub enum RequestFault {
    /// The log cannot be read.
    #[error(transparent)]
    Row(#[from] RowError),
    /// An image is missing or another.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// Says why a trigger cannot be shown to an observer.
#[derive(Debug, Error)]
pub enum ObservedError {
    /// The log cannot be read.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The trigger's payload was redacted or cannot be read.
    #[error("the trigger cannot be read")]
    Unreadable,
    /// The version that the trigger names is not there, or does not agree with it.
    #[error("the document version that the trigger names is missing or another")]
    Version,
}

impl ObservedError {
    /// Returns the code that closes a run over it.
    ///
    /// # Errors
    /// The log's own trouble has no code: it is tried again, and stops who needs it.
    pub fn code(self) -> Result<&'static str, RowError> {
        match self {
            Self::Row(error) => Err(error),
            Self::Unreadable => Ok("trigger-unreadable"),
            Self::Version => Ok("document-version-missing"),
        }
    }
}

impl Reader {
    /// Returns the sealed packet of an execution; `None` if none was ever stored. Everything about it is verified.
    ///
    /// # Errors
    /// [`SnapshotError`] if it cannot be read or is not exactly what was sealed.
    pub fn packet(
        &self,
        consumer: &ConsumerKey,
        execution: &ExecutionId,
    ) -> Result<Option<Packet>, SnapshotError> {
        let (source, id) = (packet::source(consumer), packet::document_id(execution));
        let Some(document) = self.document(&source, &id)? else { return Ok(None) };
        let incomplete = || SnapshotError::Incomplete(*execution);
        let version = self.version(&source, &id, 1)?.ok_or_else(incomplete)?;
        if document.revision != 1 || document.removed || document.sha256 != version.sha256 {
            return Err(incomplete());
        }
        let bytes = self.blob(&version.sha256)?.ok_or_else(incomplete)?;
        Ok(Some(Packet::read(bytes.reveal(), execution, &version.sha256)?))
    }

    /// Says whether an execution has a packet, whatever it is worth.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn has_packet(&self, consumer: &ConsumerKey, execution: &ExecutionId) -> Result<bool, RowError> {
        Ok(self.document(&packet::source(consumer), &packet::document_id(execution))?.is_some())
    }

    /// Returns the request that a packet froze, with the images of its current message, each verified.
    ///
    /// # Errors
    /// [`RequestFault`] if one cannot be read, is missing, or is not what was frozen; nothing may be sent then.
    pub fn request(&self, packet: &Packet) -> Result<ModelRequest, RequestFault> {
        let images = if packet.shows_images() { packet.images() } else { &[] };
        let bytes = images.iter().map(|image| self.blob(&image.sha256)).collect::<Result<Vec<_>, _>>()?;
        Ok(packet.request(&bytes)?)
    }

    /// Returns a trigger with the document version that it names, verified.
    ///
    /// # Errors
    /// [`ObservedError`] if one of them cannot be read or they do not agree.
    pub fn observed(&self, event: &Event) -> Result<Observed, ObservedError> {
        let named = match event.kind.name.as_str() {
            FileAdded::NAME => event.payload_as::<FileAdded>().map(|p| (p.document_id, p.revision, p.sha256)),
            FileChanged::NAME => {
                event.payload_as::<FileChanged>().map(|p| (p.document_id, p.revision, p.sha256))
            }
            FileRenamed::NAME => {
                event.payload_as::<FileRenamed>().map(|p| (p.document_id, p.revision, p.sha256))
            }
            _ => return Ok(Observed { event: event.clone(), document: None }),
        };
        let (id, revision, sha256) = named.map_err(|_| ObservedError::Unreadable)?;
        let document = self.observed_version(event, &id, revision, &sha256)?;
        Ok(Observed { event: event.clone(), document: Some(document) })
    }

    fn observed_version(
        &self,
        event: &Event,
        id: &DocumentId,
        revision: u64,
        sha256: &Sha256Hash,
    ) -> Result<ObservedDocument, ObservedError> {
        let agrees = |version: &Document| version.sha256 == *sha256 && version.source == event.source;
        let version = self.version(&event.source, id, revision)?.filter(agrees);
        let version = version.ok_or(ObservedError::Version)?;
        let bytes = self.blob(sha256)?.ok_or(ObservedError::Version)?;
        if Sha256Hash::of(bytes.reveal()) != *sha256 || bytes.reveal().len() as u64 != version.bytes {
            return Err(ObservedError::Version);
        }
        Ok(ObservedDocument { reference: DocumentReference::of(&version), bytes })
    }
}
