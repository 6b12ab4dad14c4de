"use strict";
// Search and sort classes. Without this script, all of them are shown, the most frequent ones first.
const bar = document.getElementById("search");
if (bar) {
  const [text, byName] = bar.querySelectorAll("input");
  const found = bar.querySelector("output");
  const named = [...document.querySelectorAll("[data-name]")].map((element) => [element, element.dataset.name.toLowerCase()]);
  const bodies = [...document.querySelectorAll(".classes tbody")].map((body) => [body, [...body.rows]]);
  const names = new Intl.Collator(undefined, { numeric: true });

  const filter = () => {
    const wanted = text.value.trim().toLowerCase();
    for (const [element, name] of named) element.hidden = !name.includes(wanted);
    const all = bodies.flatMap(([, rows]) => rows);
    found.value = all.length ? `${all.filter((row) => !row.hidden).length} of ${all.length} classes` : "";
  };
  const sort = () => {
    const order = (one, other) => names.compare(one.dataset.name, other.dataset.name);
    for (const [body, rows] of bodies) body.append(...(byName.checked ? [...rows].sort(order) : rows));
  };
  text.addEventListener("input", filter);
  byName.addEventListener("change", sort);
  // A link that ends in #q=dog opens the page with this search.
  const follow = () => {
    text.value = new URLSearchParams(location.hash.slice(1)).get("q") ?? text.value;
    filter();
  };
  addEventListener("hashchange", follow);
  bar.hidden = false;
  follow();
}
