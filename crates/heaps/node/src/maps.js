// Behind driver.js where the workload has hidden classes, which V8 calls maps: a later function of the same name replaces
// the earlier one. Other workloads run without this part, so that Node's own objects stay as they are known.
//
// A pair with words < 0 is a map and the object that has it. Each object with another prototype than its map says gets a
// new map; V8 keeps none of them for later, because of --no-cache-prototype-transitions.

// The next map finds pages that wait to be swept, and sweeping=whole. (Not `let`: driver.js runs before this line.)
var unswept = false;

function collect(minor, file) {
  record[0] = births;
  statistics(BEFORE);
  if (minor) {
    gc(true);
  } else {
    gc();
    unswept = process.argv[2] === 'whole';
  }
  statistics(AFTER);
  send(file);
}

// Where sweeping is said to be concurrent and no task does it, a space that needs memory sweeps everything.
function hiddenClass() {
  const object = {};
  if (unswept) {
    unswept = false;
    v8.setFlagsFromString('--no-single-threaded --no-single-threaded-gc --concurrent-sweeping');
    Object.setPrototypeOf(object, Reflect);
    v8.setFlagsFromString('--single-threaded --single-threaded-gc --no-concurrent-sweeping');
    return object;
  }
  return Object.setPrototypeOf(object, Reflect);
}

function run(length, file) {
  for (let at = 0; at < length; at += 2) {
    const slot = work[at];
    const words = work[at + 1];
    if (slot < 0) {
      collect(slot === -2, file);
    } else if (words > 0) {
      slots[slot] = new Array(words);
      births++;
    } else if (words < 0) {
      slots[slot] = hiddenClass();
      births++;
    } else {
      slots[slot] = 0;
    }
  }
}

function runWatched(length, file) {
  for (let at = 0; at < length; at += 2) {
    const slot = work[at];
    const words = work[at + 1];
    if (slot < 0) {
      collect(slot === -2, file);
      statistics(BEFORE);
    } else if (words !== 0) {
      slots[slot] = words > 0 ? new Array(words) : hiddenClass();
      statistics(AFTER);
      seen.set(record);
      if (seen[AFTER + NEW_USED] < seen[BEFORE + NEW_USED] || seen[AFTER + OLD_USED] !== seen[BEFORE + OLD_USED]) {
        record[0] = births;
        send(file);
      }
      record.copyWithin(BEFORE, AFTER);
      births++;
    } else {
      slots[slot] = 0;
    }
  }
}

function warmUp(nowhere) {
  let length = 0;
  const put = (slot, words) => {
    work[length++] = slot;
    work[length++] = words;
  };
  for (let birth = 0; birth < 500; birth++) {
    const words = birth % 7 === 3 ? -1 : (birth % 9) + (birth % 100 === 1 ? 17000 : 0);
    put(birth % 40, birth % 5 === 0 ? 0 : words);
  }
  for (let slot = 0; slot < 40; slot++) put(slot, 0);
  put(-2, 0);
  put(-1, 0);
  for (let round = 0; round < 4; round++) {
    runAll(nowhere, nowhere);
    run(length, nowhere);
    runWatched(length, nowhere);
  }
  births = 0;
}

// Symbols for old space as in driver.js. What is free of map space is filled with maps, and one more page; once, because
// their objects go to old space.
function fillHoles() {
  const mapCommitted = v8.kHeapSpaces.indexOf('map_space') * FIELDS;
  const pageMaps = process.versions.v8.startsWith('7.') ? 3273 : 3636;
  look();
  const old = seen[OLD_USED - 1];
  const map = seen[mapCommitted];
  v8.setFlagsFromString('--no-single-threaded --no-single-threaded-gc --concurrent-sweeping');
  fillers[filled++] = Symbol();
  v8.setFlagsFromString('--single-threaded --single-threaded-gc --no-concurrent-sweeping');
  look();
  while (seen[OLD_USED - 1] === old) {
    fillers[filled++] = Symbol();
    look();
  }
  for (let symbol = 1; symbol < PAGE_SYMBOLS; symbol++) fillers[filled++] = Symbol();
  if (seen[mapCommitted + 2] === 0) return;
  while (seen[mapCommitted] === map) {
    fillers[filled++] = hiddenClass();
    look();
  }
  for (let nth = 1; nth < pageMaps; nth++) fillers[filled++] = hiddenClass();
}
