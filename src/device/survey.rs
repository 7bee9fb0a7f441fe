//! Everything about the GPUs of a machine, for a report.

use std::collections::BTreeSet;

use super::attributes::AttributeSource;
use super::facts::{Gpu, Gpus, Management, NoGpus};
use super::lease::{Lease, LeaseFolder, Owner};
use super::usage::Usage;
use super::visible::Visible;

/// One GPU with who uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    pub gpu: Gpu,
    /// In words: why nothing is known.
    pub usage: Result<Usage, String>,
    /// Who has its lease; in words: why nobody can have it.
    pub lease: Result<Option<Owner>, String>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    pub gpus: Vec<Surveyed>,
    /// Why there is none.
    pub why_none: Option<NoGpus>,
}

impl Survey {
    /// Asks everybody; may block for as long as the driver does. `ours` are processes that do not count as others.
    pub fn take(
        management: &dyn Management,
        visible: &Visible,
        attributes: &dyn AttributeSource,
        leases: &LeaseFolder,
        ours: &BTreeSet<u32>,
    ) -> Self {
        let mut gpus = Gpus::read(management, visible);
        gpus.fill_in(attributes);
        let surveyed = gpus.all().iter().map(|gpu| Surveyed {
            usage: Usage::read(management, &gpu.uuid, ours),
            lease: Lease::owner(leases, &gpu.uuid).map_err(|error| error.to_string()),
            gpu: gpu.clone(),
        });
        Self { gpus: surveyed.collect(), why_none: gpus.why_none().cloned() }
    }

    /// Nothing was found, for this reason.
    pub fn none(why: NoGpus) -> Self {
        Self { gpus: Vec::new(), why_none: Some(why) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::attributes::Unasked;
    use crate::device::fake::Fake;

    #[test]
    fn a_survey_has_every_visible_gpu() {
        let folder = tempfile::tempdir().unwrap();
        let leases = LeaseFolder::of_variable(Some(folder.path().as_os_str()));
        let mut fake = Fake::with_cards(2);
        fake.readings.remove("GPU-1111");
        let visible = Visible::of_variable(None);
        let survey = Survey::take(&fake, &visible, &Unasked, &leases, &BTreeSet::new());
        assert_eq!(
            survey.gpus.iter().map(|surveyed| surveyed.usage.is_ok()).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(survey.gpus[0].lease, Ok(None));
        assert_eq!(survey.why_none, None);
    }
}
