use super::*;

/// A machine with the usual programs and nothing else.
struct Usual;

impl Programs for Usual {
    fn can_be_started(&self, word: &OsStr) -> bool {
        [
            "./app",
            "./other",
            "python3",
            "numactl",
            "/usr/bin/app",
            "/opt/mpich/bin/mpiexec.hydra",
        ]
        .iter()
        .any(|p| word == *p)
    }
    fn real_path(&self, word: &OsStr) -> Option<PathBuf> {
        match word.to_str()? {
            "mpirun" => Some("/usr/bin/orterun".into()),
            "/opt/openmpi5/bin/mpirun" | "/opt/mpich/bin/mpirun" => Some(word.into()),
            _ => None,
        }
    }
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn find(line: &str) -> Result<Option<Launch>, LaunchError> {
    find_launch(&words(line), None, &Usual)
}

/// The line with `|` before each program and `/` after its last argument.
fn shown(line: &str) -> String {
    let command = words(line);
    let launch = find(line).unwrap().unwrap();
    let mut out = Vec::new();
    for (i, word) in command.iter().enumerate() {
        if launch.programs.iter().any(|p| p.start == i) {
            out.push("|".to_owned());
        }
        out.push(word.to_string_lossy().into_owned());
        if launch.programs.iter().any(|p| p.end == i + 1) {
            out.push("/".to_owned());
        }
    }
    out.join(" ")
}

#[test]
fn the_program_is_found_behind_the_options_of_every_launcher() {
    for expected in [
        "mpirun | ./app /",
        "mpirun -n 4 | ./app x y /",
        "mpirun.openmpi -np 4 --oversubscribe --map-by node | ./app -n 4 /",
        "mpirun --mca btl tcp,self -x PATH -x A=1 --bind-to none -H a,b:2 -n 4 | ./app --mca x /",
        "mpirun.openmpi --hostfile hosts --tag-output -wdir /tmp -N 2 | numactl -C 0 ./app /",
        "/opt/openmpi5/bin/mpirun --map-by :OVERSUBSCRIBE --prtemca a b --output tag -n 2 | python3 x.py /",
        "/opt/openmpi5/bin/mpirun --map-by=core --mca=a b -n 2 | ./app /",
        "mpiexec.hydra -genv A 1 -genvlist A,B -ppn 2 -f hosts -l -n 4 | ./app /",
        "mpiexec.hydra -genv A=1 -n 4 | ./app x /",
        "mpiexec.hydra -genv=A 1 -genv=A=1 -n 1 -env A=b=c | ./app / : -n 2 -env A b=c | ./other /",
        "/opt/mpich/bin/mpirun -hosts a,b -iface eth0 -print-all-exitcodes -n 4 | ./app -genv A 1 /",
        "/opt/mpich/bin/mpirun -hosts=a,b -s all -n 4 | ./app /",
        "srun | ./app /",
        "srun -N2 -n4 --mpi=pmix | ./app /",
        "srun -N 2 -n 4 --mpi pmix -lQ -c1 -t 10 | ./app -N 2 /",
        "srun -ln 4 --exclusive -I10 -K0 --kill-on-bad-exit --nodelist a,b | ./app /",
        "env A=1 timeout 60 mpirun -n 4 | ./app /",
        "salloc -N2 srun -n 4 | ./app /",
        "mpirun -n 1 | ./app a / : -n 2 --bind-to none | ./other b c /",
        "srun -n1 | ./app / : -n3 | ./other /",
    ] {
        let line: Vec<&str> = expected
            .split(' ')
            .filter(|w| !["|", "/"].contains(w))
            .collect();
        assert_eq!(shown(&line.join(" ")), expected);
    }
}

#[test]
fn the_kind_of_a_plain_mpirun_is_told_by_the_file_it_is() {
    let launcher = |line: &str| find(line).unwrap().unwrap().launcher;
    assert_eq!(launcher("mpirun ./app"), Launcher::OpenMpi);
    assert_eq!(
        launcher("/opt/openmpi5/bin/mpirun ./app"),
        Launcher::OpenMpi
    );
    assert_eq!(launcher("/opt/mpich/bin/mpirun ./app"), Launcher::Hydra);
    assert_eq!(launcher("/usr/bin/srun ./app"), Launcher::Slurm);
}

#[test]
fn a_command_without_a_launcher_has_no_launch() {
    for line in [
        "",
        "./app",
        "./script.sh mpirun -n 4 ./app",
        "python3 x.py",
        "env A=1 ./app",
    ] {
        assert_eq!(find(line), Ok(None), "{line}");
    }
}

#[test]
fn behind_an_unknown_option_the_first_word_that_can_be_started_is_taken_and_said_to_be_guessed() {
    let launch = find("mpirun --brand-new 7 -n 4 ./app ./other")
        .unwrap()
        .unwrap();
    assert_eq!((launch.programs.len(), &launch.programs[0]), (1, &(5..7)));
    assert!(launch.guessed);
    assert!(!find("mpirun -n 4 ./app").unwrap().unwrap().guessed);
    let error = find("mpirun --brand-new 7 ./not-there")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("--brand-new") && error.contains("--at"),
        "{error}"
    );
}

#[test]
fn without_a_program_the_way_out_is_named() {
    for line in [
        "mpirun",
        "mpirun -n 4",
        "mpirun -n",
        "srun -N2",
        "mpirun -n 1 ./app : -n 2",
    ] {
        let error = find(line).unwrap_err().to_string();
        assert!(error.contains("--at N"), "{line}: {error}");
    }
}

#[test]
fn programs_named_in_a_file_are_refused() {
    for line in [
        "mpirun --app file",
        "mpiexec.hydra -configfile file",
        "srun --multi-prog file",
    ] {
        assert!(
            matches!(find(line), Err(LaunchError::InFile { .. })),
            "{line}"
        );
    }
}

#[test]
fn the_users_word_for_the_place_is_taken() {
    let command = words("flux run -n 4 ./app x");
    let launch = find_launch(&command, Some(4), &Usual).unwrap().unwrap();
    assert_eq!(launch.launcher, Launcher::Other);
    assert_eq!((launch.programs.len(), &launch.programs[0]), (1, &(4..6)));
    for at in [0, 6] {
        assert!(matches!(
            find_launch(&command, Some(at), &Usual),
            Err(LaunchError::At { .. })
        ));
    }
}

#[test]
fn the_shim_goes_before_every_program_and_the_sender_in_its_place() {
    let command = words("mpirun -n 1 ./app a : -n 2 ./other b c");
    let launch = find_launch(&command, None, &Usual).unwrap().unwrap();
    let join = |line: Vec<OsString>| line.join(OsStr::new(" ")).into_string().unwrap();
    assert_eq!(
        join(launch.with_shim(&command, &words("iw node-run T --"))),
        "mpirun -n 1 iw node-run T -- ./app a : -n 2 iw node-run T -- ./other b c"
    );
    assert_eq!(
        join(launch.with_instead(&command, &words("iw node-send T"))),
        "mpirun -n 1 iw node-send T : -n 2 iw node-send T"
    );
}

#[test]
fn options_that_mark_or_redirect_the_output_are_left_out_when_bundles_are_fetched() {
    for (line, expected) in [
        (
            "mpirun --tag-output -n 4 ./app --tag-output",
            "mpirun -n 4 SEND",
        ),
        (
            "mpirun -n 4 --output-filename out -timestamp-output -x A ./app",
            "mpirun -n 4 -x A SEND",
        ),
        (
            "/opt/openmpi5/bin/mpirun --output tag,timestamp -n 4 ./app",
            "/opt/openmpi5/bin/mpirun -n 4 SEND",
        ),
        (
            "mpiexec.hydra -l -prepend-pattern %r -n 4 ./app",
            "mpiexec.hydra -n 4 SEND",
        ),
        (
            "srun -ln4 -o out --error=err -e err --label ./app",
            "srun -n4 SEND",
        ),
        (
            "srun -lQ -N 2 --output out.%j -i none ./app",
            "srun -Q -N 2 SEND",
        ),
        ("srun -l -oout -uN2 ./app", "srun -uN2 SEND"),
        ("env A=1 srun -n 4 ./app", "env A=1 srun -n 4 SEND"),
    ] {
        let command = words(line);
        let launch = find_launch(&command, None, &Usual).unwrap().unwrap();
        let other = launch.without_output_options(launch.with_instead(&command, &words("SEND")));
        assert_eq!(
            other.join(OsStr::new(" ")).into_string().unwrap(),
            expected,
            "{line}"
        );
    }
}

#[test]
fn to_record_every_rank_by_itself_is_refused_with_the_right_order_of_words() {
    let with = |name: &'static str, value: &'static str| {
        refuse_inside(move |asked| (asked == name).then(|| value.to_owned()))
    };
    for (name, example) in [
        ("OMPI_COMM_WORLD_SIZE", "idlewave record -- mpirun -n 4 "),
        ("PMI_SIZE", "idlewave record -- mpiexec -n 4 "),
        ("SLURM_STEP_NUM_TASKS", "idlewave record -- srun -n 4 "),
    ] {
        let error = with(name, "4").unwrap_err().to_string();
        assert!(error.contains(example), "{error}");
        assert_eq!(with(name, "1"), Ok(()));
    }
    assert_eq!(with("SLURM_NTASKS", "4"), Ok(()));
}
