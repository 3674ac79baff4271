'use strict';
// A program whose full collections V8 begins by its growing rule, and four that are asked for.
let seed = 7;
const random = below => {
  seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
  return (seed >> 8) % below;
};
const slots = new Array(60000).fill(0);
const shapes = {
  grow: (birth, round) => { slots[round * 14000 + birth % 14000] = new Array(8 + random(60)); },
  replace: () => { slots[random(40000)] = new Array(2 + random(100)); },
  phases: (birth, round) => {
    if (birth === 0) for (let slot = 0; slot < slots.length; slot++) if (random(10) < 7) slots[slot] = 0;
    slots[birth % 50000] = new Array(4 + (round % 3) * 60 + random(20));
  },
};
const birth = shapes[process.argv[2]];
for (let round = 0; round < 4; round++) {
  for (let nth = 0; nth < 70000; nth++) birth(nth, round);
  gc();
}
