// Whether keys are typed on a touch screen, into an input method, or into a text field.

/** Whether Enter begins a new line. A touch screen has a button for sending, and no other key for a new line. */
export const isTouch = () => matchMedia('(pointer: coarse)').matches;

/**
 * Whether a key event belongs to an input method. Safari sends the key that ends a composition after `compositionend`,
 * with the code 229.
 */
export const isComposing = (event: KeyboardEvent) => event.isComposing || event.keyCode === 229;

/** The focused element, even if it is inside a shadow root. */
function focused() {
  let found = document.activeElement;
  while (found?.shadowRoot?.activeElement) found = found.shadowRoot.activeElement;
  return found;
}

/** Whether typed text goes into `target`, which is the focused element by default. */
export const isTyping = (target: Element | null = focused()) =>
  Boolean(
    target?.matches('textarea, select, .typing, input:not([type=checkbox]):not([type=radio])') ||
      (target?.getRootNode() as ShadowRoot | undefined)?.host?.matches('.typing'),
  );
