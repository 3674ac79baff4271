// Opens a snapshot in VS Code's parser (the package @vscode/v8-heap-parser, WebAssembly) and asks for what a summary shows: what there is to measure of it.
//
//   npm install --prefix FOLDER @vscode/v8-heap-parser
//   NODE_PATH=FOLDER/node_modules node judge/load-wasm.cjs a.heapsnapshot
//
// For `cargo xtask bench snapshot FILE --peer v8-heap-parser`. It is not in this study's package.json: only the benchmark wants it.

const {readFileSync} = require('node:fs');
const {decode_bytes: decodeBytes} = require('@vscode/v8-heap-parser');

const [file] = process.argv.slice(2);
if (!file) {
  console.error('usage: load-wasm.cjs FILE');
  process.exit(2);
}
const graph = decodeBytes(readFileSync(file));
const classes = graph.get_class_groups(0, 1_000_000, false);
const retained = classes.reduce((most, group) => group.retained_size > most ? group.retained_size : most, 0n);
console.log(`${classes.length} classes, the largest retains ${retained} bytes`);
