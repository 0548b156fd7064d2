//! Reading what is to be delivered: where to begin, what is open, which runs have completed since.

use std::collections::BTreeMap;
use std::sync::Arc;

use thoughtstream_domain::commit::{Commit, Row};
use thoughtstream_domain::dispatch::{self, Candidate, Deliveries, Evidence, Routes};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::SourceId;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::delivery::DeliveryClaimed;
use thoughtstream_domain::payload::run::RunCompleted;
use thoughtstream_domain::payload::telegram::ChatId;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Reader, RowError};

use super::{DispatcherArgs, DispatcherSpec, ROUND_FAILED};
use crate::log::STORE_UNREADABLE;
use crate::supervisor::Fault;

/// How many completed runs are read at a time.
const RUNS_MAX: usize = 128;

/// How many deliveries are read at a time.
const DELIVERIES_MAX: usize = 256;

/// The most messages that are counted again after a start; nobody may send more within one span of time.
const SENT_MAX: u64 = 1_000;

/// Says behind which place of each source this dispatcher's work begins.
#[derive(Debug, Default)]
pub(super) struct Opened(BTreeMap<SourceId, u64>);

pub(super) fn unreadable(_: RowError) -> Fault {
    Fault(STORE_UNREADABLE)
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RowError> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Fault(ROUND_FAILED))?.map_err(unreadable)
}

/// Finds out where each route begins, and records it the first time: outputs from before a route was opened are
/// nobody's to deliver.
pub(super) async fn open(args: &DispatcherArgs) -> Result<Opened, Fault> {
    let (reader, spec) = (args.reader.clone(), Arc::clone(&args.spec));
    let (opened, new) = blocking(move || look(&reader, &spec)).await?;
    if !new.is_empty() {
        // What cannot be written now is written at the next start, and nothing is put out meanwhile: a consumer
        // needs the same log.
        drop(args.log.offer_until_known(Commit { rows: new, ..Commit::default() }).await);
    }
    Ok(opened)
}

fn look(reader: &Reader, spec: &DispatcherSpec) -> Result<(Opened, Vec<Row>), RowError> {
    let name = spec.progress_name();
    let mut opened = Opened::default();
    let mut new = Vec::new();
    for agent in spec.routes.agents() {
        let source = SourceId::agent(&agent);
        let sequence = match reader.progress_row(&name, &source)? {
            Some(progress) => progress,
            None => {
                let sequence = reader.head(&source)?.map_or(0, |head| head.sequence);
                let (consumer, source) = (name.clone(), source.clone());
                new.push(Row::SetProgress { consumer, source, sequence });
                sequence
            }
        };
        opened.0.insert(source, sequence);
    }
    Ok((opened, new))
}

/// Reads further in the sources of the log, from where the last look ended.
#[derive(Debug)]
pub(super) struct Finder {
    reader: Reader,
    spec: Arc<DispatcherSpec>,
    read: BTreeMap<SourceId, u64>,
}

/// Is a candidate with the place in its agent's source where its run completed.
pub(super) type Found = (Candidate, SourceId, u64);

impl Finder {
    pub(super) fn new(args: &DispatcherArgs, opened: Opened) -> Self {
        Self { reader: args.reader.clone(), spec: Arc::clone(&args.spec), read: opened.0 }
    }

    /// Returns up to which place each source was read.
    pub(super) fn read(&self) -> &BTreeMap<SourceId, u64> {
        &self.read
    }

    /// Reads the next completed runs of every agent, in order of their ends, and says whether there may be more.
    pub(super) async fn candidates(&mut self) -> Result<(Vec<Found>, bool), Fault> {
        let (reader, spec, from) = (self.reader.clone(), Arc::clone(&self.spec), self.read.clone());
        let looked = blocking(move || {
            let mut found = Vec::new();
            let mut read = from;
            let mut more = false;
            for (source, after) in &mut read {
                let completed = reader.backlog(&[RunCompleted::kind().name], source, *after, RUNS_MAX)?;
                more |= !completed.is_empty();
                for event in &completed {
                    *after = event.sequence;
                    let new = unclaimed(&reader, &spec.routes, event)?;
                    found.extend(new.into_iter().map(|found| (found, source.clone(), event.sequence)));
                }
            }
            found.sort_by_key(|(candidate, _, _): &Found| candidate.position);
            Ok((found, read, more))
        });
        let (found, read, more) = looked.await?;
        self.read = read;
        Ok((found, more))
    }
}

/// Returns what one completed run gives to deliver and nobody has claimed.
fn unclaimed(reader: &Reader, routes: &Routes, completed: &Event) -> Result<Vec<Candidate>, RowError> {
    let Ok(run) = completed.payload_as::<RunCompleted>() else { return Ok(Vec::new()) };
    let Some(trigger) = completed.parents.first() else { return Ok(Vec::new()) };
    let Some(trigger) = reader.event(trigger)? else { return Ok(Vec::new()) };
    let mut candidates = Vec::new();
    for output in &run.outputs {
        let Some(output) = reader.event(output)? else { continue };
        let evidence = Evidence { completed, output: &output, trigger: &trigger };
        // Most outputs are not for delivery, and that is no news.
        let Ok(candidate) = dispatch::candidate(routes, evidence) else { continue };
        let (source, key) = (candidate.binding.source(), candidate.binding.key());
        if reader.event_under(&source, &DeliveryClaimed::kind().name, &key)?.is_none() {
            candidates.push(candidate);
        }
    }
    Ok(candidates)
}

/// Reads the events of deliveries that were not taken yet.
pub(super) async fn follow(args: &DispatcherArgs, mut deliveries: Deliveries) -> Result<Deliveries, Fault> {
    let (reader, source) = (args.reader.clone(), args.spec.routes.deliveries());
    blocking(move || {
        loop {
            let page = reader.source_page(&source, deliveries.through(), DELIVERIES_MAX)?;
            if page.is_empty() {
                return Ok(deliveries);
            }
            page.iter().for_each(|event| deliveries.apply(event));
        }
    })
    .await
}

/// Reads everything that is open, and when the last messages went.
pub(super) async fn resume(args: &DispatcherArgs) -> Result<(Deliveries, Vec<(ChatId, Timestamp)>), Fault> {
    let (reader, spec, now) = (args.reader.clone(), Arc::clone(&args.spec), args.clock.now());
    let (behind, sent) = blocking(move || {
        let source = spec.routes.deliveries();
        let behind = reader.progress(&spec.progress_name(), &source)?;
        let last = reader.head(&source)?.map_or(0, |head| head.sequence);
        let span = i64::try_from(spec.velocity.per_ms).unwrap_or(i64::MAX);
        let mut sent = Vec::new();
        for sequence in (last.saturating_sub(SENT_MAX) + 1..=last).rev() {
            let Some(event) = reader.event_in(&source, sequence)? else { break };
            if now.millis_since(event.recorded_at) >= span {
                break;
            }
            if let Ok(claimed) = event.payload_as::<DeliveryClaimed>() {
                sent.push((claimed.binding.chat, event.recorded_at));
            }
        }
        sent.reverse();
        Ok((behind, sent))
    })
    .await?;
    let deliveries = follow(args, Deliveries::behind(behind)).await?;
    Ok((deliveries, sent))
}

/// Makes the rows that say how far everything is settled.
pub(super) fn progress(
    spec: &DispatcherSpec,
    settled: impl IntoIterator<Item = (SourceId, u64)>,
) -> Vec<Row> {
    let consumer = spec.progress_name();
    let rows = settled.into_iter().filter(|(_, sequence)| *sequence > 0);
    rows.map(|(source, sequence)| Row::Pass { consumer: consumer.clone(), source, sequence }).collect()
}
