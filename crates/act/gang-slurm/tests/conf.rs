//! Changed texts of slurm.conf, small enough to check by eye, and properties of any text.

#![allow(clippy::unwrap_used)]

use idlewave_gang_slurm::conf::{ConfError, Plan, Wanted, install, uninstall};
use proptest::prelude::*;

fn wanted(sharing: u32, partitions: &[&str]) -> Wanted {
    Wanted {
        sharing,
        partitions: partitions.iter().map(|p| (*p).to_owned()).collect(),
        prolog: "/etc/slurm/idlewave-prolog".to_owned(),
        epilog: "/etc/slurm/idlewave-epilog".to_owned(),
    }
}

/// Changes the text for two jobs per CPU in these partitions; checks that it can be restored.
fn plan(text: &str, partitions: &[&str]) -> Plan {
    let plan = install(text, &wanted(2, partitions)).unwrap();
    assert_eq!(uninstall(&plan.text).unwrap(), text);
    plan
}

fn told(plan: &Plan) -> Vec<String> {
    plan.changes.iter().map(ToString::to_string).collect()
}

#[test]
fn a_cluster_with_gang_mode_is_changed_line_by_line() {
    let text = "\
# A cluster
ClusterName=c   # its name
preemptmode = GANG
SchedulerTimeSlice=30
PrologSlurmctld=/etc/slurm/site.sh
NodeName=n[1-4] CPUs=4
PartitionName=DEFAULT OverSubscribe=NO
PartitionName=short Nodes=n[1-2] \\
    OverSubscribe=FORCE:4  Default=YES # for all
PartitionName=long Nodes=ALL
";
    let plan = plan(text, &[]);
    assert_eq!(
        plan.text,
        "\
# A cluster
ClusterName=c   # its name
#idlewave< put back by: idlewave gang slurm uninstall
#idlewave| preemptmode = GANG
preemptmode = OFF
#idlewave>
SchedulerTimeSlice=30
#idlewave< put back by: idlewave gang slurm uninstall
#idlewave| PrologSlurmctld=/etc/slurm/site.sh
PrologSlurmctld=/etc/slurm/idlewave-prolog
#idlewave>
NodeName=n[1-4] CPUs=4
PartitionName=DEFAULT OverSubscribe=NO
#idlewave< put back by: idlewave gang slurm uninstall
#idlewave| PartitionName=short Nodes=n[1-2] \\
#idlewave|     OverSubscribe=FORCE:4  Default=YES # for all
PartitionName=short Nodes=n[1-2]     OverSubscribe=FORCE:2  Default=YES
#idlewave>
#idlewave< put back by: idlewave gang slurm uninstall
#idlewave| PartitionName=long Nodes=ALL
PartitionName=long Nodes=ALL OverSubscribe=FORCE:2
#idlewave>
#idlewave< put back by: idlewave gang slurm uninstall
EpilogSlurmctld=/etc/slurm/idlewave-epilog
#idlewave>
"
    );
    assert_eq!(
        told(&plan),
        [
            "line 3: PreemptMode=OFF, was GANG",
            "line 5: PrologSlurmctld=/etc/slurm/idlewave-prolog, was /etc/slurm/site.sh",
            "line 8: PartitionName=short OverSubscribe=FORCE:2, was FORCE:4",
            "line 10: PartitionName=long OverSubscribe=FORCE:2",
            "new line: EpilogSlurmctld=/etc/slurm/idlewave-epilog",
        ]
    );
    assert_eq!(plan.site_prolog.as_deref(), Some("/etc/slurm/site.sh"));
    assert_eq!(plan.site_epilog, None);
}

#[test]
fn only_the_partitions_that_are_named_share() {
    let text = "PartitionName=a Shared=YES\nPartitionName=b Shared=NO OverSubscribe=NO\n";
    let plan = plan(text, &["b"]);
    assert_eq!(
        told(&plan)[..2],
        [
            "line 2: PartitionName=b OverSubscribe=FORCE:2, was NO",
            "line 2: PartitionName=b Shared=FORCE:2, was NO",
        ]
    );
    assert!(
        plan.text
            .starts_with("PartitionName=a Shared=YES\n#idlewave<")
    );
    assert!(
        plan.text
            .contains("\nPartitionName=b Shared=FORCE:2 OverSubscribe=FORCE:2\n")
    );
}

#[test]
fn gang_goes_from_every_preempt_mode_and_the_rest_stays() {
    let text = "PreemptMode=GANG,requeue\nPartitionName=a PreemptMode=\"cancel, gang\" OverSubscribe=force:2\n\
        PartitionName=b PreemptMode=off OverSubscribe=FORCE:2 State=UP";
    let plan = plan(text, &[]);
    assert_eq!(
        told(&plan)[..2],
        [
            "line 1: PreemptMode=requeue, was GANG,requeue",
            "line 2: PartitionName=a PreemptMode=cancel, was cancel, gang",
        ]
    );
    assert!(
        plan.text
            .contains("\nPartitionName=a PreemptMode=cancel OverSubscribe=force:2\n")
    );
    // The last line has no end, and the new ones come after it.
    assert!(plan.text.contains(" State=UP\n#idlewave^ "));
}

#[test]
fn a_file_that_says_all_of_it_is_left_as_it_is() {
    let text = "PartitionName=a OverSubscribe=FORCE:2\nPrologSlurmctld=/etc/slurm/idlewave-prolog\n\
        EpilogSlurmctld=/etc/slurm/idlewave-epilog\n";
    let plan = plan(text, &[]);
    assert_eq!(plan.text, text);
    assert_eq!(told(&plan), [""; 0]);
    // A script that called itself would never end.
    assert_eq!((plan.site_prolog, plan.site_epilog), (None, None));
}

#[test]
fn another_number_of_jobs_replaces_the_first() {
    let text = "PartitionName=a\nEpilogSlurmctld=/site/epilog\n";
    let once = install(text, &wanted(2, &[])).unwrap();
    let twice = install(&once.text, &wanted(3, &[])).unwrap();
    assert_eq!(twice, install(text, &wanted(3, &[])).unwrap());
    assert_eq!(twice.site_epilog.as_deref(), Some("/site/epilog"));
    assert_eq!(uninstall(&twice.text).unwrap(), text);
}

#[test]
fn files_that_are_included_are_told() {
    let text = "Include /etc/slurm/nodes.conf\n  include more.conf # these too\nPartitionName=a\nIncludes=1\n";
    assert_eq!(
        plan(text, &[]).includes,
        ["/etc/slurm/nodes.conf", "more.conf"]
    );
}

#[test]
fn what_cannot_be_changed_without_harm_is_refused_with_its_line() {
    let refused = |text: &str| install(text, &wanted(2, &[])).unwrap_err();
    assert_eq!(refused("ClusterName=c\n"), ConfError::NoPartition);
    assert_eq!(refused("PartitionName=default\n"), ConfError::NoPartition);
    assert_eq!(
        refused("#\nPreemptMode=suspend,gang\nPartitionName=a\n"),
        ConfError::Suspend(2)
    );
    assert_eq!(
        refused("PartitionName=a PreemptMode=SUSPEND\n"),
        ConfError::Suspend(1)
    );
    let twice = ConfError::Twice {
        key: "EpilogSlurmctld",
        first: 1,
        second: 3,
    };
    assert_eq!(
        refused("EpilogSlurmctld=/a\nPartitionName=a\nepilogslurmctld=/b\n"),
        twice
    );
    for value in ["site.sh", "/etc/slurm/prolog.d/*", "\"/a b\"", "/a,/b"] {
        let error = refused(&format!("PartitionName=a\nPrologSlurmctld={value}\n"));
        let value = value.trim_matches('"').to_owned();
        let key = "PrologSlurmctld";
        assert_eq!(
            error,
            ConfError::Program {
                line: 2,
                key,
                value
            }
        );
    }
    let missing = install("PartitionName=a\n", &wanted(2, &["a", "b"])).unwrap_err();
    assert_eq!(missing, ConfError::UnknownPartition("b".to_owned()));
    for sharing in [0, 1, 65_534] {
        let error = install("PartitionName=a\n", &wanted(sharing, &[])).unwrap_err();
        assert_eq!(error, ConfError::Sharing(sharing));
    }
    for path in ["relative", "/a b", "/a#b", "/a\\b", "/a\"b", "/a\nb"] {
        let mut wanted = wanted(2, &[]);
        wanted.epilog = path.to_owned();
        let error = install("PartitionName=a\n", &wanted).unwrap_err();
        assert_eq!(error, ConfError::Path(path.to_owned()));
    }
    let torn = "PartitionName=a\n#idlewave>\n";
    assert_eq!(refused(torn), ConfError::Damaged(2));
    assert_eq!(uninstall(torn), Err(ConfError::Damaged(2)));
}

/// Lines that a slurm.conf may have, ended, joined, commented or left open.
fn text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "PartitionName=a Nodes=n1",
        "PartitionName=b OverSubscribe=YES",
        "PartitionName=DEFAULT Shared=NO",
        "PreemptMode=GANG",
        "PreemptMode=GANG,REQUEUE SchedulerTimeSlice=5",
        "PrologSlurmctld=/site/prolog",
        "EpilogSlurmctld=\"/site/epilog\"",
        "# nothing",
        "#idlewave is here",
        "#idlewave> torn",
        "",
        "  ",
        "Include more",
        "NodeName=n1 Feature=\"a b\"",
    ]);
    let end = prop::sample::select(vec![
        "\n", "\n", "\n", "\r\n", " \\\n", " # why\n", "\\\\\n", "",
    ]);
    prop::collection::vec((line, end), 0..8)
        .prop_map(|lines| lines.into_iter().map(|(l, e)| format!("{l}{e}")).collect())
}

proptest! {
    #[test]
    fn changed_and_put_back_is_the_text_and_twice_is_once(text in text(), sharing in 2_u32..5) {
        if let Ok(plan) = install(&text, &wanted(sharing, &[])) {
            prop_assert_eq!(&uninstall(&plan.text).unwrap(), &text);
            prop_assert_eq!(&install(&plan.text, &wanted(sharing, &[])).unwrap(), &plan);
            prop_assert_eq!(plan.changes.is_empty(), plan.text == text);
            // The changed text is as wanted: once our marks are made plain comments, nothing is
            // left to change.
            let bare: String = plan
                .text
                .split_inclusive('\n')
                .map(|line| if line.starts_with("#idlewave") { "#\n" } else { line })
                .collect();
            prop_assert_eq!(&install(&bare, &wanted(sharing, &[])).unwrap().text, &bare);
        }
    }

    #[test]
    fn any_text_is_changed_or_refused(text in "(PartitionName=|PreemptMode=|GANG|#idlewave[<>|!^]|\\\\|\"|[ a=\r\n]){0,24}") {
        if let Ok(plan) = install(&text, &wanted(2, &[])) {
            prop_assert_eq!(uninstall(&plan.text).unwrap(), text);
        }
    }
}
