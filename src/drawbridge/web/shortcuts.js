// Keys that work anywhere but in a text field.

import { isTyping } from './current.js';

/**
 * @param {{view: () => import('./view-conversation.js').ConversationView | undefined, help: () => void}} world
 */
export function listen({ view, help }) {
  const isElsewhere = () => Boolean(document.querySelector('dialog[open]'));
  document.addEventListener('pointerdown', (event) => view()?.current.clicked(event));
  document.addEventListener('click', (event) => view()?.current.pointed(event));
  for (const type of ['focusin', 'focusout']) document.addEventListener(type, () => requestAnimationFrame(() => view()?.current.look()));
  document.addEventListener('keydown', (event) => {
    if (event.isComposing || isElsewhere()) return;
    const shown = view();
    const card = shown?.current.card;
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.key === 'Escape') {
      shown?.current.arm();
      if (!card?.back() && isTyping(target)) target.blur();
      return;
    }
    if (event.key === 'Tab') shown?.current.arm();
    if (isTyping(target)) return;
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (card && !event.repeat && shown.current.look()) card.accept();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.key.length !== 1 || (event.key === ' ' && target !== document.body)) return;
    if (shown && !shown.current.takesLetters) {
      shown.type();
      return;
    }
    /** @type {Record<string, (() => void) | undefined>} */
    const acts = {
      a: card && (() => card.takesLetter && !event.repeat && shown.current.look() && card.accept()), // held down, it would answer the next one too
      e: card && (() => shown.current.look() && card.edit()),
      r: card && (() => shown.current.look() && card.reject()),
      j: () => step(shown, 1),
      k: () => step(shown, -1),
      '/': () => shown?.composer.area.focus(),
      '?': help,
    };
    const act = acts[event.key];
    if (!act) {
      if (event.key !== ' ' && !event.repeat) shown?.type();
      return;
    }
    event.preventDefault();
    act();
  });
}

/** To the next thing in the conversation, or the one before. */
function step(/** @type {any} */ view, /** @type {number} */ by) {
  if (!view) return;
  const all = [...view.scroller.querySelectorAll('.items > .item:not([hidden]), .card')];
  const at = all.indexOf(document.activeElement?.closest('.item, .card'));
  const next = at < 0 ? (by > 0 ? all[0] : all[all.length - 1]) : all[at + by];
  if (!next) return;
  if (!next.hasAttribute('tabindex')) next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: 'nearest' });
  view.choose(next);
}
