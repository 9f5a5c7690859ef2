// The parts of the DOM that Preact needs to draw, and that the web UI's modules need to load, without a browser.
// Must be imported before the web UI's modules.

class Node {
  constructor() {
    /** @type {any[]} */
    this.childNodes = [];
    /** @type {any} */
    this.parentNode = null;
    this.ownerDocument = globalThis.document;
  }
  get firstChild() {
    return this.childNodes[0] ?? null;
  }
  get nextSibling() {
    const all = this.parentNode?.childNodes ?? [];
    return all[all.indexOf(this) + 1] ?? null;
  }
  insertBefore(node, before) {
    node.remove?.();
    const at = before ? this.childNodes.indexOf(before) : this.childNodes.length;
    this.childNodes.splice(at, 0, node);
    node.parentNode = this;
    return node;
  }
  appendChild(node) {
    return this.insertBefore(node, null);
  }
  append(...nodes) {
    for (const node of nodes) this.appendChild(typeof node === 'string' ? new Text(node) : node);
  }
  removeChild(node) {
    this.childNodes.splice(this.childNodes.indexOf(node), 1);
    node.parentNode = null;
  }
  remove() {
    this.parentNode?.removeChild(this);
  }
  contains(node) {
    for (let at = node; at; at = at.parentNode) if (at === this) return true;
    return false;
  }
  get textContent() {
    let text = '';
    for (const node of this.childNodes) text += node.textContent;
    return text;
  }
}

class Text extends Node {
  constructor(data) {
    super();
    this.nodeType = 3;
    this.data = data;
  }
  get textContent() {
    return this.data;
  }
  get markup() {
    return this.data;
  }
}

class Element extends Node {
  constructor(tag) {
    super();
    this.nodeType = 1;
    this.localName = tag;
    this.nodeName = this.tagName = tag.toUpperCase();
    this.className = '';
    /** @type {Record<string, any>} */
    this.attributes = {};
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  removeAttribute(name) {
    delete this.attributes[name];
  }
  addEventListener() {}
  removeEventListener() {}
  /** The HTML of the element, without attributes and without escaping. */
  get markup() {
    const inside = this.childNodes.map((node) => node.markup).join('');
    return `<${this.localName}>${inside}</${this.localName}>`;
  }
}

Object.assign(globalThis, {
  Node,
  Element,
  document: {
    createElement: (tag) => new Element(tag),
    createElementNS: (_, tag) => new Element(tag),
    createTextNode: (data) => new Text(String(data)),
  },
  matchMedia: () => ({ matches: false, addEventListener() {}, removeEventListener() {} }),
  // Never runs the callback, so that effects do not run before Preact's timeout of 35 ms: tests see the first render.
  requestAnimationFrame: () => 0,
  cancelAnimationFrame: () => {},
});

const { createElement, render } = await import('preact');

/** An element that contains the first render of a component. */
export function drawn(component, props) {
  const host = new Element('div');
  render(createElement(component, props), host);
  return host;
}

/** The markup of an element's content. */
export const markup = (element) => element.childNodes.map((node) => node.markup).join('');
