// The tree of a flame graph, and the trees that are made of it: bottom up, by module, by thread, of a function's callers
// and callees, without the allocator's own frames.

const ROOT = -1;
const MERGED = -2;

// A tree with children sorted by value, and totals by function. `parts` are lists of parents, frames and values, a parent
// always before its children; a frame beyond the page's is one of `extra`.
class FlameTree {
  constructor(page, { parent, frame, value, extra = [] }) {
    this.page = page;
    this.parent = parent;
    this.frame = frame;
    this.value = value;
    this.extra = extra;
    this.children = parent.map(() => []);
    this.depth = new Uint16Array(parent.length);
    for (let node = 1; node < parent.length; node += 1) {
      this.depth[node] = this.depth[parent[node]] + 1;
      if (this.value[node] > 0) this.children[parent[node]].push(node);
    }
    for (const list of this.children) list.sort((a, b) => this.value[b] - this.value[a] || a - b);
  }

  // One of the page's measures, as the page has it.
  static ofMeasure(page, measure) {
    const { parent, frame, values } = page.flame;
    return new FlameTree(page, { parent, frame, value: values[measure] });
  }

  // The place that a frame's number means.
  info(frame) {
    const { frames } = this.page;
    return frame < frames.length ? frames[frame] : this.extra[frame - frames.length];
  }

  label(node) {
    const frame = this.frame[node];
    return frame === ROOT ? 'all' : frame === MERGED ? '(small)' : this.info(frame).label;
  }

  module(node) {
    const frame = this.frame[node];
    return frame < 0 ? '' : this.info(frame).module;
  }

  place(node) {
    const frame = this.frame[node];
    return frame < 0 ? '' : this.info(frame).place;
  }

  self(node) {
    return this.value[node] - this.children[node].reduce((sum, child) => sum + this.value[child], 0);
  }

  isWithin(node, ancestor) {
    let here = node;
    while (here > ancestor) here = this.parent[here];
    return here === ancestor;
  }

  // What the nodes of `wanted` hold, those inside one another counted once.
  coverage(wanted) {
    let sum = 0;
    const visit = [0];
    while (visit.length > 0) {
      const node = visit.pop();
      if (wanted.has(node)) sum += this.value[node];
      else visit.push(...this.children[node]);
    }
    return sum;
  }

  // By function: its own bytes, and those of everything under its outermost call.
  byFunction() {
    const rows = new Map();
    const open = new Map();
    const visit = [[0, false]];
    while (visit.length > 0) {
      const [node, leaving] = visit.pop();
      const frame = this.frame[node];
      const depth = open.get(frame) ?? 0;
      if (leaving) {
        open.set(frame, depth - 1);
        continue;
      }
      if (frame >= 0) {
        const row = rows.get(frame) ?? { frame, self: 0, total: 0 };
        row.self += this.self(node);
        if (depth === 0) row.total += this.value[node];
        rows.set(frame, row);
      }
      open.set(frame, depth + 1);
      visit.push([node, true], ...this.children[node].map((child) => [child, false]));
    }
    return [...rows.values()];
  }
}

// Most frames that are the allocator's and the standard library's.
const WRAPPERS_MAX = 32;

// Whether no symbol covers a place: it is named by module and offset.
function isNameless({ label, module }) {
  return label.startsWith(`${module}+0x`) || label.startsWith('0x');
}

// The paths of a page's flame graph, the outermost frame first.
class Paths {
  constructor(page) {
    this.page = page;
    this.cache = new Map();
  }

  of(node, hides) {
    const key = hides ? node : -node - 1;
    let path = this.cache.get(key);
    if (!path) {
      const { parent, frame } = this.page.flame;
      path = [];
      for (let here = node; here !== 0; here = parent[here]) path.push(frame[here]);
      path = path.slice(hides ? this.wrappers(path) : 0).reverse();
      this.cache.set(key, path);
    }
    return path;
  }

  // How many frames, the innermost first, only pass a request on. Nameless ones may stand between them; one always stays.
  // The report does the same (Tables::wrappers).
  wrappers(path) {
    let leading = 0;
    let wrappers = 0;
    for (; leading < Math.min(WRAPPERS_MAX, path.length) && path[leading] >= 0; leading += 1) {
      const frame = this.page.frames[path[leading]];
      if (frame.wrapper) wrappers = leading + 1;
      else if (!isNameless(frame)) break;
    }
    return wrappers === path.length ? Math.max(0, wrappers - 1) : wrappers;
  }
}

// The tree of `entries` ([node, thread, value]) seen in a way: 'down', 'up', 'modules', 'threads', 'callers' or 'callees'
// of the function `focus` (a frame). Recursion counts once, at the outermost call.
function derived(page, paths, entries, { view, focus, hides, threads }) {
  const extra = [];
  const numbers = new Map();
  const numberOf = (label, module) => {
    const key = `${module}\n${label}`;
    if (!numbers.has(key)) {
      numbers.set(key, page.frames.length + extra.length);
      extra.push({ label, module, place: '' });
    }
    return numbers.get(key);
  };
  // Code that an interpreter runs or a program makes has no module, but perhaps a file of source.
  const moduleOf = (frame) => {
    if (frame < 0) return frame;
    const { module, place } = page.frames[frame];
    return numberOf(module || place.replace(/:\d+$/, '') || '(no module)', module);
  };
  const ways = {
    down: (path) => path,
    up: (path) => [...path].reverse(),
    modules: (path) => path.map(moduleOf).filter((module, at, all) => module !== all[at - 1]),
    threads: (path, thread) => [numberOf(`thread ${threads[thread] ?? '?'}`, ''), ...path],
    callees: (path) => (path.includes(focus) ? path.slice(path.indexOf(focus)) : null),
    callers: (path) => (path.includes(focus) ? path.slice(0, path.indexOf(focus) + 1).reverse() : null),
  };
  const parts = { parent: [0], frame: [ROOT], value: [0], extra };
  const children = [new Map()];
  for (const [node, thread, value] of entries) {
    const path = ways[view](paths.of(node, hides), thread);
    if (path === null) continue;
    let here = 0;
    parts.value[0] += value;
    for (const frame of path) {
      let next = children[here].get(frame);
      if (next === undefined) {
        next = parts.parent.length;
        children[here].set(frame, next);
        children.push(new Map());
        parts.parent.push(here);
        parts.frame.push(frame);
        parts.value.push(0);
      }
      here = next;
      parts.value[here] += value;
    }
  }
  return new FlameTree(page, parts);
}

// Who calls a function and whom it calls, each with what is under that call.
function neighbours(paths, entries, focus, hides) {
  const [callers, callees] = [new Map(), new Map()];
  const found = { total: 0, self: 0, callers, callees };
  for (const [node, , value] of entries) {
    const path = paths.of(node, hides);
    const at = path.indexOf(focus);
    if (at < 0) continue;
    found.total += value;
    const caller = at === 0 ? ROOT : path[at - 1];
    callers.set(caller, (callers.get(caller) ?? 0) + value);
    if (at + 1 === path.length) found.self += value;
    else callees.set(path[at + 1], (callees.get(path[at + 1]) ?? 0) + value);
  }
  return found;
}
