//! Plans beside those of rechunker's algorithm, at equal memory.
//!
//! `rechunker.txt` has what `rechunker.algorithm.rechunking_plan` (0.5.4) answers: shape, source chunks,
//! target chunks, bytes of an element, MiB of memory; blocks that read, chunks of the temporary array,
//! blocks that write. Where all three are equal there is no temporary array. Its memory is that of a
//! block alone; ours bounds the chunks at hand, too.

use super::tests::{geometry, side};
use super::*;

struct Case {
    geometry: Geometry,
    /// Blocks that read, chunks of the temporary array, blocks that write.
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
    /// Their plan, as one of ours: counts and costs by the same rules.
    fn theirs(&self) -> Vec<Pass> {
        let [read, between, write] = &self.theirs;
        let (source, target) = (&self.geometry.source, &self.geometry.target);
        if read == between && between == write {
            return vec![self.pass(source, target, read)];
        }
        let temporary = Side::temporary(between.clone(), Reach::NEAR);
        vec![self.pass(source, &temporary, read), self.pass(&temporary, target, write)]
    }

    fn pass(&self, source: &Side, target: &Side, block: &Dims) -> Pass {
        let threads = self.geometry.workers(source, target);
        self.geometry.pass_of(source, target, threads, (block.clone(), block.clone()), false)
    }
}

/// Bytes that are decoded, written to temporary arrays and read from them, in those of the array.
fn moved(passes: &[Pass]) -> f64 {
    passes.iter().map(Pass::times).sum::<f64>() + (passes.len() - 1) as f64
}

/// By the costs that plans are chosen by. Theirs is better in one way only: we take a temporary array
/// where it saves a fifth of the time, they wherever blocks differ.
#[test]
fn at_equal_memory_no_plan_of_rechunker_is_faster() {
    let (mut faster, mut less) = (0, 0);
    let cases = cases();
    for case in &cases {
        let theirs = case.theirs();
        let memory = theirs.iter().map(|pass| pass.memory).fold(case.geometry.memory, u64::max);
        let ours = Geometry { memory, ..case.geometry.clone() }.plan();
        let what = format!(
            "{:?} {:?} -> {:?}: ours {:.2} times in {} passes, {:.1} s; theirs {:.2} in {}, {:.1} s",
            case.geometry.shape.as_slice(),
            case.geometry.source.chunk.as_slice(),
            case.geometry.target.chunk.as_slice(),
            moved(&ours.passes),
            ours.passes.len(),
            ours.seconds(),
            moved(&theirs),
            theirs.len(),
            seconds(&theirs),
        );
        assert!(ours.memory() <= memory, "{what}");
        let spares = ours.passes.len() < theirs.len();
        let most = seconds(&theirs) * if spares { 1.0 / WORTH_IT } else { 1.01 };
        assert!(ours.seconds() <= most, "{what}");
        faster += usize::from(ours.seconds() < 0.9 * seconds(&theirs));
        less += usize::from(moved(&ours.passes) < 0.99 * moved(&theirs));
        println!("{what}");
    }
    println!("of {}: {faster} are at least a tenth faster, {less} move less", cases.len());
    assert!(faster >= 25 && less >= 40, "{faster} {less}");
}
