// Sizes, slop, lifetimes and what is live at the end: tables with bars, which are chart and text alternative in one.

function sizesSection(page) {
  if (lens.range) return sizesInRange(page);
  const sizes = page.sizes;
  if (sizes.whole.total_count === 0) return [empty('No request was recorded.')];
  const most = (key) => Math.max(1, ...sizes.buckets.map((bucket) => bucket[key]));
  const column = (title, key, node, hint) => {
    const top = most(key);
    return { title, hint, numeric: true, class: 'bar-cell', value: (row) => row[key], cell: (row) => [row[key] ? node(row[key]) : '–', barNode(row[key] / top)] };
  };
  const range = (row) => (row.from_bytes === row.to_bytes ? formatCount(row.from_bytes) : `${formatCount(row.from_bytes)} – ${formatCount(row.to_bytes)}`);
  const buckets = sortable('Requests by size, powers of two', [
    { title: 'Bytes asked for', numeric: true, value: (row) => row.from_bytes, cell: range },
    column('Requests', 'count', formatCount, 'Over the whole run'),
    column('Bytes', 'bytes', bytesNode, 'Over the whole run'),
    column('Live at peak', 'peak_count', formatCount, 'Objects live at peak'),
    column('Bytes at peak', 'peak_bytes', bytesNode, 'Bytes live at peak'),
  ], sizes.buckets, { first: 64, noun: 'size' });
  const place = el('div', {});
  const draw = (when) => place.replaceChildren(...countsTable(sizes[when], when));
  draw('whole');
  return [buckets, el('h3', {}, 'Exact sizes'), el('div', { class: 'controls' }, choice('Count', [['whole', 'Whole run'], ['peak', 'Live at peak']], 'whole', draw)), place];
}

// Sizes inside the range. Exact sizes are those that lead the tables of the whole run.
function sizesInRange(page) {
  const { ranges, range } = lens;
  const row = (lives) => ({ asked: lives.sum('asked', range), live: lives.sum('live', range) });
  const rows = page.sizes.buckets.map((bucket, index) => ({ ...bucket, ...row(ranges.buckets[index]) })).filter(({ asked, live }) => asked.objects + live.objects > 0);
  if (rows.length === 0) return [empty('Nothing was asked for in the range, and nothing is live at its end.')];
  const all = { asked: ranges.sum('asked', range), live: ranges.sum('live', range) };
  const column = (title, when, key, node) => {
    const most = (list) => Math.max(1, ...list.map((row) => row[when][key]));
    const top = most(rows);
    return { title, numeric: true, class: 'bar-cell', value: (row) => row[when][key], cell: (row) => [row[when][key] ? node(row[when][key]) : '–', barNode(row[when][key] / top)] };
  };
  const columns = [column('Requests inside', 'asked', 'objects', formatCount), column('Bytes inside', 'asked', 'bytes', bytesNode), column('Live at its end', 'live', 'objects', formatCount), column('Bytes at its end', 'live', 'bytes', bytesNode)];
  const text = ({ from_bytes: from, to_bytes: to }) => (from === to ? formatCount(from) : `${formatCount(from)} – ${formatCount(to)}`);
  const exact = ranges.exactSizes.map((request, index) => ({ request, ...row(ranges.exact[index]) })).filter(({ asked, live }) => asked.objects + live.objects > 0);
  const listed = exact.reduce((sum, { asked }) => sum + asked.objects, 0);
  return [note(`In the range ${rangeWords(page.timeline)}.`),
    sortable('Requests by size in the range, powers of two', [{ title: 'Bytes asked for', numeric: true, value: (row) => row.from_bytes, cell: text }, ...columns], rows, { first: 64, noun: 'size' }),
    el('h3', {}, 'Exact sizes'),
    sortable('Exact sizes in the range', [{ title: 'Request', numeric: true, value: (row) => row.request, cell: (row) => `${formatCount(row.request)} B` }, ...columns], exact, { first: 15, sortBy: 1, noun: 'size' }),
    note(`Listed are the ${formatCount(ranges.exactSizes.length)} sizes that lead the tables of the whole run: ${formatShare(listed, all.asked.objects)} of the range’s requests.`)];
}

function countsTable(counts, when) {
  if (counts.total_count === 0) return [empty('Nothing was live at peak.')];
  let sum = 0;
  const rows = counts.rows.map((row, index) => {
    sum += row.count;
    return { ...row, rank: index + 1, cumulative: sum };
  });
  const measured = rows.some((row) => row.usable !== null);
  const columns = [
    { title: 'Rank', numeric: true, value: (row) => -row.rank, cell: (row) => String(row.rank) },
    { title: 'Request', numeric: true, hint: 'Bytes asked for', value: (row) => row.request, cell: (row) => `${row.grouped ? 'up to ' : ''}${formatCount(row.request)} B` },
    { title: 'Count', numeric: true, value: (row) => row.count, cell: (row) => formatCount(row.count) },
    { title: 'Share', numeric: true, class: 'bar-cell', value: (row) => row.count, cell: (row) => [formatShare(row.count, counts.total_count), barNode(row.count / rows[0].count)] },
    { title: 'Cumulative', numeric: true, value: (row) => row.cumulative, cell: (row) => formatShare(row.cumulative, counts.total_count) },
    { title: 'Bytes', numeric: true, value: (row) => row.bytes, cell: (row) => bytesNode(row.bytes) },
  ];
  if (measured) {
    const range = (row, from) => { const [low, high] = row.usable; return low === high ? `${formatCount(low - from)} B` : `${formatCount(low - from)} – ${formatCount(high - from)} B`; };
    columns.splice(2, 0,
      { title: 'Usable', numeric: true, hint: 'Bytes the allocator gave', value: (row) => row.usable?.[1] ?? -1, cell: (row) => (row.usable ? range(row, 0) : '–') },
      { title: 'Slop', numeric: true, hint: 'Usable less request', value: (row) => (row.usable ? row.usable[1] - row.request : -1), cell: (row) => (row.usable && !row.grouped ? range(row, row.request) : '–') });
    columns.push({ title: 'Slop in all', numeric: true, value: (row) => row.slop_bytes ?? -1, cell: (row) => (row.slop_bytes === null ? '–' : bytesNode(row.slop_bytes)) });
  }
  const caption = when === 'whole' ? 'Counts of exact sizes, whole run' : 'Counts of exact sizes, live at peak';
  const parts = [sortable(caption, columns, rows, { first: 15, sortBy: columns.findIndex((column) => column.title === 'Count'), noun: 'size' })];
  if (counts.rows_left_out > 0) {
    parts.push(note(`${plural(counts.rows_left_out, 'rarer size')} not listed; the shares are of all ${formatCount(counts.total_count)}.`));
  }
  return parts;
}

function slopSection(page) {
  if (page.slop.length === 0) return [empty('Slop was not computed for this recording.')];
  const share = (sum) => (sum.usable_bytes - sum.requested_bytes) / Math.max(1, sum.requested_bytes);
  const top = Math.max(1e-9, ...page.slop.flatMap((row) => [share(row.whole), share(row.peak)]));
  const cell = (sum) => [bytesNode(sum.usable_bytes - sum.requested_bytes), el('span', { class: 'share' }, formatShare(sum.usable_bytes - sum.requested_bytes, sum.requested_bytes)), barNode(share(sum) / top, 'waste')];
  const table = sortable('Slop by allocator', [
    { title: 'Allocator', value: (row) => row.allocator },
    { title: 'Slop at peak', numeric: true, class: 'bar-cell', hint: 'Bytes, and as a share of the bytes asked for', value: (row) => share(row.peak), cell: (row) => cell(row.peak) },
    { title: 'Slop over the run', numeric: true, class: 'bar-cell', hint: 'Summed over every request', value: (row) => share(row.whole), cell: (row) => cell(row.whole) },
  ], page.slop, { first: 20, noun: 'allocator' });
  const place = el('div', {});
  const draw = (index) => place.replaceChildren(...slopClasses(page.slop[Number(index)]));
  draw('0');
  return [note(`${page.slop.some((row) => row.measured) ? 'The first row was measured while recording, the others are' : 'Usable sizes were not measured while recording: all rows are'} worked out from each allocator’s size classes. Shares are of the bytes asked for. Slop is not always waste: a program that reads its usable size uses it. Headers that an allocator keeps between blocks are not in these figures.`),
    table, el('h3', {}, 'By size class'), el('div', { class: 'controls' }, choice('Allocator', page.slop.map((row, index) => [String(index), row.allocator]), '0', draw)), place];
}

function slopClasses(slop) {
  if (slop.classes.length === 0) return [empty(`${slop.allocator} rounds nothing up here: every request fits its size class.`)];
  const top = Math.max(1, ...slop.classes.map((row) => row.peak_slop_bytes));
  const all = Math.max(1, ...slop.classes.map((row) => row.slop_bytes));
  const parts = [sortable(`Slop by size class, ${slop.allocator}`, [
    { title: 'Class', numeric: true, hint: 'Usable bytes of a block', value: (row) => row.class_bytes, cell: (row) => `${formatCount(row.class_bytes)} B` },
    { title: 'Live at peak', numeric: true, value: (row) => row.peak_count, cell: (row) => formatCount(row.peak_count) },
    { title: 'Slop at peak', numeric: true, class: 'bar-cell', value: (row) => row.peak_slop_bytes, cell: (row) => [bytesNode(row.peak_slop_bytes), barNode(row.peak_slop_bytes / top, 'waste')] },
    { title: 'Requests', numeric: true, value: (row) => row.count, cell: (row) => formatCount(row.count) },
    { title: 'Slop over the run', numeric: true, class: 'bar-cell', value: (row) => row.slop_bytes, cell: (row) => [bytesNode(row.slop_bytes), barNode(row.slop_bytes / all, 'waste')] },
  ], slop.classes, { first: 12, sortBy: 2, noun: 'class' })];
  if (slop.classes_left_out > 0) parts.push(note(`${plural(slop.classes_left_out, 'class')} with less slop not listed: together ${formatBytes(slop.left_out_peak_slop_bytes)} at peak, ${formatBytes(slop.left_out_slop_bytes)} over the run.`));
  return parts;
}

function lifetimesSection(page) {
  if (lens.range) return lifetimesInRange(page);
  if (!page.lifetimes.some((row) => row.objects > 0)) return [empty('No object died while it was recorded.')];
  const place = el('div', {});
  const draw = (clock) => place.replaceChildren(lifetimesTable(clock === 'time' ? page.lifetimes : page.lifetimes_by_bytes, clock));
  draw('time');
  return [el('div', { class: 'controls' }, choice('Measured in', [['time', 'Time'], ['bytes', 'Bytes asked for meanwhile']], 'time', draw)), place,
    note(`${plural(page.totals.end_objects, 'object')} still live at the end ${page.totals.end_objects === 1 ? 'is' : 'are'} not among these.`)];
}

function lifetimesInRange(page) {
  const rows = { time: lens.ranges.lifetimes('time', lens.range), bytes: lens.ranges.lifetimes('bytes', lens.range) };
  if (rows.time.length === 0) return [empty('No object died in the range.')];
  const place = el('div', {});
  const draw = (clock) => place.replaceChildren(lifetimesTable(rows[clock], clock));
  draw('time');
  return [el('div', { class: 'controls' }, choice('Measured in', [['time', 'Time'], ['bytes', 'Bytes asked for meanwhile']], 'time', draw)), place,
    note(`Of objects that were freed in the range ${rangeWords(page.timeline)}, whenever they were born.`)];
}

function lifetimesTable(rows, clock) {
  const format = clock === 'time' ? formatTime : formatBytes;
  const objects = rows.reduce((sum, row) => sum + row.objects, 0);
  const top = Math.max(1, ...rows.map((row) => row.objects));
  const bytes = Math.max(1, ...rows.map((row) => row.bytes));
  const range = (row) => (row.from === 0 ? `under ${format(row.to)}` : `${format(row.from)} – ${format(row.to)}`);
  return sortable(clock === 'time' ? 'Objects by how long they lived' : 'Objects by the bytes asked for between their birth and death', [
    { title: 'Lived', numeric: true, value: (row) => row.from, cell: range },
    { title: 'Objects', numeric: true, class: 'bar-cell', value: (row) => row.objects, cell: (row) => [row.objects ? formatCount(row.objects) : '–', barNode(row.objects / top)] },
    { title: 'Share', numeric: true, value: (row) => row.objects, cell: (row) => formatShare(row.objects, objects) },
    { title: 'Bytes', numeric: true, class: 'bar-cell', value: (row) => row.bytes, cell: (row) => [row.bytes ? bytesNode(row.bytes) : '–', barNode(row.bytes / bytes)] },
  ], rows, { first: 80, noun: 'range' });
}

function endSection(page) {
  if (lens.range) return endOfRange(page);
  const { end_bytes: bytes, end_objects: objects } = page.totals;
  if (objects === 0) return [empty('Nothing: everything that was allocated was freed.')];
  const parts = [el('p', {}, 'At the end ', bytesNode(bytes), ` in ${plural(objects, 'object')} had not been freed. A program may leave memory that it uses to the end to the system, so read this list before you call anything a leak.`)];
  if (page.live_at_end.length === 0) {
    parts.push(empty('No stacks were recorded, so they cannot be told apart by place.'));
    return parts;
  }
  parts.push(sortable('Live at the end, by stack', [
    { title: 'Bytes', numeric: true, value: (row) => row.bytes, cell: (row) => bytesNode(row.bytes) },
    { title: 'Share', numeric: true, class: 'bar-cell', value: (row) => row.bytes, cell: (row) => [formatShare(row.bytes, bytes), barNode(row.bytes / Math.max(1, bytes))] },
    { title: 'Objects', numeric: true, value: (row) => row.objects, cell: (row) => formatCount(row.objects) },
    { title: 'Asked for by', class: 'wide', value: (row) => stackLine(page.frames, row.frames), cell: (row) => stackCell(page.frames, row.frames) },
  ], page.live_at_end, { first: 12, sortBy: 0, noun: 'stack' }));
  return parts;
}

// Call paths whose objects are live at the end of the range.
const PATHS_MOST = 200;

function endOfRange(page) {
  const { ranges, range } = lens;
  const all = ranges.sum('live', range);
  if (all.objects === 0) return [empty('Nothing is live at the end of the range.')];
  const words = el('p', {}, `At ${rangeWords(page.timeline).split(' to ')[1]}, the end of the range, `, bytesNode(all.bytes), ` in ${plural(all.objects, 'object')} were live.`);
  if (!page.flame) return [words, empty('No stacks were recorded, so they cannot be told apart by place.')];
  const nodes = new Map();
  for (const [of, unit] of [['bytes', 'byte'], ['objects', 'object']]) {
    for (const [node, , value] of ranges.entries('live', unit, range)) {
      const row = nodes.get(node) ?? { node, bytes: 0, objects: 0 };
      row[of] += value;
      nodes.set(node, row);
    }
  }
  const paths = new Paths(page);
  const rows = [...nodes.values()].sort((a, b) => b.bytes - a.bytes);
  const shown = rows.slice(0, PATHS_MOST).map((row) => ({ ...row, frames: [...paths.of(row.node, false)].reverse() }));
  const rest = rows.slice(PATHS_MOST);
  const stack = (row) => (row.frames[0] === MERGED ? `(small) ← ${stackLine(page.frames, row.frames.slice(1))}` : stackLine(page.frames, row.frames));
  const parts = [words, sortable('Live at the end of the range, by call path', [
    { title: 'Bytes', numeric: true, value: (row) => row.bytes, cell: (row) => bytesNode(row.bytes) },
    { title: 'Share', numeric: true, class: 'bar-cell', value: (row) => row.bytes, cell: (row) => [formatShare(row.bytes, all.bytes), barNode(row.bytes / Math.max(1, all.bytes))] },
    { title: 'Objects', numeric: true, value: (row) => row.objects, cell: (row) => formatCount(row.objects) },
    { title: 'Asked for by', class: 'wide', value: stack, cell: (row) => lazyDetails([el('span', { class: 'code' }, stack(row))], () => stackNode(page.frames, row.frames.filter((frame) => frame >= 0))) },
  ], shown, { first: 12, sortBy: 0, noun: 'path' })];
  if (rest.length > 0) parts.push(note(`${plural(rest.length, 'further path')} with ${formatBytes(rest.reduce((sum, row) => sum + row.bytes, 0))} together are not listed; the flame graph has them.`));
  return parts;
}
