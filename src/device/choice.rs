//! On which device a check runs.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use super::facts::{Gpu, Gpus};

/// What `--device` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is one, else the interpreter.
    #[default]
    Auto,
    /// The interpreter.
    Cpu,
    /// This GPU, as torch numbers it, or nothing.
    Cuda(u32),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no device: auto, cpu, cuda or cuda:N is")]
pub struct BadChoice(String);

impl FromStr for DeviceChoice {
    type Err = BadChoice;

    fn from_str(text: &str) -> Result<Self, BadChoice> {
        let bad = || BadChoice(text.to_owned());
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => {
                let number = text.strip_prefix("cuda:").ok_or_else(bad)?;
                if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(bad());
                }
                number.parse().map(Self::Cuda).map_err(|_| bad())
            }
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// Where a check runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    Gpu(Box<Gpu>),
    /// Triton's interpreter, and why no GPU.
    Interpreter {
        why: String,
    },
}

/// A GPU was named that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no cuda:{index}: {what_is_there}")]
pub struct NoSuchDevice {
    pub index: u32,
    pub what_is_there: String,
}

/// Auto takes, of the GPUs with the highest compute capability, the one with the most free memory, and of equals
/// the one with the lowest index. What is not known counts as the least.
///
/// # Errors
/// A GPU was named that is not there: it is not replaced by another, nor by the interpreter.
pub fn choose(choice: DeviceChoice, gpus: &Gpus) -> Result<Chosen, NoSuchDevice> {
    match choice {
        DeviceChoice::Cpu => Ok(Chosen::Interpreter { why: "the CPU was asked for".to_owned() }),
        DeviceChoice::Cuda(index) => match gpus.by_index(index) {
            Some(gpu) => Ok(Chosen::Gpu(Box::new(gpu.clone()))),
            None => Err(NoSuchDevice { index, what_is_there: what_is_there(gpus) }),
        },
        DeviceChoice::Auto => {
            let best =
                gpus.all().iter().max_by_key(|gpu| (gpu.capability, gpu.free_bytes, Reverse(gpu.index)));
            Ok(match best {
                Some(gpu) => Chosen::Gpu(Box::new(gpu.clone())),
                None => Chosen::Interpreter { why: what_is_there(gpus) },
            })
        }
    }
}

fn what_is_there(gpus: &Gpus) -> String {
    match gpus.why_none() {
        Some(why) => why.to_string(),
        None => {
            let each = gpus.all().iter().map(|gpu| format!("cuda:{} {}", gpu.index, gpu.name));
            format!("there is {}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::Fake;
    use crate::device::{NoGpus, Visible};

    fn gpus(fake: &Fake) -> Gpus {
        Gpus::read(fake, &Visible::of_variable(None))
    }

    #[test]
    fn choices_are_read_and_written() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda:0", DeviceChoice::Cuda(0)),
            ("cuda:12", DeviceChoice::Cuda(12)),
        ] {
            assert_eq!(text.parse(), Ok(choice));
            assert_eq!(choice.to_string(), text);
        }
        assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda(0)));
        for bad in ["", "cuda:", "cuda:+1", "cuda:-1", "cuda:1x", "gpu", "CUDA", "cuda:99999999999"] {
            assert!(bad.parse::<DeviceChoice>().is_err(), "{bad}");
        }
    }

    #[test]
    fn auto_prefers_capability_then_free_memory_then_the_first() {
        let taken = |fake: &Fake| match choose(DeviceChoice::Auto, &gpus(fake)) {
            Ok(Chosen::Gpu(gpu)) => gpu.index,
            other => panic!("{other:?}"),
        };
        let mut fake = Fake::with_cards(4);
        assert_eq!(taken(&fake), 0);
        fake.cards[2].gpu.free_bytes = Some(150_121_545_729);
        assert_eq!(taken(&fake), 2);
        fake.cards[1].gpu.capability = Some((10, 0));
        fake.cards[1].gpu.free_bytes = Some(1);
        assert_eq!(taken(&fake), 1);
        fake.cards[1].gpu.capability = None;
        assert_eq!(taken(&fake), 2);
    }

    #[test]
    fn a_named_gpu_is_never_replaced() {
        let fake = Fake::with_cards(2);
        let found = choose(DeviceChoice::Cuda(1), &gpus(&fake)).unwrap();
        assert!(matches!(found, Chosen::Gpu(gpu) if gpu.uuid == "GPU-1111"));
        let none = Gpus::none(NoGpus::NoDriver);
        let said =
            [&gpus(&fake), &none].map(|gpus| choose(DeviceChoice::Cuda(5), gpus).unwrap_err().to_string());
        insta::assert_snapshot!(said.join("\n"), @r"
        there is no cuda:5: there is cuda:0 NVIDIA H200, cuda:1 NVIDIA H200
        there is no cuda:5: there is no NVIDIA driver here
        ");
    }

    #[test]
    fn the_interpreter_is_chosen_with_a_reason() {
        let why = |choice, gpus: &Gpus| match choose(choice, gpus) {
            Ok(Chosen::Interpreter { why }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(DeviceChoice::Cpu, &gpus(&Fake::with_cards(1))), "the CPU was asked for");
        assert_eq!(why(DeviceChoice::Auto, &Gpus::none(NoGpus::NoDriver)), "there is no NVIDIA driver here");
    }
}
