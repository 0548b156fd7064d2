//! Documents, versions, paths, content, and the small rows kept as JSON.

use redb::{ReadableTable, ReadableTableMetadata};
use thoughtstream_domain::commit::{Control, Document, Registered};
use thoughtstream_domain::hash::Sha256Hash;

use super::{FindingKind, Findings};
use crate::names::NameKind;
use crate::reader::View;
use crate::rows::RowError;
use crate::tables::{Table, key};

/// Checks all of them.
pub(super) fn check(view: &View<'_>, findings: &mut Findings) -> Result<(), RowError> {
    check_documents(view, findings)?;
    check_versions(view, findings)?;
    check_blobs(view, findings)?;
    let controls = |bytes: &[u8]| serde_json::from_slice::<Control>(bytes).is_ok();
    check_json(view, Table::Controls, controls, findings)?;
    let declarations = |bytes: &[u8]| serde_json::from_slice::<Registered>(bytes).is_ok();
    check_json(view, Table::Declarations, declarations, findings)
}

fn check_documents(view: &View<'_>, findings: &mut Findings) -> Result<(), RowError> {
    let (documents, versions, paths) =
        (view.table(Table::Documents)?, view.table(Table::Versions)?, view.table(Table::Paths)?);
    let names = &view.shared().names;
    let mut live = 0;
    for row in documents.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let text = String::from_utf8_lossy(key.value().get(4..).unwrap_or_default()).into_owned();
        let place = format!("{} {text}", Table::Documents.name());
        let Ok(document) = serde_json::from_slice::<Document>(value.value()) else {
            findings.add(FindingKind::Malformed, &place, "the row cannot be read");
            continue;
        };
        let number = names.number(NameKind::Source, document.source.as_str()).unwrap_or(0);
        if key!(number, document.id.as_str())[..] != *key.value() {
            findings.add(FindingKind::Document, &place, "the key is not that of this document");
        }
        let path = paths.get(&key!(number, document.path.as_str())[..]).map_err(RowError::storage)?;
        let leads_here = path.is_some_and(|path| path.value() == document.id.as_str().as_bytes());
        if leads_here == document.removed {
            findings.add(FindingKind::Index, &place, "its path leads elsewhere");
        }
        if document.removed {
            continue;
        }
        live += 1;
        let version = key!(number, document.id.as_str(), 0_u8, document.revision);
        if versions.get(&version[..]).map_err(RowError::storage)?.is_none() {
            findings.add(FindingKind::Document, &place, "its current version is missing");
        }
    }
    let found = paths.len().map_err(RowError::storage)?;
    if found != live {
        findings.add(FindingKind::Index, Table::Paths.name(), format_args!("has {found} rows, not {live}"));
    }
    Ok(())
}

fn check_versions(view: &View<'_>, findings: &mut Findings) -> Result<(), RowError> {
    let (versions, blobs) = (view.table(Table::Versions)?, view.table(Table::Blobs)?);
    for row in versions.iter().map_err(RowError::storage)? {
        let (_, value) = row.map_err(RowError::storage)?;
        let Ok(document) = serde_json::from_slice::<Document>(value.value()) else {
            findings.add(FindingKind::Malformed, Table::Versions.name(), "a row cannot be read");
            continue;
        };
        if blobs.get(&document.sha256.as_bytes()[..]).map_err(RowError::storage)?.is_none() {
            let place = format_args!("{} {} {}", Table::Versions.name(), document.id, document.revision);
            findings.add(
                FindingKind::Blob,
                place,
                format_args!("its content {} is missing", document.sha256),
            );
        }
    }
    Ok(())
}

fn check_blobs(view: &View<'_>, findings: &mut Findings) -> Result<(), RowError> {
    for row in view.table(Table::Blobs)?.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let found = Sha256Hash::of(value.value());
        if found.as_bytes() != key.value() {
            let place = format_args!("{} {:02x?}", Table::Blobs.name(), key.value());
            findings.add(FindingKind::Blob, place, format_args!("the content has the hash {found}"));
        }
    }
    Ok(())
}

fn check_json(
    view: &View<'_>,
    table: Table,
    good: impl Fn(&[u8]) -> bool,
    findings: &mut Findings,
) -> Result<(), RowError> {
    for row in view.table(table)?.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        if !good(value.value()) {
            let place = format!("{} {}", table.name(), String::from_utf8_lossy(key.value()));
            findings.add(FindingKind::Malformed, place, "the row cannot be read");
        }
    }
    Ok(())
}
