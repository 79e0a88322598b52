//! Processors of the emulator's threads, and those that are left for the hosts' programs.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// With fewer processors one thread serves both directions, so that the programs have more than it.
const FOR_TWO_THREADS: usize = 4;

/// How processors are divided.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    /// For the threads of the emulator, one each; without a number, a thread shares the processors with all else.
    pub emulator: [Option<usize>; 2],
    /// One thread for each direction, or one for both.
    pub has_two_threads: bool,
    pub programs: CpuSet,
}

impl Shares {
    /// Divides the processors that this process may use.
    ///
    /// # Errors
    /// The kernel does not say which those are.
    pub fn of_this_process() -> io::Result<Shares> {
        Ok(Self::of(sched_getaffinity(Pid::from_raw(0))?))
    }

    fn of(all: CpuSet) -> Shares {
        let count = numbers(&all).count();
        let mut shares = Shares {
            emulator: [None; 2],
            has_two_threads: count >= FOR_TWO_THREADS,
            programs: all,
        };
        let wanted = match count {
            0 | 1 => 0,
            _ if shares.has_two_threads => 2,
            _ => 1,
        };
        for (own, number) in shares
            .emulator
            .iter_mut()
            .zip(numbers(&all).skip(count - wanted))
        {
            *own = Some(number);
            let _ = shares.programs.unset(number);
        }
        shares
    }
}

/// The processors of a set, in order.
fn numbers(set: &CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::count()).filter(|&number| set.is_set(number) == Ok(true))
}

/// A set of processors as files of the kernel have it: hexadecimal, in groups of 32, the last ones first.
pub fn mask(set: &CpuSet) -> String {
    let mut groups = vec![0u32; numbers(set).max().unwrap_or(0) / 32 + 1];
    numbers(set).for_each(|number| groups[number / 32] |= 1 << (number % 32));
    let groups: Vec<String> = groups
        .iter()
        .rev()
        .map(|group| format!("{group:08x}"))
        .collect();
    groups.join(",")
}

/// Keeps the calling thread on one processor.
///
/// # Errors
/// The kernel refuses.
pub fn stay_on(number: usize) -> io::Result<()> {
    let mut own = CpuSet::new();
    own.set(number)?;
    stay_on_these(&own)
}

/// Keeps the calling thread, and what it starts, on some processors.
///
/// # Errors
/// The kernel refuses.
pub fn stay_on_these(set: &CpuSet) -> io::Result<()> {
    Ok(sched_setaffinity(Pid::from_raw(0), set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(numbers: &[usize]) -> ([Option<usize>; 2], Vec<usize>) {
        let mut all = CpuSet::new();
        for &number in numbers {
            all.set(number).unwrap();
        }
        let shares = Shares::of(all);
        let programs = (0..16).filter(|&number| shares.programs.is_set(number).unwrap());
        (shares.emulator, programs.collect())
    }

    #[test]
    fn the_last_processors_are_the_emulators_and_programs_have_the_others() {
        assert_eq!(divided(&[0]), ([None, None], vec![0]));
        assert_eq!(divided(&[0, 1]), ([Some(1), None], vec![0]));
        assert_eq!(divided(&[3, 5, 7]), ([Some(7), None], vec![3, 5]));
        assert_eq!(divided(&[0, 1, 2, 3]), ([Some(2), Some(3)], vec![0, 1]));
    }

    #[test]
    fn a_mask_has_a_bit_for_each_processor() {
        let mask_of = |numbers: &[usize]| {
            let mut set = CpuSet::new();
            numbers.iter().for_each(|&number| set.set(number).unwrap());
            mask(&set)
        };
        assert_eq!(mask_of(&[0]), "00000001");
        assert_eq!(mask_of(&[0, 5, 31]), "80000021");
        assert_eq!(mask_of(&[1, 32, 71]), "00000080,00000001,00000002");
    }
}
