//! Documents: current state, versions, and the way from a path to a document.

use thoughtstream_domain::commit::{Document, FileStat};
use thoughtstream_domain::id::{DocumentId, SourceId};

use super::GroupState;
use super::row::{from_json, to_json};
use crate::names::NameKind;
use crate::rows::{RowError, Rows};
use crate::tables::{Table, key};

impl GroupState<'_> {
    pub(super) fn document(
        &mut self,
        rows: &mut Rows<'_>,
        source: &SourceId,
        document: &DocumentId,
    ) -> Result<Option<Document>, RowError> {
        let Some(source) = self.cache.number(rows, NameKind::Source, source.as_str())? else {
            return Ok(None);
        };
        let found = rows.get(Table::Documents, &key!(source, document.as_str()))?;
        found.map(|bytes| from_json(&bytes, Table::Documents, document)).transpose()
    }

    /// Says why a document row contradicts what stands: revisions rise by one, and a revision's content
    /// never changes.
    pub(super) fn check_document(
        &mut self,
        rows: &mut Rows<'_>,
        document: &Document,
    ) -> Result<Option<String>, RowError> {
        let stands = self.document(rows, &document.source, &document.id)?;
        let revision = stands.as_ref().map_or(0, |stands| stands.revision);
        let next = document.revision == revision + 1;
        let same = stands
            .is_some_and(|stands| stands.revision == document.revision && stands.sha256 == document.sha256);
        Ok((!next && !same).then(|| format!("the document stands at revision {revision}")))
    }

    pub(super) fn write_document(
        &mut self,
        rows: &mut Rows<'_>,
        document: &Document,
    ) -> Result<(), RowError> {
        let source = self.cache.names.number(rows, NameKind::Source, document.source.as_str())?;
        let before = self.document(rows, &document.source, &document.id)?;
        if let Some(before) =
            before.filter(|before| !before.removed && (document.removed || before.path != document.path))
        {
            self.leave_path(rows, source, &before)?;
        }
        rows.put(Table::Documents, &key!(source, document.id.as_str()), &to_json(document));
        if document.removed {
            return Ok(());
        }
        rows.put(Table::Paths, &key!(source, document.path.as_str()), document.id.as_str().as_bytes());
        // A zero byte cannot stand in an id, so the versions of one document lie together.
        let version = key!(source, document.id.as_str(), 0_u8, document.revision);
        rows.put(Table::Versions, &version, &to_json(document));
        Ok(())
    }

    /// Frees a path, unless another document has taken it in the meantime (two files that swapped names).
    fn leave_path(&mut self, rows: &mut Rows<'_>, source: u32, before: &Document) -> Result<(), RowError> {
        let path = key!(source, before.path.as_str());
        let holder = rows.get(Table::Paths, &path)?;
        if holder.is_some_and(|holder| holder == before.id.as_str().as_bytes()) {
            rows.remove(Table::Paths, &path);
        }
        Ok(())
    }

    pub(super) fn write_stat(
        &mut self,
        rows: &mut Rows<'_>,
        source: &SourceId,
        document: &DocumentId,
        stat: FileStat,
    ) -> Result<(), RowError> {
        let Some(mut found) = self.document(rows, source, document)? else { return Ok(()) };
        found.stat = Some(stat);
        let source = self.cache.names.number(rows, NameKind::Source, source.as_str())?;
        rows.put(Table::Documents, &key!(source, document.as_str()), &to_json(&found));
        Ok(())
    }
}
