//! What people do, and what is made to fail meanwhile, drawn from a seed.

mod person;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use thoughtstream_actors::killpoint::KillAction;
use thoughtstream_channels::rehearsal::{
    Answer as Reply, Cut, CutAt, CutHow, Item, Manner, MessageRef, Rule, Says, Scripted, TelegramRule,
    TelegramWhen, When,
};
use thoughtstream_domain::feedback;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::activation::Step;
use thoughtstream_domain::payload::proposal::Disposition;
use thoughtstream_domain::proposal::text::ProposedText;
use thoughtstream_store::sim::Dice;
use thoughtstream_store::{Options, Store};
use thoughtstream_surface::ask::{Ask, EventFilter, Operate, ProposalFilter, RunFilter};
use thoughtstream_surface::exit::Exit;
use thoughtstream_testkit::chaos::deck::{Card, family, pick};
use thoughtstream_testkit::chaos::witness::Witness;

use super::stage::{CONSUMER, Moves, Stage};
use crate::cli_world::{Answer, Running};

/// A run that does not come to rest by then, and in which nobody ends, hangs; a healthy one needs a fraction of it.
const QUIET_WITHIN: Duration = Duration::from_secs(60);

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// So many cards of one family are held at a time: who is ended again and again in one story waits longer and longer
/// before it is started again.
const HELD_OF_A_FAMILY: usize = 2;

/// Stories after which a card that nobody ran into is one that nobody runs into.
const STORIES_MAX: usize = 60;

/// What a failing run is told with: the last deeds before it.
const TRAIL_MAX: usize = 120;

/// What is answered at most.
const LIMIT: u32 = 10_000;

/// Where a card is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not dealt yet.
    Deck,
    /// To be set as a trap as soon as a service runs.
    Hand,
    /// Set.
    Armed,
    /// Somebody ran into it.
    Sprung,
}

pub(super) struct Schedule<'s> {
    stage: &'s Stage,
    dice: Dice,
    running: Option<Running<'s>>,
    /// How much of the service's log was read.
    read: usize,
    cards: Vec<(Card, Place)>,
    /// Every actor of the tree by its path below the root.
    actors: Vec<String>,
    /// Those of them that are still to be killed by name.
    victims: Vec<String>,
    updates: BTreeMap<i64, String>,
    decided: BTreeMap<EventId, Disposition>,
    errands: Vec<person::Errand>,
    by_hand: String,
    /// The messages of the bot that were given a thumb.
    thumbs: BTreeSet<i64>,
    context: String,
    /// When somebody ended last.
    ended: Instant,
    trail: VecDeque<String>,
    since: Instant,
}

impl<'s> Schedule<'s> {
    pub(super) fn new(stage: &'s Stage, seed: u64, context: String, cards: Vec<Card>) -> Self {
        let cards = cards.into_iter().map(|card| (card, Place::Deck)).collect();
        let mut schedule = Self {
            stage,
            dice: Dice::new(seed),
            running: None,
            read: 0,
            cards,
            actors: Vec::new(),
            victims: Vec::new(),
            updates: BTreeMap::new(),
            decided: BTreeMap::new(),
            errands: Vec::new(),
            by_hand: String::new(),
            thumbs: BTreeSet::new(),
            context,
            ended: Instant::now(),
            trail: VecDeque::new(),
            since: Instant::now(),
        };
        schedule.rise();
        // The document and a first reply are there before anybody proposes to change them.
        let source = "filesystem:telegram-agent-context";
        let list = ["event", "list", "--source", source, "--json"];
        stage.told.world.until(&list, |answer| !answer.lines().is_empty());
        schedule.say(Moves::Nothing);
        schedule.settle();
        let tree = stage.look(Ask::Tree { watch: false }).unwrap();
        below(&tree[0], "", &mut schedule.actors);
        schedule
    }

    /// Tells stories until everybody whom a card is meant for has run into it, and everybody of one share of the tree was
    /// killed by name.
    pub(super) fn talk(&mut self, of: usize, shares: usize) {
        self.victims = self.actors.iter().skip(of).step_by(shares).cloned().collect();
        for _ in 0..STORIES_MAX {
            if !self.deal() {
                break;
            }
            self.arm();
            self.tell();
        }
        self.rest();
    }

    /// Tells one story: what is said to the bot, what becomes of it, and what somebody thinks of that.
    pub(super) fn tell(&mut self) {
        let changes = self.awaits("materialize.");
        let corrects = self.awaits("proposal.projection.") || self.awaits("proposal.settle.proposal");
        let moves: &[Moves] = match (changes, corrects) {
            (_, true) => &[Moves::Everything],
            (true, false) => &[Moves::Memory, Moves::Everything],
            (false, false) => &[Moves::Memory, Moves::Correction, Moves::Everything],
        };
        let moves = pick(&mut self.dice, moves);
        self.say(moves);
        if self.dice.chance(15) {
            self.say(Moves::Nothing);
        }
        self.harm();
        self.settle();
        self.decide();
        if self.dice.chance(40) {
            self.give_a_thumb();
        }
        self.harm();
        self.settle();
        match self.dice.below(100) {
            0..=9 => self.activate(),
            10..=24 => self.write_by_hand(),
            _ => {}
        }
    }

    /// Moves whoever answers from version to version until every card was run into.
    pub(super) fn move_on(&mut self) {
        for _ in 0..STORIES_MAX {
            if self.cards.iter().all(|(_, place)| *place == Place::Sprung) {
                break;
            }
            if self.dice.chance(50) {
                let moves = pick(&mut self.dice, &[Moves::Nothing, Moves::Everything]);
                self.say(moves);
            }
            self.harm();
            self.activate();
            if self.dice.chance(30) {
                self.settle();
                self.decide();
            }
            self.settle();
        }
        self.rest();
    }

    /// Takes cards of each family into the hand; says whether any is left.
    fn deal(&mut self) -> bool {
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for (card, place) in &mut self.cards {
            let held = held.entry(family(card.point)).or_default();
            if *place == Place::Deck && *held < HELD_OF_A_FAMILY {
                *place = Place::Hand;
            }
            *held += usize::from(matches!(place, Place::Hand | Place::Armed));
        }
        self.cards.iter().any(|(_, place)| *place != Place::Sprung)
    }

    /// Says whether somebody is still to run into a point whose name begins so.
    fn awaits(&self, name: &str) -> bool {
        let in_hand = |place: &Place| matches!(place, Place::Hand | Place::Armed);
        self.cards.iter().any(|(card, place)| in_hand(place) && card.point.as_str().starts_with(name))
    }

    /// Sets a trap for each card in the hand.
    fn arm(&mut self) {
        for at in 0..self.cards.len() {
            let (card, place) = self.cards[at];
            if place != Place::Hand || card.step.is_some() {
                continue;
            }
            // Commits are many, and each of them may be the one.
            let passage =
                if card.point.as_str().starts_with("commit.") { 1 + self.dice.below(12) } else { 1 };
            if self.set(card, u32::try_from(passage).unwrap()) {
                self.cards[at].1 = Place::Armed;
            }
            if family(card.point) == "recovery" {
                // Somebody has to be recovered.
                let victim = Operate::Arm {
                    point: "attempt.runner.inside".to_owned(),
                    action: "kill-actor".to_owned(),
                    passage: 1,
                    actor: Some(format!("thoughtstream/consumers/{CONSUMER}")),
                };
                self.stage.operate(victim);
            }
        }
    }

    fn set(&mut self, card: Card, passage: u32) -> bool {
        let (point, action) = (card.point.as_str().to_owned(), card.action.as_str().to_owned());
        let set = self.stage.operate(Operate::Arm { point, action, passage, actor: None });
        self.note(format!("trap {} {} at {passage}: {set}", card.point, card.action.as_str()));
        set
    }

    fn note(&mut self, what: String) {
        let what = format!("{:.2} {what}", self.since.elapsed().as_secs_f32());
        self.trail.push_back(what);
        if self.trail.len() > TRAIL_MAX {
            self.trail.pop_front();
        }
    }

    fn told(&self) -> String {
        let trail: Vec<&str> = self.trail.iter().map(String::as_str).collect();
        format!("{}\ndeeds, the last at the end:\n  {}\n", self.context, trail.join("\n  "))
    }

    fn give_up(&self, why: &str) -> ! {
        let inbox = self.stage.look(Ask::Inbox).unwrap_or_default();
        let tree = self.stage.look(Ask::Tree { watch: false }).unwrap_or_default();
        let runs =
            self.stage.look(Ask::Runs(RunFilter { limit: 5, ..RunFilter::default() })).unwrap_or_default();
        panic!("{}{why}\n{inbox:#?}\n{runs:#?}\n{tree:?}\n{}", self.told(), self.stage.told.world.log())
    }

    /// Lets somebody write to the bot.
    fn say(&mut self, moves: Moves) {
        let number = self.updates.len();
        let said = format!("no. {number:04}, {moves:?}: what do you say?");
        self.stage.answers(
            &said,
            &format!("Reply to no. {number:04}."),
            moves,
            &format!("Line {number:04}."),
        );
        self.trouble(&said);
        let update = self.stage.told.rehearsal.say(7, 7, &said).unwrap();
        self.updates.insert(update, said.clone());
        self.note(format!("said {said}"));
    }

    /// Lets somebody react to a message of the bot whose number the log knows: feedback is bound to that.
    fn give_a_thumb(&mut self) {
        let Some(rows) =
            self.stage.look(Ask::Deliveries { states: vec!["delivered".to_owned()], limit: LIMIT })
        else {
            return;
        };
        let known = rows.iter().filter_map(|row| row["message"].as_str()?.parse().ok());
        let Some(number) = known.filter(|number| !self.thumbs.contains(number)).max() else { return };
        let message = MessageRef::Number(number);
        let reaction = Item::Reaction { chat: 7, from: 7, message, emoji: Some("👍".to_owned()) };
        let update = self.stage.told.rehearsal.happen(&Scripted::new(reaction)).unwrap();
        self.updates.insert(update, format!("a thumb on {number}"));
        self.thumbs.insert(number);
        self.note(format!("a thumb on {number}"));
    }

    /// Has a provider or Telegram fail once, of what is to come of a message, or nobody.
    fn trouble(&mut self, said: &str) {
        let rehearsal = &self.stage.told.rehearsal;
        let cut = Manner { cut: Some(Cut { at: CutAt::Request, how: CutHow::Reset }), ..Manner::default() };
        let what = match self.dice.below(100) {
            0..=9 => {
                let rule = Rule::when_contains("cut", said, Reply::text("").in_manner(cut));
                rehearsal.add_rule(Rule { when: When { times: Some(1), ..rule.when }, ..rule });
                "the answer of the provider is cut off"
            }
            10..=14 => {
                let busy = Says::Error { status: 503, code: "overloaded".to_owned(), retry_after: None };
                let rule = Rule::when_contains("busy", said, Reply::of(busy));
                rehearsal.add_rule(Rule { when: When { times: Some(1), ..rule.when }, ..rule });
                "the provider is busy"
            }
            15..=24 => {
                let rule = TelegramRule::bringing("cut", "sendMessage", cut);
                let when = TelegramWhen { times: Some(1), ..rule.when };
                rehearsal.add_telegram_rule(TelegramRule { when, ..rule });
                "the answer of Telegram is cut off"
            }
            _ => return,
        };
        self.note(what.to_owned());
    }

    /// Kills an actor by name; the answer of one that dies of it, as the doors do, is lost.
    fn kill(&mut self, path: String) {
        let killed = self.stage.operate(Operate::Kill { path: path.clone() });
        self.note(format!("kill {path}: {killed}"));
    }

    /// Kills somebody by name, or everything, or nobody.
    fn harm(&mut self) {
        if let Some(path) = self.victims.pop() {
            std::thread::sleep(Duration::from_millis(self.dice.below(150)));
            return self.kill(path);
        }
        match self.dice.below(100) {
            0..=14 => {
                std::thread::sleep(Duration::from_millis(self.dice.below(150)));
                let at = self.dice.below(self.actors.len() as u64);
                let path = self.actors[usize::try_from(at).unwrap()].clone();
                self.kill(path);
            }
            15..=22 => {
                std::thread::sleep(Duration::from_millis(self.dice.below(250)));
                self.note("kill -9".to_owned());
                self.fell();
            }
            23..=27 => self.attempt(&["consumer", "pause", CONSUMER]),
            28..=32 => self.attempt(&["stop"]),
            _ => {}
        }
    }

    /// Adds a line to the memory document while nobody else writes it.
    fn write_by_hand(&mut self) {
        let line = format!("By hand, number {}.\n", self.by_hand.lines().count());
        let text = self.stage.told.memory() + &line;
        std::fs::write(self.stage.told.world.config.join("context/memory.md"), text).unwrap();
        self.by_hand += &line;
        self.note(format!("wrote {line:?}"));
    }

    /// Ends the process as the kernel does.
    fn fell(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
        self.rise();
    }

    /// Starts the service, and reads before that what the one before had to say.
    fn rise(&mut self) {
        self.look_at_traps();
        if let Some(running) = self.running.take() {
            running.wait();
        }
        self.running = Some(self.stage.told.world.serve(&["--log", "json"]));
        self.read = 0;
        for (_, place) in &mut self.cards {
            if *place == Place::Armed {
                *place = Place::Hand;
            }
        }
        self.arm();
    }

    /// Notices who ran into a trap; says whether somebody is held there for good.
    fn look_at_traps(&mut self) -> bool {
        let mut holds = false;
        for sprung in self.stage.sprung(&mut self.read) {
            holds |= sprung.action == KillAction::Hold.as_str();
            let ours = self.cards.iter_mut().find(|(card, place)| {
                *place == Place::Armed
                    && card.point.as_str() == sprung.point
                    && card.action.as_str() == sprung.action
            });
            if let Some((_, place)) = ours {
                *place = Place::Sprung;
            }
            self.ended = Instant::now();
            self.note(format!("sprung {} {}", sprung.point, sprung.action));
        }
        holds
    }

    /// Does what a service manager does and what people do who look now and then.
    fn tend(&mut self) {
        std::thread::sleep(LOOK_EVERY);
        if self.look_at_traps() {
            self.note("whoever is held is taken away".to_owned());
            return self.fell();
        }
        let ended = self.running.as_mut().is_none_or(|running| running.ends_within(Duration::from_millis(1)));
        if ended {
            self.note("the process has ended".to_owned());
            return self.rise();
        }
        self.arm();
        self.see_to_errands();
    }

    /// Lets everything come to its end, and does what has to be done by hand for that.
    pub(super) fn settle(&mut self) {
        let mut nursed = Instant::now();
        self.ended = nursed;
        loop {
            self.tend();
            let Some(unrest) = self.unrest() else { break };
            if self.ended.elapsed() > QUIET_WITHIN {
                self.give_up(&format!("no rest: {unrest}"));
            }
            // What waits for a person waits a little longer.
            if nursed.elapsed() > 8 * LOOK_EVERY && self.errands.is_empty() {
                self.nurse();
                nursed = Instant::now();
            }
        }
        let verified = self.stage.ask(&thoughtstream_surface::ask::Operated::Ask(Ask::Verify { from: None }));
        if let Ok((exit, found)) = verified {
            assert_eq!(exit, Exit::Done, "{}{found:#?}", self.told());
        }
    }

    /// Says what is still to be done; nothing if all is quiet.
    fn unrest(&self) -> Option<String> {
        if !self.errands.is_empty() {
            return Some(format!("{} commands are under way", self.errands.len()));
        }
        let waiting = self.stage.told.rehearsal.counters().telegram.waiting;
        if waiting > 0 {
            return Some(format!("{waiting} updates wait for the bot"));
        }
        let look = |ask| self.stage.look(ask).ok_or_else(|| "the service does not answer".to_owned());
        let quiet = || -> Result<(), String> {
            for consumer in look(Ask::Consumers { states: Vec::new() })? {
                let state = consumer["state"].as_str().unwrap_or_default();
                if state != "idle" && state != "disabled" {
                    return Err(format!("{} is {state}", consumer["consumer"]));
                }
            }
            let delivered =
                look(Ask::Deliveries { states: vec!["delivered".to_owned()], limit: LIMIT })?.len();
            let messages = self.updates.len() - self.thumbs.len();
            if delivered < messages {
                return Err(format!("{delivered} of {messages} replies are delivered"));
            }
            let kind = Some("stream.thought.judgment.training-example".to_owned());
            let judged = look(Ask::Events(EventFilter { kind, limit: LIMIT, ..EventFilter::default() }))?;
            let judged =
                judged.iter().filter(|event| event["payload"]["criterionVersion"] == feedback::CRITERION);
            if judged.count() < self.thumbs.len() {
                return Err("not every thumb is a judgment".to_owned());
            }
            for proposal in look(Ask::Proposals(all_proposals()))? {
                let state = proposal["state"].as_str().unwrap_or_default();
                if ["unmaterialized", "materializing", "unprojected"].contains(&state) {
                    return Err(format!("{} is {state}", proposal["id"]));
                }
            }
            Ok(())
        };
        quiet().err()
    }

    /// Sees that everybody ran into what was meant for them, and lets no trap be set any more.
    fn rest(&mut self) {
        let left: Vec<String> = self
            .cards
            .iter()
            .filter(|(_, place)| *place != Place::Sprung)
            .map(|(card, _)| format!("{card:?}"))
            .collect();
        assert!(left.is_empty(), "{}nobody ran into {left:?}", self.told());
        while let Some(path) = self.victims.pop() {
            self.kill(path);
            self.say(Moves::Nothing);
            self.settle();
        }
        self.fell();
        self.settle();
    }

    /// Says whether there is something of each kind that somebody outside could have seen otherwise.
    pub(super) fn has_much_to_tell(&self) -> bool {
        !self.decided.is_empty() && self.updates.len() > 2
    }

    /// Stops the service in order, and holds the log that is left against what everybody has seen.
    pub(super) fn judge(self) {
        let told = self.told();
        let (witness, store) = self.close();
        witness.check(&store.reader, &told);
    }

    /// Stops the service in order and looks at its log as an operator does. Returns what everybody has seen, and the log.
    pub(super) fn close(mut self) -> (Witness, Store) {
        let running = self.running.take().unwrap();
        assert_eq!(running.stop(), 0, "{}", self.told());
        let verified = self.stage.told.world.thought(&["verify", "--json"]);
        assert_eq!(verified.code, 0, "{}{verified:?}", self.told());
        let mut witness = self.stage.witness(std::mem::take(&mut self.updates));
        witness.decided = std::mem::take(&mut self.decided);
        witness.memory[1].clone_from(&self.by_hand);
        (witness, Store::open(&self.stage.told.world.data, Options::default()).unwrap())
    }
}

fn all_proposals() -> ProposalFilter {
    ProposalFilter { limit: LIMIT, ..ProposalFilter::default() }
}

/// Returns the paths of everybody below a node of the tree.
fn below(node: &Value, above: &str, found: &mut Vec<String>) {
    for child in node["children"].as_array().into_iter().flatten() {
        let path = format!("{above}{}", child["name"].as_str().unwrap());
        below(child, &format!("{path}/"), found);
        found.push(path);
    }
}
