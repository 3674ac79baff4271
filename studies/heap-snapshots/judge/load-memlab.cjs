// Opens a snapshot in memlab (the package @memlab/core) as its leak finder does: parse, shortest paths, dominators, retained sizes.
//
//   npm install --prefix FOLDER --ignore-scripts @memlab/core@2.0.5
//   NODE_PATH=FOLDER/node_modules node --max-old-space-size=8192 judge/load-memlab.cjs a.heapsnapshot
//
// For `cargo xtask bench snapshot FILE --peer memlab`. It is not in this study's package.json: only the
// benchmark wants it. The scripts that are left out would download a browser.

const {utils, analysis} = require('@memlab/core');

const [file] = process.argv.slice(2);
if (!file) {
  console.error('usage: load-memlab.cjs FILE');
  process.exit(2);
}

async function load() {
  const snapshot = await utils.getSnapshotFromFile(file, {buildNodeIdIndex: true, verbose: false});
  analysis.preparePathFinder(snapshot);
  let nodes = 0;
  let retained = 0;
  snapshot.nodes.forEach(node => {
    nodes += 1;
    retained = Math.max(retained, node.retainedSize);
  });
  console.log(`${nodes} nodes, the largest retains ${retained} bytes`);
}

load().catch(error => {
  console.error(error);
  process.exit(1);
});
