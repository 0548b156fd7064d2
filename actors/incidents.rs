//! Incidents that the log has open about something: whoever begins anew takes up what an earlier start has left.

use std::collections::BTreeSet;

use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system::Incident;
use thoughtstream_store::{Reader, RowError};

/// Returns the codes of the incidents about `subject` that began and are not over. Blocks on the disk.
///
/// # Errors
/// [`RowError`] if the log cannot be read.
pub(crate) fn open_about(reader: &Reader, subject: &str) -> Result<BTreeSet<String>, RowError> {
    let (types, source) = ([Incident::kind().name], SourceId::supervision());
    let mut open = BTreeSet::new();
    for event in reader.walk(&types, &source) {
        let Ok(incident) = event?.payload_as::<Incident>() else { continue };
        if incident.subject != subject {
            continue;
        }
        if incident.over {
            open.remove(&incident.code);
        } else {
            open.insert(incident.code);
        }
    }
    Ok(open)
}
