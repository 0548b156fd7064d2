//! Documents, their versions and their content.

use thoughtstream_domain::commit::Document;
use thoughtstream_domain::content::Content;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{DocumentId, SourceId};

use super::{PAGE_ROWS_MAX, Reader};
use crate::names::NameKind;
use crate::rows::RowError;
use crate::tables::{Table, key};
use crate::writer::from_json;

impl Reader {
    fn source(&self, source: &SourceId) -> Option<u32> {
        self.shared.names.number(NameKind::Source, source.as_str())
    }

    /// Returns a document's current state, removed or not.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn document(&self, source: &SourceId, document: &DocumentId) -> Result<Option<Document>, RowError> {
        let Some(number) = self.source(source) else { return Ok(None) };
        self.view(|view| {
            let found = view.get(Table::Documents, &key!(number, document.as_str()))?;
            found.map(|bytes| from_json(&bytes, Table::Documents, document)).transpose()
        })
    }

    /// Returns the document that has this path now.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn document_at(&self, source: &SourceId, path: &str) -> Result<Option<Document>, RowError> {
        let Some(number) = self.source(source) else { return Ok(None) };
        self.view(|view| {
            let Some(id) = view.get(Table::Paths, &key!(number, path))? else { return Ok(None) };
            let found = view.get(Table::Documents, &key!(number, &id[..]))?;
            let found = found.ok_or_else(|| RowError::damaged(Table::Paths, format_args!("of {source}")))?;
            from_json(&found, Table::Documents, String::from_utf8_lossy(&id)).map(Some)
        })
    }

    /// Returns a source's documents by id, after one; removed ones included.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn documents(
        &self,
        source: &SourceId,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<Document>, RowError> {
        let Some(number) = self.source(source) else { return Ok(Vec::new()) };
        let from = after.map_or_else(|| key!(number), |id| key!(number, id.as_str(), 0_u8));
        self.view(|view| {
            let rows = view.range(Table::Documents, &from, &key!(number + 1), limit.min(PAGE_ROWS_MAX))?;
            let id = |key: &[u8]| String::from_utf8_lossy(key.get(4..).unwrap_or_default()).into_owned();
            rows.iter().map(|(key, row)| from_json(row, Table::Documents, id(key))).collect()
        })
    }

    /// Returns a document as it was at a revision.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn version(
        &self,
        source: &SourceId,
        document: &DocumentId,
        revision: u64,
    ) -> Result<Option<Document>, RowError> {
        let Some(number) = self.source(source) else { return Ok(None) };
        self.view(|view| {
            let found = view.get(Table::Versions, &key!(number, document.as_str(), 0_u8, revision))?;
            found.map(|bytes| from_json(&bytes, Table::Versions, document)).transpose()
        })
    }

    /// Returns content by its hash.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn blob(&self, sha256: &Sha256Hash) -> Result<Option<Content<Vec<u8>>>, RowError> {
        self.view(|view| Ok(view.get(Table::Blobs, sha256.as_bytes())?.map(Content::new)))
    }

    /// Returns whether content with this hash is stored.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn has_blob(&self, sha256: &Sha256Hash) -> Result<bool, RowError> {
        self.view(|view| {
            let found = view.table(Table::Blobs)?;
            let found =
                redb::ReadableTable::get(&found, &sha256.as_bytes()[..]).map_err(RowError::storage)?;
            Ok(found.is_some())
        })
    }
}
