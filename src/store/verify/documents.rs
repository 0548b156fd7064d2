//! Documents, versions, paths, content, and the small rows kept as JSON.

use redb::{ReadableTable, ReadableTableMetadata};
use thoughtstream_domain::commit::{Control, Document, Registered};
use thoughtstream_domain::hash::Sha256Hash;

use super::{FindingKind, Findings};
use crate::names::NameKind;
use crate::place;
use crate::reader::View;
use crate::rows::RowError;
use crate::tables::{Table, key};

/// Checks all of them.
pub(super) fn check(view: &View<'_>, findings: &mut Findings) -> Result<(), RowError> {
    check_documents(view, findings)?;
    check_versions(view, findings)?;
    check_blobs(view, findings)?;
    check_json::<Control>(view, Table::Controls, findings)?;
    check_json::<Registered>(view, Table::Declarations, findings)
}

fn json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

fn check_documents(view: &View<'_>, findings: &mut Findings) -> Result<(), RowError> {
    let (documents, versions, paths) =
        (view.table(Table::Documents)?, view.table(Table::Versions)?, view.table(Table::Paths)?);
    let names = &view.shared().names;
    let (mut live, mut unread) = (0, false);
    for row in documents.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let row = (Table::Documents, key.value(), value.value());
        let Some(document) = findings.read(view, row, json::<Document>) else {
            unread = true;
            continue;
        };
        let place = place::of(Table::Documents, key.value(), names);
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
    // Whether one that cannot be read has a path, nobody knows.
    if found != live && !unread {
        findings.add(FindingKind::Index, Table::Paths.name(), format_args!("has {found} rows, not {live}"));
    }
    Ok(())
}

fn check_versions(view: &View<'_>, findings: &mut Findings) -> Result<(), RowError> {
    let (versions, blobs) = (view.table(Table::Versions)?, view.table(Table::Blobs)?);
    for row in versions.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        let row = (Table::Versions, key.value(), value.value());
        let Some(document) = findings.read(view, row, json::<Document>) else { continue };
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

fn check_json<T: serde::de::DeserializeOwned>(
    view: &View<'_>,
    table: Table,
    findings: &mut Findings,
) -> Result<(), RowError> {
    for row in view.table(table)?.iter().map_err(RowError::storage)? {
        let (key, value) = row.map_err(RowError::storage)?;
        findings.read(view, (table, key.value(), value.value()), json::<T>);
    }
    Ok(())
}
