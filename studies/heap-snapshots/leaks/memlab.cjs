// What memlab answers about three snapshots: its clusters in its order, each the steps of a trace
// and what it says is retained.
//
//   node leaks/memlab.cjs FOLDER [--any]      (needs @memlab/api, from here or from a folder of NODE_PATH)
//
// By itself memlab suspects detached elements, unmounted fibers and a few kinds more; with --any a
// filter tells it that whatever retains a kilobyte is one.

'use strict';
const path = require('node:path');
const {findLeaksBySnapshotFilePaths} = require('@memlab/api');
const {config} = require(require.resolve('@memlab/core', {paths: [require.resolve('@memlab/api')]}));

const [folder, any] = process.argv.slice(2);
const file = moment => path.join(folder, moment + '.heapsnapshot');
config.muteConsole = true;
if (any) {
  config.externalLeakFilter = {leakFilter: node => node.type !== 'hidden' && node.retainedSize >= 1024};
}
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = () => true;
const steps = trace => Object.keys(trace).filter(key => !key.startsWith('$'));
findLeaksBySnapshotFilePaths(file('base'), file('target'), file('final'), {workDir: path.join(folder, 'memlab')}).then(traces => {
  write(JSON.stringify(traces.map(steps)) + '\n');
});
