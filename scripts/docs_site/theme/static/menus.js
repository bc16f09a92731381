// Closes a menu that covers the page: the table of contents once a section is chosen, and either menu with Escape.
const closeMenu = (name) => { document.getElementById(name).checked = false; };
document.addEventListener("click", (event) => { if (event.target.closest(".toc-tree a")) closeMenu("__toc"); });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") ["__toc", "__navigation"].forEach(closeMenu);
});
