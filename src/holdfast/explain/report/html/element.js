// Creates all elements of the page. Text is added as text: a log line is never parsed as HTML.

function element(name, properties, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key.startsWith('on')) created.addEventListener(key.slice(2), value);
    else if (key === 'class') created.className = value;
    else if (key in created) created[key] = value;
    else created.setAttribute(key, value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined) created.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return created;
}

function byId(id) {
  return document.getElementById(id);
}

function button(label, onclick, properties) {
  return element('button', { type: 'button', onclick, ...properties }, label);
}

// Formats a time on the clock of the logs, whatever the time zone of the browser.
function formatTime(ms) {
  return new Date(ms).toISOString().slice(0, -1).replace('T', ' ');
}

function formatClock(ms) {
  return formatTime(ms).slice(11);
}

function formatNumber(number) {
  return number.toLocaleString('en-US');
}

function formatTimes(number) {
  return number === 1 ? 'once' : `${formatNumber(number)} times`;
}

function formatDuration(ms) {
  if (ms < 1000) return `${formatNumber(Math.round(ms))} ms`;
  if (ms < 120000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 7200000) return `${(ms / 60000).toFixed(1)} min`;
  return ms < 172800000 ? `${(ms / 3600000).toFixed(1)} h` : `${(ms / 86400000).toFixed(1)} days`;
}

// Abbreviates a count so that it fits above a mark.
function abbreviate(number) {
  if (number < 1000) return String(number);
  return number < 1000000 ? `${(number / 1000).toFixed(number < 10000 ? 1 : 0)}k` : `${(number / 1000000).toFixed(1)}M`;
}

// Shows the first items of a list, and a button for more.
const MORE_MAX = 500;

function listWithMore(list, items, shown, create) {
  let to = shown;
  list.append(...items.slice(0, to).map(create));
  if (items.length <= to) return list;
  const more = button('', () => {
    list.append(...items.slice(to, to + MORE_MAX).map(create));
    to += MORE_MAX;
    more.textContent = moreLabel(items.length - to);
    more.hidden = items.length <= to;
  }, { class: 'more', textContent: moreLabel(items.length - to) });
  return element('div', {}, list, more);
}

function moreLabel(left) {
  return left > MORE_MAX ? `show ${MORE_MAX} of ${formatNumber(left)} more` : `show ${formatNumber(left)} more`;
}
