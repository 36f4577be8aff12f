//! What a device refuses: switches at the wrong moment, gangs and ranks that do not fit, files that
//! are not devices.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "netctx_device/site.rs"]
mod site;

use idlewave_fabric::netctx::device::{At, Attachment, Gang, Idle, Setup};
use idlewave_fabric::netctx::{Device, DeviceError, Memory, Policy};
use idlewave_fabric::{FabricError, PointToPoint, Tag};
use idlewave_units::Rank;
use site::{LIMIT, Site};

#[test]
fn a_switch_is_refused_while_ranks_may_be_within() {
    let site = Site::new(Memory::all(1), Policy::Whole, 2);
    site.admit(0, &[0]);
    site.admit(1, &[0]);
    let device = &site.devices[0];
    let refused = device.resume(1);
    assert!(matches!(refused, Err(DeviceError::NoGang)), "{refused:?}");
    assert!(device.switch(0, LIMIT).unwrap() > 0);
    device.resume(1).unwrap();
    let refused = device.switch(1, LIMIT);
    assert!(
        matches!(refused, Err(DeviceError::NotStopped(0))),
        "{refused:?}"
    );
    assert!(!device.is_drained(), "it runs");
    let refused = device.dismiss(0);
    assert!(
        matches!(refused, Err(DeviceError::NotStopped(0))),
        "{refused:?}"
    );
    // Not the active gang: there is nothing to stop.
    device.stop(1).unwrap();
    assert!(!device.is_drained());
    device.stop(0).unwrap();
    assert!(device.is_drained());
    let refused = device.resume(1);
    assert!(
        matches!(refused, Err(DeviceError::Channel(_))),
        "{refused:?}"
    );
    assert!(device.switch(1, LIMIT).unwrap() > 0);
    assert_eq!(
        (device.active(), device.switch(1, LIMIT).unwrap()),
        (Some(1), 0)
    );
    device.dismiss(1).unwrap();
    assert_eq!(device.active(), None);
    let refused = device.switch(1, LIMIT);
    assert!(
        matches!(refused, Err(DeviceError::NoSuchGang(1))),
        "{refused:?}"
    );
}

#[test]
fn what_does_not_fit_a_device_is_refused() {
    let site = Site::new(Memory::all(1), Policy::Resident, 2);
    let device = &site.devices[0];
    let admit = |gang, nodes: Vec<u32>| device.admit(&Gang { gang, nodes });
    for nodes in [vec![], vec![0; 9], vec![0; 5]] {
        let refused = admit(7, nodes);
        assert!(
            matches!(refused, Err(DeviceError::NoRoom { .. })),
            "{refused:?}"
        );
    }
    admit(7, vec![0, 1]).unwrap();
    let refused = admit(7, vec![0]);
    assert!(
        matches!(refused, Err(DeviceError::Admitted(7))),
        "{refused:?}"
    );
    admit(8, vec![0]).unwrap();
    let refused = admit(9, vec![0]);
    assert!(
        matches!(refused, Err(DeviceError::NoRoom { .. })),
        "{refused:?}"
    );
    device.dismiss(8).unwrap();
    admit(9, vec![0]).unwrap();
    let attach = |gang, rank, size| {
        let path = device.path().to_owned();
        let idle = Idle::Sleep;
        let attachment = Attachment {
            at: At::Device { path, gang },
            rank,
            size,
            idle,
        };
        attachment.attach()
    };
    assert!(matches!(attach(8, 0, 1), Err(DeviceError::NoSuchGang(8))));
    for (rank, size) in [(1, 2), (0, 1)] {
        let refused = attach(7, rank, size).err();
        assert!(
            matches!(refused, Some(DeviceError::Attach { .. })),
            "{refused:?}"
        );
    }
    let first = attach(7, 0, 2).unwrap();
    let refused = attach(7, 0, 2).err();
    assert!(
        matches!(refused, Some(DeviceError::Attach { .. })),
        "{refused:?}"
    );
    drop(first);
}

#[test]
fn foreign_files_are_no_devices() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let directory = tempfile::tempdir().unwrap();
    let attach = |path: &std::path::Path| {
        let text = format!("{},0,0,1", path.display());
        Attachment::parse(&text).unwrap().attach().err().unwrap()
    };
    let path = directory.path().join("none");
    assert!(matches!(attach(&path), DeviceError::File { .. }));
    let write = |bytes: &[u8], mode| {
        let path = directory.path().join("some");
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    };
    for (bytes, mode) in [(0, 0o600), (100, 0o600), (8_192, 0o600)] {
        let error = attach(&write(&vec![0; bytes], mode));
        assert!(matches!(error, DeviceError::Foreign { .. }), "{error}");
    }
    let site = Site::new(Memory::all(1), Policy::Resident, 1);
    site.admit(0, &[0]);
    let device = site.devices[0].path();
    // Copies, one with the wrong mode and one that is too short.
    let whole = std::fs::read(device).unwrap();
    for (content, mode) in [(&whole[..], 0o644), (&whole[..whole.len() - 1], 0o600)] {
        let error = attach(&write(content, mode));
        assert!(matches!(error, DeviceError::Foreign { .. }), "{error}");
    }
    let mut other = whole.clone();
    other[8] += 1;
    let error = attach(&write(&other, 0o600));
    assert!(error.to_string().contains("version 4"), "{error}");
    let link = directory.path().join("link");
    symlink(device, &link).unwrap();
    assert!(matches!(attach(&link), DeviceError::File { .. }));
    assert_eq!(
        std::fs::metadata(device).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let again = Device::new(&Setup::new(device.to_owned()), site::Nowhere);
    assert!(matches!(again, Err(DeviceError::File { .. })));
}

#[test]
fn what_tells_a_process_its_device_is_read_as_written() {
    for text in ["/dev/shm/a,b,3,1,2,sleep", "x,0,0,1,spin", "x,4,3,7,yield"] {
        assert_eq!(Attachment::parse(text).unwrap().to_string(), text);
    }
    let plain = Attachment::parse("/x,1,2,3").unwrap();
    let (path, gang) = ("/x".into(), 1);
    assert_eq!(plain.at, At::Device { path, gang });
    assert_eq!((plain.rank, plain.size), (2, 3));
    assert_eq!(plain.idle, Idle::Spin);
    for text in [
        "",
        "x",
        "x,1,2",
        ",1,0,1",
        "x,1,1,1",
        "x,1,0,1,doze",
        "x,-1,0,1",
    ] {
        assert!(Attachment::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_rank_that_never_receives_is_told_of_it_before_its_memory_is_full() {
    // Tests only the bound; messages that have been received no longer count.
    let site = Site::new(Memory::all(1), Policy::Resident, 1);
    site.admit(0, &[0]);
    site.start(0);
    let text = format!("{},0,0,1,yield", site.devices[0].path().display());
    let mut fabric = Attachment::parse(&text).unwrap().attach().unwrap();
    let own = Rank::new(0);
    let mut sent = 0_usize;
    let receiving = fabric
        .start_receive(Some(own), Tag(1), 0, Vec::new())
        .unwrap();
    let refused = loop {
        let data = vec![0; 64 << 20];
        let sending = fabric.start_send(own, Tag(2), data).unwrap();
        let done = fabric.is_received(&receiving);
        match done.and_then(|_| fabric.finish_send(sending, &mut || ())) {
            Ok(data) => sent += data.len(),
            Err(error) => break error,
        }
        assert!(sent < 2 << 30, "kept without bound");
    };
    assert!(
        matches!(refused, FabricError::NotReceived { .. }),
        "{refused}"
    );
}
