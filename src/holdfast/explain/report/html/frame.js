// Draws the frame: lines between lanes and hours, the time axis, and a description in words.

function drawGrid(lanes, ticks) {
  const { context, page } = lanes;
  context.fillStyle = page.colours.line;
  for (const [ms] of ticks) context.fillRect(Math.round(page.view.x(ms)), AXIS, 1, lanes.height);
  for (const lane of page.answer.lanes) context.fillRect(0, lanes.top(lane) + lane.height - 1, page.view.width, 1);
}

// Draws the time range of the chosen diagnosis.
function drawRange(lanes) {
  const { context, page } = lanes;
  if (page.chosen === null) return;
  const one = page.answer.diagnoses[page.chosen];
  const x = page.view.x(one.begin);
  context.fillStyle = page.colours.band;
  context.fillRect(x, AXIS, Math.max(2, page.view.x(one.end) - x), lanes.height);
}

function drawAxis(lanes, ticks) {
  const { context, page } = lanes;
  context.fillStyle = page.colours.surface;
  context.fillRect(0, 0, page.view.width, AXIS);
  context.fillStyle = page.colours.line;
  context.fillRect(0, AXIS - 1, page.view.width, 1);
  context.fillStyle = page.colours.quiet;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  for (const [ms, label] of ticks) {
    const x = page.view.x(ms) + 3;
    if (x + context.measureText(label).width < page.view.width) context.fillText(label, x, AXIS / 2);
  }
}

// Describes the visible range in words, for screen readers.
function describeView(lanes) {
  const { view, answer } = lanes.page;
  const seen = `${formatTime(view.begin)} to ${formatTime(view.end)}`;
  byId('range').textContent = `${seen} (${formatDuration(view.span)})`;
  lanes.canvas.setAttribute('aria-label', `${answer.lanes.length} lanes, ${lanes.drawn.length} marks from ${seen}`);
  Object.assign(lanes.canvas.dataset, { begin: view.begin, end: view.end, marks: lanes.drawn.length });
}
