//! Asking for updates: in order, and beyond one only when it is durable.

use std::collections::BTreeSet;
use std::time::Duration;

use thoughtstream_channels::telegram::access::Reached;
use thoughtstream_channels::telegram::trouble::Trouble;
use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::event::{Actor as EventActor, ActorKind, Envelope};
use thoughtstream_domain::id::{IdempotencyKey, SourceId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::system;

use super::take::{Patience, Taken, Taker};
use super::{FROZEN, ROUND_FAILED, TelegramBotArgs};
use crate::clock::JitterSource;
use crate::incidents::open_about;
use crate::killpoint::KillSite;
use crate::log::STORE_UNREADABLE;
use crate::supervisor::{Detail, Fault, ReasonCode};

const LISTENING: ReasonCode = ReasonCode::new("listening");
const STORING: ReasonCode = ReasonCode::new("storing");

/// How many updates are asked for at a time: as many as the API gives.
const UPDATES_MAX: u8 = 100;

/// How long to wait when updates come that name no id: they cannot be confirmed and come again at once.
const UNNAMED_WAIT: Duration = Duration::from_secs(5);

/// From how many failures on a trouble is an incident: one lost connection is none.
const INCIDENT_AFTER: u32 = 3;

/// Asks until something goes wrong that only a new start can mend.
pub(super) async fn keep_polling(args: TelegramBotArgs, site: KillSite, wait: Duration) -> Fault {
    rest(&args).await;
    let reached = match Reached::open(args.spec.api.clone()) {
        Ok(reached) => reached,
        Err(code) => return Fault(ReasonCode::new(code)),
    };
    let seed = args.incarnation ^ u64::try_from(args.clock.now().as_millis()).unwrap_or_default();
    let taker = Taker::new(args.clone(), site, reached.clone());
    let jitter = JitterSource::seeded(seed);
    let left = match left_open(&args).await {
        Ok(left) => left,
        Err(fault) => return fault,
    };
    let mut polling = Polling {
        args,
        reached,
        taker,
        wait,
        jitter,
        offset: None,
        failures: 0,
        trouble: None,
        left,
        looks: 0,
    };
    loop {
        rest(&polling.args).await;
        if let Err(fault) = polling.once().await {
            return fault;
        }
    }
}

/// Returns the codes of the troubles that the log has open from before.
pub(super) async fn left_open(args: &TelegramBotArgs) -> Result<BTreeSet<String>, Fault> {
    let (reader, source) = (args.reader.clone(), args.spec.source.clone());
    let read = tokio::task::spawn_blocking(move || open_about(&reader, source.as_str())).await;
    let mut left = read.map_err(|_| Fault(ROUND_FAILED))?.map_err(|_| Fault(STORE_UNREADABLE))?;
    left.retain(|code| Trouble::advice(code).is_some());
    Ok(left)
}

/// Rests behind a closed gate, and says so.
pub(super) async fn rest(args: &TelegramBotArgs) {
    if args.gate.is_closed() {
        args.status.note(Some(FROZEN));
        args.gate.rest().await;
    }
}

struct Polling {
    args: TelegramBotArgs,
    reached: Reached,
    taker: Taker,
    wait: Duration,
    jitter: JitterSource,
    /// The first update that is not confirmed; none is before the first look, which brings all that wait.
    offset: Option<i64>,
    failures: u32,
    /// What is wrong, and whether it was recorded as an incident.
    trouble: Option<(Trouble, bool)>,
    /// Troubles that were recorded before this actor began, and are not over in the log.
    left: BTreeSet<String>,
    looks: u64,
}

impl Polling {
    async fn once(&mut self) -> Result<(), Fault> {
        self.looks += 1;
        // A question may stay open for most of a minute; what was said before it would be read as how it goes.
        let asks = self.trouble.map_or(LISTENING, |(trouble, _)| ReasonCode::new(trouble.code()));
        self.args.status.note(Some(asks));
        let limit = match self.trouble {
            // One at a time: a hundred may be more than is read.
            Some((Trouble::TooLarge, _)) => 1,
            Some(_) | None => UPDATES_MAX,
        };
        let client = self.reached.client().await;
        let looked = tokio::select! {
            // A look that is let go confirms nothing: what it would have brought comes with the next.
            () = self.args.gate.until_closed() => return Ok(()),
            looked = client.updates(self.offset, limit, self.wait) => looked,
        };
        let updates = match looked {
            Ok(updates) => updates,
            Err(error) => return self.suffer(Trouble::of(&error)).await,
        };
        self.recover().await?;
        let before = self.offset;
        if !updates.0.is_empty() {
            self.args.status.note(Some(STORING));
        }
        for update in &updates.0 {
            let taken = self.taker.take(update.get().as_bytes(), Patience::Waits).await?;
            if let Taken::Durable(Some(id)) = taken {
                // The page is confirmed as a whole, by the next look: out of order is as good as in order.
                self.offset = self.offset.max(id.get().checked_add(1));
            }
        }
        self.args.status.note(Some(LISTENING));
        if !updates.0.is_empty() && self.offset == before {
            self.wait_for(UNNAMED_WAIT).await;
        }
        Ok(())
    }

    /// Says what is wrong, once, and waits.
    async fn suffer(&mut self, trouble: Trouble) -> Result<(), Fault> {
        let same = self.trouble.filter(|(before, _)| before.code() == trouble.code());
        if same.is_none() {
            self.end_incident().await?;
            self.failures = 0;
            tracing::warn!(source = %self.args.spec.source, code = trouble.code(), "telegram.trouble");
        }
        self.failures += 1;
        // One that goes on since before is in the log; any other that was there has made way for it.
        let mut recorded = same.is_some_and(|(_, recorded)| recorded) || self.left.remove(trouble.code());
        self.end_left().await?;
        if !recorded && self.failures >= INCIDENT_AFTER {
            self.incident(trouble.code(), false).await?;
            recorded = true;
        }
        self.trouble = Some((trouble, recorded));
        let wait = trouble.wait(self.failures, self.jitter.next().0);
        let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let until = self.args.clock.now().plus_millis(millis);
        self.args.status.tell(Some(ReasonCode::new(trouble.code())), |details| {
            details.insert("failures", Detail::Count(u64::from(self.failures)));
            details.insert("until", Detail::At(until));
        });
        self.wait_for(wait).await;
        Ok(())
    }

    /// Waits; a gate that closes ends it, and so does a person who wants it to look now.
    async fn wait_for(&self, wait: Duration) {
        tokio::select! {
            () = self.args.gate.until_closed() => {}
            () = self.args.gate.until_asked() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Notes that a look succeeded.
    async fn recover(&mut self) -> Result<(), Fault> {
        if self.trouble.is_some() {
            tracing::info!(source = %self.args.spec.source, failures = self.failures, "telegram.recovered");
            self.end_incident().await?;
        }
        self.end_left().await?;
        self.failures = 0;
        self.args.status.tell(Some(LISTENING), |details| {
            details.remove("failures");
            details.remove("until");
        });
        Ok(())
    }

    async fn end_incident(&mut self) -> Result<(), Fault> {
        match self.trouble.take() {
            Some((trouble, true)) => self.incident(trouble.code(), true).await,
            Some((_, false)) | None => Ok(()),
        }
    }

    async fn end_left(&mut self) -> Result<(), Fault> {
        for code in std::mem::take(&mut self.left) {
            self.incident(&code, true).await?;
        }
        Ok(())
    }

    async fn incident(&self, code: &str, over: bool) -> Result<(), Fault> {
        let detail = (self.failures > 0).then(|| format!("{} looks for updates failed", self.failures));
        record(&self.args, code, detail, over, self.looks).await
    }
}

/// Records an incident of a bot, once at its beginning and once at its end; `look` tells it from others of one start.
pub(super) async fn record(
    args: &TelegramBotArgs,
    code: &str,
    detail: Option<String>,
    over: bool,
    look: u64,
) -> Result<(), Fault> {
    let source = &args.spec.source;
    let now = args.clock.now().as_millis();
    let key = format!("{}/{source}/{code}/{look}/{now}", args.incarnation);
    let Ok(key) = IdempotencyKey::parse(&key) else { return Ok(()) };
    let actor = EventActor::ours(ActorKind::Producer, source.as_str());
    let envelope = Envelope::new(SourceId::supervision(), key, args.spec.privacy, actor);
    let payload = system::Incident { subject: source.to_string(), code: code.to_owned(), detail, over };
    let commit = Commit { appends: vec![payload.candidate(envelope)], ..Commit::default() };
    args.log.commit(commit).await.map(drop).map_err(Fault::from)
}
