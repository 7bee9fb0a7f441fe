//! What `CUDA_VISIBLE_DEVICES` leaves of the cards, and in which order.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use super::facts::{Card, Gpu};

/// A value of `CUDA_VISIBLE_DEVICES`, read as CUDA and torch's `_parse_visible_devices` read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    written: Option<String>,
    chosen: Selection,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Selection {
    Everything,
    Cards(Vec<u32>),
    /// Beginnings of UUIDs.
    Uuids(Vec<String>),
}

impl Visible {
    /// `None` is a variable that is not set: everything is seen. One that is set and empty hides everything.
    ///
    /// The list ends at the first entry that means nothing; an entry that stands twice makes it empty. An entry is
    /// a number (what follows its digits is ignored, as `strtoul` does) or, when the first one is, the beginning
    /// of a UUID.
    pub fn of_variable(value: Option<&OsStr>) -> Self {
        let Some(value) = value else { return Self { written: None, chosen: Selection::Everything } };
        let text = value.to_string_lossy().into_owned();
        let prefix = ["GPU-", "MIG-"].into_iter().find(|prefix| text.starts_with(prefix));
        let chosen = match prefix {
            Some(prefix) => {
                let entries = text.split(',').map(str::trim);
                let uuids = entries.take_while(|entry| entry.starts_with(prefix)).map(str::to_owned);
                Selection::Uuids(without_repeats(uuids))
            }
            None => Selection::Cards(without_repeats(text.split(',').map_while(leading_number))),
        };
        Self { written: Some(text), chosen }
    }

    /// The variable's value, when it is set.
    pub fn as_written(&self) -> Option<&str> {
        self.written.as_deref()
    }

    /// The devices that are left, numbered from 0.
    ///
    /// A card with MIG on stands for its first instance: CUDA does not run on the card itself. One process sees at
    /// most one instance (NVIDIA's MIG guide). What it sees of instances beside whole cards is written nowhere, so
    /// those are left out here: what we number, CUDA surely has.
    pub(super) fn of(&self, cards: &[Card]) -> Vec<Gpu> {
        let found: Vec<&Gpu> = match &self.chosen {
            Selection::Everything => cards.iter().filter_map(device_of).collect(),
            Selection::Cards(numbers) => {
                let cards = numbers.iter().map_while(|number| cards.get(usize::try_from(*number).ok()?));
                cards.filter_map(device_of).collect()
            }
            Selection::Uuids(starts) => {
                let devices: Vec<Option<&Gpu>> =
                    starts.iter().map_while(|start| by_start(cards, start)).collect();
                let uuids = devices.iter().flatten().map(|gpu| &gpu.uuid);
                let is_repeated = uuids.clone().collect::<BTreeSet<_>>().len() < uuids.count();
                if is_repeated { Vec::new() } else { devices.into_iter().flatten().collect() }
            }
        };
        let has_whole = found.iter().any(|gpu| !gpu.is_mig);
        let kept = found.iter().filter(|gpu| !has_whole || !gpu.is_mig);
        let at_most = if has_whole { usize::MAX } else { 1 };
        (0..).zip(kept.take(at_most)).map(|(index, gpu)| Gpu { index, ..(*gpu).clone() }).collect()
    }
}

/// The number that an entry begins with; `None` when there is none or it is negative.
fn leading_number(entry: &str) -> Option<u32> {
    let entry = entry.trim();
    let digits = entry.strip_prefix('+').unwrap_or(entry);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

fn without_repeats<T: Ord + Clone>(entries: impl Iterator<Item = T>) -> Vec<T> {
    let entries: Vec<T> = entries.collect();
    let different: BTreeSet<T> = entries.iter().cloned().collect();
    if different.len() == entries.len() { entries } else { Vec::new() }
}

/// What CUDA runs on when it is given a card.
fn device_of(card: &Card) -> Option<&Gpu> {
    if card.is_mig_enabled { card.instances.first() } else { Some(&card.gpu) }
}

/// The only device whose UUID begins so: nothing at all when there is none or more than one, and nothing to run
/// on (the inner `None`) for a card whose MIG has no instance.
fn by_start<'a>(cards: &'a [Card], start: &str) -> Option<Option<&'a Gpu>> {
    let whole = cards.iter().map(|card| (&card.gpu.uuid, device_of(card)));
    let instances = cards.iter().flat_map(|card| &card.instances).map(|gpu| (&gpu.uuid, Some(gpu)));
    let mut fitting = whole.chain(instances).filter(|(uuid, _)| uuid.starts_with(start));
    let (_, device) = fitting.next()?;
    fitting.next().is_none().then_some(device)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::fake::Fake;

    fn uuids(cards: &[Card], variable: Option<&str>) -> Vec<String> {
        let seen = Visible::of_variable(variable.map(AsRef::as_ref)).of(cards);
        seen.into_iter().map(|gpu| gpu.uuid).collect()
    }

    #[test]
    fn numbers_and_beginnings_of_uuids() {
        let cards = Fake::with_cards(3).cards;
        let seen = |variable: &str| uuids(&cards, Some(variable)).join(" ");
        assert_eq!(uuids(&cards, None), ["GPU-0000", "GPU-1111", "GPU-2222"]);
        for (variable, expected) in [
            ("", ""),
            ("-1", ""),
            ("none", ""),
            ("0", "GPU-0000"),
            ("2,1", "GPU-2222 GPU-1111"),
            (" +1 , 0 ", "GPU-1111 GPU-0000"),
            ("1gpu2,0x", "GPU-1111 GPU-0000"),
            ("1,7,0", "GPU-1111"),
            ("1,-1,0", "GPU-1111"),
            ("1,,0", "GPU-1111"),
            ("1,1", ""),
            ("0,GPU-1111", "GPU-0000"),
            ("GPU-2222,GPU-00", "GPU-2222 GPU-0000"),
            ("GPU-22,0", "GPU-2222"),
            ("GPU-22,GPU-9,GPU-0", "GPU-2222"),
            ("GPU-22,GPU-2222", ""),
            ("GPU-", ""),
            ("99999999999999999999", ""),
        ] {
            assert_eq!(seen(variable), expected, "{variable:?}");
        }
    }

    #[test]
    fn one_instance_is_seen_and_only_without_whole_cards() {
        let mut fake = Fake::with_cards(2);
        fake.split(1, 2);
        assert_eq!(uuids(&fake.cards, None), ["GPU-0000"]);
        assert_eq!(uuids(&fake.cards, Some("1")), ["MIG-1-0"]);
        assert_eq!(uuids(&fake.cards, Some("GPU-1111")), ["MIG-1-0"]);
        assert_eq!(uuids(&fake.cards, Some("MIG-1-1,MIG-1-0")), ["MIG-1-1"]);
        assert_eq!(uuids(&fake.cards, Some("MIG-")), [""; 0]);
        fake.split(0, 1);
        assert_eq!(uuids(&fake.cards, None), ["MIG-0-0"]);
    }

    proptest! {
        /// Whatever is written, what is seen is there, once, and numbered by its place.
        #[test]
        fn any_value_is_read(value in "[0-3GPUMIG,\\- x+]{0,14}") {
            let cards = Fake::with_cards(3).cards;
            let seen = Visible::of_variable(Some(value.as_ref())).of(&cards);
            let different: BTreeSet<_> = seen.iter().map(|gpu| &gpu.uuid).collect();
            prop_assert_eq!(different.len(), seen.len());
            for (place, gpu) in seen.iter().enumerate() {
                prop_assert_eq!(gpu.index as usize, place);
                prop_assert!(cards.iter().any(|card| card.gpu.uuid == gpu.uuid));
            }
        }

        /// A list of different numbers shows exactly those, up to the first that is not there.
        #[test]
        fn lists_of_numbers(numbers in proptest::sample::subsequence(vec![0_u32, 1, 2, 3, 4], 0..5)
            .prop_shuffle()) {
            prop_assume!(!numbers.is_empty());
            let cards = Fake::with_cards(3).cards;
            let text = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let expected: Vec<String> = numbers.iter().take_while(|number| **number < 3)
                .map(|number| cards[*number as usize].gpu.uuid.clone()).collect();
            prop_assert_eq!(uuids(&cards, Some(&text)), expected);
        }
    }
}
