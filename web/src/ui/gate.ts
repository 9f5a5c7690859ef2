// One gate for attributes that people read. It writes out misleading characters in them, wherever they come from.

import { options, type VNode } from 'preact';

import { harmless } from '../text/harmless.ts';

const READ = ['title', 'alt', 'aria-label', 'placeholder', 'label'];

const before = options.vnode;

options.vnode = (vnode: VNode) => {
  if (typeof vnode.type === 'string') {
    const props = vnode.props as Record<string, unknown>;
    for (const name of READ) {
      const value = props[name];
      if (typeof value === 'string') props[name] = harmless(value);
    }
  }
  before?.(vnode);
};
