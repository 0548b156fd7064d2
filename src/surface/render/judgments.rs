//! Judgments as a table.

use thoughtstream_domain::time::Timestamp;

use super::{Rows, age, or_dash};
use crate::query::judgments::JudgmentRow;

/// Renders a list of judgments.
#[must_use]
pub fn list(judgments: &[JudgmentRow], now: Timestamp) -> String {
    if judgments.is_empty() {
        return "no judgments\n".to_owned();
    }
    let heads = ["JUDGMENT", "OPINION", "STATE", "RUN", "CRITERION", "QUALITY", "EXPORT", "PRIVACY", "AGE"];
    let mut rows = Rows::new(&heads);
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    for row in judgments {
        let named = row.criterion.as_ref().zip(row.criterion_version.as_ref());
        let criterion = named.map(|(name, version)| format!("{name}@{version}"));
        rows.row(&[
            row.id.to_string(),
            row.opinion.clone(),
            row.state.clone(),
            row.run.to_string(),
            or_dash(criterion.as_deref().or(row.criterion_version.as_deref())),
            yes(row.quality_eligible),
            yes(row.external_export_eligible),
            row.privacy.to_string(),
            age(row.recorded_at, now),
        ]);
    }
    rows.text()
}
