// The range that the page is about: chosen on the timeline, kept in the address, followed by everything that can. Its words
// and its figures stand under the timeline.

const lens = { ranges: null, range: null };

// The measures of a range for the flame graph, in bytes and in numbers.
function rangeMeasures() {
  const { ranges, range } = lens;
  const units = { live: ['byte', 'object'], kept: ['byte', 'object'], asked: ['byte', 'request'], freed: ['byte', 'object'], temporary: ['byte', 'object'] };
  return RANGE_MEASURES.flatMap(([what, title]) => units[what].map((unit) => ({
    key: `${what}.${unit}`, unit, title: `${title}, ${unit}s`, entries: () => ranges.entries(what, unit, range),
  })));
}

// What the address says of the range.
function readRange() {
  lens.range = lens.ranges?.parse(choices.get('range')) ?? null;
}

function chooseRange(range) {
  choices.set({ range: lens.ranges.write(range), show: null, at: null });
}

// The range in words, for headings.
function rangeWords(line) {
  const { ranges, range } = lens;
  const at = (step) => positionText(line, Math.min(Math.max(line.begin, ranges.at(step)), Math.max(line.end, line.begin)));
  return `${at(range.from)} to ${at(range.to)}`;
}

// Most live bytes within the range, as far as the timeline's steps lie in it.
function mostWithin(line, from, to) {
  let most = null;
  for (let index = Math.max(0, lowerBound(line.at, from)); index < line.at.length && line.at[index] < to; index += 1) most = Math.max(most ?? 0, line.max_bytes[index]);
  return most;
}

// Under the timeline: what the range holds.
function rangePanel(page) {
  const box = el('div', { class: 'range-panel', id: 'range', 'aria-live': 'polite' });
  const draw = () => box.replaceChildren(...(lens.range ? rangeFigures(page) : []));
  choices.on(['range'], draw);
  draw();
  return box;
}

function rangeFigures(page) {
  const { ranges, range } = lens;
  const line = page.timeline;
  const before = ranges.sum('live', { from: 0, to: range.from });
  const sums = Object.fromEntries(RANGE_MEASURES.map(([what]) => [what, ranges.sum(what, range)]));
  const most = Math.max(before.bytes, mostWithin(line, ranges.at(range.from), ranges.at(range.to)) ?? before.bytes);
  const figure = (name, bytes, detail) => el('div', {}, el('dt', {}, name), el('dd', {}, bytesNode(bytes), el('span', { class: 'where' }, detail)));
  const objects = (sum) => plural(sum.objects, 'object');
  return [
    el('h3', {}, `Range: ${rangeWords(line)}`),
    el('p', { class: 'note' }, 'The flame graph, findings, sizes, lifetimes and live objects follow the range; the other sections show the whole run and say so. An object counts by its last request: a reallocation ends one life and begins another. ',
      `A range begins and ends at whole steps of ${line.axis === 'time' ? formatTime(ranges.width) : plural(ranges.width, 'event')}; its sums are exact.`),
    el('dl', { class: 'figures' },
      figure('Live at its start', before.bytes, objects(before)), figure('Most inside', most, 'live at once'), figure('Live at its end', sums.live.bytes, objects(sums.live)),
      figure('Asked for inside', sums.asked.bytes, plural(sums.asked.objects, 'request')), figure('Freed inside', sums.freed.bytes, objects(sums.freed)),
      figure('Born inside and kept', sums.kept.bytes, `${objects(sums.kept)} live at its end`), figure('Temporary', sums.temporary.bytes, `${objects(sums.temporary)} freed before their thread’s next request`)),
  ];
}

// What a section that cannot follow says.
function wholeRunNotes(ids) {
  for (const id of ids) {
    document.getElementById(`${id}-whole`)?.remove();
    if (lens.range) byId(`${id}-body`).before(el('p', { class: 'note', id: `${id}-whole` }, 'Of the whole run: this section does not follow the range.'));
  }
}
