// Where the focus goes when the element that had it is gone.

/** Whether nothing has the focus, or only an element that is no longer visible. */
export function isFocusLost() {
  const at = document.activeElement;
  return !at || at === document.body || !at.checkVisibility();
}

/** Gives the focus to `target` if it is lost. */
export function restoreFocus(target: HTMLElement | null | undefined) {
  if (isFocusLost()) target?.focus({ preventScroll: true });
}
