//! Which kill points somebody passes in which runs, and what is to happen there: dealt from a seed like cards, so that
//! a run is a sample and no point is left out.

use thoughtstream_actors::killpoint::{KillAction, KillPoint};
use thoughtstream_domain::payload::activation::Step;
use thoughtstream_store::sim::Dice;

/// The actions that end an actor; a whole process is ended by the tests that have one.
pub const ENDS_ACTOR: [KillAction; 3] = [KillAction::KillActor, KillAction::Panic, KillAction::Fail];

/// Who plays in a run of chaos, and so which points are passed in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cast {
    /// Deterministic consumers and a watched folder.
    Workers,
    /// A bot, whoever answers it by asking a model, and a person who decides about what is proposed.
    Talkers,
    /// The same, moved from version to version by a person.
    Movers,
}

impl Cast {
    /// Every cast.
    pub const ALL: [Self; 3] = [Self::Workers, Self::Talkers, Self::Movers];

    /// Returns the families of points that the runs of this cast deal: the words before the first dot.
    const fn families(self) -> &'static [&'static str] {
        match self {
            Self::Workers => &["attempt", "commit", "progress", "recovery", "observe"],
            Self::Talkers => {
                &["attempt", "commit", "recovery", "observe", "broker", "delivery", "proposal", "materialize"]
            }
            Self::Movers => &["activation"],
        }
    }

    /// Returns the points that its runs deal.
    #[must_use]
    pub fn points(self) -> Vec<KillPoint> {
        KillPoint::ALL.iter().copied().filter(|point| self.families().contains(&family(*point))).collect()
    }
}

/// Returns the family of a point, which is about one thing that is done: its name before the first dot.
#[must_use]
pub fn family(point: KillPoint) -> &'static str {
    point.as_str().split('.').next().unwrap_or_default()
}

/// Is one thing that is to happen, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Where.
    pub point: KillPoint,
    /// What.
    pub action: KillAction,
    /// In which step of an activation, where the point is one of all of them.
    pub step: Option<Step>,
}

/// Says how much of a deck is dealt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deal {
    /// Each place once, with an action of the dice's choice.
    Sample,
    /// Each place with each action.
    Everything,
}

/// Says whether a person's command passes this point and no actor does: killing one there is failing there.
fn is_of_a_command(point: KillPoint) -> bool {
    ["activation.", "proposal.decision.", "proposal.projection."]
        .iter()
        .any(|family| point.as_str().starts_with(family))
}

/// One of so many cards of a sample holds its actor for good: that ends in a process that is killed, as another action
/// does at once.
const HOLDS: u64 = 10;

/// Deals the cards of a cast, shuffled.
#[must_use]
pub fn deal(cast: Cast, deal: Deal, dice: &mut Dice) -> Vec<Card> {
    let mut cards = Vec::new();
    for point in cast.points() {
        let steps: Vec<Option<Step>> = match cast {
            Cast::Movers => Step::ALL.map(Some).into(),
            Cast::Workers | Cast::Talkers => vec![None],
        };
        let mut actions = match cast {
            Cast::Workers => ENDS_ACTOR.to_vec(),
            Cast::Talkers | Cast::Movers => KillAction::ALL.to_vec(),
        };
        actions.retain(|action| !(is_of_a_command(point) && *action == KillAction::KillActor));
        for step in steps {
            let chosen = match deal {
                Deal::Everything => actions.clone(),
                Deal::Sample if actions.contains(&KillAction::Hold) && dice.below(HOLDS) == 0 => {
                    vec![KillAction::Hold]
                }
                Deal::Sample => {
                    let ends = |action: &KillAction| *action != KillAction::Hold;
                    vec![pick(dice, &actions.iter().copied().filter(ends).collect::<Vec<_>>())]
                }
            };
            cards.extend(chosen.into_iter().map(|action| Card { point, action, step }));
        }
    }
    shuffle(dice, &mut cards);
    cards
}

/// Returns one of as many shares of a deck; each has its part of every family.
#[must_use]
pub fn share(mut cards: Vec<Card>, share: usize, shares: usize) -> Vec<Card> {
    cards.sort_by_key(|card| family(card.point));
    cards.into_iter().skip(share).step_by(shares).collect()
}

/// Picks one of these.
///
/// # Panics
/// If there is none.
pub fn pick<T: Copy>(dice: &mut Dice, from: &[T]) -> T {
    let index = dice.below(from.len() as u64);
    from[usize::try_from(index).expect("an index of a slice")]
}

fn shuffle<T>(dice: &mut Dice, all: &mut [T]) {
    for last in (1..all.len()).rev() {
        let other = usize::try_from(dice.below(last as u64 + 1)).expect("an index of a slice");
        all.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn places(cards: &[Card]) -> BTreeSet<(KillPoint, Option<Step>)> {
        cards.iter().map(|card| (card.point, card.step)).collect()
    }

    #[test]
    fn every_point_is_dealt_in_some_run() {
        let dealt: BTreeSet<KillPoint> = Cast::ALL.into_iter().flat_map(Cast::points).collect();
        let left: Vec<&KillPoint> = KillPoint::ALL.iter().filter(|point| !dealt.contains(point)).collect();
        assert!(left.is_empty(), "no cast passes {left:?}: say who does, and let the runs deal it");
    }

    #[test]
    fn a_sample_has_each_place_once_and_everything_has_it_in_every_way() {
        for cast in Cast::ALL {
            let sample = deal(cast, Deal::Sample, &mut Dice::new(1));
            let everything = deal(cast, Deal::Everything, &mut Dice::new(1));
            assert_eq!(sample.len(), places(&sample).len());
            assert_eq!(places(&sample), places(&everything));
            assert!(everything.len() >= 3 * sample.len());
            assert_eq!(sample, deal(cast, Deal::Sample, &mut Dice::new(1)), "a seed replays it");
            assert_ne!(sample, deal(cast, Deal::Sample, &mut Dice::new(2)));
        }
    }

    #[test]
    fn the_shares_are_the_deck() {
        let deck = deal(Cast::Talkers, Deal::Everything, &mut Dice::new(1));
        let shares: Vec<Card> = (0..4).flat_map(|of| share(deck.clone(), of, 4)).collect();
        assert_eq!((places(&shares), shares.len()), (places(&deck), deck.len()));
    }

    #[test]
    fn an_activation_is_met_before_inside_and_after_each_step() {
        let sample = deal(Cast::Movers, Deal::Sample, &mut Dice::new(1));
        assert_eq!(sample.len(), 3 * Step::ALL.len());
        assert!(sample.iter().all(|card| card.step.is_some()));
    }
}
