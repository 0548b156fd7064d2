use super::*;

fn disk_with_file() -> (SimDisk, Box<dyn DiskFile>) {
    let disk = SimDisk::new(1);
    let file = disk.create("a").unwrap();
    disk.sync_names().unwrap();
    (disk, file)
}

#[test]
fn a_power_cut_loses_what_was_not_synced() {
    let (disk, file) = disk_with_file();
    file.write_at(0, b"kept").unwrap();
    file.sync().unwrap();
    file.write_at(0, b"lost").unwrap();
    assert_eq!(disk.image(Loss::All).bytes("a").unwrap(), b"kept");
    assert_eq!(disk.image(Loss::None).bytes("a").unwrap(), b"lost");
}

#[test]
fn a_name_that_was_not_synced_can_vanish() {
    let disk = SimDisk::new(1);
    disk.create("a").unwrap().sync().unwrap();
    assert_eq!(disk.image(Loss::All).bytes("a"), None);
    disk.sync_names().unwrap();
    assert_eq!(disk.image(Loss::All).bytes("a").unwrap(), b"");
}

#[test]
fn sectors_of_one_write_are_kept_or_lost_each_on_its_own() {
    let (disk, file) = disk_with_file();
    file.write_at(0, &[0; 8 * SECTOR_BYTES]).unwrap();
    file.sync().unwrap();
    file.write_at(0, &[1; 8 * SECTOR_BYTES]).unwrap();
    let torn = (0..50).filter(|seed| {
        let bytes = disk.image(Loss::Seeded(*seed)).bytes("a").unwrap();
        assert!(bytes.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        bytes.contains(&0) && bytes.contains(&1)
    });
    assert!(torn.count() > 10);
}

#[test]
fn the_same_seed_gives_the_same_image() {
    let (disk, file) = disk_with_file();
    file.write_at(100, &[7; 5000]).unwrap();
    for seed in 0..20 {
        let images = [disk.image(Loss::Seeded(seed)), disk.image(Loss::Seeded(seed))];
        assert_eq!(images[0].bytes("a"), images[1].bytes("a"));
    }
}

#[test]
fn a_failed_sync_is_not_repaired_by_the_next_one() {
    let (disk, file) = disk_with_file();
    file.write_at(0, &[1; 64 * SECTOR_BYTES]).unwrap();
    disk.plan(disk.operations(), Fault::Fail);
    file.sync().unwrap_err();
    file.sync().unwrap();
    let mut seen = vec![0; 64 * SECTOR_BYTES];
    file.read_at(0, &mut seen).unwrap();
    assert!(seen.iter().all(|byte| *byte == 1), "the page cache still shows it");
    let durable = disk.image(Loss::All).bytes("a").unwrap();
    assert!(durable.len() < seen.len() || durable.contains(&0), "a lost sector stays lost");
}

#[test]
fn a_recording_walks_through_the_run() {
    let (disk, file) = disk_with_file();
    disk.record();
    file.write_at(0, b"one").unwrap();
    file.sync().unwrap();
    file.write_at(0, b"two").unwrap();
    let mut recording = disk.recorded().unwrap();
    assert_eq!(recording.image(Loss::None).bytes("a").unwrap(), b"");
    assert!(recording.advance() && recording.advance());
    assert_eq!(recording.image(Loss::All).bytes("a").unwrap(), b"one");
    assert!(recording.advance() && !recording.advance());
    assert_eq!(recording.image(Loss::All).bytes("a").unwrap(), b"one");
    assert_eq!(recording.image(Loss::None).bytes("a").unwrap(), b"two");
}

#[test]
fn faults_happen_where_they_were_planned() {
    let (disk, file) = disk_with_file();
    let next = disk.operations();
    disk.plan(next, Fault::Short(2));
    disk.plan(next + 1, Fault::NoSpace);
    disk.plan(next + 2, Fault::PowerCut);
    file.write_at(0, b"abcd").unwrap_err();
    assert_eq!(disk.bytes("a").unwrap(), b"ab");
    assert_eq!(file.write_at(0, b"abcd").unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write_at(0, b"abcd").unwrap_err();
    file.len().unwrap_err();
}

#[test]
fn a_full_disk_refuses_growth_and_allows_overwriting() {
    let (disk, file) = disk_with_file();
    file.write_at(0, &[1; 100]).unwrap();
    disk.set_capacity(Some(120));
    assert_eq!(disk.free_bytes(), Some(20));
    file.write_at(0, &[2; 100]).unwrap();
    assert_eq!(file.write_at(100, &[2; 21]).unwrap_err().kind(), io::ErrorKind::StorageFull);
}
