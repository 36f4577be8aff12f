#![allow(clippy::unwrap_used)]
use super::*;

fn task(pid: u32, process: Option<u32>, parent: Option<u32>, name: &str, ran: u64) -> SeenTask {
    SeenTask {
        pid: Pid::new(pid),
        process: process.map(Pid::new),
        parent: parent.map(Pid::new),
        name: name.to_owned(),
        kind: match name {
            "idle" => TaskKind::Idle,
            name if name.starts_with("kworker") => TaskKind::Kernel,
            _ => TaskKind::User,
        },
        ran_ns: ran,
    }
}

fn machine() -> Vec<SeenTask> {
    vec![
        task(0, None, None, "idle", 9_000),
        task(5, None, None, "kworker/0:1", 900),
        task(10, Some(10), None, "solver", 300),
        task(11, Some(10), None, "io-thread", 50),
        task(20, Some(20), None, "solver", 300),
        task(21, None, Some(20), "helper", 7),
        task(22, None, Some(21), "grandchild", 1),
        task(30, None, None, "sshd", 500),
        task(40, None, None, "perf", 5_000),
    ]
}

fn program_of(seen: &[SeenTask]) -> Vec<u32> {
    let members = seen.iter().filter(|t| t.kind == TaskKind::Program);
    members.map(|t| t.pid.get()).collect()
}

#[test]
fn the_busiest_user_program_has_all_processes_of_its_name_and_what_they_start() {
    let mut seen = machine();
    let chosen = choose(&mut seen, &Program::Busiest).unwrap();
    assert_eq!(program_of(&seen), [10, 11, 20, 21, 22]);
    let expected = Chosen {
        name: "solver".to_owned(),
        threads: 5,
        ran_ns: 658,
        users_ns: 6158,
        rule: Rule::Busiest,
        others: ["sshd", "helper", "grandchild"].map(str::to_owned).to_vec(),
    };
    assert_eq!(chosen, expected);
}

#[test]
fn a_program_is_chosen_by_name_or_by_number() {
    let mut seen = machine();
    let chosen = choose(&mut seen, &"sshd".parse().unwrap()).unwrap();
    assert_eq!((chosen.rule, program_of(&seen)), (Rule::Asked, vec![30]));
    let mut seen = machine();
    let chosen = choose(&mut seen, &"20".parse().unwrap()).unwrap();
    assert_eq!(chosen.name, "solver");
    assert_eq!(program_of(&seen), [20, 21, 22]);
    let mut seen = machine();
    choose(&mut seen, &"io-thread".parse().unwrap()).unwrap();
    assert_eq!(program_of(&seen), [11]);
}

#[test]
fn what_idlewave_recorded_as_the_program_stays_it_unless_another_is_asked_for() {
    let mut recorded = machine();
    recorded[7].kind = TaskKind::Program;
    let mut seen = recorded.clone();
    let chosen = choose(&mut seen, &Program::Busiest).unwrap();
    assert_eq!((chosen.rule, program_of(&seen)), (Rule::Recorded, vec![30]));
    choose(&mut recorded, &"helper".parse().unwrap()).unwrap();
    assert_eq!(program_of(&recorded), [21, 22]);
    assert_eq!(recorded[7].kind, TaskKind::User);
}

#[test]
fn kernel_threads_and_names_that_nobody_has_are_no_program() {
    assert_eq!(
        choose(&mut machine(), &"kworker/0:1".parse().unwrap()),
        None
    );
    assert_eq!(choose(&mut machine(), &"5".parse().unwrap()), None);
    assert_eq!(choose(&mut machine(), &"nobody".parse().unwrap()), None);
    assert_eq!(busiest(&machine())[..2], ["solver", "sshd"]);
    let mut idle = vec![task(0, None, None, "idle", 9)];
    assert_eq!(choose(&mut idle, &Program::Busiest), None);
}
