//! Programs of real runtimes: Go, OCaml, a JVM, Node.

use super::*;

fn built(folder: &Path, name: &str, source: &str, compiler: &[&str]) -> PathBuf {
    std::fs::write(folder.join(name), source).unwrap();
    let output =
        Command::new(compiler[0]).args(&compiler[1..]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    folder.join("program")
}

fn assert_trades(found: &Value) {
    let (cycles, garbage, peaks) =
        (medians(found, "cycles"), medians(found, "garbage_bytes"), medians(found, "peak_bytes"));
    assert!(cycles.windows(2).all(|pair| pair[0] > pair[1]), "cycles fall: {cycles:?}");
    assert!(garbage.windows(2).all(|pair| pair[0] < pair[1]), "garbage a cycle rises: {garbage:?}");
    assert!(peaks.windows(2).all(|pair| pair[0] < pair[1]), "space rises: {peaks:?}");
    assert_eq!(found["runtime"]["answered"], true);
    assert_eq!(found["variants"][0]["effect"], true);
}

const GO: &str = "package main\n\nvar kept [20000][]byte\n\nfunc main() {\n\tfor i := 0; i < 600000; i++ {\n\t\tkept[i*7919%20000] = make([]byte, 512+i%2048)\n\t}\n}\n";

#[test]
fn a_go_program_trades_space_for_cycles() {
    if !heaplab_oracle::runs("go", &["version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path(), "main.go", GO, &["go", "build", "-o", "program", "main.go"]);
    let program = program.to_str().unwrap();
    let found = json(
        folder.path(),
        &["--json", "--vary", "GOGC=25..400x4", "--reps", "3", "--time", "cpu", "--", program],
    );
    assert_trades(&found);
    // Go's default is 100, and the garbage of its collections says so.
    let like = found["variants"][0]["points"][4]["like"].as_str().unwrap();
    let like: f64 = like.strip_prefix("GOGC=").unwrap().parse().unwrap();
    assert!((75.0..135.0).contains(&like), "{like}");
}

#[test]
fn an_ocaml_programs_default_is_found_on_its_curve() {
    if !heaplab_oracle::runs("ocamlopt", &["-version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = built(
        folder.path(),
        "main.ml",
        include_str!("../data/strcache.ml"),
        &["ocamlopt", "main.ml", "-o", "program"],
    );
    let program = program.to_str().unwrap();
    let arguments = [
        "--json",
        "--vary",
        "OCAMLRUNPARAM=s=32k,o={40..320x4}",
        "--reps",
        "3",
        "--time",
        "cpu",
        "--",
        program,
        "20000",
        "100000",
    ];
    let found = json(folder.path(), &arguments);
    assert_trades(&found);
    let version = text(&Command::new("ocamlopt").arg("-version").output().unwrap().stdout);
    let default = if version.starts_with("4.") && version.trim() < "4.13" { 80.0 } else { 120.0 };
    let like: f64 = found["variants"][0]["points"][4]["like"]
        .as_str()
        .unwrap()
        .strip_prefix("o=")
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        (default * 0.75..default * 1.3).contains(&like),
        "{like} where {version} has {default}"
    );
}

#[test]
fn a_jvm_and_node_tell_their_collections() {
    let folder = tempfile::tempdir().unwrap();
    if heaplab_oracle::has("javac") && heaplab_oracle::has("java") {
        let source = "class A { public static void main(String[] a) { byte[][] k = new byte[2000][];\n\
                      for (int i = 0; i < 300000; i++) k[i % 2000] = new byte[1000]; } }";
        std::fs::write(folder.path().join("A.java"), source).unwrap();
        assert!(
            Command::new("javac")
                .arg("A.java")
                .current_dir(folder.path())
                .status()
                .unwrap()
                .success()
        );
        let vary = "JAVA_TOOL_OPTIONS=-Xmx{4..64x3}m";
        let found = json(
            folder.path(),
            &[
                "--json",
                "--vary",
                vary,
                "--compare=-XX:+UseSerialGC,-XX:+UseParallelGC",
                "--reps",
                "1",
                "--",
                "java",
                "A",
            ],
        );
        let cycles = medians(&found, "cycles");
        assert!(
            found["runtime"]["answered"] == true && cycles[0] > cycles[2] && cycles[2] > 0.0,
            "{cycles:?}"
        );
    }
    if heaplab_oracle::has("node") {
        // Most of it dies young: of an array of survivors alone V8 learns to put them into the old
        // space.
        let source = "const kept = []; for (let i = 0; i < 3e6; i++) { globalThis.last = [i, `${i}`];\n\
                      if (i % 50 === 0) kept[i / 50 % 5000] = globalThis.last; }";
        std::fs::write(folder.path().join("a.js"), source).unwrap();
        let vary = "NODE_OPTIONS=--max-semi-space-size={1,4,16}";
        let found =
            json(folder.path(), &["--json", "--vary", vary, "--reps", "1", "--", "node", "a.js"]);
        let cycles = medians(&found, "cycles");
        assert!(
            found["runtime"]["answered"] == true && cycles[0] > cycles[1] && cycles[1] > cycles[2],
            "{cycles:?}"
        );
    }
}
