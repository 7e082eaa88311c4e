// What the page was told, made ready to be looked up: columns of numbers, and for each lane what is in it.

function read() {
  const told = JSON.parse(document.getElementById('told').textContent);
  told.happenings = unpacked(told.happenings);
  told.laneOfComponent = lanesOf(told.happenings, told.components);
  told.lanes = told.laneOfComponent.filter((lane) => lane.numbers.length).sort(byName);
  told.often = oftenOf(told.happenings, told.kinds.length);
  return told;
}

// `begin` counts from the one before, `end` and `last` from `begin`.
function unpacked(columns) {
  const length = columns.begin.length;
  const begin = new Float64Array(length);
  const end = new Float64Array(length);
  const last = new Float64Array(length);
  let at = 0;
  for (let number = 0; number < length; number++) {
    at += columns.begin[number];
    begin[number] = at;
    end[number] = at + columns.end[number];
    last[number] = at + columns.last[number];
  }
  return {
    ...columns, length, begin, end, last,
    component: Uint32Array.from(columns.component),
    kind: Uint32Array.from(columns.kind),
  };
}

// Happenings are in the order of their beginnings, and so are those of a lane. `reach` is how far anything up to here reaches:
// it never falls, so that the first one that is seen is found without looking at those before it.
function lanesOf(happenings, components) {
  const lanes = components.map((component) => ({ component, numbers: [], reach: [], folded: false, top: 0, height: 0 }));
  for (let number = 0; number < happenings.length; number++) {
    const lane = lanes[happenings.component[number]];
    const before = lane.reach.length ? lane.reach[lane.reach.length - 1] : -Infinity;
    lane.numbers.push(number);
    lane.reach.push(Math.max(before, until(happenings, number)));
  }
  return lanes;
}

// Server 10 comes after server 9.
function byName(one, other) {
  const kinds = one.component.kind.localeCompare(other.component.kind);
  return kinds || one.component.name.localeCompare(other.component.name, 'en', { numeric: true });
}

function oftenOf(happenings, kinds) {
  const often = new Array(kinds).fill(0);
  for (let number = 0; number < happenings.length; number++) often[happenings.kind[number]] += happenings.count[number];
  return often;
}

function until(happenings, number) {
  return Math.max(happenings.end[number], happenings.last[number]);
}

// The first place whose value is not below, in values that never fall.
function firstNotBelow(values, value) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function laneOf(told, number) {
  return told.laneOfComponent[told.happenings.component[number]];
}

function place(told, number) {
  return `${told.files[told.happenings.file[number]]}:${told.happenings.line[number]}`;
}

function sentence(told, number) {
  return told.sentences[told.happenings.says[number]];
}
