//! Deliveries for people.

use thoughtstream_domain::time::Timestamp;

use super::{Rows, age, or_dash};
use crate::query::deliveries::Delivery;

/// Renders a list.
#[must_use]
pub fn list(deliveries: &[Delivery], now: Timestamp) -> String {
    if deliveries.is_empty() {
        return "nothing was delivered\n".to_owned();
    }
    let mut rows = Rows::new(&["DELIVERY", "STATE", "AGE", "ROUTE", "CHAT", "WHY"]);
    for one in deliveries {
        rows.row(&[
            one.id.to_string(),
            one.state.as_str().to_owned(),
            age(one.since, now),
            one.route.as_str().to_owned(),
            one.chat.to_string(),
            or_dash(one.why.as_deref()),
        ]);
    }
    rows.text()
}

/// Renders one with everything that is known of it.
#[must_use]
pub fn one(delivery: &Delivery, now: Timestamp) -> String {
    let mut lines = vec![
        format!("{} {} for {}", delivery.id, delivery.state.as_str(), age(delivery.since, now)),
        format!("route   {} of {} into chat {}", delivery.route.as_str(), delivery.bot, delivery.chat),
        format!("claim   {}", delivery.claim),
    ];
    lines.extend(delivery.why.as_ref().map(|why| format!("why     {}", super::line(why))));
    lines.extend(delivery.retry_at.map(|at| format!("again   {}", age(at, now))));
    lines.extend(delivery.message.map(|message| format!("message {message}")));
    lines.push(format!("run     {}", delivery.run));
    lines.push(format!("output  {}", delivery.output));
    lines.extend(delivery.events.iter().map(|event| format!("event   {event}")));
    lines.join("\n") + "\n"
}
