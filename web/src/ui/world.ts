// The state and functions that the views in the shell share.

import type { Signal } from '@preact/signals';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';

import type { Client } from '../protocol/client.ts';
import type { Live } from '../state/live.ts';
import type { Reviews } from '../state/reviews.ts';
import type { Sessions } from '../state/sessions.ts';
import type { Place } from './place.ts';

export type World = {
  client: Client;
  live: Live;
  sessions: Sessions;
  reviews: Reviews;
  place: Signal<Place>;
  /** The filter of the list of sessions. */
  filter: Signal<string>;
  /**
   * Whether the list of sessions is open over the view, on a small screen. `folded`: whether the list is hidden, on a
   * large one.
   */
  drawer: Signal<boolean>;
  folded: Signal<boolean>;
  go(address: string): void;
  showSettings(): void;
  /** Signs out. */
  forget(): Promise<void>;
  showKeys(): void;
  showPalette(): void;
  /** Interrupts the run of the project that is shown. */
  stop(): void;
};

export const WorldContext = createContext<World>(undefined as unknown as World);
export const useWorld = () => useContext(WorldContext);
