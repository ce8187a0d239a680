//! Plans as text, and how they are cut into tasks.

use super::plan::{PlanFacts, TaskArray, TaskPass, TaskPlan};
use super::ranges::{Names, TaskRange, describe};
use crate::copy::Prices;
use proptest::prelude::*;
use std::sync::Arc;

fn pass(units: u64) -> Arc<TaskPass> {
    Arc::new(TaskPass {
        source_chunk: vec![1, 8],
        target_chunk: vec![8, 1],
        target_object: vec![8, 1],
        block: vec![8, 8],
        parts: vec![1, 1],
        units,
        independent: true,
        chunks: 10,
        decoded: 15,
        objects: units,
        read: 100,
        written: 80,
        memory: 1000,
        threads: 2,
        seconds: 0.1 + 0.2,
        requests: 3,
        gets: 4,
        puts: 5,
        dollars: 0.0,
    })
}

/// A plan of arrays with these bytes, units and numbers of passes.
fn plan(arrays: &[(u64, u64, usize)], task_bytes: u64) -> TaskPlan {
    let mut known: Vec<Arc<TaskPass>> = Vec::new();
    let array = |(number, &(bytes, units, passes)): (usize, &(u64, u64, usize))| {
        let one = known.iter().find(|pass| pass.units == units).cloned();
        let one = one.unwrap_or_else(|| pass(units));
        known.push(one.clone());
        TaskArray {
            path: format!("g/{number}"),
            bytes,
            why: "each source chunk is decoded once".into(),
            advice: "".into(),
            passes: vec![one.clone(); passes],
            compare: one,
            from_start: vec![0, 0],
            to_start: vec![0, 3],
            shape: vec![8, 8],
        }
    };
    let document = |number: usize| (format!("g/{number}/zarr.json"), format!("{{\"number\": {number}}}"));
    TaskPlan::new(PlanFacts {
        source: "/a".into(),
        destination: "/b".into(),
        arrays: arrays.iter().enumerate().map(array).collect(),
        groups: 1,
        documents: (0..arrays.len()).map(document).collect(),
        task_bytes,
        options: "{\"chunks\": [8, 1], \"max_memory\": 5}".into(),
        notes: vec!["a note".into()],
        skipped: vec![("/x".into(), "no".into())],
        differs: Vec::new(),
        overwrite: false,
        is_into: false,
        source_format: Some(2),
        workers: 4,
        prices: Prices::default(),
        sources: Vec::new(),
        concat: None,
        lengths: Vec::new(),
    })
}

#[test]
fn text_says_equal_passes_once_and_is_read_again() {
    let plan = plan(&vec![(640, 10, 2); 100], 64);
    let text = plan.to_json().unwrap();
    assert!(text.len() < 150 * 100, "{}", text.len());
    let again = TaskPlan::from_json(&text).unwrap();
    assert_eq!((&again, again.id()), (&plan, plan.id()));
    assert_eq!(again.to_json().unwrap().matches("source_chunk").count(), 1);
    for (found, harm) in [
        ("\"documents\":\"", "\"documents\":\"AAAA"),
        ("\"compare\":0", "\"compare\":999"),
        ("\"why\":0", "\"why\":99"),
        ("\"put\":0.005", "\"put\":-1"),
        ("copy plan\":4", "copy plan\":3"),
        ("\"documents_bytes\":", "\"documents_bytes\":99999999"),
    ] {
        assert!(text.contains(found), "{found}");
        let error = TaskPlan::from_json(&text.replacen(found, harm, 1)).unwrap_err().to_string();
        assert!(error.starts_with("no plan of a copy") || error.starts_with("prices: put"), "{error}");
    }
    for text in ["", "[]", "{}", "nonsense", "{\"hyperslab copy plan\": 99}"] {
        let error = TaskPlan::from_json(text).unwrap_err().to_string();
        assert!(error.starts_with("no plan of a copy"), "{error}");
    }
}

#[test]
fn differences_are_named() {
    let ours = plan(&[(640, 10, 1)], 64);
    let other = |change: &dyn Fn(&mut PlanFacts)| {
        let mut facts = (*ours).clone();
        change(&mut facts);
        TaskPlan::new(facts)
    };
    let source = other(&|facts| facts.source = "/c".into());
    assert_eq!(ours.difference(&source), "of /c, not of /a");
    let options = other(&|facts| facts.options = "{\"chunks\": [4, 4], \"max_memory\": 5}".into());
    assert_eq!(ours.difference(&options), "with other options: chunks: [4, 4]");
    let task = other(&|facts| facts.task_bytes = 10);
    assert_eq!(ours.difference(&task), "with other options: task_size: 10");
    let documents = other(&|facts| facts.documents.clear());
    assert_eq!(ours.difference(&documents), "its source had other metadata");
    for other in [source, options, task, documents] {
        assert_ne!(other.id(), ours.id());
    }
}

proptest! {
    #[test]
    fn tasks_have_each_unit_once(
        arrays in proptest::collection::vec((0u64..5000, 0u64..40, 1usize..4), 0..30),
        task_bytes in 1u64..3000,
    ) {
        let plan = plan(&arrays, task_bytes);
        let depth = arrays.iter().map(|(_, _, passes)| *passes).max().unwrap_or(0);
        prop_assert_eq!(plan.depth(), depth);
        let mut found = Vec::new();
        let mut bytes = 0.0;
        for stage in plan.stages() {
            for number in 0..stage.len() {
                let parts = stage.task(number).unwrap();
                // Workers get the same parts.
                let names = Names { base: "b".into(), work: ".w".into() };
                let range = describe(&plan, &names, stage, (number, number + 1), Vec::new()).unwrap();
                let range = TaskRange::from_bytes(&range.to_bytes().unwrap()).unwrap();
                prop_assert_eq!(range.task(number), parts.clone());
                for part in parts {
                    found.extend((part.first..part.end).map(|unit| (part.array, part.pass, unit)));
                }
            }
            prop_assert!(stage.task(stage.len()).is_none());
            let half = stage.len() / 2;
            bytes += stage.elements(&plan, 0, half) + stage.elements(&plan, half, stage.len());
        }
        let units = |(array, (_, units, passes)): (usize, &(u64, u64, usize))| {
            let (units, passes) = (*units, *passes);
            (0..passes).flat_map(move |pass| (0..units).map(move |unit| (array, Some(pass), unit)))
        };
        let mut expected: Vec<_> = arrays.iter().enumerate().flat_map(units).collect();
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        let all: u64 = arrays.iter().filter(|(_, units, _)| *units > 0).map(|(bytes, ..)| bytes).sum();
        prop_assert!((bytes - all as f64).abs() < 1e-6 * (1.0 + all as f64));
    }
}
