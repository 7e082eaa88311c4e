// Draws the chosen diagnosis: its evidence, and an arrow from each cause to its effect.

const STACKED = 9; // pixels between simultaneous occurrences of one lane

function drawChosen(lanes) {
  const { page } = lanes;
  lanes.positions = new Map();
  Object.assign(lanes.canvas.dataset, { highlighted: 0, arrows: 0 });
  if (page.chosen === null) return;
  const one = page.answer.diagnoses[page.chosen];
  const shows = new Set(one.evidence);
  const chain = one.chain.map(([number]) => number);
  const numbers = [...new Set([...chain, ...one.evidence])].sort((first, second) => first - second);
  separateMarks(lanes, numbers);
  for (let at = 1; at < chain.length; at++) drawArrow(lanes, positionOf(lanes, chain[at - 1]), positionOf(lanes, chain[at]));
  for (const number of numbers) drawHighlight(lanes, number, shows.has(number));
  Object.assign(lanes.canvas.dataset, { highlighted: numbers.length, arrows: Math.max(0, chain.length - 1) });
}

// Stacks occurrences of one lane that would cover each other.
function separateMarks(lanes, numbers) {
  const before = new Map();
  for (const number of numbers) {
    const lane = laneOf(lanes.page.answer, number);
    const plain = positionOf(lanes, number);
    const last = before.get(lane);
    const isNear = last && !lane.folded && plain.x - last.x < STACKED && last.y - STACKED > lanes.top(lane) + 4;
    const here = isNear ? { x: plain.x, y: last.y - STACKED } : plain;
    before.set(lane, here);
    lanes.positions.set(number, here);
  }
}

function positionOf(lanes, number) {
  const { page } = lanes;
  const known = lanes.positions.get(number);
  return known || { x: page.view.x(page.answer.occurrences.begin[number]), y: lanes.middle(laneOf(page.answer, number)) };
}

function drawHighlight(lanes, number, isEvidence) {
  const { page, context } = lanes;
  const { begin, end, kind } = page.answer.occurrences;
  const lane = laneOf(page.answer, number);
  const { x, y } = positionOf(lanes, number);
  const right = page.view.x(end[number]);
  if (x > page.view.width + 8 || Math.max(x, right) < -8) return;
  context.fillStyle = page.colours.kinds[kind[number]];
  context.strokeStyle = isEvidence ? page.colours.accent : page.colours.quiet;
  context.lineWidth = 2;
  if (end[number] > begin[number] && right - x > BAR_MIN) {
    context.fillRect(x, y - 6, right - x, 12);
    context.strokeRect(x, y - 6, right - x, 12);
  } else {
    lanes.drawDisc(x, y, lane.folded ? 4 : 5.5);
    context.stroke();
  }
  lanes.drawn.push({ numbers: [number], left: x - 6, right: Math.max(x + 6, right), top: y - 7, bottom: y + 7 });
}

function drawArrow(lanes, from, to) {
  const { context, page } = lanes;
  if (Math.hypot(to.x - from.x, to.y - from.y) < 12) return; // they touch
  const bend = Math.abs(from.y - to.y) < 2 ? arcWithinLane(from, to) : curveBetweenLanes(from, to);
  context.strokeStyle = page.colours.accent;
  context.fillStyle = page.colours.accent;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.bezierCurveTo(...bend, to.x, to.y);
  context.stroke();
  drawArrowHead(context, Math.atan2(to.y - bend[3], to.x - bend[2]), to);
}

// An arrow within a lane is drawn as an arc above it.
function arcWithinLane(from, to) {
  const rise = Math.min(22, 8 + Math.abs(to.x - from.x) / 6);
  return [from.x + 3, from.y - rise, to.x - 3, to.y - rise];
}

function curveBetweenLanes(from, to) {
  const half = (to.y - from.y) / 2;
  return [from.x, from.y + half, to.x, to.y - half];
}

function drawArrowHead(context, angle, to) {
  const tip = { x: to.x - 7 * Math.cos(angle), y: to.y - 7 * Math.sin(angle) };
  context.beginPath();
  context.moveTo(tip.x, tip.y);
  for (const side of [-0.45, 0.45]) context.lineTo(tip.x - 9 * Math.cos(angle + side), tip.y - 9 * Math.sin(angle + side));
  context.fill();
}
