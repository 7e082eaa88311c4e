// What is drawn of the diagnosis that was chosen: what shows it, and an arrow from each cause to what followed.

const STACKED = 9; // pixels between what happened in one lane at one time

function drawChosen(lanes) {
  const { page } = lanes;
  lanes.spots = new Map();
  Object.assign(lanes.canvas.dataset, { highlighted: 0, arrows: 0 });
  if (page.chosen === null) return;
  const one = page.told.diagnoses[page.chosen];
  const shows = new Set(one.evidence);
  const chain = one.chain.map(([number]) => number);
  const numbers = [...new Set([...chain, ...one.evidence])].sort((first, second) => first - second);
  setApart(lanes, numbers);
  for (let at = 1; at < chain.length; at++) arrow(lanes, spot(lanes, chain[at - 1]), spot(lanes, chain[at]));
  for (const number of numbers) highlight(lanes, number, shows.has(number));
  Object.assign(lanes.canvas.dataset, { highlighted: numbers.length, arrows: Math.max(0, chain.length - 1) });
}

// Two of one lane that would cover each other stand one above the other.
function setApart(lanes, numbers) {
  const before = new Map();
  for (const number of numbers) {
    const lane = laneOf(lanes.page.told, number);
    const plain = spot(lanes, number);
    const last = before.get(lane);
    const isNear = last && !lane.folded && plain.x - last.x < STACKED && last.y - STACKED > lanes.top(lane) + 4;
    const here = isNear ? { x: plain.x, y: last.y - STACKED } : plain;
    before.set(lane, here);
    lanes.spots.set(number, here);
  }
}

function spot(lanes, number) {
  const { page } = lanes;
  const known = lanes.spots.get(number);
  return known || { x: page.view.x(page.told.happenings.begin[number]), y: lanes.middle(laneOf(page.told, number)) };
}

function highlight(lanes, number, isEvidence) {
  const { page, context } = lanes;
  const { begin, end, kind } = page.told.happenings;
  const lane = laneOf(page.told, number);
  const { x, y } = spot(lanes, number);
  const right = page.view.x(end[number]);
  if (x > page.view.width + 8 || Math.max(x, right) < -8) return;
  context.fillStyle = page.colours.kinds[kind[number]];
  context.strokeStyle = isEvidence ? page.colours.accent : page.colours.quiet;
  context.lineWidth = 2;
  if (end[number] > begin[number] && right - x > BAR_MIN) {
    context.fillRect(x, y - 6, right - x, 12);
    context.strokeRect(x, y - 6, right - x, 12);
  } else {
    lanes.disc(x, y, lane.folded ? 4 : 5.5);
    context.stroke();
  }
  lanes.drawn.push({ numbers: [number], left: x - 6, right: Math.max(x + 6, right), top: y - 7, bottom: y + 7 });
}

function arrow(lanes, from, to) {
  const { context, page } = lanes;
  if (Math.hypot(to.x - from.x, to.y - from.y) < 12) return; // they touch
  const bend = Math.abs(from.y - to.y) < 2 ? bow(from, to) : leap(from, to);
  context.strokeStyle = page.colours.accent;
  context.fillStyle = page.colours.accent;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.bezierCurveTo(...bend, to.x, to.y);
  context.stroke();
  head(context, Math.atan2(to.y - bend[3], to.x - bend[2]), to);
}

// Within a lane: above it.
function bow(from, to) {
  const rise = Math.min(22, 8 + Math.abs(to.x - from.x) / 6);
  return [from.x + 3, from.y - rise, to.x - 3, to.y - rise];
}

function leap(from, to) {
  const half = (to.y - from.y) / 2;
  return [from.x, from.y + half, to.x, to.y - half];
}

function head(context, angle, to) {
  const tip = { x: to.x - 7 * Math.cos(angle), y: to.y - 7 * Math.sin(angle) };
  context.beginPath();
  context.moveTo(tip.x, tip.y);
  for (const side of [-0.45, 0.45]) context.lineTo(tip.x - 9 * Math.cos(angle + side), tip.y - 9 * Math.sin(angle + side));
  context.fill();
}
