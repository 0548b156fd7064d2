//! Whether the reply to the message before one is still on its way out.

use thoughtstream_domain::dispatch::{self, AwaitedReply};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::delivery::DeliveryClaimed;
use thoughtstream_domain::payload::output::MessageObservation;
use thoughtstream_domain::payload::telegram::TelegramMessage;

use super::Reader;
use super::conversation::{Tables, ends};
use crate::correlated;
use crate::names::NameKind;
use crate::rows::RowError;
use crate::tables::Table;

impl Reader {
    /// Returns the reply of `agent` to the message before `message` in its chat, if that is settled and nobody
    /// knows yet whether it arrived; a delivery that only a person can end is known.
    ///
    /// # Errors
    /// [`RowError`] if the log cannot be read.
    pub fn awaited_reply(
        &self,
        message: &Event,
        agent: &ConsumerId,
    ) -> Result<Option<AwaitedReply>, RowError> {
        let number = |name| self.shared.names.number(NameKind::Type, name);
        let Some(correlation) = &message.correlation else { return Ok(None) };
        let Some(source) = self.shared.names.number(NameKind::Source, message.source.as_str()) else {
            return Ok(None);
        };
        let Some(kind) = number(TelegramMessage::NAME) else { return Ok(None) };
        let outputs = [number(MessageObservation::NAME)];
        let claims = [number(DeliveryClaimed::NAME)];
        let ends = ends(self);
        let [first, end] =
            [0, message.position].map(|at| correlated::key(source, kind, correlation.as_str(), at));
        self.view(|view| {
            let rows = view.table(Table::Correlated)?;
            let mut range = rows.range(&first[..]..&end[..]).map_err(RowError::storage)?;
            let Some(row) = range.next_back() else { return Ok(None) };
            let before = correlated::position(row.map_err(RowError::storage)?.0.value());
            let (events, children) = (view.table(Table::Events)?, view.table(Table::Children)?);
            let tables = Tables { view, events: &events, children: &children };
            for output in tables.children(before, &outputs)? {
                let said = output.payload_as::<MessageObservation>();
                if !said.is_ok_and(|said| said.stamp.consumer.id == *agent) {
                    continue;
                }
                let mut standing = None;
                for claim in tables.children(output.position, &claims)? {
                    let end = tables.ends(claim.position, &ends)?.pop();
                    standing = dispatch::read(end.as_ref().unwrap_or(&claim)).map(|(_, standing)| standing);
                }
                if standing.is_none_or(|standing| standing.is_open()) {
                    let asked = view.stored(&events, before)?.map(|stored| stored.event.id);
                    let asked = asked.ok_or_else(|| RowError::damaged(Table::Correlated, before))?;
                    let (message, since) = (asked, output.recorded_at);
                    return Ok(Some(AwaitedReply { message, output: output.id, since }));
                }
            }
            Ok(None)
        })
    }
}
