//! Why a packet cannot be sealed, read back, or given its images.

use super::PACKET_BYTES_MAX;
use crate::hash::Sha256Hash;
use crate::id::ExecutionId;
use crate::provider::RequestError;

/// Says why a packet cannot be sealed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The request is none.
    #[error("the request cannot be frozen")]
    Request(#[source] RequestError),
    /// The packet is larger than one may be.
    #[error("{bytes} bytes are more than the {PACKET_BYTES_MAX} of a packet")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// A number in it has no exact canonical form.
    #[error("a number has no exact canonical form")]
    Canonical,
}

/// Says why stored bytes are not the packet of an execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The bytes have another hash than their document version says.
    #[error("the packet has the hash {found}, not {expected}")]
    Hash {
        /// What was found.
        found: Sha256Hash,
        /// What the version says.
        expected: Sha256Hash,
    },
    /// They are no packet, or not in canonical form.
    #[error("the stored bytes are no packet of this form")]
    Malformed,
    /// It is the packet of another execution, or its identity does not follow from what it holds.
    #[error("the packet belongs to {found}, not to {expected}")]
    OtherExecution {
        /// What was found.
        found: ExecutionId,
        /// What was asked for.
        expected: ExecutionId,
    },
    /// Its list of images has another hash than it says.
    #[error("the list of images was changed")]
    Images,
}

impl PacketError {
    /// The code that closes a run over it.
    pub const CODE: &'static str = "snapshot-damaged";
}

/// Says why the images of a packet could not be put into its request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The bytes of an image are not there.
    #[error("image {index} is missing")]
    Missing {
        /// Which one, from 0.
        index: usize,
    },
    /// The bytes are not those of the reference.
    #[error("image {index} was changed")]
    Changed {
        /// Which one, from 0.
        index: usize,
    },
}

impl ImageError {
    /// Returns the code that closes a run over it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "image-missing",
            Self::Changed { .. } => "image-changed",
        }
    }
}
