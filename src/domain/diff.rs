//! How two texts differ, line by line, for people who decide about a change.

/// So many comparisons of lines are made at most. Two stretches that need more are shown as one taken out and one put
/// in, which is true of any two texts.
const COMPARISONS_MAX: usize = 4 << 20;

/// So many unchanged lines are shown around what changed.
pub const CONTEXT_LINES: usize = 3;

/// Says what became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It stays.
    Kept,
    /// It is taken out.
    Removed,
    /// It is put in.
    Added,
}

impl Change {
    /// Returns the mark of such a line in a unified diff.
    #[must_use]
    pub const fn mark(self) -> char {
        match self {
            Self::Kept => ' ',
            Self::Removed => '-',
            Self::Added => '+',
        }
    }
}

/// Is a stretch of lines with what changed in it and a few lines around.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk<'t> {
    /// The number of its first line in the old text, from 1.
    pub old: usize,
    /// The number of its first line in the new text, from 1.
    pub new: usize,
    /// The lines, without their ends.
    pub lines: Vec<(Change, &'t str)>,
}

/// Returns what differs between two texts; nothing if they have the same lines.
///
/// Whether the last line has an end is told by [`ends_alike`].
#[must_use]
pub fn hunks<'t>(old: &'t str, new: &'t str) -> Vec<Hunk<'t>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let changes = changes(&old, &new);
    let (mut places, mut at) = (Vec::with_capacity(changes.len()), (1, 1));
    let mut shown: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, (change, _)) in changes.iter().enumerate() {
        places.push(at);
        match change {
            Change::Kept => at = (at.0 + 1, at.1 + 1),
            Change::Removed => at.0 += 1,
            Change::Added => at.1 += 1,
        }
        if *change == Change::Kept {
            continue;
        }
        let around = index.saturating_sub(CONTEXT_LINES)..(index + CONTEXT_LINES + 1).min(changes.len());
        match shown.last_mut() {
            Some(last) if around.start <= last.end => last.end = around.end,
            Some(_) | None => shown.push(around),
        }
    }
    let hunk = |lines: std::ops::Range<usize>| {
        let (old, new) = places[lines.start];
        Hunk { old, new, lines: changes[lines].to_vec() }
    };
    shown.into_iter().map(hunk).collect()
}

/// Says whether both texts end with a line's end, or neither does.
#[must_use]
pub fn ends_alike(old: &str, new: &str) -> bool {
    old.ends_with('\n') == new.ends_with('\n')
}

/// Returns every line of both texts in one order: kept ones once, taken out before put in.
fn changes<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(Change, &'t str)> {
    let first = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - first;
    let last =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let (before, after) = (&old[..first], &old[old.len() - last..]);
    let (old, new) = (&old[first..old.len() - last], &new[first..new.len() - last]);
    let mut all: Vec<(Change, &str)> = before.iter().map(|line| (Change::Kept, *line)).collect();
    middle(old, new, &mut all);
    all.extend(after.iter().map(|line| (Change::Kept, *line)));
    all
}

/// Adds what lies between the lines that both texts begin and end with, by their longest common subsequence.
fn middle<'t>(old: &[&'t str], new: &[&'t str], all: &mut Vec<(Change, &'t str)>) {
    let width = new.len() + 1;
    if old.len().saturating_mul(new.len()) > COMPARISONS_MAX {
        all.extend(old.iter().map(|line| (Change::Removed, *line)));
        all.extend(new.iter().map(|line| (Change::Added, *line)));
        return;
    }
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for (i, one) in old.iter().enumerate().rev() {
        for (j, other) in new.iter().enumerate().rev() {
            let (down, right) = (common[(i + 1) * width + j], common[i * width + j + 1]);
            let both = common[(i + 1) * width + j + 1] + 1;
            common[i * width + j] = if one == other { both } else { down.max(right) };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            all.push((Change::Kept, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len()
            && (j == new.len() || common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            all.push((Change::Removed, old[i]));
            i += 1;
        } else {
            all.push((Change::Added, new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(old: &str, new: &str) -> String {
        let mut text = String::new();
        for hunk in hunks(old, new) {
            text += &format!("@ {} {}\n", hunk.old, hunk.new);
            for (change, line) in hunk.lines {
                text += &format!("{}{line}\n", change.mark());
            }
        }
        text
    }

    #[test]
    fn what_changed_is_shown_with_a_few_lines_around() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("\n10\n", "\nten\n") + "21\n";
        assert_eq!(
            shown(&old, &new),
            "@ 7 7\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n@ 18 18\n 18\n 19\n 20\n+21\n"
        );
        assert_eq!(shown(&old, &old), "");
        assert_eq!(shown("", "a\n"), "@ 1 1\n+a\n");
        assert_eq!(shown("a\n", ""), "@ 1 1\n-a\n");
    }

    #[test]
    fn changes_that_lie_close_share_a_stretch() {
        let old: String = (1..=12).map(|n| format!("{n}\n")).collect();
        let close = old.replace("\n3\n", "\nx\n").replace("\n9\n", "\ny\n");
        assert_eq!(hunks(&old, &close).len(), 1);
        let apart = old.replace("\n3\n", "\nx\n").replace("\n11\n", "\ny\n");
        assert_eq!(hunks(&old, &apart).len(), 2);
    }

    #[test]
    fn texts_that_are_too_different_are_shown_as_one_out_and_one_in() {
        let old: String = (0..3_000).map(|n| format!("a{n}\n")).collect();
        let new: String = (0..3_000).map(|n| format!("b{n}\n")).collect();
        let found = hunks(&old, &new);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].lines.len(), 6_000);
    }

    proptest! {
        /// Whatever the texts, the diff leads from the one to the other, and shows nothing twice.
        #[test]
        fn a_diff_leads_from_one_text_to_the_other(old in "[ab\n]{0,60}", new in "[ab\n]{0,60}") {
            let (one, other): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
            let all = changes(&one, &other);
            let side = |gone: Change| -> Vec<&str> {
                all.iter().filter(|(change, _)| *change != gone).map(|(_, line)| *line).collect()
            };
            prop_assert_eq!(side(Change::Added), one.clone());
            prop_assert_eq!(side(Change::Removed), other.clone());
            for hunk in hunks(&old, &new) {
                let (mut old_at, mut new_at) = (hunk.old - 1, hunk.new - 1);
                for (change, line) in hunk.lines {
                    if change != Change::Added {
                        prop_assert_eq!(one[old_at], line);
                        old_at += 1;
                    }
                    if change != Change::Removed {
                        prop_assert_eq!(other[new_at], line);
                        new_at += 1;
                    }
                }
            }
            let changed = all.iter().filter(|(change, _)| *change != Change::Kept).count();
            let in_hunks: usize = hunks(&old, &new).iter()
                .map(|hunk| hunk.lines.iter().filter(|(change, _)| *change != Change::Kept).count()).sum();
            prop_assert_eq!(changed, in_hunks);
        }
    }
}
