// The same workload on other heaps: ratios to the baseline with their intervals, on a logarithmic axis on which half
// and twice lie equally far from 1.

const OUTCOMES = { less: 'less', more: 'more', equivalent: 'equivalent', not_shown: 'no difference shown' };

function replaySection(page) {
  const replay = page.replay;
  if (!replay || page.earlier_replays.length === 0) return [...heapPagesParts(page.heap_pages), ...replayParts(replay)];
  const earlier = page.earlier_replays.map((old) => el('div', { class: 'earlier-replay' }, el('h3', {}, `An earlier replay${replayDate(old)}`), ...replayParts(old)));
  return [...heapPagesParts(page.heap_pages), el('h3', {}, `The last replay${replayDate(replay)}`), ...replayParts(replay), ...earlier];
}

function replayDate(replay) {
  return replay.measured_unix_s ? `, ${formatDate(replay.measured_unix_s)}` : '';
}

// One replay by itself: what it compares was measured together.
function replayParts(replay) {
  if (!replay || replay.heaps.length === 0) {
    return [empty('This recording has not been replayed yet. Run ', el('code', {}, 'heaplab replay RECORDING --on glibc,jemalloc,mimalloc'), ' and make this page again to see how the same workload fares on other heaps.')];
  }
  const verdicts = replay.verdicts.length ? el('ul', { class: 'verdicts' }, ...replay.verdicts.map((text) => el('li', {}, text))) : null;
  const plots = el('div', { class: 'ratio-plots' },
    ratioPlot(replay, 'space_ratio', 'Space at peak', (heap) => (heap.space ? bytesNode(heap.space.peak_bytes) : 'not measured')),
    ratioPlot(replay, 'time_ratio', 'Time', (heap) => (heap.event_ns === null ? 'not measured' : `${heap.event_ns.toFixed(1)} ns an event`)));
  const failures = replay.heaps.flatMap((heap) => heap.failures.map((text) => `${heap.name}: ${text}`));
  const again = replay.measured_again
    ? note(`It measured ${replay.measured}. A later replay, above, measured again: ${replay.measured_again}; those figures are newer. The verdicts here compare the figures of this replay.`)
    : null;
  return [again, verdicts, plots, spaceAgainstTime(replay), spaceTable(replay), ...collectionsParts(replay),
    failures.length ? el('div', { class: 'notice', role: 'note' }, el('strong', {}, 'Some measurements failed.'), el('ul', {}, ...failures.map((text) => el('li', {}, text)))) : null,
    replay.cautions.length ? el('ul', { class: 'cautions' }, ...replay.cautions.map((text) => el('li', {}, text))) : null,
    note([replay.settings, replay.machine].filter(Boolean).join(' ')),
  ].filter(Boolean);
}

function ratioScale(heaps, key) {
  const ends = heaps.flatMap((heap) => (heap[key] ? [heap[key].low, heap[key].high, heap[key].value] : [])).filter((value) => value > 0);
  const reach = Math.max(1.25, ...ends.map((value) => Math.max(value, 1 / value))) * 1.08;
  const scale = (value) => 50 + (50 * Math.log(Math.max(value, 1e-6))) / Math.log(reach);
  const fine = reach < 1.45 ? [0.8, 1.25] : reach < 2.3 ? [0.67, 1.5] : reach < 6 ? [0.5, 2] : [0.1, 10, 0.01, 100];
  const ticks = [1, ...fine.filter((tick) => scale(tick) > 6 && scale(tick) < 94)];
  return { scale, ticks };
}

function ratioPlot(replay, key, title, absolute) {
  const { heaps } = replay;
  if (!heaps.some((heap) => heap[key])) return el('div', {}, el('h3', {}, title), empty(`Nothing to compare: ${title.toLowerCase()} was not measured on two heaps.`));
  const { scale, ticks } = ratioScale(heaps, key);
  const axis = el('span', { class: 'ratio-axis', 'aria-hidden': 'true' }, ...ticks.map((tick) => {
    const label = el('span', {}, `${tick}×`);
    label.style.left = `${scale(tick)}%`;
    return label;
  }));
  const row = (heap) => {
    const own = heap.name === replay.baseline;
    const ratio = heap[key];
    return el('tr', {}, el('th', { scope: 'row' }, heap.name, el('span', { class: 'where' }, absolute(heap), own ? ' · baseline' : '')),
      el('td', { class: 'ratio-cell' }, own ? whisker({ value: 1, low: 1, high: 1, outcome: 'baseline' }, ticks, scale) : ratio ? whisker(ratio, ticks, scale) : null),
      el('td', { class: 'num' }, ...(own ? [formatRatio(1)] : ratio ? ratioText(ratio) : ['–'])));
  };
  const caption = `${title}, as a ratio to ${replay.baseline}; to the left of the line is better`;
  const head = [el('th', { scope: 'col' }, 'Heap'), el('th', { scope: 'col' }, axis, el('span', { class: 'hidden' }, 'Plot')), el('th', { scope: 'col', class: 'num' }, 'Ratio')];
  const table = el('table', { class: 'ratios' }, el('caption', {}, caption), el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...heaps.map(row)));
  return el('div', {}, el('h3', {}, title), scrolling(caption, table));
}

function whisker(ratio, ticks, scale) {
  const box = svg('svg', { class: `whisker ${ratio.outcome}`, 'aria-hidden': 'true', width: '100%', height: 34 });
  for (const tick of ticks) box.append(svg('line', { class: tick === 1 ? 'one' : 'tick', x1: `${scale(tick)}%`, x2: `${scale(tick)}%`, y1: 0, y2: 34 }));
  const [low, high] = [scale(ratio.low), scale(ratio.high)];
  if (ratio.high > ratio.low) {
    box.append(svg('line', { class: 'reach', x1: `${low}%`, x2: `${high}%`, y1: 17, y2: 17 }));
    for (const end of [low, high]) box.append(svg('line', { class: 'reach', x1: `${end}%`, x2: `${end}%`, y1: 12, y2: 22 }));
  }
  box.append(svg('circle', { cx: `${scale(ratio.value)}%`, cy: 17, r: 4.5 }));
  return box;
}

function ratioText(ratio) {
  return [formatRatio(ratio.value), el('span', { class: 'where' }, ratio.range), el('span', { class: `outcome ${ratio.outcome}` }, OUTCOMES[ratio.outcome] ?? ratio.outcome)];
}

function spaceTable(replay) {
  const heaps = replay.heaps.filter((heap) => heap.space);
  if (heaps.length === 0) return null;
  const top = Math.max(1, ...heaps.map((heap) => heap.space.peak_bytes));
  const cell = (value) => (value === null ? '–' : bytesNode(value));
  const bytes = (title, key, hint) => ({ title, hint, numeric: true, value: (heap) => heap.space[key] ?? -1, cell: (heap) => cell(heap.space[key]) });
  return el('div', {}, el('h3', {}, 'Resident bytes'), sortable('Resident bytes of each heap, the driver’s own taken off', [
    { title: 'Heap', value: (heap) => heap.name, cell: (heap) => [heap.name, heap.version && heap.version !== heap.name ? el('span', { class: 'where' }, heap.version) : null].filter(Boolean) },
    { title: 'Over the replay', class: 'spark-cell', value: (heap) => heap.space.peak_bytes, cell: (heap) => spark(heap.space, top) },
    bytes('At peak', 'peak_bytes', 'At their largest'),
    { title: 'Per byte, when most is live', numeric: true, hint: 'Resident bytes for each byte that the program had live, at the moment when it had most live; the largest resident bytes may come at another moment', value: (heap) => heap.space.resident_per_requested, cell: (heap) => formatRatio(heap.space.resident_per_requested) },
    bytes('At the end', 'end_bytes', 'After the last event'),
    bytes('After a trim', 'trimmed_bytes', 'After a request to the heap to return free memory'),
    bytes('Committed', 'committed_bytes', 'Largest committed bytes, as the heap says'),
  ], heaps, { noun: 'heap' }));
}

// Resident bytes over the replay, above the bytes that the program had live; all heaps on one scale.
function spark(space, top) {
  const last = Math.max(1, space.curve_event.at(-1) ?? 1);
  const points = (bytes) => bytes.map((value, index) => [(space.curve_event[index] / last) * 160, 34 - (value / top) * 32]);
  if (space.curve_event.length < 2) return '–';
  const requested = points(space.curve_requested_bytes);
  return svg('svg', { class: 'spark', width: 160, height: 36, role: 'img', 'aria-label': `Resident bytes over the replay, at most ${formatBytes(space.peak_bytes)}` },
    svg('path', { class: 'area', d: `${path([[0, 34], ...requested, [160, 34]])}Z` }), svg('path', { class: 'line', d: path(points(space.curve_bytes)) }));
}
