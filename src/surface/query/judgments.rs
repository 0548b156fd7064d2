//! Judgments of outputs, and what an output is worth after them.

use serde::{Deserialize, Serialize};
use thoughtstream_domain::id::{ConsumerKey, EventId, RunId};
use thoughtstream_domain::judgment::{Given, Judged, Projection, active, project};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::Reader;

use super::{Sink, put};
use crate::ask::{JudgmentFilter, ROWS_MAX};
use crate::failure::Failure;

/// Is one judgment, as lists show it: without a word of what was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgmentRow {
    /// The judgment.
    pub id: EventId,
    /// The version of its form.
    pub version: u32,
    /// The attempt it is about.
    pub run: RunId,
    /// Who made the output; unknown if it cannot be read any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<ConsumerKey>,
    /// The output it is about.
    pub output: EventId,
    /// `accept`, `reject`, `correct` or `prefer`.
    pub opinion: String,
    /// `active`, `superseded` or `retracted`.
    pub state: String,
    /// The criterion, where the version alone does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<String>,
    /// The version of the criterion; the older form has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion_version: Option<String>,
    /// Whether it may inform private evaluation.
    pub quality_eligible: bool,
    /// Whether it may leave the log in a data set.
    pub external_export_eligible: bool,
    /// Its class.
    pub privacy: Privacy,
    /// When it was made.
    pub recorded_at: Timestamp,
    /// The effective output that it decides, if it decides one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<String>,
}

/// Lists judgments, the newest last.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub fn list(reader: &Reader, filter: &JudgmentFilter, sink: &mut dyn Sink) -> Result<(), Failure> {
    let all = reader.judgments()?;
    let wanted = |given: &&Given| filter.run.is_none_or(|run| given.run == run);
    let mut rows = Vec::new();
    for given in all.iter().filter(wanted) {
        let row = row(reader, given)?;
        if filter.all || row.state == ACTIVE {
            rows.push(row);
        }
    }
    let skip = rows.len().saturating_sub(filter.limit.min(ROWS_MAX) as usize);
    rows.iter().skip(skip).try_for_each(|row| put(sink, row))
}

/// The word for a judgment that holds.
const ACTIVE: &str = "active";

fn row(reader: &Reader, given: &Given) -> Result<JudgmentRow, Failure> {
    let output = reader.event(&given.output)?;
    let siblings = match &output {
        Some(output) => reader.judgments_of(output)?,
        None => vec![given.clone()],
    };
    let holds = active(&siblings).iter().any(|active| active.event.id == given.event.id);
    let state = match (given.retracted, holds) {
        (true, _) => "retracted",
        (false, true) => ACTIVE,
        (false, false) => "superseded",
    };
    let judged = output.as_ref().and_then(|output| Judged::of(output).ok());
    let projection: Option<Projection> = judged.as_ref().map(|judged| project(judged, &siblings));
    let decides = projection.filter(|p| p.judgment.is_some_and(|(id, _)| id == given.event.id));
    let newer = given.newer.as_deref();
    Ok(JudgmentRow {
        id: given.event.id,
        version: given.version,
        run: given.run,
        consumer: judged.map(|judged| judged.stamp.consumer),
        output: given.output,
        opinion: given.opinion.as_str().to_owned(),
        state: state.to_owned(),
        criterion: newer.and_then(|newer| newer.criterion.clone()),
        criterion_version: newer.map(|newer| newer.criterion_version.clone()),
        quality_eligible: newer.map_or(given.legacy_export_eligible, |newer| newer.quality_eligible),
        external_export_eligible: newer
            .map_or(given.legacy_export_eligible, |newer| newer.external_export_eligible),
        privacy: given.event.privacy,
        recorded_at: given.event.recorded_at,
        projection: decides.map(|projection| projection.id.to_string()),
    })
}
