// The part of a document that the page's modules need to make elements without a browser.

class Node {
  constructor() {
    /** @type {any[]} */
    this.childNodes = [];
  }
  append(...nodes) {
    for (const node of nodes) this.childNodes.push(node);
  }
  get textContent() {
    let text = '';
    for (const node of this.childNodes) text += typeof node === 'string' ? node : node.textContent;
    return text;
  }
}

class Fragment extends Node {}

class Element extends Node {
  constructor(tag) {
    super();
    this.nodeName = this.tagName = tag.toUpperCase();
    this.className = '';
    this.attributes = {};
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  addEventListener() {}
  /** As a browser would write it, without attributes. */
  get markup() {
    const inside = this.childNodes.map((node) => (typeof node === 'string' ? node : node.markup)).join('');
    return `<${this.nodeName.toLowerCase()}>${inside}</${this.nodeName.toLowerCase()}>`;
  }
}

Object.assign(globalThis, {
  Node,
  document: { createElement: (tag) => new Element(tag), createDocumentFragment: () => new Fragment() },
  matchMedia: () => ({ matches: false, addEventListener() {}, removeEventListener() {} }),
});

/** The markup of what is in a fragment. */
export const markup = (fragment) => fragment.childNodes.map((node) => node.markup).join('');
