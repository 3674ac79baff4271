// Numbers as people read them, units always beside them. Three significant digits on the page; the exact number is in
// the element's title.

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const TIME_UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

function significant(value) {
  if (value === 0) return '0';
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return value >= 999.5 ? grouped.format(value) : fixed(value, digits);
}

// Halves go to the even digit, as in the report's sentences; toFixed rounds them up.
function fixed(value, digits) {
  const scale = 10 ** digits;
  const below = Math.floor(value * scale);
  // Half of a hundredth is a multiple of an eighth; other products are rounded themselves.
  const isEvenHalf = Number.isInteger(value * 8) && value * scale - below === 0.5 && below % 2 === 0;
  return (isEvenHalf ? below / scale : value).toFixed(digits);
}

function formatCount(value) {
  return grouped.format(value);
}

function formatBytes(value) {
  let unit = 0;
  let scaled = Math.abs(value);
  while (scaled >= 1023.5 && unit < BYTE_UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  const digits = unit === 0 ? grouped.format(scaled) : significant(scaled);
  return `${value < 0 ? '−' : ''}${digits} ${BYTE_UNITS[unit]}`;
}

function exactBytes(value) {
  return value === 1 ? '1 byte' : `${formatCount(value)} bytes`.replace('-', '−');
}

function formatTime(ns) {
  if (ns === 0) return '0 s';
  if (ns >= 120e9) {
    const seconds = Math.round(ns / 1e9);
    const hours = Math.floor(seconds / 3600);
    const minutes = Math.floor((seconds % 3600) / 60);
    return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${seconds % 60} s`;
  }
  const [scale, unit] = TIME_UNITS.find(([size]) => ns >= size * 0.9995) ?? [1, 'ns'];
  return `${significant(ns / scale)} ${unit}`;
}

function formatShare(part, whole) {
  if (!whole) return '–';
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 0.05) return '< 0.1 %';
  return `${percent >= 99.95 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

function formatRatio(value) {
  return `${value.toFixed(value < 9.995 ? 2 : 1)}×`;
}

// A measure's value in its unit: "byte", "object" or "request".
function formatMeasure(value, unit) {
  return unit === 'byte' ? formatBytes(value) : plural(value, unit);
}

function plural(count, noun) {
  const many = /(s|x|ch|sh)$/.test(noun) ? `${noun}es` : `${noun}s`;
  return `${formatCount(count)} ${count === 1 ? noun : many}`;
}

function formatDate(unixSeconds) {
  const date = new Date(unixSeconds * 1000);
  return Number.isNaN(date.getTime()) ? '' : `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
