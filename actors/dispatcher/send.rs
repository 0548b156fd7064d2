//! One delivery: claim, send, receipt.

use std::sync::Arc;

use thoughtstream_channels::telegram::access::Reached;
use thoughtstream_channels::telegram::client::CallError;
use thoughtstream_domain::commit::{Commit, Row, Verdict};
use thoughtstream_domain::dispatch::{self, Item, Sent};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::payload::delivery::DeliveryBinding;

use super::find::blocking;
use super::{Begun, DispatcherArgs};
use crate::killpoint::{KillPoint, KillSite};
use crate::supervisor::{Fault, ReasonCode};

/// The log refuses what a claim or its end is made of: going on would send without a record.
const REFUSED: ReasonCode = ReasonCode::new("delivery-refused");

/// Nobody knows what was sent from the log that this one is a copy of.
pub(super) const COPIED: &str = "restored";

/// Is everything that one delivery needs.
#[derive(Clone)]
pub(super) struct Sending {
    pub(super) args: DispatcherArgs,
    pub(super) site: KillSite,
    pub(super) reached: Reached,
    pub(super) holder: u32,
}

/// Delivers an item once, as far as it gets. What became of it stands in the log.
pub(super) async fn deliver(sending: Sending, item: Item, progress: Vec<Row>) -> (Item, Result<(), Fault>) {
    let done = sending.once(&item.binding, progress).await;
    (item, done)
}

impl Sending {
    async fn once(&self, binding: &DeliveryBinding, progress: Vec<Row>) -> Result<(), Fault> {
        let (reader, id) = (self.args.reader.clone(), binding.output);
        // An output that a completed run names and the log has lost is damage, which `verify` tells.
        let Some(output) = blocking(move || reader.event(&id)).await? else { return Ok(()) };
        let text = dispatch::text(&output);
        let said = text.as_deref().unwrap_or_default();
        let Some(claimed) = self.claim(binding, &output, said, progress).await? else { return Ok(()) };
        let sent = match &text {
            Ok(text) => match self.send(binding, text).await? {
                Some(sent) => sent,
                None => return Ok(()),
            },
            Err(unsendable) => Sent::Refused { code: unsendable.code() },
        };
        self.finish(binding, &claimed, sent).await
    }

    /// Claims; `None` if somebody else did, or a person's word has changed what is to be done.
    async fn claim(
        &self,
        binding: &DeliveryBinding,
        output: &Event,
        text: &str,
        progress: Vec<Row>,
    ) -> Result<Option<Event>, Fault> {
        self.site.pass(KillPoint::DeliveryClaimBefore).await?;
        let holder = (self.args.incarnation, self.holder);
        let commit = Commit { rows: progress, ..dispatch::claim(binding, output, text, holder) };
        let candidate = commit.appends[0].clone();
        let submitted = self.args.log.submit(Arc::new(commit));
        self.site.pass(KillPoint::DeliveryClaimInside).await?;
        let verdict = submitted.settled().await.map_err(Fault::from)?;
        self.site.pass(KillPoint::DeliveryClaimAfter).await?;
        match verdict {
            // The same claim again is this one, whose answer was lost: it names its holder.
            Verdict::Committed(placed) | Verdict::AlreadyCommitted(placed) => {
                let placed = placed.first().ok_or(Fault(REFUSED))?;
                Ok(Some(Event::recorded(&candidate, placed)))
            }
            Verdict::Conflict(_) | Verdict::Refused(_) => Ok(None),
        }
    }

    /// Sends; `None` if another dispatcher has taken over before the first byte.
    async fn send(&self, binding: &DeliveryBinding, text: &str) -> Result<Option<Sent>, Fault> {
        self.site.pass(KillPoint::DeliverySendBefore).await?;
        let client = self.reached.client().await;
        let begun: &Begun = &self.args.begun;
        if !begun.begin(self.holder, binding.delivery, binding.claim) {
            return Ok(None);
        }
        self.site.pass(KillPoint::DeliverySendInside).await?;
        let sent = client.send(binding.chat, text).await;
        self.site.pass(KillPoint::DeliverySendAfter).await?;
        Ok(Some(match sent {
            Ok(receipt) => Sent::Delivered { message: receipt.message, at: receipt.at },
            Err(error) => learnt(&error),
        }))
    }

    /// Writes down what is known; if somebody else has ended the claim meanwhile, theirs stands.
    async fn finish(&self, binding: &DeliveryBinding, claimed: &Event, sent: Sent) -> Result<(), Fault> {
        self.site.pass(KillPoint::DeliveryReceiptBefore).await?;
        let commit = dispatch::end(binding, claimed, sent, self.args.clock.now());
        let submitted = self.args.log.submit(Arc::new(commit));
        self.site.pass(KillPoint::DeliveryReceiptInside).await?;
        submitted.settled().await.map_err(Fault::from)?;
        self.site.pass(KillPoint::DeliveryReceiptAfter).await?;
        self.args.begun.forget(binding.delivery, binding.claim);
        Ok(())
    }

    /// Leaves a delivery to a person without sending it: it may have been sent from the log that this one is a
    /// copy of.
    pub(super) async fn hold(&self, binding: &DeliveryBinding) -> Result<(), Fault> {
        let (reader, id) = (self.args.reader.clone(), binding.output);
        let Some(output) = blocking(move || reader.event(&id)).await? else { return Ok(()) };
        let text = dispatch::text(&output).unwrap_or_default();
        let holder = (self.args.incarnation, self.holder);
        let commit = dispatch::hold(binding, &output, &text, holder, COPIED);
        // A refusal says that somebody else has claimed it, or has decided about it.
        self.args.log.commit(commit).await.map_err(Fault::from)?;
        Ok(())
    }
}

/// Says what a failed call means for the message.
fn learnt(error: &CallError) -> Sent {
    match *error {
        CallError::NotSent { code } => Sent::NotSent { code, retry_after: None },
        CallError::Refused { status: 429, retry_after } => {
            Sent::NotSent { code: "rate-limited", retry_after }
        }
        CallError::Refused { status, .. } => Sent::Refused {
            code: match status {
                400 => "refused-400",
                401 | 404 => "unauthorised",
                403 => "forbidden",
                _ => "refused",
            },
        },
        CallError::Unknown { code } => Sent::Unknown { code },
    }
}
