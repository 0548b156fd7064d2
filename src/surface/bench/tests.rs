use super::*;

fn round(per_second: u32) -> Measured {
    let steps = usize::try_from(per_second).unwrap();
    let latency = Duration::from_secs(1) / per_second;
    Measured { steps, elapsed: Duration::from_secs(1), latencies: vec![latency; steps] }
}

#[test]
fn a_row_is_the_median_of_its_rounds_and_rows_keep_their_order() {
    let mut table = Table::default();
    for (a, b) in [(100, 1000), (400, 4000), (200, 1000)] {
        table.add("z", 1, round(a));
        table.add("a", 1, round(b));
    }
    let rows = table.rows();
    assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["z", "a"]);
    assert!((rows[0].per_second - 200.0).abs() < f64::EPSILON);
    assert_eq!(rows[0].p50_us, 5000);
    // In pairs: 10, 10 and 5; not the ratio of the medians.
    let rate = table.rate(("a", 1), ("z", 1)).unwrap();
    assert!((rate - 10.0).abs() < f64::EPSILON, "{rate}");
    assert_eq!(table.rate(("a", 1), ("nobody", 1)), None);
}

#[test]
fn a_ratio_knows_its_direction() {
    assert!(Ratio::at_least("x", 0.8, 0.7).is_met());
    assert!(!Ratio::at_least("x", 0.6, 0.7).is_met());
    assert!(Ratio::at_most("x", 2.9, 3.0).is_met());
    assert!(!Ratio::at_most("x", 3.1, 3.0).is_met());
}

#[test]
fn every_cell_can_be_measured() {
    let directory = tempfile::tempdir().unwrap();
    let plan = Plan { rounds: 1, time: Duration::from_millis(20), writers: &[1, 8] };
    let mut told = 0;
    let (rows, ratios) = run(directory.path(), plan, |_, done, total| {
        assert!(done < total);
        told += 1;
    })
    .unwrap();
    assert_eq!(rows.len(), cells(plan.writers).len());
    assert_eq!(told, rows.len());
    assert!(!ratios.is_empty(), "{ratios:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}
