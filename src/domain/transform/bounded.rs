//! Lists with a bound: by number and by bytes, with a count of what did not fit.

use serde::Serialize;

/// A list that takes items until it is full and counts the rest.
///
/// The byte bound is what keeps a payload under its limit whatever the items are: 500 headings may be 20 KiB or,
/// made of characters that JSON escapes, half a megabyte. Once an item was left out, all later ones are, so that
/// the list is always the beginning of what there was.
#[derive(Debug)]
pub(super) struct Bounded<T> {
    items: Vec<T>,
    items_max: usize,
    bytes_left: usize,
    omitted: u32,
}

impl<T: Serialize> Bounded<T> {
    /// Creates an empty list that takes at most `items_max` items of `bytes_max` bytes of JSON together.
    pub(super) fn new(items_max: usize, bytes_max: usize) -> Self {
        Self { items: Vec::new(), items_max, bytes_left: bytes_max, omitted: 0 }
    }

    /// Returns whether later items are left out anyway, so that the caller need not build them.
    pub(super) fn is_full(&self) -> bool {
        self.omitted > 0 || self.items.len() >= self.items_max
    }

    /// Counts one item that the caller did not build because the list is full.
    pub(super) fn omit(&mut self) {
        self.omitted += 1;
    }

    /// Adds `item`, or counts it as omitted.
    pub(super) fn push(&mut self, item: T) {
        if self.is_full() {
            self.omit();
            return;
        }
        // The comma after an item is one byte.
        let size = serde_json::to_vec(&item).map_or(usize::MAX, |bytes| bytes.len().saturating_add(1));
        match self.bytes_left.checked_sub(size) {
            Some(left) => {
                self.bytes_left = left;
                self.items.push(item);
            }
            None => self.omit(),
        }
    }

    /// Returns the items and how many were omitted.
    pub(super) fn finish(self) -> (Vec<T>, u32) {
        (self.items, self.omitted)
    }
}

impl<T: Serialize> Extend<T> for Bounded<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.push(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut by_number = Bounded::new(2, 1_000);
        by_number.extend([1, 2, 3, 4]);
        assert_eq!(by_number.finish(), (vec![1, 2], 2));
    }

    #[test]
    fn after_an_item_that_was_too_big_a_smaller_one_is_left_out_too() {
        let mut by_bytes = Bounded::new(10, 8);
        by_bytes.extend(["abc", "too long for it", "d"]);
        assert_eq!(by_bytes.finish(), (vec!["abc"], 2));
    }
}
