// The one way by which anything comes onto the page. Text is text: what a log line says is never read as HTML.

function element(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (key === 'class') made.className = value;
    else if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined) made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

function button(says, onclick, properties) {
  return element('button', { type: 'button', onclick, ...properties }, says);
}

// The clock of the logs, whatever zone whoever reads this is in.
function stamp(ms) {
  return new Date(ms).toISOString().slice(0, -1).replace('T', ' ');
}

function clockOf(ms) {
  return stamp(ms).slice(11);
}

function amount(number) {
  return number.toLocaleString('en-US');
}

function times(number) {
  return number === 1 ? 'once' : `${amount(number)} times`;
}

function lasting(ms) {
  if (ms < 1000) return `${amount(Math.round(ms))} ms`;
  if (ms < 120000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 7200000) return `${(ms / 60000).toFixed(1)} min`;
  return ms < 172800000 ? `${(ms / 3600000).toFixed(1)} h` : `${(ms / 86400000).toFixed(1)} days`;
}

// Small enough to stand above a mark.
function short(number) {
  if (number < 1000) return String(number);
  return number < 1000000 ? `${(number / 1000).toFixed(number < 10000 ? 1 : 0)}k` : `${(number / 1000000).toFixed(1)}M`;
}

// A list of which only the first are shown until somebody asks for others.
const MORE_MAX = 500;

function some(list, items, shown, made) {
  let to = shown;
  list.append(...items.slice(0, to).map(made));
  if (items.length <= to) return list;
  const more = button('', () => {
    list.append(...items.slice(to, to + MORE_MAX).map(made));
    to += MORE_MAX;
    more.textContent = moreSays(items.length - to);
    more.hidden = items.length <= to;
  }, { class: 'more', textContent: moreSays(items.length - to) });
  return element('div', {}, list, more);
}

function moreSays(left) {
  return left > MORE_MAX ? `show ${MORE_MAX} of ${amount(left)} more` : `show ${amount(left)} more`;
}
