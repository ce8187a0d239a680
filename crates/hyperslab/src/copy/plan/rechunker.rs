//! Compares our plans with rechunker's plans, at equal memory.
//!
//! `rechunker.txt` holds the results of `rechunker.algorithm.rechunking_plan` (0.5.4). Its columns:
//! shape, source chunks, target chunks, bytes of an element, MiB of memory; reading blocks, chunks
//! of the temporary array, writing blocks. If the last three are equal, there is no temporary
//! array. Rechunker limits the memory of the block only; we also count the chunks at hand.

use super::tests::{geometry, side};
use super::*;

struct Case {
    geometry: Geometry,
    /// Reading blocks, chunks of the temporary array, writing blocks.
    theirs: [Dims; 3],
}

fn cases() -> Vec<Case> {
    let dims = |text: &str| text.split(',').map(|n| n.parse().unwrap()).collect::<Dims>();
    let case = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [shape, source, target, element, mib, read, between, write] = words[..] else { panic!("{line}") };
        let sides = (side(&dims(source), None), side(&dims(target), None));
        let memory = mib.parse::<u64>().unwrap() << 20;
        let element = element.parse().unwrap();
        let geometry = Geometry { element, ..geometry(&dims(shape), sides.0, sides.1, memory) };
        Case { geometry, theirs: [dims(read), dims(between), dims(write)] }
    };
    include_str!("rechunker.txt").lines().map(case).collect()
}

impl Case {
    /// Their plan in our terms, with counts and costs by our rules.
    fn rechunker_passes(&self) -> Vec<Pass> {
        let [read, between, write] = &self.theirs;
        let (source, target) = (&self.geometry.source, &self.geometry.target);
        if read == between && between == write {
            return vec![self.pass(source, target, read)];
        }
        let temporary = Side::temporary_side(between.clone(), Reach::NEAR);
        vec![self.pass(source, &temporary, read), self.pass(&temporary, target, write)]
    }

    fn pass(&self, source: &Side, target: &Side, block: &Dims) -> Pass {
        let threads = self.geometry.workers(source, target);
        self.geometry.pass_of(source, target, threads, (block.clone(), block.clone()), false)
    }
}

/// Bytes decoded, written to and read from temporary arrays, as multiples of the array's bytes.
fn moved_bytes(passes: &[Pass]) -> f64 {
    passes.iter().map(Pass::times).sum::<f64>() + (passes.len() - 1) as f64
}

/// Compares by the costs that choose plans. Their plan is better in one case only: we use a
/// temporary array if it saves a fifth of the time, they use one whenever blocks differ.
#[test]
fn at_equal_memory_no_plan_of_rechunker_is_faster() {
    let (mut faster, mut less) = (0, 0);
    let cases = cases();
    for case in &cases {
        let theirs = case.rechunker_passes();
        let memory = theirs.iter().map(|pass| pass.memory).fold(case.geometry.memory, u64::max);
        let ours = Geometry { memory, ..case.geometry.clone() }.plan();
        let what = format!(
            "{:?} {:?} -> {:?}: ours {:.2} times in {} passes, {:.1} s; theirs {:.2} in {}, {:.1} s",
            case.geometry.shape.as_slice(),
            case.geometry.source.chunk.as_slice(),
            case.geometry.target.chunk.as_slice(),
            moved_bytes(&ours.passes),
            ours.passes.len(),
            ours.seconds(),
            moved_bytes(&theirs),
            theirs.len(),
            seconds(&theirs),
        );
        assert!(ours.memory() <= memory, "{what}");
        let spares = ours.passes.len() < theirs.len();
        let most = seconds(&theirs) * if spares { 1.0 / WORTH_IT } else { 1.01 };
        assert!(ours.seconds() <= most, "{what}");
        faster += usize::from(ours.seconds() < 0.9 * seconds(&theirs));
        less += usize::from(moved_bytes(&ours.passes) < 0.99 * moved_bytes(&theirs));
        println!("{what}");
    }
    println!("of {}: {faster} are at least a tenth faster, {less} move less", cases.len());
    assert!(faster >= 25 && less >= 40, "{faster} {less}");
}
