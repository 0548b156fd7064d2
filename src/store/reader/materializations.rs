//! What the log holds of the document that a change is made of, and of the one that it became.

use thoughtstream_domain::payload::materialization::MaterializationStarted;
use thoughtstream_domain::proposal::capability::MemoryTarget;
use thoughtstream_domain::proposal::materialize::{Recorded, Seen};

use super::Reader;
use crate::rows::RowError;

impl Reader {
    /// Returns what is recorded of the target of a memory change, and what lies at its path now.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn memory_recorded(&self, target: &MemoryTarget) -> Result<Recorded, RowError> {
        Ok(Recorded {
            current: self.document_at(&target.source, &target.path)?,
            version: self.version(&target.source, &target.document, target.revision)?,
            bytes: self.blob(&target.sha256)?,
        })
    }

    /// Returns what is recorded of the document after a change was written, but for the event that tells of it.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn memory_seen(&self, started: &MaterializationStarted) -> Result<Seen, RowError> {
        let base = &started.base;
        let current = self.document_at(&base.source, &base.path)?;
        let version = match &current {
            Some(current) => self.version(&base.source, &current.id, current.revision)?,
            None => None,
        };
        Ok(Seen { current, version, bytes: self.blob(&started.result_sha256)?, event: None })
    }
}
