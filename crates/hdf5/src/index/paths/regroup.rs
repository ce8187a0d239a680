//! How the items of one level of a tree are divided among its nodes.

use std::ops::Range;

/// How many items a node may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub most: usize,
    /// The fewest items of a node that is not the root.
    pub least: usize,
    /// The fewest items of a node that is split off at the end. Fewer than `least`: a tree that only
    /// grows at its end has full nodes.
    pub least_last: usize,
    /// Items that the first node counts in addition.
    pub extra: usize,
    /// `true` if a node with fewer items than `least` is joined with its neighbour.
    pub joins: bool,
}

/// The items of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Group<T> {
    /// The node with this number had the same items before, and this number of them.
    Kept(usize, usize),
    /// Others.
    Fresh(Vec<T>),
}

impl<T> Group<T> {
    fn len(&self) -> usize {
        match self {
            Group::Kept(_, len) => *len,
            Group::Fresh(items) => items.len(),
        }
    }

    fn items(self, gather: &mut impl FnMut(usize) -> Vec<T>) -> Vec<T> {
        match self {
            Group::Kept(number, _) => gather(number),
            Group::Fresh(items) => items,
        }
    }
}

/// Divides items anew. `old` has the number of items of each node, and whether they are others now;
/// `gather` returns the items of a node.
///
/// Nodes whose items are the same stay as they are, except next to nodes that become too large or
/// too small.
pub(super) fn regroup<T>(
    old: &[(usize, bool)],
    limits: Limits,
    mut gather: impl FnMut(usize) -> Vec<T>,
) -> Vec<Group<T>> {
    let mut out: Vec<Group<T>> = Vec::with_capacity(old.len() + 1);
    for (number, (len, is_changed)) in old.iter().enumerate() {
        // The first node counts more items.
        let becomes_first = number > 0 && out.is_empty() && limits.extra > 0;
        if !is_changed && !becomes_first {
            out.push(Group::Kept(number, *len));
            continue;
        }
        let mut items = gather(number);
        if items.is_empty() {
            continue;
        }
        let extra = |out: &[Group<T>]| if out.is_empty() { limits.extra } else { 0 };
        let weight = items.len() + extra(&out);
        if let Some(left) = out.pop() {
            let room = limits.most.saturating_sub(left.len() + extra(&out));
            if weight > limits.most && room > 0 || weight < limits.least && limits.joins {
                let mut both = left.items(&mut gather);
                both.append(&mut items);
                items = both;
            } else {
                out.push(left);
            }
        }
        let is_last = number + 1 == old.len();
        split(&mut out, items, limits, is_last);
    }
    while limits.joins
        && out.len() > 1
        && out.first().is_some_and(|first| first.len() + limits.extra < limits.least)
    {
        let mut rest = out.split_off(2).into_iter();
        let both: Vec<T> = out.drain(..).flat_map(|group| group.items(&mut gather)).collect();
        split(&mut out, both, limits, false);
        out.extend(&mut rest);
    }
    out
}

/// Appends groups with these items.
fn split<T>(out: &mut Vec<Group<T>>, items: Vec<T>, limits: Limits, is_last: bool) {
    let extra = if out.is_empty() { limits.extra } else { 0 };
    let least = if is_last { limits.least_last } else { limits.least };
    let lens = lengths(items.len() + extra, limits.most, least);
    let mut items = items.into_iter();
    for (number, len) in lens.enumerate() {
        let len = if number == 0 { len.saturating_sub(extra) } else { len };
        out.push(Group::Fresh(items.by_ref().take(len).collect()));
    }
}

/// Divides items into as few groups as possible. All but the last two are full.
fn lengths(items: usize, most: usize, least: usize) -> impl Iterator<Item = usize> {
    let groups = items.div_ceil(most.max(1)).max(1);
    let before: Range<usize> = 0..groups - 1;
    let rest = items - before.len() * most;
    let missing = if groups > 1 { least.saturating_sub(rest) } else { 0 };
    let last_but_one = groups.wrapping_sub(2);
    before
        .map(move |number| if number == last_but_one { most - missing } else { most })
        .chain([rest + missing])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { most: 10, least: 4, least_last: 4, extra: 0, joins: true };

    fn lens(groups: &[Group<u32>]) -> Vec<usize> {
        groups.iter().map(Group::len).collect()
    }

    #[test]
    fn groups_are_full_except_at_the_end() {
        let of = |items, least| lengths(items, 10, least).collect::<Vec<_>>();
        assert_eq!(of(0, 4), [0]);
        assert_eq!(of(10, 4), [10]);
        assert_eq!(of(11, 4), [7, 4]);
        assert_eq!(of(11, 1), [10, 1]);
        assert_eq!(of(36, 4), [10, 10, 10, 6]);
        assert_eq!(of(32, 4), [10, 10, 8, 4]);
    }

    #[test]
    fn only_changed_groups_are_divided_anew() {
        let items = |len: usize| vec![7; len];
        let regrouped =
            |old: &[(usize, bool)], now: &[usize], limits| regroup(old, limits, |number| items(now[number]));
        // A node that overflows is split.
        let found = regrouped(&[(10, false), (10, true), (10, false)], &[10, 11, 10], LIMITS);
        assert_eq!(lens(&found), [10, 7, 4, 10]);
        assert_eq!((&found[0], &found[3]), (&Group::Kept(0, 10), &Group::Kept(2, 10)));
        // Its left neighbour takes items if there is room.
        let found = regrouped(&[(6, false), (10, true)], &[6, 11], LIMITS);
        assert_eq!(lens(&found), [10, 7]);
        // A node that is too small is joined, or stays.
        let found = regrouped(&[(9, false), (5, true), (9, false)], &[9, 3, 9], LIMITS);
        assert_eq!((lens(&found), &found[1]), (vec![8, 4, 9], &Group::Fresh(items(4))));
        let found = regrouped(&[(9, false), (5, true)], &[9, 3], Limits { joins: false, ..LIMITS });
        assert_eq!((lens(&found), &found[0]), (vec![9, 3], &Group::Kept(0, 9)));
        // The first one is joined or stays, too. It counts an item more.
        let limits = Limits { extra: 1, ..LIMITS };
        let found = regrouped(&[(5, true), (5, false)], &[3, 5], limits);
        assert_eq!((lens(&found), &found[1]), (vec![3, 5], &Group::Kept(1, 5)));
        assert_eq!(lens(&regrouped(&[(5, true), (5, false)], &[2, 5], limits)), [7]);
        // A node that becomes the first one has other items.
        let found = regrouped(&[(5, true), (10, false), (10, false)], &[0, 10, 10], limits);
        assert_eq!((lens(&found), &found[2]), (vec![6, 4, 10], &Group::Kept(2, 10)));
        // Nothing is left.
        assert_eq!(regrouped(&[(5, true), (5, true)], &[0, 0], limits), []);
    }
}
