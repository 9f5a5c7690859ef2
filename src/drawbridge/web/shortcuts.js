// Keys that work anywhere but in a text field.

/**
 * @param {{view: () => import('./view-conversation.js').ConversationView | undefined, help: () => void}} world
 */
export function listen({ view, help }) {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector('dialog[open]')) return;
    const target = /** @type {HTMLElement} */ (event.target);
    const card = view()?.card;
    if (event.key === 'Escape') {
      if (!card?.back() && target.matches('input, textarea, select')) target.blur();
      return;
    }
    if (target.matches('textarea, select, input:not([type=checkbox]):not([type=radio])')) return;
    /** @type {Record<string, (() => void) | undefined>} */
    const acts = {
      a: card && (() => card.mode === 'read' && !event.repeat && card.accept()), // held down, it would answer the next one too
      e: card && (() => card.edit()),
      r: card && (() => card.reject()),
      j: () => step(view(), 1),
      k: () => step(view(), -1),
      '/': () => view()?.composer.area.focus(),
      '?': help,
    };
    const act = acts[event.key];
    if (!act) return;
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
}
