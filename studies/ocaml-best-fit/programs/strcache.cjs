// A bounded cache of records of mixed sizes under random replacement: strcache.ml in JavaScript, with arrays of numbers,
// because strings of one repeated character share their parts.
'use strict';
let state = 42;

function below(bound) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % bound;
}

function size() {
  const kind = below(100);
  if (kind < 50) return 1 + below(8);
  if (kind < 85) return 8 + below(56);
  if (kind < 98) return 64 + below(448);
  return 512 + below(3584);
}

const [slots, steps] = process.argv.slice(2).map(Number);
const cache = new Array(slots).fill(null);
for (let step = 0; step < steps; step++) cache[below(slots)] = new Array(size()).fill(step);
console.log(cache.reduce((sum, record) => sum + (record === null ? 0 : record.length), 0));
