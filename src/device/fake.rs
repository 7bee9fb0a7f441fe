//! A machine whose cards are made up.

use std::collections::BTreeMap;

use super::facts::{Card, Gpu, Management, NoGpus};
use super::usage::Readings;

#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    pub(crate) cards: Vec<Card>,
    pub(crate) readings: BTreeMap<String, Readings>,
}

impl Fake {
    /// `GPU-0000`, `GPU-1111`, …: like an H200, all idle.
    pub(crate) fn with_cards(count: usize) -> Self {
        let gpus = (0..count).map(|place| Gpu {
            uuid: format!("GPU-{}", place.to_string().repeat(4)),
            name: "NVIDIA H200".to_owned(),
            capability: Some((9, 0)),
            total_bytes: Some(150_754_820_096),
            free_bytes: Some(150_121_545_728),
            driver_version: Some("580.126.20".to_owned()),
            cuda_version: Some((13, 0)),
            pci_bus_id: Some(format!("0000000{place}:01:00.0")),
            ..Gpu::default()
        });
        let cards: Vec<Card> = gpus.map(|gpu| Card { gpu, ..Card::default() }).collect();
        let idle = Readings { processes: Some(vec![]), utilization_percent: Some(0), ..Readings::default() };
        let readings = cards.iter().map(|card| (card.gpu.uuid.clone(), idle.clone())).collect();
        Self { cards, readings }
    }

    /// Turns MIG on: the instances are `MIG-<card>-0`, ….
    pub(crate) fn split(&mut self, place: usize, count: usize) {
        let card = &mut self.cards[place];
        card.is_mig_enabled = true;
        let uuid = |number: usize| format!("MIG-{place}-{number}");
        let instance = |number| Gpu { uuid: uuid(number), is_mig: true, ..card.gpu.clone() };
        card.instances = (0..count).map(instance).collect();
    }
}

impl Management for Fake {
    fn cards(&self) -> Result<Vec<Card>, NoGpus> {
        Ok(self.cards.clone())
    }

    fn readings(&self, uuid: &str) -> Result<Readings, String> {
        self.readings.get(uuid).cloned().ok_or_else(|| "no such device".to_owned())
    }
}
