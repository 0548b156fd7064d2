//! What is done to the service, drawn from a seed: load, deaths, decisions, edits, reloads, starts.

use std::collections::VecDeque;
use std::time::Duration;

use thoughtstream_actors::killpoint::{KillAction, Trap, TrapId};
use thoughtstream_domain::event::Candidate;
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_store::sim::Dice;

use super::cast::{CAST, Temper};
use super::deck::{Cast, ENDS_ACTOR, pick};
use super::stage::{Decision, FOLDER, Stage, note};

/// A deed that takes longer hangs; the service answers or is given up on within a fraction of it.
const DEED_WITHIN: Duration = Duration::from_secs(60);

/// What a failing run is told with: the last deeds before it.
const TRAIL_MAX: usize = 60;

/// Draws deeds and does them.
pub struct Schedule {
    dice: Dice,
    counter: u64,
    sent: Vec<Candidate>,
    held: VecDeque<TrapId>,
    trail: VecDeque<String>,
    /// Counts of what was done, to see that a run did something.
    pub tally: Tally,
}

/// Counts what a run did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Events handed in.
    pub appended: u64,
    /// Traps set.
    pub traps: u64,
    /// Actors killed by name.
    pub kills: u64,
    /// Services started again.
    pub starts: u64,
}

impl Schedule {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            counter: 0,
            sent: Vec::new(),
            held: VecDeque::new(),
            trail: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// Returns a temper that belongs to the seed.
    pub fn temper(&mut self) -> Temper {
        let (seed, fails, panics) = (self.dice.roll(), self.dice.below(12), self.dice.below(4));
        Temper { seed, fails, panics, stubborn: None }
    }

    /// Does `deeds` deeds to a running service, then leaves it alone.
    pub async fn play(&mut self, stage: &mut Stage, deeds: u64) {
        let context = stage.context.clone();
        for _ in 0..deeds {
            if tokio::time::timeout(DEED_WITHIN, self.deed(stage)).await.is_err() {
                stage.context = format!("{context}\ndeeds before it:\n  {}\n", self.told());
                stage.give_up("a deed does not end").await;
            }
            stage.context = format!("{context}\ndeeds, the last at the end:\n  {}\n", self.told());
            if stage.revive().await {
                self.tally.starts += 1;
            }
            self.breathe(stage).await;
        }
    }

    fn told(&self) -> String {
        self.trail.iter().map(String::as_str).collect::<Vec<_>>().join("\n  ")
    }

    fn say(&mut self, what: String) {
        self.trail.push_back(what);
        if self.trail.len() > TRAIL_MAX {
            self.trail.pop_front();
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        pick(&mut self.dice, from)
    }

    /// Lets the service get somewhere, or not.
    async fn breathe(&mut self, stage: &Stage) {
        let patience = Duration::from_millis(self.dice.below(12));
        let mut head = stage.handle().head();
        tokio::time::timeout(patience, head.changed()).await.ok();
    }

    async fn deed(&mut self, stage: &mut Stage) {
        match self.dice.below(100) {
            0..=29 => self.load(stage).await,
            30..=33 => self.repeat(stage).await,
            34..=53 => self.trap(stage),
            54..=64 => self.kill(stage),
            65..=74 => self.edit_folder(stage),
            75..=79 => self.decide(stage).await,
            80..=83 => self.restart(stage).await,
            84..=89 => self.reload(stage).await,
            90..=92 => self.look(stage).await,
            93..=95 => self.move_on(stage).await,
            96 => self.bounce(stage, false).await,
            97 => self.bounce(stage, true).await,
            _ => self.let_go(stage),
        }
    }

    /// Makes the next note; sources, titles and lengths vary.
    pub fn note(&mut self) -> Candidate {
        self.counter += 1;
        let source = self.pick(&["notes:a", "notes:b", "notes:c"]);
        let title = self.dice.chance(4).then_some("rare");
        let length = if self.dice.chance(3) { 20_000 } else { 60 };
        let text = "x".repeat(1 + usize::try_from(self.dice.below(length)).expect("a short text"));
        note(source, &format!("k{:06}", self.counter), &text, title)
    }

    /// Appends a few notes at once.
    async fn load(&mut self, stage: &mut Stage) {
        let count = if self.dice.chance(4) { 60 } else { 1 + self.dice.below(5) };
        let notes: Vec<Candidate> = (0..count).map(|_| self.note()).collect();
        self.say(format!("append {count}"));
        self.tally.appended += count;
        stage.append_all(&notes).await;
        self.sent.extend(notes);
    }

    /// Hands something in that is there already.
    async fn repeat(&mut self, stage: &mut Stage) {
        if self.sent.is_empty() {
            return;
        }
        let index = usize::try_from(self.dice.below(self.sent.len() as u64)).expect("an index");
        self.say("append again".to_owned());
        stage.append_all(&[self.sent[index].clone()]).await;
    }

    fn trap(&mut self, stage: &Stage) {
        let point = self.pick(&Cast::Workers.points());
        let holds = self.dice.chance(12);
        let action = if holds { KillAction::Hold } else { self.pick(&ENDS_ACTOR) };
        let passage = u32::try_from(1 + self.dice.below(6)).expect("a small number");
        let mut trap = Trap::new(point, action).at(passage);
        if self.dice.chance(25) {
            let id = self.pick(&stage.files.ids());
            trap = trap.of(format!("thoughtstream/consumers/{id}"));
        }
        self.say(format!("trap {trap:?}"));
        if let Ok(id) = stage.points.arm(trap) {
            self.tally.traps += 1;
            if holds {
                self.held.push_back(id);
            }
        }
        // Nobody is held for ever.
        if self.held.len() > 2
            && let Some(id) = self.held.pop_front()
        {
            stage.points.disarm(id);
        }
    }

    fn let_go(&mut self, stage: &Stage) {
        self.say("disarm all".to_owned());
        self.held.clear();
        stage.points.disarm_all();
    }

    fn kill(&mut self, stage: &Stage) {
        let victims =
            ["log", "scribe", "consumers", "producers", "folder", "consumer", "consumer", "consumer"];
        let path = match self.pick(&victims) {
            "folder" => format!("producers/{FOLDER}"),
            "consumer" => format!("consumers/{}", self.pick(&stage.files.ids())),
            other => other.to_owned(),
        };
        let done = stage.handle().kill(&path);
        self.say(format!("kill {path}: {done:?}"));
        self.tally.kills += u64::from(done.is_ok());
    }

    fn edit_folder(&mut self, stage: &Stage) {
        let file = |number: u64| stage.folder().join(format!("file-{number}.md"));
        let (one, other) = (file(self.dice.below(6)), file(self.dice.below(6)));
        let deed = self.dice.below(10);
        self.counter += 1;
        self.say(format!("folder {deed}"));
        // A file that is not there cannot be renamed or removed.
        match deed {
            0 => std::fs::remove_file(one).ok(),
            1 | 2 => std::fs::rename(one, other).ok(),
            _ => std::fs::write(one, format!("# Heading {}\n\ntext\n", self.counter)).ok(),
        };
        stage.handle().look_at(FOLDER).ok();
    }

    fn consumer(&mut self, stage: &Stage) -> ConsumerId {
        let id = self.pick(&stage.files.ids());
        ConsumerId::parse(id).expect("a consumer of the cast")
    }

    async fn decide(&mut self, stage: &mut Stage) {
        let id = self.consumer(stage);
        let decision = self.pick(&[Decision::Pause, Decision::Resume, Decision::Resume]);
        self.say(format!("{decision:?} {id}"));
        stage.decide(&id, decision).await;
    }

    async fn restart(&mut self, stage: &mut Stage) {
        let id = self.consumer(stage);
        let done = stage.restart(&id).await;
        self.say(format!("restart {id}: {done}"));
    }

    async fn reload(&mut self, stage: &mut Stage) {
        let id = self.consumer(stage);
        let change = self.dice.below(3);
        stage.files.edit(id.as_str(), |setting| match change {
            0 => setting.version += 1,
            1 => setting.enabled = !setting.enabled,
            _ => {}
        });
        let done = stage.reload().await;
        self.say(format!("reload, {id} changed by {change}: {done}"));
    }

    /// Looks at the tree twice: looking changes nothing.
    async fn look(&mut self, stage: &Stage) {
        let tree = stage.handle().tree().await;
        let names = |node: &thoughtstream_actors::supervisor::TreeNode| -> Vec<String> {
            node.children.iter().map(|child| child.name.clone()).collect()
        };
        let (Some(one), Some(two)) = (tree, stage.handle().tree().await) else { return };
        assert_eq!(names(&one), names(&two), "{}: looking at the tree changed it", stage.context);
    }

    async fn move_on(&mut self, stage: &mut Stage) {
        let unsettled = stage.unsettled(&stage.reader());
        let Some(execution) = unsettled.first() else { return };
        let skip = self.dice.chance(50);
        self.say(format!("move {} on, skip: {skip}", execution.id));
        stage.move_on(execution.clone(), skip).await;
    }

    /// Stops the service and starts it again.
    async fn bounce(&mut self, stage: &mut Stage, by_force: bool) {
        let outcome = stage.stop(by_force).await;
        self.held.clear();
        self.say(format!("stop, by force: {by_force}: {outcome:?}"));
        if self.dice.chance(50) {
            self.edit_folder_while_down(stage);
        }
        stage.start().await;
        self.tally.starts += 1;
    }

    fn edit_folder_while_down(&mut self, stage: &Stage) {
        let file = stage.folder().join(format!("file-{}.md", self.dice.below(6)));
        std::fs::write(file, format!("# While down {}\n", self.counter)).expect("the folder is ours");
    }
}

/// Returns one trap for each point with each action that ends an actor.
#[must_use]
pub fn every_trap() -> Vec<Trap> {
    Cast::Workers
        .points()
        .into_iter()
        .flat_map(|point| ENDS_ACTOR.map(|action| Trap::new(point, action)))
        .collect()
}

/// Returns the ids of the whole cast.
#[must_use]
pub fn whole_cast() -> Vec<&'static str> {
    CAST.iter().map(|part| part.id).collect()
}
