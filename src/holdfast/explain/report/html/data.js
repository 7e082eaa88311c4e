// Prepares the embedded data: columns of numbers, and the occurrences of each lane.

function readAnswer() {
  const answer = JSON.parse(document.getElementById('answer').textContent);
  answer.occurrences = unpackColumns(answer.columns);
  answer.laneOfComponent = buildLanes(answer.occurrences, answer.components);
  answer.lanes = answer.laneOfComponent.filter((lane) => lane.numbers.length).sort(compareNames);
  answer.kindCounts = countByKind(answer.occurrences, answer.kinds.length);
  return answer;
}

// `begin` is relative to the previous occurrence, `end` and `last` are relative to `begin`.
function unpackColumns(columns) {
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

// Occurrences are in order of their begin. `reach` is the latest end so far: it never decreases, so that a binary search finds
// the first visible occurrence.
function buildLanes(occurrences, components) {
  const lanes = components.map((component) => ({ component, numbers: [], reach: [], folded: false, top: 0, height: 0 }));
  for (let number = 0; number < occurrences.length; number++) {
    const lane = lanes[occurrences.component[number]];
    const before = lane.reach.length ? lane.reach[lane.reach.length - 1] : -Infinity;
    lane.numbers.push(number);
    lane.reach.push(Math.max(before, endOf(occurrences, number)));
  }
  return lanes;
}

// Compares numbers within names: server 10 comes after server 9.
function compareNames(one, other) {
  const kinds = one.component.kind.localeCompare(other.component.kind);
  return kinds || one.component.name.localeCompare(other.component.name, 'en', { numeric: true });
}

function countByKind(occurrences, kinds) {
  const totals = new Array(kinds).fill(0);
  for (let number = 0; number < occurrences.length; number++) totals[occurrences.kind[number]] += occurrences.count[number];
  return totals;
}

function endOf(occurrences, number) {
  return Math.max(occurrences.end[number], occurrences.last[number]);
}

// Returns the first index whose value is not below `value`. The values never decrease.
function lowerBound(values, value) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function laneOf(answer, number) {
  return answer.laneOfComponent[answer.occurrences.component[number]];
}

function sourceLine(answer, number) {
  return `${answer.files[answer.occurrences.file[number]]}:${answer.occurrences.line[number]}`;
}

function description(answer, number) {
  return answer.sentences[answer.occurrences.says[number]];
}
