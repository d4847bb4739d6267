// The page of holdfast ui. It gets what it shows each second, lets ages and expiries go on between, and sends what
// is to be broken. Text becomes text of the document only, never HTML.

const at = id => document.getElementById(id);
const least = 1000; // milliseconds between two questions
const mostNames = 300; // shown at a time
const mostRows = 100; // holders, and waiters, of one name
const openWaiters = 5; // a longer queue is closed at first

let token = "";

// takeToken takes the token, which is in the address behind the #, which no browser sends. It is kept for this tab alone,
// and taken out of the address, so that it is in no picture of the window.
function takeToken() {
	const given = new URLSearchParams(location.hash.slice(1)).get("token");
	if (given) {
		sessionStorage.setItem("token", given);
		history.replaceState(null, "", location.pathname);
	}
	token = sessionStorage.getItem("token") ?? "";
}

let state = null; // the newest answer
let stateAt = 0; // when it came, by performance.now
let asking = false;
let timer = 0;

async function call(path, body) {
	const options = { headers: { Authorization: "Bearer " + token }, signal: AbortSignal.timeout(15000) };
	if (body) {
		options.method = "POST";
		options.headers["Content-Type"] = "application/json";
		options.body = JSON.stringify(body);
	}
	const r = await fetch(path, options);
	return { ok: r.ok, refused: r.status === 401, wrong: r.status >= 400 && r.status < 500, body: await r.json() };
}

// ask asks for the state, and again in a while. While nobody sees the page it does not.
async function ask() {
	clearTimeout(timer);
	if (asking || document.hidden) return;
	asking = true;
	let again = true;
	const by = token;
	try {
		const answer = await call("state");
		if (answer.ok) {
			state = answer.body;
			stateAt = performance.now();
			show();
		} else {
			setText(at("trouble"), answer.body.said);
			again = !answer.refused || by !== token;
		}
	} catch {
		setText(at("trouble"), "holdfast ui does not answer: it has ended, or cannot be reached. What is shown here is old.");
	}
	asking = false;
	if (again) timer = setTimeout(ask, least);
}

function setText(element, text) {
	if (element.textContent !== text) element.textContent = text; // else it would be read aloud again
}

function make(tag, className, parent) {
	const element = document.createElement(tag);
	if (className) element.className = className;
	parent?.append(element);
	return element;
}

// since is how many milliseconds ago the state was told.
const since = () => performance.now() - stateAt;

// span is a time for people.
function span(ms) {
	const s = Math.max(Math.round(ms / 1000), 0);
	if (s < 60) return s + "s";
	const m = Math.floor(s / 60);
	if (m < 60) return m + "m " + (s % 60) + "s";
	const h = Math.floor(m / 60);
	if (h < 48) return h + "h " + (m % 60) + "m";
	return Math.floor(h / 24) + "d " + (h % 24) + "h";
}

// keyed makes the children of a list those of the items, in their order. A child of an item that was there before stays
// the same element, with its focus and what was opened in it. What has gone goes first: an element that is moved loses
// its focus.
function keyed(list, items, keyOf, create) {
	const had = Map.groupBy(list.children, child => child.key);
	const placed = items.map(item => {
		const key = keyOf(item);
		const child = had.get(key)?.shift() ?? create(item);
		child.key = key;
		return child;
	});
	for (const gone of had.values()) gone.forEach(child => child.remove());
	let place = list.firstElementChild;
	placed.forEach((child, i) => {
		if (child === place) place = place.nextElementSibling;
		else list.insertBefore(child, place);
		child.update(items[i]);
	});
}

// An entry is one row: a holder, one who waits, or what was lost.
function makeEntry(tag) {
	const row = make(tag, "entry");
	const part = name => make("span", name, row);
	const head = part("state"), owner = part("owner"), kind = part("kind"), age = part("moving"), left = part("moving"), note = part("note");
	const leftText = make("span", "", left);
	const bar = make("progress", "", left);
	bar.setAttribute("aria-hidden", "true"); // the text says it
	let most = 0, button = null;
	row.update = (e, name) => {
		row.entry = e;
		const waits = e.state === "waiting";
		head.className = "state " + e.state;
		setText(head, (e.position ? e.position + ". " : "") + e.state);
		setText(owner, e.owner);
		setText(kind, e.kind);
		setText(note, [e.why && "broken by " + e.why, e.note].filter(Boolean).join(" · "));
		most = Math.max(most, e.left_ms);
		bar.hidden = waits || most === 0;
		bar.max = Math.max(most, 1);
		if (e.breakable && !button) {
			button = make("button", "", row);
			button.type = "button";
			setText(button, "Break…");
			button.setAttribute("aria-label", "Break " + name + " of " + e.owner);
			button.addEventListener("click", () => startBreak(name, row.entry));
		} else if (!e.breakable && button) {
			button.remove();
			button = null;
		}
		row.tick();
	};
	row.tick = () => {
		const e = row.entry;
		const rest = Math.max(e.left_ms - since(), 0);
		setText(age, e.state === "waiting" ? "" : "for " + span(e.age_ms + since()));
		setText(leftText, (e.state === "expired" ? "free in " : e.state === "waiting" ? "lapses in " : "expires in ") + span(rest));
		bar.value = rest;
	};
	return row;
}

function makeName(item) {
	const li = make("li");
	const title = make("h3", "name", li);
	setText(title, item.name);
	const holders = make("ul", "", li), moreHolders = make("p", "faint", li);
	const queue = make("details", "", li);
	const summary = make("summary", "", queue);
	const waiters = make("ol", "", queue), moreWaiters = make("p", "faint", queue);
	let chosen = false; // by the user, whether the queue is open
	summary.addEventListener("click", () => chosen = true);
	li.update = n => {
		const rows = (list, more, entries) => {
			keyed(list, entries.slice(0, mostRows), e => e.id, () => {
				const row = makeEntry("li");
				const update = row.update;
				row.update = e => update(e, n.name);
				return row;
			});
			setText(more, entries.length > mostRows ? "and " + (entries.length - mostRows) + " more" : "");
		};
		rows(holders, moreHolders, n.holders);
		rows(waiters, moreWaiters, n.waiters.map((e, i) => ({ ...e, position: i + 1 })));
		if (!chosen) queue.open = n.waiters.length <= openWaiters;
		queue.hidden = n.waiters.length === 0;
		setText(summary, n.waiters.length === 1 ? "1 waits" : n.waiters.length + " wait");
	};
	return li;
}

function makeLoss() {
	const li = make("li");
	const title = make("h3", "name", li);
	const what = make("p", "", li);
	const who = make("p", "faint", li);
	const when = make("span", "moving");
	li.update = e => {
		li.entry = e;
		setText(title, e.name);
		setText(what, (e.state === "broken" ? "broken by " : "") + e.why);
		who.replaceChildren(e.owner + (e.note ? " · " + e.note : "") + " · token " + e.token + " · ", when);
		li.tick();
	};
	li.tick = () => setText(when, span(li.entry.age_ms + since()) + " ago");
	return li;
}

// What to sort by, each a number or a text of which the smallest comes first.
const sorts = {
	name: () => 0, // as they come
	age: n => -Math.max(0, ...n.holders.map(e => e.age_ms)),
	expiry: n => Math.min(...n.holders.map(e => e.left_ms), Infinity),
	waiters: n => -n.waiters.length,
};

function show() {
	const s = state;
	setText(at("rights"), s.may_break ? "may break holds" : "read-only");
	setText(at("trouble"), s.trouble ? s.trouble + (s.store && s.age_ms > 3000 ? ". What is shown here is old." : "") : "");
	const text = at("filter").value.trim().toLowerCase();
	const has = e => (e.owner + "\n" + (e.note ?? "")).toLowerCase().includes(text);
	const fit = s.names.filter(n => !text || n.name.toLowerCase().includes(text) || n.holders.some(has) || n.waiters.some(has));
	const by = sorts[at("sort").value];
	fit.sort((a, b) => { const x = by(a), y = by(b); return x < y ? -1 : x > y ? 1 : 0; });
	keyed(at("names"), fit.slice(0, mostNames), n => n.name, makeName);
	let count = s.names.length === 0 ? "no lock is in use" : s.names.length === 1 ? "1 name" : s.names.length + " names";
	if (!s.store) count = "";
	if (text) count += ", " + fit.length + " shown";
	if (fit.length > mostNames) count += "; these are the first " + mostNames;
	setText(at("count"), count);
	keyed(at("lost"), s.lost, e => e.id + e.state, makeLoss);
	tick();
}

// tick lets the times go on.
function tick() {
	if (!state) return;
	const age = state.age_ms + since();
	setText(at("store"), (state.store || "reading the store") + (state.store && age > 3000 ? ", read " + span(age) + " ago" : ""));
	const sure = state.store && !at("trouble").textContent; // else something may have been missed
	setText(at("watched"), sure && state.lost.length === 0 ? "Nothing, in the " + span(state.watched_ms + since()) + " since holdfast ui was started." : "");
	for (const row of document.querySelectorAll(".entry, .lost > li")) row.tick();
}

// A break: a reason, then yes. What is read meanwhile changes no question.
let hold = null; // that the dialog is about

function startBreak(name, entry) {
	hold = { name, id: entry.id, token: entry.token };
	at("breaking-form").reset();
	setText(at("breaking-what"), "Break " + name + "?");
	setText(at("breaking-whose"), "It is " + entry.state + " by " + entry.owner + ", with the token " + entry.token + ".");
	setText(at("breaking-wrong"), "");
	setText(at("said"), "");
	at("go").disabled = false;
	second(false);
	at("breaking").showModal();
	at("reason").focus();
}

// second shows the reason, or the question behind it.
function second(yes) {
	at("breaking-why").hidden = yes;
	at("breaking-sure").hidden = !yes;
	setText(at("go"), yes ? "Break it" : "Go on");
}

at("breaking-form").addEventListener("submit", async event => {
	event.preventDefault();
	if (at("breaking-sure").hidden) {
		if (!at("reason").value.trim()) {
			setText(at("breaking-wrong"), "A reason is needed.");
			return;
		}
		setText(at("breaking-wrong"), "");
		second(true);
		at("yes").focus();
		return;
	}
	const mine = hold;
	at("go").disabled = true;
	let text, wrong = false;
	try {
		const answer = await call("break", { id: mine.id, token: mine.token, reason: at("reason").value, answer: at("yes").value });
		text = answer.body.said;
		wrong = answer.wrong;
	} catch {
		text = "holdfast ui does not answer: " + mine.name + " may be broken or not";
	}
	const asks = hold === mine && at("breaking").open; // still
	if (asks) at("go").disabled = false;
	if (asks && wrong) { // nothing was done: it can be put right
		second(false);
		at("yes").value = "";
		setText(at("breaking-wrong"), text);
		at("reason").focus();
		return;
	}
	if (asks) at("breaking").close();
	setText(at("said"), text);
	ask();
});
at("leave").addEventListener("click", () => at("breaking").close());
at("filter").addEventListener("input", () => state && show());
at("sort").addEventListener("change", () => state && show());
document.addEventListener("visibilitychange", ask);
addEventListener("hashchange", () => {
	takeToken();
	ask();
});
setInterval(tick, least);
takeToken();
ask();
