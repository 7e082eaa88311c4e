// What is around the marks: the lines between lanes and hours, the hours themselves, and the same in words.

function drawGrid(lanes, ticks) {
  const { context, page } = lanes;
  context.fillStyle = page.colours.line;
  for (const [ms] of ticks) context.fillRect(Math.round(page.view.x(ms)), AXIS, 1, lanes.height);
  for (const lane of page.told.lanes) context.fillRect(0, lanes.top(lane) + lane.height - 1, page.view.width, 1);
}

// The time of the diagnosis that was chosen.
function drawRange(lanes) {
  const { context, page } = lanes;
  if (page.chosen === null) return;
  const one = page.told.diagnoses[page.chosen];
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
  for (const [ms, says] of ticks) {
    const x = page.view.x(ms) + 3;
    if (x + context.measureText(says).width < page.view.width) context.fillText(says, x, AXIS / 2);
  }
}

// In words, for those who do not see the picture.
function tell(lanes) {
  const { view, told } = lanes.page;
  const seen = `${stamp(view.begin)} to ${stamp(view.end)}`;
  byId('range').textContent = `${seen} (${lasting(view.span)})`;
  lanes.canvas.setAttribute('aria-label', `${told.lanes.length} lanes, ${lanes.drawn.length} marks from ${seen}`);
  Object.assign(lanes.canvas.dataset, { begin: view.begin, end: view.end, marks: lanes.drawn.length });
}
