// What a keyboard can be expected to do.

/** Whether Enter begins a new line: on a touch screen there is a button to send, and no other key for a line. */
export const isTouch = () => matchMedia('(pointer: coarse)').matches;

/** Whether a key event belongs to an input method. Safari sends the key that ends a composition after `compositionend`, with the code 229. */
export const isComposing = (event: KeyboardEvent) => event.isComposing || event.keyCode === 229;

/** The focused element, also inside a shadow root. */
function focused() {
  let found = document.activeElement;
  while (found?.shadowRoot?.activeElement) found = found.shadowRoot.activeElement;
  return found;
}

/** Whether what is typed goes into a field. */
export const isTyping = (target: Element | null = focused()) =>
  Boolean(
    target?.matches('textarea, select, .typing, input:not([type=checkbox]):not([type=radio])') ||
      (target?.getRootNode() as ShadowRoot | undefined)?.host?.matches('.typing'),
  );
