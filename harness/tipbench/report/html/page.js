"use strict";
// Sorts and filters the tables. What the reader has chosen stands in the address, behind the anchor if there is one:
// #channels-last?answers.sort=-2&answers.text=memory&answers.kind1=use+it
// Columns count from 1; a minus sorts downwards; kind0 is a kind in any column.

const BIG = 8; // rows from which a table gets a filter
const MANY = 3; // columns with kinds beyond which one choice serves them all
const language = new Intl.Collator("en", { numeric: true });

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// ---- one table ----

function enhance(region) {
  const table = region.querySelector("table");
  const name = table.id.replace("table:", "");
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows];
  const texts = new Map(rows.map((row) => [row, [...row.cells].map((cell) => cell.textContent).join("\n").toLowerCase()]));
  const search = make("input", { type: "search", autocomplete: "off" });
  const isBig = rows.length >= BIG;
  const choices = isBig ? kindChoices(heads, rows) : [];
  const status = make("p", { className: "status" });
  let sort = 0;

  heads.forEach((head, index) => {
    const button = make("button", { type: "button" }, ...head.childNodes);
    button.addEventListener("click", () => {
      const column = index + 1;
      sort = sort === column ? -column : sort === -column ? 0 : column;
      show();
      remember();
    });
    head.append(button);
  });

  if (isBig) {
    const clear = make("button", { type: "button", textContent: "Show all" });
    clear.addEventListener("click", () => {
      read(new URLSearchParams());
      remember();
    });
    const bar = make("div", { className: "controls" }, labelled("Filter", search));
    bar.append(...choices.flatMap((choice) => choice.labels), clear, status);
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", `Filter of ${region.getAttribute("aria-label")}`);
    bar.addEventListener("input", () => {
      show();
      remember();
    });
    status.setAttribute("role", "status");
    region.before(bar);
  }

  function show() {
    const words = search.value.toLowerCase().split(/\s+/);
    const wanted = choices.filter(({ kind }) => kind.value);
    for (const row of rows) {
      const found = words.every((word) => texts.get(row).includes(word)) && wanted.every((choice) => holds(choice, row));
      row.hidden = !found;
    }
    table.tBodies[0].append(...sorted(rows, sort));
    heads.forEach((head, index) => {
      if (Math.abs(sort) === index + 1) head.setAttribute("aria-sort", sort > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    const shown = rows.filter((row) => !row.hidden).length;
    status.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows shown`;
  }

  function read(chosen) {
    const column = Number(chosen.get(`${name}.sort`));
    sort = Number.isInteger(column) ? column : 0;
    search.value = (isBig && chosen.get(`${name}.text`)) || "";
    for (const { column, kind } of choices) {
      const named = [...column.options].find(({ value }) => chosen.has(`${name}.kind${value}`));
      column.value = (named ?? column.options[0]).value;
      kind.value = chosen.get(`${name}.kind${column.value}`) ?? "";
      if (kind.selectedIndex < 0) kind.value = "";
    }
    show();
  }

  function write(chosen) {
    if (sort) chosen.set(`${name}.sort`, sort);
    if (search.value) chosen.set(`${name}.text`, search.value);
    for (const { column, kind } of choices) if (kind.value) chosen.set(`${name}.kind${column.value}`, kind.value);
  }

  return { read, write };
}

function sorted(rows, sort) {
  if (!sort) return rows;
  const cells = new Map(rows.map((row) => [row, row.cells[Math.abs(sort) - 1]]));
  const isNumeric = rows.some((row) => cells.get(row)?.dataset.sort);
  const known = rows.filter((row) => (isNumeric ? cells.get(row)?.dataset.sort : cells.get(row)?.textContent));
  const compare = isNumeric
    ? (one, other) => cells.get(one).dataset.sort - cells.get(other).dataset.sort
    : (one, other) => language.compare(cells.get(one).textContent, cells.get(other).textContent);
  known.sort((one, other) => Math.sign(sort) * compare(one, other));
  return [...known, ...rows.filter((row) => !known.includes(row))]; // what is not known comes last either way
}

// ---- choices by kind ----

function kindChoices(heads, rows) {
  const kinds = heads.map((_, index) => new Set(rows.map((row) => row.cells[index]?.dataset.kind).filter(Boolean)));
  const columns = [...heads.keys()].filter((index) => kinds[index].size > 1);
  if (columns.length <= MANY) {
    return columns.map((index) => kindChoice([new Option(heads[index].textContent, index + 1)], kinds[index]));
  }
  const every = new Set(columns.flatMap((index) => [...kinds[index]]));
  const options = columns.map((index) => new Option(heads[index].textContent, index + 1));
  return [kindChoice([new Option("any column", 0), ...options], every)];
}

function kindChoice(options, kinds) {
  const column = make("select", {}, ...options);
  const kind = make("select", {}, new Option("any", ""), ...[...kinds].map((word) => new Option(word, word)));
  const labels = options.length > 1 ? [labelled("Column", column), labelled("shows", kind)] : [labelled(options[0].text, kind)];
  return { column, kind, labels };
}

function labelled(text, control) {
  return make("label", {}, make("span", { textContent: text }), control);
}

function holds({ column, kind }, row) {
  const cells = column.value === "0" ? [...row.cells] : [row.cells[column.value - 1]];
  return cells.some((cell) => cell?.dataset.kind === kind.value);
}

// ---- the address ----

function remember() {
  const parameters = new URLSearchParams();
  for (const view of views) view.write(parameters);
  const [anchor] = location.hash.slice(1).split("?");
  const chosen = parameters.toString();
  const hash = chosen ? `#${anchor}?${chosen}` : anchor && `#${anchor}`;
  history.replaceState(null, "", hash || location.href.split("#")[0]);
}

function follow() {
  const [anchor, chosen] = location.hash.slice(1).split("?");
  for (const view of views) view.read(new URLSearchParams(chosen));
  const target = anchor && document.getElementById(decoded(anchor));
  if (!target) return;
  for (let folded = target.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
  target.scrollIntoView();
}

function decoded(anchor) {
  try {
    return decodeURIComponent(anchor);
  } catch {
    return anchor; // typed by hand
  }
}

// A link within the page keeps what is chosen.
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const chosen = location.hash.split("?")[1];
  if (!link || !chosen || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const hash = `${link.getAttribute("href")}?${chosen}`;
  if (location.hash === hash) follow();
  else location.hash = hash;
});

// ---- what is folded ----

const folded = [...document.querySelectorAll("main details")];
if (folded.length) {
  const button = make("button", { type: "button", className: "unfold", textContent: "Unfold all" });
  button.addEventListener("click", () => {
    const open = folded.some((details) => !details.open);
    for (const details of folded) details.open = open;
    button.textContent = open ? "Fold all" : "Unfold all";
  });
  document.querySelector("header").append(button);
}

const views = [...document.querySelectorAll(".table")].filter((region) => region.querySelector("tbody tr + tr")).map(enhance);
addEventListener("hashchange", follow);
follow();
