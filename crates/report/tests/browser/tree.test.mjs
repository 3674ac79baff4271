// Trees that are made of the flame graph's.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';

const script = readFileSync(new URL('../../assets/tree.js', import.meta.url), 'utf8');
const derived = vm.runInNewContext(`${script}; derived`);

test('by module, a frame without a module counts to its file', () => {
  const frames = [
    { label: 'main', module: 'python3', place: '' },
    { label: '<module>', module: '', place: 'app.py:9' },
    { label: 'Parser.add', module: '', place: 'app.py:5' },
    { label: 'dumps', module: '', place: 'json/__init__.py:231' },
    { label: '0x7f00', module: '', place: '' },
    { label: 'malloc', module: 'libc.so.6', place: 'malloc.c:12' },
  ];
  const paths = { of: () => [0, 1, 2, 3, 4, 5] };
  const tree = derived({ frames }, paths, [[1, 0, 64]], { view: 'modules', threads: [] });
  const labels = tree.parent.map((_, node) => tree.label(node));
  const wanted = ['all', 'python3', 'app.py', 'json/__init__.py', '(no module)', 'libc.so.6'];
  assert.deepEqual([...labels], wanted);
  assert.ok(tree.value.every((value) => value === 64));
});
