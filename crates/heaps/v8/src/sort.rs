//! Sorts exactly as the C++ library of the released Node binaries does.
//!
//! V8 sorts pages with `std::sort`, which is not stable: the order of pages with equal live bytes
//! depends on the algorithm. The order in which two equal pages are swept decides where the next
//! object lies, so the algorithm is part of the rules. It is libstdc++'s introsort: quicksort with
//! the median of three down to 16 elements, then one insertion sort over everything.

const SMALL: usize = 16;

/// Sorts by `less`.
pub fn sort<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    if items.len() < 2 {
        return;
    }
    let depth = 2 * items.len().ilog2();
    divide(items, &less, depth);
    let head = items.len().min(SMALL);
    for at in 1..head {
        if less(&items[at], &items[0]) {
            items[..=at].rotate_right(1);
        } else {
            insert(items, &less, at);
        }
    }
    for at in head..items.len() {
        insert(items, &less, at);
    }
}

/// Moves the element at `at` down to its place; an element that is not greater lies below.
fn insert<T: Copy>(items: &mut [T], less: &impl Fn(&T, &T) -> bool, at: usize) {
    let value = items[at];
    let mut hole = at;
    while less(&value, &items[hole - 1]) {
        items[hole] = items[hole - 1];
        hole -= 1;
    }
    items[hole] = value;
}

fn divide<T: Copy>(mut items: &mut [T], less: &impl Fn(&T, &T) -> bool, mut depth: u32) {
    while items.len() > SMALL {
        if depth == 0 {
            heap_sort(items, less);
            return;
        }
        depth -= 1;
        let cut = partition(items, less);
        let (low, high) = items.split_at_mut(cut);
        divide(high, less, depth);
        items = low;
    }
}

/// Median of three to the front, then Hoare's partition of the rest around it.
fn partition<T: Copy>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) -> usize {
    let (a, b, c) = (1, items.len() / 2, items.len() - 1);
    let median = if less(&items[a], &items[b]) {
        if less(&items[b], &items[c]) {
            b
        } else if less(&items[a], &items[c]) {
            c
        } else {
            a
        }
    } else if less(&items[a], &items[c]) {
        a
    } else if less(&items[b], &items[c]) {
        c
    } else {
        b
    };
    items.swap(0, median);
    let pivot = items[0];
    let (mut first, mut last) = (1, items.len());
    loop {
        while less(&items[first], &pivot) {
            first += 1;
        }
        last -= 1;
        while less(&pivot, &items[last]) {
            last -= 1;
        }
        if first >= last {
            return first;
        }
        items.swap(first, last);
        first += 1;
    }
}

/// The library's fallback when quicksort degenerates: sift down with a hole, then up.
fn heap_sort<T: Copy>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    let adjust = |items: &mut [T], top: usize, length: usize, value: T| {
        let (mut hole, mut child) = (top, top);
        while length > 1 && child < (length - 1) / 2 {
            child = 2 * (child + 1);
            if less(&items[child], &items[child - 1]) {
                child -= 1;
            }
            items[hole] = items[child];
            hole = child;
        }
        if length.is_multiple_of(2) && length >= 2 && child == (length - 2) / 2 {
            child = 2 * (child + 1);
            items[hole] = items[child - 1];
            hole = child - 1;
        }
        while hole > top && less(&items[(hole - 1) / 2], &value) {
            items[hole] = items[(hole - 1) / 2];
            hole = (hole - 1) / 2;
        }
        items[hole] = value;
    };
    let length = items.len();
    for top in (0..length / 2).rev() {
        let value = items[top];
        adjust(items, top, length, value);
    }
    for end in (1..length).rev() {
        let value = items[end];
        items[end] = items[0];
        adjust(items, 0, end, value);
    }
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn what_is_unequal_is_sorted() {
        for length in [0_u64, 1, 2, 15, 16, 17, 33, 500] {
            let mut items: Vec<u64> = (0..length).map(|at| at * 7919 % 101).collect();
            let mut expected = items.clone();
            expected.sort_unstable();
            sort(&mut items, |a, b| a < b);
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn bad_luck_is_sorted_too() {
        let mut items: Vec<u64> = (0..200).map(|at| at * 31 % 67).collect();
        let mut expected = items.clone();
        expected.sort_unstable();
        super::heap_sort(&mut items, &|a, b| a < b);
        assert_eq!(items, expected);
    }

    /// Expects equal elements in the order that a program built with g++ 12 (libstdc++) gave:
    /// `std::sort` of 40 pairs `{i * 7 % 5, i}` by the first.
    #[test]
    fn equal_elements_come_as_from_libstdcxx() {
        let mut items: Vec<(u32, u32)> = (0..40).map(|at| (at * 7 % 5, at)).collect();
        sort(&mut items, |a, b| a.0 < b.0);
        let order: Vec<u32> = items.iter().map(|item| item.1).collect();
        assert_eq!(order, LIBSTDCXX);
    }

    const LIBSTDCXX: [u32; 40] = [
        10, 20, 25, 15, 30, 35, 5, 0, 33, 8, 28, 13, 3, 38, 23, 18, 31, 1, 36, 26, 21, 6, 16, 11,
        39, 19, 4, 34, 9, 29, 14, 24, 12, 27, 32, 7, 17, 37, 2, 22,
    ];
}
