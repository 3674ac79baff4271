// What each range of the run holds: lives of objects by the steps of their beginnings and ends, unpacked from the page's
// numbers. Sums over whole steps are exact. How they are packed: `Ranges` in the model of the page (page/model/ranges.rs).

const SURVIVES = 65535;

// What can be asked of a range, with the lives that count. `from` and `to` are steps; `to` is the first step behind it.
const RANGE_MEASURES = [
  ['live', 'Live at its end', (born, died, from, to) => born < to && died >= to],
  ['kept', 'Born inside and live at its end', (born, died, from, to) => born >= from && born < to && died >= to],
  ['asked', 'Asked for inside', (born, died, from, to) => born >= from && born < to],
  ['freed', 'Freed inside', (born, died, from, to) => died >= from && died < to],
  ['temporary', 'Temporary, freed inside', (born, died, from, to) => died >= from && died < to],
];
const PASSES = Object.fromEntries(RANGE_MEASURES.map(([key, , passes]) => [key, passes]));

// Lives one after another, in columns.
class Lives {
  constructor() { this.columns = { born: [], died: [], objects: [], bytes: [], temporaryObjects: [], temporaryBytes: [] }; }

  get count() { return this.columns.born.length; }

  // Objects and bytes of lives `first` to `end` that pass.
  sum(what, range, first = 0, end = this.count) {
    const { born, died, objects, bytes, temporaryObjects, temporaryBytes } = this.columns;
    const [counts, sizes] = what === 'temporary' ? [temporaryObjects, temporaryBytes] : [objects, bytes];
    const passes = PASSES[what];
    const sum = { objects: 0, bytes: 0 };
    for (let life = first; life < end; life += 1) {
      if (!passes(born[life], died[life], range.from, range.to)) continue;
      sum.objects += counts[life];
      sum.bytes += sizes[life];
    }
    return sum;
  }
}

class Ranges {
  constructor(model, numbers, buckets) {
    Object.assign(this, { first: model.first, width: model.width, steps: model.steps, threads: model.threads, exactSizes: model.exact_sizes });
    this.whole = { from: 0, to: model.steps };
    this.read = numbers;
    this.lives = new Lives();
    this.sites = [];
    let node = 0;
    for (let left = this.read(); left > 0; left -= 1) {
      node += this.read();
      const site = { node, thread: this.read(), peakObjects: this.read(), peakBytes: this.read(), first: this.lives.count };
      this.readLives(this.lives, true);
      this.sites.push({ ...site, end: this.lives.count });
    }
    const group = () => this.readLives(new Lives(), false);
    this.buckets = buckets.map(group);
    this.exact = this.exactSizes.map(group);
    this.diedByTime = this.readLifetimes();
    this.diedByBytes = this.readLifetimes();
    delete this.read;
  }

  // Unpacks the page's numbers; null: it has none, or the browser cannot inflate.
  static async of(page) {
    if (!page.ranges || typeof DecompressionStream === 'undefined') return null;
    const packed = Uint8Array.from(atob(page.ranges.packed), (letter) => letter.charCodeAt(0));
    const bytes = new Uint8Array(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'))).arrayBuffer());
    let at = 0;
    const read = () => {
      let number = 0;
      for (let scale = 1; ; scale *= 128) {
        const byte = bytes[at];
        at += 1;
        number += (byte & 127) * scale;
        if (byte < 128) return number;
      }
    };
    return new Ranges(page.ranges, read, page.sizes.buckets);
  }

  readLives(into, withTemporary) {
    const { born, died, objects, bytes, temporaryObjects, temporaryBytes } = into.columns;
    let step = 0;
    for (let left = this.read(); left > 0; left -= 1) {
      step += this.read();
      const later = this.read();
      born.push(step);
      died.push(later === 0 ? SURVIVES : step + later - 1);
      objects.push(this.read());
      bytes.push(this.read());
      const temporary = withTemporary ? this.read() : 0;
      temporaryObjects.push(temporary);
      temporaryBytes.push(temporary > 0 ? this.read() : 0);
    }
    return into;
  }

  readLifetimes() {
    return Array.from({ length: this.steps }, () => Array.from({ length: this.read() }, () => {
      const log = this.read();
      return { from: log === 0 ? 0 : 2 ** (log - 1), objects: this.read(), bytes: this.read() };
    }));
  }

  at(step) { return this.first + step * this.width; }

  // The range of whole steps next to two positions, at least one step; null: the whole run.
  around(a, b) {
    const step = (at) => Math.min(this.steps, Math.max(0, Math.round((at - this.first) / this.width)));
    const from = Math.min(step(Math.min(a, b)), this.steps - 1);
    const to = Math.max(from + 1, step(Math.max(a, b)));
    return from === 0 && to === this.steps ? null : { from, to };
  }

  // As the address has it: two positions.
  write(range) { return range === null ? null : `${this.at(range.from)}-${this.at(range.to)}`; }

  parse(text) {
    const found = /^(\d+)-(\d+)$/.exec(text ?? '');
    return found ? this.around(Number(found[1]), Number(found[2])) : null;
  }

  sum(what, range) { return this.lives.sum(what, range ?? this.whole); }

  // [node, thread, value] of each site; `what` may also be `peak`, which is of the whole run.
  entries(what, unit, range) {
    const value = (site) => {
      if (what === 'peak') return unit === 'byte' ? site.peakBytes : site.peakObjects;
      const sum = this.lives.sum(what, range ?? this.whole, site.first, site.end);
      return unit === 'byte' ? sum.bytes : sum.objects;
    };
    return this.sites.map((site) => [site.node, site.thread, value(site)]).filter(([, , own]) => own > 0);
  }

  // Sums of the lives that belong to some nodes.
  ofNodes(nodes, what, range) {
    const sum = { objects: 0, bytes: 0 };
    for (const site of this.sites) {
      if (!nodes.has(site.node)) continue;
      const own = this.lives.sum(what, range, site.first, site.end);
      sum.objects += own.objects;
      sum.bytes += own.bytes;
    }
    return sum;
  }

  // Lifetimes of what died inside.
  lifetimes(clock, range) {
    const sums = new Map();
    for (const rows of (clock === 'time' ? this.diedByTime : this.diedByBytes).slice(range.from, range.to)) {
      for (const row of rows) {
        const sum = sums.get(row.from) ?? { from: row.from, to: Math.max(1, row.from * 2), objects: 0, bytes: 0 };
        sum.objects += row.objects;
        sum.bytes += row.bytes;
        sums.set(row.from, sum);
      }
    }
    return [...sums.values()].sort((a, b) => a.from - b.from);
  }
}
