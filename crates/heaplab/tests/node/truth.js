// Arrays into random slots, by a seeded generator: what is born, how large, and with which birth it dies is known, and goes into the file that
// the first argument names. Each array has a multiple of eight elements, and more than anything else that is allocated here: its size tells it from that.
'use strict';

const SLOTS = 500;
const slots = new Array(SLOTS).fill(null);
const ROUNDS = 10, TURNS = 1000;
// Their elements are not in the heap that is recorded.
const births = new Int32Array(ROUNDS * TURNS);
// With which birth each array is let go of; -1: never.
const deaths = new Int32Array(ROUNDS * TURNS).fill(-1);
const owners = new Int32Array(SLOTS).fill(-1);
let born = 0;

let seed = 12345;
function random(below) {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
    return (seed >> 8) % below;
}

function make(length) {
    return new Array(length).fill(0);
}

function round(count) {
    for (let turn = 0; turn < count; turn++) {
        const slot = random(SLOTS);
        const length = 8 * (64 + random(30));
        slots[slot] = null;
        slots[slot] = make(length);
        if (owners[slot] >= 0) deaths[owners[slot]] = born;
        owners[slot] = born;
        births[born++] = length;
    }
}

for (let rounds = 0; rounds < ROUNDS; rounds++) round(TURNS);
globalThis.kept = slots;
require('fs').writeFileSync(process.argv[2], JSON.stringify({births: [...births], deaths: [...deaths]}));
