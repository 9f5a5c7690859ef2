// The keyboard shortcuts. Most work anywhere except in a text field.

import { WIDE } from '../projects/head.tsx';
import * as kept from '../state/kept.ts';
import { toasts } from './toasts.tsx';
import { isComposing, isTyping } from './typing.ts';

/** Whether something that receives the keys is open over the view: a menu, or the list of sessions as a drawer. */
export const isCovered = () =>
  document.querySelector('[role=menu]') !== null ||
  (document.querySelector('.frame.drawn') !== null && !matchMedia(WIDE).matches);

export function listen({
  view,
  help,
  palette,
  next,
}: {
  view: () => import('../conversation/view.tsx').ConversationView | undefined;
  help: () => void;
  palette: () => void;
  /**
   * Returns a function that goes to the next session with an approval request, or undefined if no other session waits.
   */
  next: () => (() => void) | undefined;
}) {
  const look = () => requestAnimationFrame(() => void view()?.current.look());
  toasts.subscribe(look);
  document.addEventListener('pointerdown', (event) => view()?.current.clicked(event));
  document.addEventListener('click', (event) => view()?.current.pointed(event));
  for (const type of ['focusin', 'focusout']) document.addEventListener(type, look);
  document.addEventListener('keydown', (event) => {
    if (isComposing(event) || document.querySelector('dialog[open]')) return;
    if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      palette();
      return;
    }
    if (isCovered()) return;
    const shown = view();
    const card = shown?.current.card;
    // The target may be inside a shadow root, such as a file's search panel.
    const target = event.composedPath()[0] as HTMLElement;
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
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.key.length !== 1 ||
      (event.key === ' ' && target !== document.body)
    )
      return;
    if (kept.setting('keys') === 'off' || (shown && !shown.current.takesLetters)) {
      if (!shown) return;
      shown.type();
      return;
    }
    const acts: Record<string, (() => void) | undefined> = {
      // A held-down key would also answer the next request.
      a: card && (() => card.takesLetter && !event.repeat && shown.current.look() && card.accept()),
      e: card && (() => shown.current.look() && card.edit()),
      r: card && (() => shown.current.look() && card.reject()),
      j: () => step(shown, 1),
      k: () => step(shown, -1),
      n: next(),
      '/': () => shown?.composer.area.focus(),
      '?': help,
    };
    if (/^[1-9]$/.test(event.key) && card?.questions && shown?.current.look()) {
      event.preventDefault();
      card.pick(Number(event.key));
      return;
    }
    const act = acts[event.key];
    if (!act) {
      if (event.key !== ' ' && !event.repeat) shown?.type();
      return;
    }
    event.preventDefault();
    act();
  });
}

/** Focuses the next or previous item of the conversation or, if the focused item is not in view, one that is. */
function step(view: import('../conversation/view.tsx').ConversationView | undefined, by: 1 | -1) {
  if (!view) return;
  const all = [...view.scroller.querySelectorAll<HTMLElement>('.items > .item:not([hidden]), .card')];
  const { top, bottom } = view.scroller.getBoundingClientRect();
  const places = all.map((one) => one.getBoundingClientRect());
  const isInView = (at: number) => places[at].height > 0 && places[at].bottom > top && places[at].top < bottom;
  const isWhole = (at: number) => isInView(at) && places[at].top >= top - 1 && places[at].bottom <= bottom + 1;
  const here = document.activeElement?.closest<HTMLElement>('.item, .card');
  const at = here ? all.indexOf(here) : -1;
  const inView = all.map((_, index) => index).filter(isInView);
  if (by < 0) inView.reverse();
  const next = all[at >= 0 && isInView(at) ? at + by : (inView.find(isWhole) ?? inView[0])];
  if (!next) return;
  if (!next.hasAttribute('tabindex')) next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: 'nearest' });
  view.choose(next);
}
