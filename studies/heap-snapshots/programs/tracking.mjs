// Allocation-tracking files: with trace_function_infos, trace_tree, samples, and a trace_node_id in every node.
//
//   node24 programs/tracking.mjs NODE OUT.heapsnapshot [--times N]
//
// The tracked Node is spoken to from another process. One that listens to itself allocates while V8 serializes: the header's counts
// are then too small (DevTools refuses such a file), and `writeHeapSnapshot` while tracking crashes Node 14 to 18.
// Run by a Node of 22 or later, for its WebSocket.

import {spawn} from 'node:child_process';
import {closeSync, openSync, writeSync} from 'node:fs';
import {once} from 'node:events';
import {parseArgs} from 'node:util';

const {positionals: [node, out], values: {times}} = parseArgs({allowPositionals: true, options: {times: {type: 'string', default: '1'}}});
const last = Number(times);

const PROGRAM = `
  class Session { constructor(number) { this.number = number; this.payload = new Array(20).fill(number); } }
  function even(number) { return new Session(number); }
  function odd(number) { return [number, {text: 'text ' + number}].concat(even(number)); }
  var kept = [];
  function grow(count) { for (let number = 0; number < count; ++number) { kept.push(number % 2 ? even(number) : odd(number)); } }
`;

const child = spawn(node, ['--inspect=127.0.0.1:0', '-e', 'setInterval(() => {}, 1000)'], {stdio: ['ignore', 'ignore', 'pipe']});
try {
  const [address] = await new Promise((resolve, reject) => {
    let text = '';
    child.stderr.on('data', data => {
      text += data;
      const found = /ws:\/\/\S+/.exec(text);
      found && resolve(found);
    });
    child.on('exit', () => reject(new Error(`${node} ended: ${text}`)));
  });
  const socket = new WebSocket(address);
  await once(socket, 'open');
  const waiting = new Map();
  let numbers = 0, file;
  socket.onmessage = ({data}) => {
    const message = JSON.parse(data);
    if (message.id) {
      waiting.get(message.id)(message);
    } else if (message.method === 'HeapProfiler.addHeapSnapshotChunk') {
      writeSync(file, message.params.chunk);
    }
  };
  const call = (method, params = {}) => {
    const id = ++numbers;
    socket.send(JSON.stringify({id, method, params}));
    return new Promise((resolve, reject) => waiting.set(id, message => message.error ? reject(new Error(`${method}: ${message.error.message}`)) : resolve(message.result)));
  };
  await call('HeapProfiler.enable');
  await call('HeapProfiler.startTrackingHeapObjects', {trackAllocations: true});
  await call('Runtime.evaluate', {expression: PROGRAM});
  for (let time = 1; time <= last; ++time) {
    await call('Runtime.evaluate', {expression: `grow(${300 * time})`});
    // The samples are of a clock: let it tick.
    await new Promise(resolve => setTimeout(resolve, 200));
    file = openSync(time === 1 ? out : out.replace(/\.heapsnapshot$/, `.${time}.heapsnapshot`), 'w');
    await call(time === last ? 'HeapProfiler.stopTrackingHeapObjects' : 'HeapProfiler.takeHeapSnapshot', {reportProgress: false});
    closeSync(file);
  }
  socket.close();
} finally {
  child.removeAllListeners('exit');
  child.kill();
}
