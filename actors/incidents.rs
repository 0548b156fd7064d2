//! Incidents that the log has open about something: whoever begins anew takes up what an earlier start has left.

use std::collections::BTreeSet;

use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system::Incident;
use thoughtstream_store::{PAGE_ROWS_MAX, Reader, RowError};

/// Returns the codes of the incidents about `subject` that began and are not over. Blocks on the disk.
///
/// # Errors
/// [`RowError`] if the log cannot be read.
pub(crate) fn open_about(reader: &Reader, subject: &str) -> Result<BTreeSet<String>, RowError> {
    let (types, source) = ([Incident::kind().name], SourceId::supervision());
    let (mut open, mut after) = (BTreeSet::new(), 0);
    loop {
        let page = reader.backlog(&types, &source, after, PAGE_ROWS_MAX)?;
        let Some(last) = page.last() else { return Ok(open) };
        after = last.sequence;
        let incidents = page.iter().filter_map(|event| event.payload_as::<Incident>().ok());
        for incident in incidents.filter(|incident| incident.subject == subject) {
            if incident.over {
                open.remove(&incident.code);
            } else {
                open.insert(incident.code);
            }
        }
    }
}
