// Reads the data, fills the sections, and keeps the choice of colours.

const page = JSON.parse(byId('data').textContent);
const choices = new Choices();

function headline() {
  const { recording, totals } = page;
  const name = recording.program || 'unnamed program';
  byId('program').textContent = name;
  byId('bar-name').textContent = 'heaplab';
  byId('bar-name').title = page.writer;
  const facts = [];
  facts.push(recording.allocator ? `allocator ${recording.allocator}` : 'allocator not known');
  if (recording.duration_ns > 0) facts.push(`${recording.process && recording.processes > 1 ? 'recorded for' : 'ran'} ${formatTime(recording.duration_ns)}`);
  facts.push(plural(recording.events, 'event'));
  if (recording.process) facts.push(recording.processes > 1 ? `${recording.process}, one of ${plural(recording.processes, 'process')}` : recording.process);
  else if (recording.processes > 1) facts.push(`${plural(recording.processes, 'process')} together`);
  if (recording.architecture) facts.push(recording.architecture);
  if (recording.began_unix_s) facts.push(formatDate(recording.began_unix_s));
  byId('facts').replaceChildren(...facts.map((fact) => el('span', {}, fact)));
  const notices = [];
  if (recording.cut) notices.push(el('p', { class: 'notice', role: 'note' }, el('strong', {}, 'This recording was cut. '), recording.cut));
  if (recording.losses.length) notices.push(el('div', { class: 'notice', role: 'note' }, el('strong', {}, 'Not everything was recorded. '), el('ul', {}, ...recording.losses.map((loss) => el('li', {}, loss)))));
  byId('notices').replaceChildren(...notices);
  byId('lead').replaceChildren(...leadSentence(totals));
}

function leadSentence(totals) {
  if (totals.allocations === 0) return ['The program asked for no memory while it was recorded.'];
  const parts = page.lead.flatMap((sentence) => [el('strong', {}, sentence), ' ']);
  parts.push('At its peak the program held ', bytesNode(totals.peak_bytes), ` in ${plural(totals.peak_objects, 'object')}${totals.peak_ns > 0 ? `, ${formatTime(totals.peak_ns)} into the run` : ''}. `);
  const first = page.findings[0];
  if (page.metaspaces.length) parts.push(`These are blocks of its metaspace, whose chunks are `, el('a', { href: '#metaspace' }, 'below'), '.');
  else if (first) {
    parts.push(page.findings.length === 1 ? 'One finding: ' : `${plural(page.findings.length, 'finding')}; the first: `, el('a', { href: '#findings' }, first.title), '.');
  }
  else if (!isCollected(page)) parts.push('Nothing was found that would be worth changing.');
  return parts;
}

function figures() {
  const { totals } = page;
  const figure = (name, value, detail) => el('div', {}, el('dt', {}, name), el('dd', {}, value, el('span', { class: 'where' }, detail)));
  const items = [
    figure('Peak, live', bytesNode(totals.peak_bytes), plural(totals.peak_objects, 'object')),
    figure('Slop at peak', totals.peak_slop_bytes === null ? 'not measured' : bytesNode(totals.peak_slop_bytes),
      totals.peak_slop_bytes === null ? 'usable sizes not known' : `${formatShare(totals.peak_slop_bytes, totals.peak_bytes)} of requested`),
    figure('Resident, most', totals.resident_peak_bytes === null ? 'not sampled' : bytesNode(totals.resident_peak_bytes), totals.resident_peak_bytes === null ? '' : residentDetail(totals)),
    figure('Asked for in all', bytesNode(totals.requested_bytes), plural(totals.allocations, 'allocation')),
    figure('Reallocations', formatCount(totals.reallocations),
      totals.moved_reallocations === null ? 'moves not known' : `${formatCount(totals.moved_reallocations)} moved`),
    figure('Live at the end', bytesNode(totals.end_bytes), plural(totals.end_objects, 'object')),
  ];
  byId('figures').replaceChildren(...items);
}

function residentDetail({ resident_peak_bytes: resident, peak_bytes: peak, resident_is_kernels: kernels }) {
  const source = kernels ? 'counted by the kernel' : 'the largest sample';
  return peak <= resident ? `${source}; peak live is ${formatShare(peak, resident)}` : `${source}; less than was live`;
}

function about() {
  const { recording } = page;
  const rows = [
    ['Program', recording.program || 'not known'],
    ['Process', recording.process || 'all'],
    ['Allocator', recording.allocator || 'not known'],
    ['Deaths', recording.death_rule || 'not known'],
    ['Stacks', recording.stack_depth ? `up to ${recording.stack_depth} frames` : 'not recorded'],
    ['Whole?', recording.cut ? `cut: ${recording.cut}` : recording.losses.length ? 'with losses, named above' : 'yes, nothing was lost'],
  ];
  const parts = [el('dl', { class: 'pairs' }, ...rows.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))))];
  if (page.totals.failed_requests > 0) parts.push(note(`${plural(page.totals.failed_requests, 'request')} ${page.totals.failed_requests === 1 ? 'was' : 'were'} refused by the allocator.`));
  if (page.processes.length > 1 || page.processes.some((process) => process.refused)) parts.push(el('h3', {}, 'Processes'), processTable());
  if (page.threads.length > 1) parts.push(el('h3', {}, 'Threads'), threadTable());
  if (page.sources) {
    const { excerpts, files, missing_files: missing, left_out: more } = page.sources;
    parts.push(el('h3', {}, 'Source on this page'), note(`${plural(excerpts.length, 'piece')} of ${plural(files.length, 'file')}, shown beside the frames of stacks${more > 0 ? `; ${plural(more, 'further place')} left out to keep the page small` : ''}. ${plural(missing, 'file')} that debug information names could not be read.`),
      lazyDetails(['Files'], () => el('ul', {}, ...files.map((path) => el('li', {}, el('code', {}, path))))));
  }
  if (page.left_out.length) parts.push(el('h3', {}, 'Left out to keep this page small'), el('ul', {}, ...page.left_out.map((text) => el('li', {}, text))));
  return parts;
}

function processTable() {
  const name = (row) => [row.name || 'not known', row.shown ? null : el('span', { class: 'where' }, 'not on this page')].filter(Boolean);
  return sortable('Processes of the recording', [
    { title: 'Process', numeric: true, value: (row) => row.order, cell: (row) => row.label },
    { title: 'Program', value: (row) => row.name, cell: name },
    { title: 'Life', value: (row) => row.life },
    { title: 'Recorded', class: 'wide', value: (row) => row.refused ?? 'yes', cell: (row) => (row.refused ? `no: ${row.refused}` : 'yes') },
  ], page.processes.map((process, order) => ({ ...process, order })), { first: 12, noun: 'process' });
}

function threadTable() {
  return sortable('Threads, the one that asked for most first', [
    { title: 'Thread', value: (row) => row.name },
    { title: 'Asked for', numeric: true, value: (row) => row.requested_bytes, cell: (row) => bytesNode(row.requested_bytes) },
    { title: 'Requests', numeric: true, value: (row) => row.requests, cell: (row) => formatCount(row.requests) },
    { title: 'Frees', numeric: true, value: (row) => row.frees, cell: (row) => formatCount(row.frees) },
    { title: 'Of other threads’ objects', numeric: true, value: (row) => row.cross_thread_frees, cell: (row) => formatCount(row.cross_thread_frees) },
  ], page.threads, { first: 12, sortBy: 1, noun: 'thread' });
}

const SECTIONS = [
  ['time', 'Time', timelineSection],
  ['findings', 'Findings', findingsSection],
  ['stacks', 'Stacks', stacksSection],
  ['replay', 'Other heaps', replaySection],
  ['slop', 'Slop', slopSection],
  ['sizes', 'Sizes', sizesSection],
  ['lifetimes', 'Lifetimes', lifetimesSection],
  ['end', 'Live at end', endSection],
  ['about', 'About', about],
];

function navigation() {
  sectionLinks(SECTIONS);
  const links = new Map([...byId('nav').children].map((link) => [link.getAttribute('href').slice(1), link]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = links.get(entry.target.id);
      if (entry.isIntersecting) {
        link.setAttribute('aria-current', 'true');
        byId('nav').scrollTo({ left: link.offsetLeft - byId('nav').offsetLeft - 24 });
      } else link.removeAttribute('aria-current');
    }
  }, { rootMargin: '-20% 0px -75% 0px' });
  for (const [id] of SECTIONS) observer.observe(byId(id));
}

// Advice about size classes of malloc says nothing of a metaspace.
if (page.metaspaces.length) {
  const others = SECTIONS.filter(([id]) => id !== 'findings' && id !== 'slop');
  SECTIONS.splice(0, SECTIONS.length, ['metaspace', 'Metaspace', metaspaceSection], ...others);
  byId('metaspace').hidden = false;
  byId('findings').hidden = byId('slop').hidden = true;
}
if (page.resident) {
  SECTIONS.splice(SECTIONS.findIndex(([id]) => id === 'time') + 1, 0, ['resident', 'Resident', residentSection]);
  byId('resident').hidden = false;
}
if (page.dark_matter) {
  SECTIONS.splice(SECTIONS.findIndex(([id]) => id === 'about'), 0, ['dark-matter', 'Dark matter', darkMatterSection]);
  byId('dark-matter').hidden = false;
}
// What the sections that follow a range show of it; the others say that they do not.
const FOLLOWING = ['findings', 'sizes', 'lifetimes', 'end'];
const WHOLE = ['resident', 'replay', 'slop', 'metaspace', 'dark-matter'];

function followRange() {
  readRange();
  SECTIONS.filter(([id]) => FOLLOWING.includes(id)).forEach(fillSection);
  wholeRunNotes(WHOLE.filter((id) => SECTIONS.some(([shown]) => shown === id)));
  byId('end-title').textContent = lens.range ? 'Live at the end of the range' : 'Live at the end';
}

theme();
headline();
figures();
navigation();
choices.keepInLinks();
// What depends on the range is drawn again by listeners behind this one.
choices.on(['range'], followRange);
choices.on(['kind', 'cost', 'finding'], () => {
  SECTIONS.filter(([id]) => id === 'findings').forEach(fillSection);
  showFinding();
});
SECTIONS.forEach(fillSection);
if (choices.section) choices.show();
if (choices.get('finding')) showFinding();
footer();
window.addEventListener('beforeprint', () => document.querySelectorAll('.findings details').forEach((details) => { details.open = true; }));
document.documentElement.dataset.ready = 'true';
// The numbers of ranges are unpacked once the page is seen; what needs them is drawn anew.
Ranges.of(page).catch((error) => { console.error(error); return null; }).then((ranges) => {
  lens.ranges = ranges;
  if (ranges) {
    readRange();
    choices.notify(['range', 'thread']);
  }
  document.documentElement.dataset.ranges = ranges ? 'ready' : 'none';
});
