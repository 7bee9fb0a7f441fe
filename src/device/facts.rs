//! What the GPUs of this machine are.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::nvml::Nvml;
use super::usage::Readings;
use super::visible::Visible;

/// One device that CUDA can run on: a whole card, or one MIG instance of a card. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// As torch numbers it under `CUDA_DEVICE_ORDER=PCI_BUS_ID` and the user's `CUDA_VISIBLE_DEVICES`.
    pub index: u32,
    /// `GPU-…` or `MIG-…`. As `CUDA_VISIBLE_DEVICES` it selects this device alone, whatever the order.
    pub uuid: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: Option<(u32, u32)>,
    pub total_bytes: Option<u64>,
    /// When the facts were read.
    pub free_bytes: Option<u64>,
    /// `580.126.20`.
    pub driver_version: Option<String>,
    /// The newest CUDA that the driver runs.
    pub cuda_version: Option<(u32, u32)>,
    pub sm_count: Option<u32>,
    pub l2_bytes: Option<u64>,
    /// What a block may have after it has asked for more than the usual 48 KiB.
    pub shared_bytes_per_block: Option<u64>,
    pub is_mig: bool,
    /// `00000000:01:00.0`.
    pub pci_bus_id: Option<String>,
}

impl Gpu {
    /// `cuda:1`, in a process that sees what the user's processes see.
    pub fn device(&self) -> String {
        format!("cuda:{}", self.index)
    }
}

/// A card in a slot. With MIG on, CUDA runs on its instances only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Its index is not used: the place in the list of cards counts.
    pub gpu: Gpu,
    pub is_mig_enabled: bool,
    /// In NVML's order.
    pub instances: Vec<Gpu>,
}

/// Why there is no GPU to run on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGpus {
    #[error("there is no NVIDIA driver here")]
    NoDriver,
    #[error("there is no NVIDIA driver here, and AMD GPUs are not supported yet")]
    Amd,
    #[error("the NVIDIA driver cannot be used: {0}")]
    NotLoaded(String),
    #[error("the NVIDIA driver does not answer: {0}")]
    NoAnswer(String),
    #[error("the NVIDIA driver knows no GPU")]
    NoGpu,
    #[error("the NVIDIA driver knows of GPUs, but this process may open none of them")]
    NotPermitted,
    #[error("CUDA_VISIBLE_DEVICES={0} shows none of the GPUs that are there")]
    Hidden(String),
    #[error("MIG is on, but there is no MIG instance that CUDA could run on")]
    NoInstance,
}

/// Who knows the cards: NVML, or a fake in tests. May block for as long as the driver does.
pub trait Management: Send + Sync + fmt::Debug {
    /// All cards in the order of their PCI bus, whatever `CUDA_VISIBLE_DEVICES` says.
    ///
    /// # Errors
    /// There is no driver, or it does not answer.
    fn cards(&self) -> Result<Vec<Card>, NoGpus>;

    /// Who uses a device now, and how it is.
    ///
    /// # Errors
    /// In words: NVML does not know the device any more.
    fn readings(&self, uuid: &str) -> Result<Readings, String>;
}

/// A machine on which there is nobody to ask.
#[derive(Clone, Debug)]
struct Nobody(NoGpus);

impl Management for Nobody {
    fn cards(&self) -> Result<Vec<Card>, NoGpus> {
        Err(self.0.clone())
    }

    fn readings(&self, _: &str) -> Result<Readings, String> {
        Err(self.0.to_string())
    }
}

/// Loads NVML. Without one there is no error: the machine has no cards then, with the reason.
///
/// Blocks for as long as the driver needs (much longer where it must first be woken): call it on a thread that
/// may wait.
pub fn open() -> Arc<dyn Management> {
    match Nvml::open() {
        Ok(nvml) => Arc::new(nvml),
        Err(why) => Arc::new(Nobody(why)),
    }
}

/// The devices that a CUDA program of this user sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    gpus: Vec<Gpu>,
    why_none: Option<NoGpus>,
}

impl Gpus {
    /// Reads the cards and numbers what is visible of them. May block like [`open`].
    pub fn read(management: &dyn Management, visible: &Visible) -> Self {
        let cards = match management.cards() {
            Ok(cards) if cards.is_empty() => return Self::none(NoGpus::NoGpu),
            Ok(cards) => cards,
            Err(why) => return Self::none(why),
        };
        let gpus = visible.of(&cards);
        // Then nothing could be seen, whatever the variable says.
        let has_devices = cards.iter().any(|card| !card.is_mig_enabled || !card.instances.is_empty());
        let why_none = gpus.is_empty().then(|| match visible.as_written() {
            Some(written) if has_devices => NoGpus::Hidden(written.to_owned()),
            _ => NoGpus::NoInstance,
        });
        Self { gpus, why_none }
    }

    /// A machine without a GPU.
    pub fn none(why: NoGpus) -> Self {
        Self { gpus: Vec::new(), why_none: Some(why) }
    }

    /// In the order of their index, which is their place.
    pub fn all(&self) -> &[Gpu] {
        &self.gpus
    }

    pub fn is_empty(&self) -> bool {
        self.gpus.is_empty()
    }

    /// Why there is none; `None` when there is one.
    pub fn why_none(&self) -> Option<&NoGpus> {
        self.why_none.as_ref()
    }

    pub fn by_index(&self, index: u32) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.index == index)
    }

    pub fn by_uuid(&self, uuid: &str) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.uuid == uuid)
    }

    pub(super) fn all_mut(&mut self) -> &mut [Gpu] {
        &mut self.gpus
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::Fake;

    #[test]
    fn visible_devices_are_numbered_from_zero() {
        let fake = Fake::with_cards(3);
        let gpus = Gpus::read(&fake, &Visible::of_variable(Some("2,0".as_ref())));
        let numbered: Vec<_> = gpus.all().iter().map(|gpu| (gpu.device(), &*gpu.uuid)).collect();
        assert_eq!(numbered, [("cuda:0".to_owned(), "GPU-2222"), ("cuda:1".to_owned(), "GPU-0000")]);
        assert_eq!(gpus.by_index(1), gpus.by_uuid("GPU-0000"));
        assert_eq!(gpus.why_none(), None);
    }

    #[test]
    fn without_a_gpu_it_says_why() {
        let why = |management: &dyn Management, variable: Option<&str>| {
            let gpus = Gpus::read(management, &Visible::of_variable(variable.map(AsRef::as_ref)));
            assert!(gpus.is_empty());
            gpus.why_none().unwrap().to_string()
        };
        let mut mig = Fake::with_cards(1);
        mig.cards[0].is_mig_enabled = true;
        let said = [
            why(&Nobody(NoGpus::NoDriver), None),
            why(&Nobody(NoGpus::NotLoaded("x".into())), None),
            why(&Fake::with_cards(0), None),
            why(&Fake::with_cards(1), Some("-1")),
            why(&mig, None),
            why(&mig, Some("0")),
        ];
        insta::assert_snapshot!(said.join("\n"), @r"
        there is no NVIDIA driver here
        the NVIDIA driver cannot be used: x
        the NVIDIA driver knows no GPU
        CUDA_VISIBLE_DEVICES=-1 shows none of the GPUs that are there
        MIG is on, but there is no MIG instance that CUDA could run on
        MIG is on, but there is no MIG instance that CUDA could run on
        ");
        assert!(Nobody(NoGpus::NoDriver).readings("GPU-0000").is_err());
    }
}
