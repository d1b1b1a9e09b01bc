// -> the page as HTML, with what stands in open shadow roots at its place
() => {
  const hosts = [...document.querySelectorAll("*")].some((element) => element.shadowRoot);
  const doctype = document.doctype ? "<!DOCTYPE html>" : "";
  if (!hosts) return doctype + document.documentElement.outerHTML;
  const copy = (node) => {
    const clone = node.cloneNode(false);
    const shadow = node.shadowRoot;
    const slotted = node.nodeName === "SLOT" && node.assignedNodes ? node.assignedNodes() : [];
    const children = shadow ? shadow.childNodes : slotted.length ? slotted : node.childNodes;
    for (const child of children) if (!(child.nodeName === "STYLE" && shadow)) clone.appendChild(copy(child));
    return clone;
  };
  return doctype + copy(document.documentElement).outerHTML;
}
