//! Tests of plans; nothing is read or written.

use super::*;
use hyperslab_store::Cost;
use proptest::prelude::*;

pub(super) fn side(chunk: &[u64], shard: Option<&[u64]>) -> Side {
    Side {
        chunk: chunk.into(),
        offset: Dims::from_elem(0, chunk.len()),
        object: shard.unwrap_or(chunk).into(),
        part: chunk.into(),
        regular: true,
        chunked: true,
        coded: true,
        stored: None,
        reach: Reach::NEAR,
        is_temporary: false,
    }
}

pub(super) fn geometry(shape: &[u64], source: Side, target: Side, memory: u64) -> Geometry {
    Geometry {
        shape: shape.into(),
        element: 4,
        source,
        target,
        memory,
        blocks: 1,
        threads: 2,
        requests: 0,
        requests_share: 4,
        in_flight: 8,
        enough: ENOUGH,
        enough_whole: ENOUGH,
        temporary: Some((Reach::NEAR, u64::MAX)),
        prices: Prices::default(),
        workers: 1,
    }
}

/// Maps to time series, 2 GiB.
fn maps(memory: u64) -> Geometry {
    geometry(&[512, 1024, 1024], side(&[1, 1024, 1024], None), side(&[512, 16, 16], None), memory)
}

const MIB: u64 = 1 << 20;

#[test]
fn directly_maps_are_decoded_as_often_as_memory_makes_it_necessary() {
    // Two threads each have a chunk of 4 MiB at hand, encoded and decoded. The rest holds target
    // chunks of 512 KiB, from a grid of 64 × 64: 480 chunks are 7 rows, 96 chunks are 1.5 rows.
    for (memory, times) in [(256, 10), (64, 44), (2048 + 16, 1), (1024 + 16, 2)] {
        let plan = maps(memory * MIB).one_pass_plan();
        let [pass] = &plan.passes[..] else { panic!() };
        assert_eq!((pass.chunks, pass.decoded), (512, 512 * times), "{plan}");
        assert!(pass.memory <= memory * MIB && plan.memory() == pass.memory);
        assert_eq!(pass.block[0], 512);
    }
}

#[test]
fn a_temporary_array_is_taken_where_it_saves_time() {
    for memory in [256, 64, 32] {
        let plan = maps(memory * MIB).plan();
        assert!(plan.passes.len() > 1, "{plan}");
        assert!(plan.memory() <= memory * MIB, "{plan}");
        // Each source chunk is decoded once, and each temporary chunk is read once.
        assert!(plan.passes.iter().all(|pass| pass.times() == 1.0), "{plan}");
        let two = plan.passes.windows(2).all(|pair| pair[0].target_chunk == pair[1].source_chunk);
        assert!(two && plan.seconds() < maps(memory * MIB).one_pass_plan().seconds() * WORTH_IT);
    }
    // Decoding twice is faster than writing and reading a temporary array.
    let plan = maps(1100 * MIB).plan();
    assert_eq!((plan.passes.len(), plan.passes[0].times()), (1, 2.0), "{plan}");
    assert!(plan.why.contains("decoded 2 times"), "{}", plan.why);
    // No place for a temporary array.
    let nowhere = Geometry { temporary: None, ..maps(64 * MIB) };
    assert_eq!(nowhere.plan().passes.len(), 1);
    // No room on the disk for one; room for one, but not for two at once.
    for (room, passes) in [(2048 * MIB - 1, 1), (2048 * MIB, 2)] {
        let plan = Geometry { temporary: Some((Reach::NEAR, room)), ..maps(32 * MIB) }.plan();
        assert!(plan.passes.len() <= passes && plan.temporary_bytes() <= room, "{plan}");
        assert_eq!(plan.why.contains("no room"), passes == 1, "{plan}");
    }
    // No source chunk is cut.
    let same =
        geometry(&[512, 1024, 1024], side(&[1, 1024, 1024], None), side(&[1, 1024, 1024], None), 64 * MIB);
    let plan = same.plan();
    assert_eq!((plan.passes.len(), plan.passes[0].times()), (1, 1.0));
    assert_eq!(plan.why, "each source chunk is decoded once");
}

#[test]
fn shards_are_written_whole_or_in_parts_that_divide_them() {
    let pass = |shard: [u64; 2], memory| {
        let target = side(&[5, 10], Some(&shard));
        let geometry = Geometry {
            element: 1,
            threads: 1,
            in_flight: 1,
            enough: ENOUGH,
            enough_whole: ENOUGH,
            ..geometry(&[100, 100], side(&[10, 10], None), target, memory)
        };
        geometry.one_pass_plan().passes.remove(0)
    };
    // The chunks at hand take 200 bytes, and the index takes 32 bytes per inner chunk.
    let at_hand = 200 + 100 * 32;
    let whole = pass([50, 100], at_hand + 5000);
    assert_eq!((&whole.block[..], whole.in_parts(), whole.objects), (&[50, 100][..], false, 2));
    let half = pass([50, 100], at_hand + 4999);
    assert!(half.in_parts() && half.times() == 1.0, "{half}");
    assert_eq!(half.block.iter().product::<u64>() * half.parts.iter().product::<u64>(), 5000, "{half}");
    // Writing one chunk at a time cuts each source chunk in two.
    let least = pass([50, 100], 1);
    assert_eq!((&least.block[..], &least.parts[..], least.times()), (&[5, 10][..], &[10, 10][..], 2.0));
    // Elements outside the array take no memory.
    let target = side(&[5, 10], Some(&[1 << 20, 1000]));
    let wide = Geometry { element: 1, ..geometry(&[100, 100], side(&[10, 10], None), target, 1 << 40) };
    assert_eq!(wide.one_pass_plan().passes[0].block, [100, 100]);
}

#[test]
fn equal_grids_take_many_chunks_at_once() {
    let block = |shape: &[u64], chunk: &[u64], memory| {
        geometry(shape, side(chunk, None), side(chunk, None), memory).plan().passes[0].block.clone()
    };
    // Chunks of 256 KiB and blocks of 32 MiB, which grow along the slowest axis first.
    assert_eq!(block(&[50, 32, 256, 256], &[1, 1, 256, 256], 256 * MIB), [50, 2, 256, 256]);
    assert_eq!(block(&[1000, 256, 256], &[1, 256, 256], 256 * MIB), [128, 256, 256]);
    // With a small budget: one chunk at a time.
    assert_eq!(block(&[50, 32, 256, 256], &[1, 1, 256, 256], 1000), [1, 1, 256, 256]);
}

#[test]
fn small_blocks_are_one_object_where_grids_agree() {
    let small = |shape: &[u64], source: &[u64], target: &[u64]| {
        let geometry = geometry(shape, side(source, None), side(target, None), 1 << 22);
        geometry.one_pass_plan().passes[0].small.clone()
    };
    assert_eq!(small(&[1 << 62], &[1], &[1]), [1]);
    assert_eq!(small(&[2; 64], &[1; 64], &[1; 64]), [1; 64]);
    assert_eq!(small(&[1 << 62], &[3], &[2]), [6]);
    assert_eq!(small(&[1 << 62], &[1], &[1000]), [1000]);
    assert_eq!(small(&[1 << 62], &[1000], &[1]), [1000]);
}

/// Plans 1 PiB in 6 · 10⁷ chunks, to time series, within 2 GiB.
/// Also to chunks that do not align with the source chunks.
#[test]
fn a_petabyte_is_planned_at_once() {
    let shape = [1 << 20, 1 << 14, 1 << 14];
    for (target, most) in [([1 << 20, 8, 8], 1.0), ([1 << 20, 7, 9], 4.0), ([12_345, 77, 99], 4.0)] {
        let target = side(&target, None);
        let start = std::time::Instant::now();
        let plan = geometry(&shape, side(&[1, 2048, 2048], None), target, 2048 * MIB).plan();
        let took = start.elapsed();
        assert_eq!((plan.bytes, plan.passes[0].chunks), (1 << 50, 64 << 20));
        assert!(plan.memory() <= 2048 * MIB && plan.passes.len() > 1, "{plan}");
        let times = plan.passes.iter().map(Pass::times).fold(1.0, f64::max);
        assert!(times <= most, "{plan}");
        // Takes a few milliseconds in an optimised build.
        assert!(took.as_secs() < 5, "{took:?}");
        println!("{took:?}: {plan}");
    }
}

/// A server 30 ms away.
fn far() -> Reach {
    Reach::of(Cost { request: 1 << 20, range: 1 << 20, at_once: 64, frugal: false })
}

/// The same plan as [`a_petabyte_is_planned_at_once`], from server to server.
fn far_petabyte(shape: &[u64], map: &[u64], series: &[u64]) -> Geometry {
    let [source, target] = [map, series].map(|chunk| Side { reach: far(), ..side(chunk, None) });
    Geometry {
        requests: 64,
        temporary: Some((far(), u64::MAX)),
        workers: 1000,
        ..geometry(shape, source, target, 2048 * MIB)
    }
}

/// Each map is read once, and each temporary chunk about once. (These are a little smaller.) Without
/// temporary arrays, 10¹² requests would cost $400 000.
#[test]
fn a_petabyte_on_servers_goes_through_two_temporary_arrays() {
    // Lengths that are powers of two have few divisors: the last pass holds four series of 256 MiB.
    for (shape, map, series, most) in [
        ([1 << 20, 1 << 14, 1 << 14], [1, 2048, 2048], [1 << 20, 8, 8], 3.3),
        ([1_000_000, 16_000, 16_000], [1, 2000, 2000], [1_000_000, 8, 8], 3.0),
        ([100_000_000, 1600, 1600], [1, 1600, 1600], [100_000, 32, 32], 4.0),
    ] {
        let geometry = far_petabyte(&shape, &map, &series);
        let plan = geometry.plan();
        println!("{plan}");
        let chunks = plan.passes[0].chunks;
        let gets: u64 = plan.passes.iter().map(|pass| pass.gets).sum();
        assert!(plan.memory() <= geometry.memory && plan.passes.len() >= 2, "{plan}");
        let each = gets as f64 / chunks as f64;
        println!("{each} GET for each chunk");
        assert!(each <= most, "{each} GET for each chunk: {plan}");
        assert!(plan.dollars() <= 1500.0, "{plan}");
        assert_eq!(geometry.advice(&plan), None);
        let direct = Geometry { temporary: None, ..geometry };
        let advice = direct.advice(&direct.plan()).unwrap();
        assert!(advice.contains("with room for temporary arrays it would cost about $"), "{advice}");
    }
}

#[test]
fn a_plan_says_what_it_does() {
    let text = maps(256 * MIB).plan().to_string();
    for part in [
        "copy 2.0 GiB in two passes, through a temporary array of 2.0 GiB",
        "pass 2:",
        "decodes  512 chunks once",
        "why      directly, each source chunk is decoded 10 times",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

proptest! {
    /// Counts match the grids, and blocks are whole objects or divide them.
    /// Memory stays within the limit unless one chunk needs more.
    #[test]
    fn plans_keep_their_word(
        axes in proptest::collection::vec((1..40u64, 1..12u64, 1..6u64, 1..4u64), 0..4),
        memory in 1..60_000u64,
        temporary in any::<bool>(),
    ) {
        let shape: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
        let source: Vec<u64> = axes.iter().map(|axis| axis.1).collect();
        let chunk: Vec<u64> = axes.iter().map(|axis| axis.2).collect();
        let shard: Vec<u64> = axes.iter().map(|axis| axis.2 * axis.3).collect();
        let geometry = Geometry {
            temporary: temporary.then_some((Reach::NEAR, u64::MAX)),
            in_flight: 2,
            enough: ENOUGH,
            enough_whole: ENOUGH,
            ..geometry(&shape, side(&source, None), side(&chunk, Some(&shard)), memory)
        };
        let plan = geometry.plan();
        let least = Geometry { memory: 0, ..geometry.clone() }.one_pass_plan().memory();
        prop_assert!(plan.memory() <= memory.max(2 * least), "{}", plan);
        for pass in &plan.passes {
            let mut decoded = 1;
            for (k, extent) in shape.iter().enumerate() {
                let (block, object) = (pass.block[k], pass.target_object[k]);
                prop_assert!(block % object == 0 || block == *extent || object % block == 0, "{}", plan);
                prop_assert!(pass.parts[k] == 1 || pass.parts[k] * block == object);
                let cuts = (1..*extent).filter(|at| at % block == 0 || at % pass.source_chunk[k] == 0).count();
                decoded *= cuts as u64 + 1;
            }
            prop_assert_eq!(pass.decoded, decoded);
            prop_assert!(pass.objects <= pass.blocks || !pass.in_parts());
        }
        prop_assert_eq!(plan.passes[0].source_chunk.as_slice(), &source);
        prop_assert_eq!(plan.passes.last().unwrap().target_object.as_slice(), &shard);
    }
}
