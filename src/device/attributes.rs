//! What only libcuda says of a device, without a context.

use std::collections::BTreeMap;
use std::fmt::Write;

use cudarc::driver::{result, sys};

use super::facts::Gpus;

/// Properties that NVML does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub sm_count: Option<u32>,
    pub l2_bytes: Option<u64>,
    pub shared_bytes_per_block: Option<u64>,
}

/// Who knows them.
pub trait AttributeSource {
    /// By UUID, written as NVML writes it (`GPU-…`, `MIG-…`); devices that are not known are missing.
    fn attributes(&self) -> BTreeMap<String, Attributes>;
}

/// Nobody is asked.
#[derive(Clone, Copy, Debug)]
pub struct Unasked;

impl AttributeSource for Unasked {
    fn attributes(&self) -> BTreeMap<String, Attributes> {
        BTreeMap::new()
    }
}

/// The driver's library. It sees what `CUDA_VISIBLE_DEVICES` of this process leaves, in an order of its own, so its
/// devices are told by UUID.
///
/// For processes that end soon, on a thread that may wait: why the server does not ask stands at the top of this
/// room.
#[derive(Clone, Copy, Debug)]
pub struct Libcuda;

impl AttributeSource for Libcuda {
    fn attributes(&self) -> BTreeMap<String, Attributes> {
        // SAFETY: loading a library runs its initialisers; those of the driver's own library are meant for it.
        // It is asked first because every other call panics when the library is missing.
        if !unsafe { sys::is_culib_present() } {
            return BTreeMap::new();
        }
        // A symbol that a very old driver lacks is a panic too; it costs the attributes, not the program.
        std::panic::catch_unwind(ask).ok().flatten().unwrap_or_default()
    }
}

fn ask() -> Option<BTreeMap<String, Attributes>> {
    result::init().ok()?;
    let devices =
        (0..result::device::get_count().ok()?).filter_map(|ordinal| result::device::get(ordinal).ok());
    Some(devices.filter_map(|device| Some((uuid(device)?, of(device)))).collect())
}

fn of(device: sys::CUdevice) -> Attributes {
    use sys::CUdevice_attribute_enum as Attribute;
    let ask = |attribute| {
        // SAFETY: the device came from `cuDeviceGet` after `cuInit`.
        let value = unsafe { result::device::get_attribute(device, attribute) }.ok()?;
        u32::try_from(value).ok().filter(|value| *value > 0)
    };
    Attributes {
        sm_count: ask(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        l2_bytes: ask(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).map(u64::from),
        shared_bytes_per_block: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
            .map(u64::from),
    }
}

/// The same 16 bytes name a card and an instance (`cuDeviceGetUuid_v2`), without the word before them.
fn uuid(device: sys::CUdevice) -> Option<String> {
    let mut bytes = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the device came from `cuDeviceGet`, and the bytes are ours.
    unsafe { sys::cuDeviceGetUuid_v2(&raw mut bytes, device) }.result().ok()?;
    Some(written(bytes.bytes.map(|byte| byte.to_ne_bytes()[0])))
}

/// `8-4-4-4-12` hexadecimal digits.
fn written(bytes: [u8; 16]) -> String {
    let mut text = String::new();
    for (place, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&place) {
            text.push('-');
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Gpus {
    /// Fills in what is not known yet.
    pub fn fill_in(&mut self, source: &dyn AttributeSource) {
        if self.is_empty() {
            return;
        }
        let known = source.attributes();
        for gpu in self.all_mut() {
            let bare = gpu.uuid.trim_start_matches("GPU-").trim_start_matches("MIG-");
            let Some(attributes) = known.get(&gpu.uuid).or_else(|| known.get(bare)) else { continue };
            gpu.sm_count = gpu.sm_count.or(attributes.sm_count);
            gpu.l2_bytes = gpu.l2_bytes.or(attributes.l2_bytes);
            gpu.shared_bytes_per_block = gpu.shared_bytes_per_block.or(attributes.shared_bytes_per_block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Visible;
    use crate::device::fake::Fake;

    struct Known;

    impl AttributeSource for Known {
        fn attributes(&self) -> BTreeMap<String, Attributes> {
            let known = Attributes {
                sm_count: Some(132),
                l2_bytes: Some(62_914_560),
                shared_bytes_per_block: Some(232_448),
            };
            BTreeMap::from([("1111".to_owned(), known)])
        }
    }

    #[test]
    fn only_what_is_unknown_is_filled_in_by_uuid() {
        let mut fake = Fake::with_cards(2);
        fake.cards[1].gpu.sm_count = Some(16);
        let mut gpus = Gpus::read(&fake, &Visible::of_variable(None));
        gpus.fill_in(&Known);
        let facts = |index: usize| (gpus.all()[index].sm_count, gpus.all()[index].l2_bytes);
        assert_eq!([facts(0), facts(1)], [(None, None), (Some(16), Some(62_914_560))]);
    }

    #[test]
    fn a_uuid_is_written_as_nvml_writes_it() {
        let bytes = std::array::from_fn(|place| u8::try_from(place * 17).unwrap());
        assert_eq!(written(bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn without_the_library_nothing_is_known_and_nothing_panics() {
        // SAFETY: as in `attributes`.
        if !unsafe { sys::is_culib_present() } {
            assert_eq!(Libcuda.attributes(), BTreeMap::new());
        }
    }
}
