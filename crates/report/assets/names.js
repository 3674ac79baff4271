// Names of functions as they fit a box: template arguments and parameters are left out. The full name stands where a
// function is pointed at.

const shortNames = new Map();

function shortName(label) {
  let short = shortNames.get(label);
  if (short === undefined) {
    short = shortened(label);
    shortNames.set(label, short);
  }
  return short;
}

// `std::vector<int, std::allocator<int> >::push_back(int&&)` is `std::vector<…>::push_back`. Operators keep their signs,
// and `(anonymous namespace)`, `{closure#0}` and what begins a name with a bracket stay.
function shortened(label) {
  if (!/[<(]/.test(label)) return label;
  let out = '';
  let depth = 0;
  for (let at = 0; at < label.length; at += 1) {
    const rest = label.slice(at, at + 24);
    const operator = depth === 0 && /^operator(\(\)|<<=?|>>=?|<=>|[<>]=?|->\*?)/.exec(rest);
    if (operator && !/\w$/.test(out)) {
      out += operator[0];
      at += operator[0].length - 1;
    } else if (depth === 0 && rest.startsWith('(anonymous namespace)')) {
      out += '(anonymous namespace)';
      at += 20;
    } else if (label[at] === '<' && out === '' && closing(label, at) > 0) {
      out = label.slice(at, closing(label, at) + 1);
      at += out.length - 1;
    } else if (label[at] === '<' && (depth > 0 || out !== '')) {
      if (depth === 0) out += '<…>';
      depth += 1;
    } else if (label[at] === '>' && depth > 0 && label[at - 1] !== '-') depth -= 1;
    else if (depth === 0 && label[at] === '(' && out !== '') break;
    else if (depth === 0) out += label[at];
  }
  // A label whose brackets do not match is no C++ name.
  return depth === 0 ? out.trim() : label;
}

// Where the bracket that opens at `at` closes; -1: nowhere.
function closing(label, at) {
  let depth = 0;
  for (let end = at; end < label.length; end += 1) {
    if (label[end] === '<') depth += 1;
    else if (label[end] === '>' && label[end - 1] !== '-') depth -= 1;
    if (depth === 0) return end;
  }
  return -1;
}
