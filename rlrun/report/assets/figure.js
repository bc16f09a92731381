"use strict";
// The frame of every picture: it follows the width of its place, has a tip, and can be saved as SVG and as CSV.

const SAVED_STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin",
  "paint-order", "opacity", "visibility", "font-size", "font-family", "font-weight", "text-anchor",
];

/**
 * A picture.
 *
 * `picture(width, tip)` returns its svg; `rows()` its numbers, of which the first row holds the names of the columns.
 * A `caption` stands above the picture, and wraps.
 */
function figure({ name, picture, rows, least = 0, caption = "" }) {
  const node = el("div", { class: least > 320 ? "chart wide-chart" : "chart" });
  const tip = tipOf(node);
  const save = (kind, text) =>
    el("button", { type: "button", text: kind, title: `Save as ${kind}`, click: () => saved(`${name}.${kind.toLowerCase()}`, text()) });
  const buttons = el("div", { class: "save" }, save("SVG", () => svgText(node.querySelector("svg"), name)), save("CSV", () => csvText(rows())));
  if (caption) node.append(el("div", { class: "caption", text: caption }));
  node.append(buttons);
  function render() {
    const svg = picture(Math.max(least || 200, node.clientWidth || 1000), tip);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", name);
    if (least > 320) svg.setAttribute("style", `min-width: ${least}px`);
    const old = node.querySelector("svg");
    if (old) old.replaceWith(svg);
    else node.insertBefore(svg, buttons);
  }
  follow(node, render);
  return { node, tip, render };
}

/** An empty svg of a size. */
const canvas = (width, height) => draw("svg", { viewBox: `0 0 ${width} ${height}` });

/** Draws again when the width of a place changes. */
function follow(node, render) {
  let width = -1;
  new ResizeObserver(() => {
    if (node.clientWidth !== width) {
      width = node.clientWidth;
      render();
    }
  }).observe(node);
}

/** A box next to the pointer with rows of [colour, name, value]. */
function tipOf(chart) {
  const tip = chart.appendChild(el("div", { class: "tip", role: "status" }));
  return {
    show(event, heading, rows) {
      const box = chart.getBoundingClientRect();
      tip.replaceChildren(el("div", { class: "soft", text: heading }));
      for (const [color, name, value] of rows) {
        const swatch = color ? el("i", { style: `--swatch: ${color}` }) : null;
        tip.append(el("div", {}, swatch, el("span", { text: name }), el("b", { text: value })));
      }
      tip.style.display = "block";
      const [px, py] = [event.clientX - box.left, event.clientY - box.top];
      tip.style.left = `${px + 16 + tip.offsetWidth > box.width ? Math.max(0, px - 16 - tip.offsetWidth) : px + 16}px`;
      tip.style.top = `${Math.max(0, py - tip.offsetHeight / 2)}px`;
    },
    hide() {
      tip.style.display = "none";
    },
    /** Shows a heading and rows while the pointer is over a node. */
    over(node, told) {
      node.addEventListener("pointermove", (event) => this.show(event, ...told()));
      node.addEventListener("pointerleave", () => this.hide());
      return node;
    },
  };
}

/** Text of an svg with the styles of the page in its elements. */
function svgText(svg, title) {
  const copy = svg.cloneNode(true);
  const { width, height } = svg.viewBox.baseVal;
  const nodes = [...svg.querySelectorAll("*")];
  [...copy.querySelectorAll("*")].forEach((node, place) => {
    const look = getComputedStyle(nodes[place]);
    node.setAttribute("style", SAVED_STYLES.map((name) => `${name}: ${look.getPropertyValue(name)}`).join("; "));
  });
  const page = getComputedStyle(document.body).backgroundColor;
  copy.prepend(draw("title", { text: title }), draw("rect", { width, height, fill: page }));
  for (const [name, value] of Object.entries({ xmlns: SVG, width, height })) copy.setAttribute(name, value);
  return copy.outerHTML;
}

function csvText(rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",") + "\n").join("");
}

function saved(name, text) {
  const address = URL.createObjectURL(new Blob([text]));
  const file = `${DATA.title}-${name}`.replace(/[^\w.-]+/g, "-");
  el("a", { href: address, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
