// The frame of the web UI: the list of sessions, the header, and in the middle the view that the address opens.

import type { ComponentType } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import { fold, Sidebar } from '../projects/sidebar.tsx';
import { Head } from '../projects/head.tsx';
import { Welcome } from '../projects/welcome.tsx';
import { Overlays } from './overlays.tsx';
import { notLoaded, Toasts } from './toasts.tsx';
import type { Place } from './place.ts';
import { useWorld } from './world.ts';

/** The parts of a session's view that the frame uses. `tools`: its controls in the header. */
export type Shown = { element: HTMLElement; tools?: HTMLElement };

export function Shell({ shown }: { shown: Shown | undefined }) {
  const world = useWorld();
  const { place, drawer, folded, live } = world;
  const { view } = place.value;
  void live.projects.value;
  const isEmpty = world.client.projects.known && world.client.projects.all.size === 0;
  const inside = view !== 'home' || (isEmpty && world.client.may('project_create'));
  const main = useRef<HTMLElement>(null);
  // The focus moves in the same frame as the drawer, because a key that is pressed immediately is meant for the drawer.
  useLayoutEffect(() => {
    if (!drawer.value) return;
    focusList();
    const close = (event: KeyboardEvent) => {
      if (event.key === 'Escape') fold(world);
    };
    addEventListener('keydown', close);
    return () => removeEventListener('keydown', close);
  }, [drawer.value]);
  const before = useRef(view);
  useLayoutEffect(() => {
    // On a narrow screen the link back is in the header, which is gone now.
    if (view === 'home' && before.current !== 'home' && document.activeElement === document.body) focusList();
    before.current = view;
  }, [view]);
  return (
    <>
      <button type="button" class="skip" onClick={() => skip(main.current)}>
        Skip to the main content
      </button>
      <Banner isAtBox={view === 'project'} />
      <div class={`frame${inside ? ' inside' : ''}${folded.value ? ' folded' : ''}${drawer.value ? ' drawn' : ''}`}>
        <Sidebar />
        {drawer.value && (
          <button
            type="button"
            class="shade"
            aria-label="Hide the list of sessions"
            tabIndex={-1}
            onClick={() => fold(world)}
          />
        )}
        <main ref={main} tabIndex={-1}>
          <h1 class="unseen">Drawbridge</h1>
          <Head tools={shown?.tools} />
          {shown ? <Host element={shown.element} /> : <Other place={place.value} />}
        </main>
        <Toasts />
      </div>
      <Overlays />
    </>
  );
}

function focusList() {
  document.querySelector<HTMLElement>('.side [aria-current], .side .add, .side a')?.focus();
}

/** The view at `place` if no session is shown. Most views are fetched when they are first opened. */
function Other({ place }: { place: Place }) {
  const { forget } = useWorld();
  switch (place.view) {
    case 'settings':
      return <Later key="settings" load={settings} props={{ forget }} />;
    case 'search':
      return <Later key="search" load={search} props={{ place }} />;
    case 'files':
      return <Later key="files" load={files} props={place} />;
    case 'review':
      return <Later key="review" load={review} props={place} />;
    case 'project':
      return <div class="host" />; // the code that renders sessions is still loading
    default:
      return <Welcome />;
  }
}

const settings = async () => (await import('./views.ts')).Settings;
const search = async () => (await import('./views.ts')).Search;
const review = async () => (await import('./views.ts')).ReviewView;
const files = async () => (await import('./views.ts')).Files;

function Later<Props extends object>({ load, props }: { load: () => Promise<ComponentType<Props>>; props: Props }) {
  const [View, setView] = useState<ComponentType<Props>>();
  useEffect(() => {
    let isOver = false;
    load().then((view) => !isOver && setView(() => view), notLoaded);
    return () => {
      isOver = true;
    };
  }, [load]);
  return View ? <View {...props} /> : null;
}

function skip(main: HTMLElement | null) {
  const box = document.querySelector<HTMLElement>('#prompt');
  if (box?.offsetParent) box.focus();
  else main?.focus();
}

/**
 * The state of the connection. Empty if it is open.
 * @param isAtBox whether the message box shows the state, so that this element is only for screen readers
 */
function Banner({ isAtBox }: { isAtBox: boolean }) {
  const { client, live } = useWorld();
  void live.connection.value;
  const { state } = client.connection;
  const words =
    state === 'open'
      ? ''
      : !navigator.onLine
        ? 'You’re offline. Messages will be sent when you reconnect.'
        : state === 'waiting'
          ? 'Disconnected. Reconnecting…'
          : state === 'connecting'
            ? 'Connecting…'
            : '';
  return (
    <p class={`connection${state === 'connecting' ? ' calm' : ''}${isAtBox ? ' unseen' : ''}`} role="status">
      {words}
    </p>
  );
}

/** Contains the element of a view that is not a component. */
function Host({ element }: { element: HTMLElement }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    box.current?.replaceChildren(element);
  }, [element]);
  return <div class="host" ref={box} />;
}
