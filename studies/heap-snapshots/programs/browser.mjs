// A headless Chromium, spoken to over its debugging pipe: no port, no WebSocket.

import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {once} from 'node:events';
import {tmpdir} from 'node:os';
import path from 'node:path';

/**
 * Starts `browser`, hands `use` a way to speak to it, and ends it whatever becomes of that.
 *
 * `call(method, params, sessionId)` gives a command's result; `listen(method, take)` hands the parameters of such events to `take` until what it returns is called.
 */
export async function withBrowser(browser, use) {
  const profile = mkdtempSync(path.join(tmpdir(), 'heaplab-chromium-'));
  const chromium = spawn(browser, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--remote-debugging-pipe',
    `--user-data-dir=${profile}`, 'about:blank'], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
  const ended = new Promise(resolve => chromium.once('exit', resolve).once('error', resolve));
  const [input, output] = [chromium.stdio[3], chromium.stdio[4]];
  const waiting = new Map();
  const listeners = new Set();
  let numbers = 0, rest = [];

  // A browser that ends, or was none, answers nothing: whoever waits is told.
  const gone = new Promise((_, reject) => ended.then(why =>
    reject(new Error(`${browser} ${why instanceof Error ? `cannot be started: ${why.message}` : `ended by itself (${why})`}`))));
  gone.catch(() => {});
  input.on('error', () => {});
  output.on('error', () => {});
  output.setEncoding('utf8');
  output.on('data', data => {
    // A message may come in thousands of pieces: they are put together once, when it is whole.
    const pieces = data.split('\0');
    for (let index = 0; index < pieces.length - 1; ++index) {
      rest.push(pieces[index]);
      const message = JSON.parse(rest.join(''));
      rest = [];
      if (message.id) {
        waiting.get(message.id)?.(message);
        waiting.delete(message.id);
      } else {
        listeners.forEach(listener => listener.method === message.method && listener.take(message.params));
      }
    }
    rest.push(pieces.at(-1));
  });

  function call(method, params = {}, sessionId) {
    const id = ++numbers;
    const answer = new Promise((resolve, reject) => waiting.set(id, message =>
      message.error ? reject(new Error(`${method}: ${message.error.message}`)) : resolve(message.result)));
    input.write(JSON.stringify({id, method, params, sessionId}) + '\0');
    return Promise.race([answer, gone]);
  }

  function listen(method, take) {
    const listener = {method, take};
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  try {
    return await use({call, listen});
  } finally {
    chromium.kill();
    await ended;
    rmSync(profile, {recursive: true, force: true, maxRetries: 5});
  }
}
