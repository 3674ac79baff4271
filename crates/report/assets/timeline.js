// Live bytes over time: one SVG, drawn again on zoom. The envelope (most bytes within a step) is filled, so that a peak
// between two points is never lost; the line is what was live at the end of each step. Both go up and down at once: memory
// between two levels never existed. Where a step has no events, the level of the step before it holds.

const TIMELINE_HEIGHT = 304;
const TIMELINE_MARGIN = { top: 38, right: 14, bottom: 44, left: 70 };
// Rows for the names of marks, so that neighbours need not hide one another.
const MARK_ROWS = [12, 26];
// So few samples are dots: a line of one point is not seen.
const DOTS_MOST = 40;

function timelineSection(page) {
  const line = page.timeline;
  if (line.at.length === 0) return [empty('This recording has no events, so there is nothing to draw over time.')];
  const chart = new TimelineChart(page);
  if (page.ranges) chart.selects();
  const parts = [chart.controls, chart.box, chart.readout];
  if (page.ranges) parts.push(rangePanel(page));
  if (line.samples.time_ns.length === 0) {
    if (line.axis !== 'time') parts.push(note('This trace has no time stamps, so the axis counts events.'));
    parts.push(note('Resident memory was not sampled, so the chart shows only what the program asked for.'));
  } else {
    parts.push(note(page.metaspaces.length ? 'Resident memory is the whole JVM in memory; live bytes are blocks of its metaspace.' : residentWords(page.totals)));
  }
  if (line.marks.length > 0) parts.push(marksTable(line));
  parts.push(timelineTable(page));
  return parts;
}

function residentWords({ resident_peak_bytes: resident, peak_bytes: peak, resident_is_kernels: kernels }) {
  const most = kernels ? `The most the kernel counted is ${formatBytes(resident)}` : `The largest sample is ${formatBytes(resident)}, and between samples it may have been more`;
  const known = 'Live bytes are requests to malloc that the program had not freed; resident memory is the whole process in memory.';
  if (peak > resident) return `${known} ${most}, less than was live: blocks that are never written take no memory.`;
  return `${known} ${most}; the other ${formatBytes(resident - peak)} (${formatShare(resident - peak, resident)}) are not blocks of malloc: code and data of the program and its libraries, stacks, mappings made without malloc, the allocator’s rounding and free memory, and the recorder’s pages. The division is not exact: the two peaks may be of different moments, and blocks that are never written are not resident.`;
}

function marksTable(line) {
  const of = page.recording.process ? 'this process' : 'the program';
  const away = (row) => (row.at < line.begin ? `${of} had not begun` : `${of} had ended`);
  let before = null;
  const rows = line.marks.map((mark) => {
    const change = mark.live_bytes === null || before === null ? null : mark.live_bytes - before;
    before = mark.live_bytes ?? before;
    return { ...mark, change };
  });
  const columns = [
    { title: 'At', numeric: true, value: (row) => row.at, cell: (row) => positionText(line, row.at) },
    { title: 'Live then', numeric: true, value: (row) => row.live_bytes ?? -1, cell: (row) => (row.live_bytes === null ? away(row) : bytesNode(row.live_bytes)) },
    { title: 'Since the mark before', numeric: true, value: (row) => row.change ?? 0, cell: (row) => (row.change === null ? '–' : [row.change > 0 ? '+' : '', bytesNode(row.change)]) },
    { title: 'Mark', class: 'wide', value: (row) => row.name },
  ];
  if (rows.some((row) => row.process)) columns.push({ title: 'Set in process', value: (row) => row.process, cell: (row) => row.process || '–' });
  return sortable('Marks', columns, rows, { first: 8, noun: 'mark' });
}

function timelineTable(page) {
  const { at: time, live_bytes: live, max_bytes: max, live_objects: objects } = page.timeline;
  const step = Math.max(1, Math.ceil(time.length / 24));
  const rows = [];
  for (let end = step; end < time.length + step; end += step) {
    const last = Math.min(end, time.length) - 1;
    const most = Math.max(...max.slice(end - step, last + 1));
    rows.push({ time: time[last + 1] ?? page.timeline.end, live: live[last], objects: objects[last], most });
  }
  const table = sortable('Live bytes over time, in steps', [
    { title: 'Until', numeric: true, value: (row) => row.time, cell: (row) => positionText(page.timeline, row.time) },
    { title: 'Live', numeric: true, value: (row) => row.live, cell: (row) => bytesNode(row.live) },
    { title: 'Most within the step', numeric: true, value: (row) => row.most, cell: (row) => bytesNode(row.most) },
    { title: 'Objects', numeric: true, value: (row) => row.objects, cell: (row) => formatCount(row.objects) },
  ], rows, { first: 24 });
  return el('details', { class: 'as-table' }, el('summary', {}, 'The same as a table'), table);
}

class TimelineChart {
  constructor(page) {
    this.page = page;
    // A page may have several.
    TimelineChart.made = (TimelineChart.made ?? 0) + 1;
    this.id = `time-${TimelineChart.made}`;
    this.line = page.timeline;
    this.begin = this.line.begin;
    this.end = Math.max(this.line.end, ...this.line.samples.time_ns.slice(-1), this.begin + 1);
    this.view = [this.begin, this.end];
    // Bytes that the scale reaches at least, without resident memory and with it.
    this.least = [0, 0];
    this.cursor = null;
    this.drag = null;
    this.selecting = false;
    this.resident = this.line.samples.time_ns.length > 0;
    this.svg = svg('svg', { class: 'chart', height: TIMELINE_HEIGHT, tabindex: '0', role: 'application', 'aria-roledescription': 'chart', 'aria-describedby': `${this.id}-help`, 'aria-label': this.describe() });
    this.box = el('div', { class: 'chart-box' }, this.svg);
    this.readout = el('p', { class: 'readout', 'aria-live': 'polite' });
    this.whole = el('button', { type: 'button', class: 'quiet', disabled: true, onclick: () => this.showWhole() }, 'Whole run');
    this.help = el('span', { class: 'help', id: `${this.id}-help` }, 'Drag to zoom. With the keyboard: arrows move, + and − zoom, Escape shows the whole run.');
    this.controls = el('div', { class: 'controls' }, this.legend(), this.whole, this.help);
    this.listen();
    redrawn(this.box, () => this.draw());
  }

  // The axis ends no earlier.
  showTo(end) {
    this.end = Math.max(this.end, end);
    this.view = [this.begin, this.end];
  }

  describe() {
    const { peak_bytes: peak, end_bytes: end } = this.page.totals;
    return `Live bytes from ${this.text(this.begin)} to ${this.text(this.end)}: peak ${formatBytes(peak)} at ${this.text(this.line.peak_at)}, ${formatBytes(end)} at the end. The same is below as a table.`;
  }

  text(position) { return positionText(this.line, position); }

  legend() {
    const entry = (kind, text) => el('span', { class: 'key' }, el('span', { class: `swatch ${kind}`, 'aria-hidden': 'true' }), text);
    const toggle = el('label', { class: 'key' }, el('input', { type: 'checkbox', checked: true, onchange: (event) => { this.resident = event.target.checked; this.draw(); } }),
      el('span', { class: 'swatch resident', 'aria-hidden': 'true' }), 'resident memory');
    return el('span', { class: 'legend' }, entry('live', 'live bytes'), this.resident ? toggle : null);
  }

  // From here on a drag chooses the range that the page is about, and a button zooms to it.
  selects() {
    this.selecting = true;
    this.closer = el('button', { type: 'button', class: 'quiet', disabled: true, onclick: () => this.zoom(...this.rangeEdges()) }, 'Zoom to the range');
    this.whole.after(this.closer);
    this.help.textContent = 'Drag to choose a range; the page follows it. With the keyboard: arrows move, [ begins and ] ends a range, + and − zoom, Escape shows the whole run.';
    choices.on(['range'], () => this.draw());
  }

  rangeEdges() {
    const { ranges, range } = lens;
    return range ? [Math.max(this.begin, ranges.at(range.from)), Math.min(this.end, ranges.at(range.to))] : null;
  }

  showWhole() {
    if (this.selecting && lens.range) chooseRange(null);
    this.zoom(this.begin, this.end);
  }

  select(a, b) {
    if (lens.ranges) chooseRange(lens.ranges.around(a, b));
  }

  zoom(from, to) {
    const least = (this.end - this.begin) / 1e5;
    if (to - from < least) return;
    this.view = [Math.max(this.begin, from), Math.min(this.end, to)];
    this.draw();
  }

  get width() { return Math.max(280, this.box.clientWidth); }
  get plot() { return this.width - TIMELINE_MARGIN.left - TIMELINE_MARGIN.right; }
  x(time) { return TIMELINE_MARGIN.left + ((time - this.view[0]) / (this.view[1] - this.view[0])) * this.plot; }
  y(bytes) { return TIMELINE_HEIGHT - TIMELINE_MARGIN.bottom - (bytes / this.top) * (TIMELINE_HEIGHT - TIMELINE_MARGIN.top - TIMELINE_MARGIN.bottom); }
  timeAt(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left - TIMELINE_MARGIN.left;
    return this.view[0] + Math.min(1, Math.max(0, x / this.plot)) * (this.view[1] - this.view[0]);
  }

  draw() {
    const edges = this.selecting ? this.rangeEdges() : null;
    this.whole.disabled = this.view[0] === this.begin && this.view[1] === this.end && !edges;
    if (this.closer) this.closer.disabled = !edges;
    const [from, to] = this.view;
    // The steps that overlap the view.
    const first = Math.max(0, lowerBound(this.line.at, from) - 1);
    const last = Math.max(first, lowerBound(this.line.at, to) - 1);
    const samples = this.resident ? this.line.samples : { time_ns: [], resident_bytes: [] };
    const sampleFrom = Math.max(0, lowerBound(samples.time_ns, from) - 1);
    const sampleTo = Math.min(samples.time_ns.length, lowerBound(samples.time_ns, to) + 1);
    const ceiling = this.resident && this.page.totals.resident_is_kernels && to - from === this.end - this.begin ? this.page.totals.resident_peak_bytes : 0;
    const most = Math.max(this.mostShown(first, last, samples, sampleFrom, sampleTo), ceiling, this.least[this.resident ? 1 : 0]);
    this.ticks = byteTicks(most);
    this.top = most * 1.04;
    const clip = { 'clip-path': `url(#${this.id}-clip)` };
    this.svg.setAttribute('width', this.width);
    this.svg.replaceChildren(
      svg('defs', {}, svg('clipPath', { id: `${this.id}-clip` }, svg('rect', { x: TIMELINE_MARGIN.left, y: 0, width: this.plot, height: TIMELINE_HEIGHT - TIMELINE_MARGIN.bottom + 1 }))),
      this.grid(),
      svg('g', clip, svg('path', { class: 'area', d: this.areaPath(first, last) }), svg('path', { class: 'line', d: this.livePath(first, last) }),
        svg('path', { class: 'line resident', d: this.samplePath(samples, sampleFrom, sampleTo) }), ...this.dots(samples, sampleFrom, sampleTo)),
      this.ceiling(ceiling), this.marks(), this.peak(), this.outside(edges),
      (this.brush = svg('rect', { class: 'brush', y: TIMELINE_MARGIN.top, height: TIMELINE_HEIGHT - TIMELINE_MARGIN.top - TIMELINE_MARGIN.bottom, visibility: 'hidden' })),
      (this.hair = svg('g', { class: 'hair', visibility: 'hidden' }, svg('line', { y1: TIMELINE_MARGIN.top, y2: TIMELINE_HEIGHT - TIMELINE_MARGIN.bottom }), svg('circle', { r: 4 }))));
    this.point(this.cursor);
  }

  // What lies outside of the range is covered; its edges are lines.
  outside(edges) {
    const group = svg('g', { class: 'range' });
    if (!edges) return group;
    const [left, right] = [TIMELINE_MARGIN.left, this.width - TIMELINE_MARGIN.right];
    const [a, b] = edges.map((edge) => Math.min(right, Math.max(left, this.x(edge))));
    const [y, height] = [TIMELINE_MARGIN.top, TIMELINE_HEIGHT - TIMELINE_MARGIN.top - TIMELINE_MARGIN.bottom];
    group.append(svg('rect', { x: left, width: a - left, y, height }), svg('rect', { x: b, width: right - b, y, height }),
      ...[a, b].map((x) => svg('line', { x1: x, x2: x, y1: y, y2: y + height })));
    return group;
  }

  stepEnd(index) { return this.line.at[index + 1] ?? this.line.end; }

  // Where a step's own width ends; until the next step begins its last level holds.
  stepWidthEnd(index) { return Math.min(this.line.at[index] + this.line.width, this.stepEnd(index)); }

  livePath(first, last) {
    const points = [];
    for (let i = first; i <= last; i += 1) points.push([this.stepWidthEnd(i), this.line.live_bytes[i]]);
    const before = first > 0 ? this.line.live_bytes[first - 1] : 0;
    return this.stepped([[this.line.at[first], before], ...points], this.stepEnd(last));
  }

  areaPath(first, last) {
    if (last < first) return '';
    const points = [];
    for (let i = first; i <= last; i += 1) {
      points.push([this.line.at[i], this.line.max_bytes[i]]);
      if (this.stepWidthEnd(i) < this.stepEnd(i)) points.push([this.stepWidthEnd(i), this.line.live_bytes[i]]);
    }
    const floor = this.y(0).toFixed(1);
    return `M${this.x(points[0][0]).toFixed(1)},${floor}${this.stepped(points, this.stepEnd(last)).replace('M', 'L')}V${floor}Z`;
  }

  // A sample holds until the next: what was resident between them nobody saw.
  samplePath(samples, from, to) {
    const points = [];
    for (let i = from; i < to; i += 1) points.push([samples.time_ns[i], samples.resident_bytes[i]]);
    return points.length === 0 ? '' : this.stepped(points, points.at(-1)[0]);
  }

  // Levels that hold from their time to the next one's, the last until `end`.
  stepped(points, end) {
    const at = ([time, bytes]) => [this.x(time).toFixed(1), this.y(bytes).toFixed(1)];
    const [x, y] = at(points[0]);
    return `M${x},${y}${points.slice(1).map(at).map(([x, y]) => `H${x}V${y}`).join('')}H${this.x(end).toFixed(1)}`;
  }

  // The most that is drawn between two moments: what lies beyond them must not set the scale.
  mostShown(first, last, samples, from, to) {
    const [begin, end] = this.view;
    let most = 1;
    for (let i = first; i <= last; i += 1) {
      most = Math.max(most, this.stepWidthEnd(i) >= begin ? this.line.max_bytes[i] : this.line.live_bytes[i]);
    }
    for (let i = from; i < to; i += 1) {
      const until = samples.time_ns[i + 1] ?? samples.time_ns[i];
      if (samples.time_ns[i] <= end && until >= begin) most = Math.max(most, samples.resident_bytes[i]);
    }
    return most;
  }

  // The kernel says how much it was, and not when.
  ceiling(bytes) {
    if (bytes === 0) return svg('g');
    const y = this.y(bytes);
    return svg('g', { class: 'ceiling' }, svg('line', { x1: TIMELINE_MARGIN.left, x2: this.width - TIMELINE_MARGIN.right, y1: y, y2: y }),
      svg('text', { x: TIMELINE_MARGIN.left + 6, y: y + 13 }, `most resident ${formatBytes(bytes)}`));
  }

  dots(samples, from, to) {
    if (to - from > DOTS_MOST) return [];
    return samples.time_ns.slice(from, to).map((time, index) => svg('circle', { class: 'dot resident', cx: this.x(time), cy: this.y(samples.resident_bytes[from + index]), r: 2.5 }));
  }

  grid() {
    const bottom = TIMELINE_HEIGHT - TIMELINE_MARGIN.bottom;
    const group = svg('g', { class: 'grid' });
    for (const tick of this.ticks) {
      group.append(svg('line', { x1: TIMELINE_MARGIN.left, x2: this.width - TIMELINE_MARGIN.right, y1: this.y(tick), y2: this.y(tick) }),
        svg('text', { x: TIMELINE_MARGIN.left - 8, y: this.y(tick) + 4, 'text-anchor': 'end' }, tick === 0 ? '0' : formatBytes(tick).replace(/\.0+ /, ' ')));
    }
    for (const tick of axisTicks(this.line, this.view[0], this.view[1], Math.max(2, Math.floor(this.plot / 80)))) {
      // A label in the middle of the last tick would be cut at the chart's edge.
      const anchor = this.width - this.x(tick.time) < tick.label.length * 3.5 ? 'end' : 'middle';
      const x = anchor === 'end' ? this.width : this.x(tick.time);
      group.append(svg('line', { x1: this.x(tick.time), x2: this.x(tick.time), y1: bottom, y2: bottom + 5 }),
        svg('text', { x, y: bottom + 19, 'text-anchor': anchor }, tick.label));
    }
    group.append(svg('text', { class: 'axis', x: TIMELINE_MARGIN.left + this.plot / 2, y: TIMELINE_HEIGHT - 6, 'text-anchor': 'middle' }, this.line.axis === 'time' ? 'time since the recording began' : 'events'),
      svg('text', { class: 'axis', x: 12, y: (TIMELINE_MARGIN.top + bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${(TIMELINE_MARGIN.top + bottom) / 2})` }, 'memory'));
    return group;
  }

  // A name stands in the first row where its neighbours leave room; without room it is in the table and in the line's title.
  marks() {
    const group = svg('g', { class: 'marks' });
    const free = MARK_ROWS.map(() => -Infinity);
    for (const mark of this.line.marks) {
      if (mark.at < this.view[0] || mark.at > this.view[1]) continue;
      const x = this.x(mark.at);
      const label = mark.name.length > 24 ? `${mark.name.slice(0, 23)}…` : mark.name;
      const width = label.length * 6.6 + 8;
      const flip = x + width > this.width;
      const row = free.findIndex((end) => (flip ? x - width : x) > end);
      if (row >= 0) free[row] = flip ? x : x + width;
      group.append(svg('g', {}, svg('title', {}, `${mark.name}, ${this.text(mark.at)}`), svg('line', { x1: x, x2: x, y1: row >= 0 ? MARK_ROWS[row] + 4 : TIMELINE_MARGIN.top - 6, y2: TIMELINE_HEIGHT - TIMELINE_MARGIN.bottom }),
        row >= 0 ? svg('text', { x: flip ? x - 4 : x + 4, y: MARK_ROWS[row], 'text-anchor': flip ? 'end' : 'start' }, label) : null));
    }
    return group;
  }

  peak() {
    const { peak_bytes: bytes } = this.page.totals;
    const at = this.line.peak_at;
    if (at < this.view[0] || at > this.view[1] || bytes === 0) return svg('g');
    const x = this.x(at);
    const right = x > this.width - 150;
    const group = svg('g', { class: 'peak' }, svg('circle', { cx: x, cy: this.y(bytes), r: 4.5 }));
    group.append(svg('text', { x: right ? x - 9 : x + 9, y: Math.max(TIMELINE_MARGIN.top + 2, this.y(bytes) - 6), 'text-anchor': right ? 'end' : 'start' }, `peak ${formatBytes(bytes)}`));
    return group;
  }

  point(index) {
    this.cursor = index;
    const [from, to] = this.view;
    if (index === null || this.stepEnd(index) < from || this.line.at[index] > to) {
      this.hair.setAttribute('visibility', 'hidden');
      this.readout.replaceChildren(el('span', {}, `${this.text(from)} to ${this.text(to)} shown. `), el('span', { class: 'muted' }, 'Point at the chart to read a moment.'));
      return;
    }
    const x = this.x(Math.min(this.stepEnd(index), to));
    const [hair, dot] = this.hair.children;
    hair.setAttribute('x1', x);
    hair.setAttribute('x2', x);
    dot.setAttribute('cx', x);
    dot.setAttribute('cy', this.y(this.line.live_bytes[index]));
    this.hair.setAttribute('visibility', 'visible');
    this.readout.replaceChildren(...this.reading(index));
  }

  reading(index) {
    const time = this.stepEnd(index);
    const parts = [el('strong', {}, this.text(time)), ' live ', bytesNode(this.line.live_bytes[index]), ` in ${plural(this.line.live_objects[index], 'object')}`];
    if (this.line.max_bytes[index] > this.line.live_bytes[index]) parts.push(', most within this step ', bytesNode(this.line.max_bytes[index]));
    const samples = this.line.samples;
    const sample = nearest(samples.time_ns, time);
    if (sample !== undefined) {
      const far = Math.abs(samples.time_ns[sample] - time) * 50 > this.view[1] - this.view[0];
      parts.push(', resident ', bytesNode(samples.resident_bytes[sample]), far ? ` (sampled at ${formatTime(samples.time_ns[sample])})` : '');
    }
    const near = this.line.marks.filter((mark) => mark.at <= time).at(-1);
    if (near) parts.push(`, after “${near.name}”`);
    return parts;
  }

  listen() {
    const target = this.svg;
    target.addEventListener('pointermove', (event) => this.move(event));
    target.addEventListener('pointerleave', () => { if (!this.drag) this.point(null); });
    target.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      this.drag = this.timeAt(event);
      target.setPointerCapture(event.pointerId);
    });
    target.addEventListener('pointerup', (event) => this.drop(event));
    target.addEventListener('pointercancel', () => { this.drag = null; this.brush.setAttribute('visibility', 'hidden'); });
    target.addEventListener('dblclick', () => this.showWhole());
    target.addEventListener('keydown', (event) => this.key(event));
  }

  move(event) {
    const time = this.timeAt(event);
    this.point(Math.max(0, lowerBound(this.line.at, time) - 1));
    if (this.drag === null) return;
    const [a, b] = [this.x(Math.min(this.drag, time)), this.x(Math.max(this.drag, time))];
    this.brush.setAttribute('x', a);
    this.brush.setAttribute('width', b - a);
    this.brush.setAttribute('visibility', 'visible');
  }

  drop(event) {
    if (this.drag === null) return;
    const time = this.timeAt(event);
    const [a, b] = [Math.min(this.drag, time), Math.max(this.drag, time)];
    this.drag = null;
    this.brush.setAttribute('visibility', 'hidden');
    if (this.x(b) - this.x(a) <= 8) return;
    if (this.selecting) this.select(a, b);
    else this.zoom(a, b);
  }

  key(event) {
    const times = this.line.at;
    const here = this.cursor ?? Math.min(times.length - 1, lowerBound(times, (this.view[0] + this.view[1]) / 2));
    const stride = Math.max(1, Math.round(times.length / (event.shiftKey ? 20 : 200)));
    const middle = times[here];
    const span = this.view[1] - this.view[0];
    const around = (factor) => this.zoom(middle - (middle - this.view[0]) * factor, middle + (this.view[1] - middle) * factor);
    const actions = {
      ArrowLeft: () => this.point(Math.max(0, here - stride)),
      ArrowRight: () => this.point(Math.min(times.length - 1, here + stride)),
      Home: () => this.point(0),
      End: () => this.point(times.length - 1),
      '+': () => around(0.5),
      '=': () => around(0.5),
      '-': () => (span * 2 >= this.end - this.begin ? this.zoom(this.begin, this.end) : around(2)),
      Escape: () => this.showWhole(),
    };
    if (this.selecting) {
      const [from, to] = this.rangeEdges() ?? [this.begin, this.end];
      actions['['] = () => this.select(middle, to > middle ? to : this.end);
      actions[']'] = () => this.select(from < this.stepEnd(here) ? from : this.begin, this.stepEnd(here));
    }
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }
}

function path(points) {
  return points.map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${x.toFixed(1)},${y.toFixed(1)}`).join('');
}

// The first index whose value is not below `wanted`.
function lowerBound(sorted, wanted) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The index of the value closest to `wanted`; undefined where there is none.
function nearest(sorted, wanted) {
  const above = lowerBound(sorted, wanted);
  const near = [above - 1, above].filter((index) => index >= 0 && index < sorted.length);
  return near.sort((a, b) => Math.abs(sorted[a] - wanted) - Math.abs(sorted[b] - wanted))[0];
}

// Round numbers of bytes from 0 to about `most`: 1, 2 or 5 times a power of ten in the unit that fits.
function byteTicks(most) {
  let unit = 1;
  while (most / unit >= 1024) unit *= 1024;
  const step = roundStep(most / unit / 4) * unit;
  const ticks = [];
  for (let tick = 0; tick <= most * 1.02; tick += Math.max(step, 1)) ticks.push(tick);
  return ticks;
}

function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) * power;
}

// A position on the axis in words: a time, or a number of events where the trace has no times.
function positionText(line, position) {
  return line.axis === 'time' ? formatTime(position) : `event ${formatCount(position)}`;
}

function axisTicks(line, from, to, wanted) {
  const step = roundStep((to - from) / wanted);
  const ticks = [];
  const [scale, unit] = line.axis === 'time' ? (TIME_UNITS.find(([size]) => to >= size) ?? [1, 'ns']) : [1, 'events'];
  const digits = Math.max(0, Math.min(9, (String(Number((step / scale).toPrecision(6))).split('.')[1] ?? '').length));
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    ticks.push({ time: at, label: line.axis === 'time' ? `${(at / scale).toFixed(digits)} ${unit}` : formatCount(at) });
  }
  return ticks;
}
