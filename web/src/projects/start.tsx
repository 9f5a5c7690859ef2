// The three steps to a new session: a folder, an agent, the first message.

import { useEffect, useRef, useState } from 'preact/hooks';

import * as kept from '../state/kept.ts';
import { baseName } from '../ui/dom.ts';
import { Button, Dialog, Icon, Text } from '../ui/elements.tsx';
import { overlay, useTrying } from '../ui/overlays.tsx';
import { failed } from '../ui/toasts.tsx';
import { useWorld, type World } from '../ui/world.ts';
import { addressOf } from './rows.ts';
import { EXAMPLES } from './words.ts';

type Place = { path: string; source: 'recent' | 'repository' | 'folder' | 'root' };
type Agent = { name: string; title: string; installed: boolean; asks: boolean; version?: string; hint?: string };

/** The maximum number of folders that are suggested at once. */
const MOST = 100;

const SOURCES: Record<Place['source'], string> = { recent: 'recent', repository: 'Git', folder: '', root: '' };

export function Start() {
  const world = useWorld();
  const [path, setPath] = useState('');
  const [agent, setAgent] = useState(kept.lastAgent());
  const [prompt, setPrompt] = useState('');
  const { problem, busy, trying, setProblem } = useTrying();
  const choose = (folder: string) => {
    setPath(folder);
    setProblem('');
  };
  const begin = (event: Event) => {
    event.preventDefault();
    void trying(async () => {
      const folder = path.trim().replace(/(.)\/+$/, '$1');
      if (!folder) throw new Error('No folder is selected. Choose one from the list, or type its path.');
      const id = await projectIn(world, folder, agent);
      kept.keepAgent(agent);
      world.go(addressOf(id));
      world.client.choose(id);
      // A folder that is already a project may have a different agent.
      const another = agent && agent !== world.client.projects.all.get(id)?.agent;
      if (prompt.trim()) await world.client.execute(prompt.trim(), [], another ? { agent } : {}).catch(failed);
    });
  };
  return (
    <form class="start" onSubmit={begin}>
      <h2>New session</h2>
      <Folder path={path} setPath={choose} />
      <Agents agent={agent} setAgent={setAgent} />
      <section>
        <h3>
          <label for="first">
            <i class="start-step">3</i> First message <small>(optional)</small>
          </label>
        </h3>
        <textarea
          id="first"
          rows={3}
          value={prompt}
          placeholder="What should the agent do?"
          onInput={(event) => setPrompt(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) begin(event);
          }}
        />
        <p class="examples">
          {EXAMPLES.map((text) => (
            <button key={text} type="button" class="quiet" onClick={() => setPrompt(text)}>
              {text}
            </button>
          ))}
        </p>
      </section>
      <p class="problem" role="alert">
        <Text>{problem}</Text>
      </p>
      <footer>
        <button type="submit" class="yes" disabled={busy}>
          {busy ? 'Starting…' : 'Start session'}
        </button>
      </footer>
    </form>
  );
}

/** Returns the id of the project in a folder. Creates it if necessary. A project with records starts a new session. */
async function projectIn({ client }: World, path: string, agent: string): Promise<string> {
  const known = [...client.projects.all.values()].find((one) => !one.desk && one.path === path);
  if (!known) return (await client.connection.ask('project_create', { path, agent: agent || undefined })).data.data.id;
  if (known.last_seq > 0) await client.connection.ask('agent_new_session', {}, { project: known.id });
  return known.id;
}

/**
 * A field that suggests recent folders, repositories and the folders that the owner allows, or the folders that match
 * the typed path.
 */
function Folder({ path, setPath }: { path: string; setPath: (path: string) => void }) {
  const { client } = useWorld();
  const { problem, trying, setProblem } = useTrying();
  const [found, setFound] = useState<Place[]>([]);
  /** Why no folders are suggested. */
  const [missing, setMissing] = useState('');
  const home = useRef('');
  const [at, setAt] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const asked = useRef(0);

  const look = (text: string) =>
    trying(async () => {
      const number = ++asked.current;
      const places = text ? await folders(client, text) : await suggestions(client);
      if (number !== asked.current) return;
      setFound(places);
      setMissing(!text || places.length ? '' : isFolder(text) ? NO_SUBFOLDERS : 'No matching folders.');
      home.current ||= places.find((one) => one.source === 'root')?.path ?? '';
      setAt(-1);
    });
  useEffect(() => {
    field.current?.focus();
    void look('');
  }, []);
  useEffect(() => {
    list.current?.children[at]?.scrollIntoView({ block: 'nearest' });
  }, [at]);

  const type = (text: string) => {
    setPath(text);
    void look(text);
  };
  /** Enters a folder, so that the folders in it are suggested next. Chooses a recent folder or a repository instead. */
  const pick = ({ path: picked, source }: Place) => {
    field.current?.focus();
    if (source === 'folder' || source === 'root') type(`${picked.replace(/\/$/, '')}/`);
    else {
      setPath(picked);
      setProblem('');
    }
  };
  const create = () => {
    const typed = path.startsWith('~') || path.startsWith('/') ? path.replace(/[^/]*$/, '') : '';
    const created = (made: string) => {
      setPath(made);
      setProblem('');
      asked.current++;
      setMissing('');
      setFound([{ path: made, source: 'folder' }]);
      field.current?.focus();
    };
    overlay((close) => <NewFolder into={typed || home.current || '~'} close={close} created={created} />);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : -1;
      const count = found.length + 1; // the arrow keys also lead to the field itself
      setAt(((at + 1 + step + count) % count) - 1);
    } else if (event.key === 'Enter' && at >= 0) {
      event.preventDefault();
      pick(found[at]);
    } else if (event.key === 'Escape' && at >= 0) {
      event.stopPropagation();
      setAt(-1);
    }
  };
  return (
    <section>
      <h3>
        <label for="path">
          <i class="start-step">1</i> Folder on the server
        </label>
      </h3>
      <input
        id="path"
        type="text"
        role="combobox"
        aria-expanded={found.length > 0}
        aria-controls="folders"
        aria-autocomplete="list"
        aria-activedescendant={at >= 0 ? `folder-${at}` : undefined}
        placeholder="~/projects/…"
        spellcheck={false}
        autocapitalize="off"
        autocomplete="off"
        ref={field}
        value={path}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={keys}
      />
      <p class="hint" role="status">
        {problem ? '' : missing}
      </p>
      <div class="choices" id="folders" role="listbox" aria-label="Folders" ref={list}>
        {found.map((place, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above handles the keys
          <div
            key={place.path}
            id={`folder-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            class={place.path === path ? 'chosen' : ''}
            onClick={() => pick(place)}
          >
            <Icon name="folder" />
            <span class="label">
              <Text line>{place.source === 'folder' ? baseName(place.path) : place.path}</Text>
            </span>
            {SOURCES[place.source] && <span class="tag">{SOURCES[place.source]}</span>}
          </div>
        ))}
      </div>
      {client.may('dir_create') && <Button label="New folder…" icon="add" class="quiet new-folder" onClick={create} />}
      <p class="problem" role="alert">
        <Text>{problem}</Text>
      </p>
    </section>
  );
}

/** @param into the suggested parent of the new folder */
function NewFolder({ into, close, created }: { into: string; close: () => void; created: (path: string) => void }) {
  const { client } = useWorld();
  const { problem, busy, trying } = useTrying();
  const [name, setName] = useState('');
  const [place, setPlace] = useState(into);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const create = (event: Event) => {
    event.preventDefault();
    void trying(async () => {
      const path = place.trim().replace(/(.)\/+$/, '$1');
      const { data } = await client.connection.ask('dir_create', { path, name: name.trim() });
      close();
      created(data.path);
    });
  };
  return (
    <Dialog title="New folder" onClose={close}>
      <form onSubmit={create}>
        <label for="folder-name">Name</label>
        <input
          id="folder-name"
          type="text"
          ref={field}
          required
          maxLength={255}
          spellcheck={false}
          autocapitalize="off"
          autocomplete="off"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <label for="folder-place">Create it in</label>
        <input
          id="folder-place"
          type="text"
          required
          spellcheck={false}
          autocapitalize="off"
          autocomplete="off"
          value={place}
          onInput={(event) => setPlace(event.currentTarget.value)}
        />
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
        <footer>
          <button type="submit" class="yes" disabled={busy}>
            Create folder
          </button>
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

const NO_SUBFOLDERS = 'No subfolders to choose from. You can start the session in this folder.';

/** Whether a typed path is that of a whole folder, so that the folders in it are suggested. */
const isFolder = (text: string) => text === '~' || text.endsWith('/');

type Server = World['client'];

/** The folders to suggest before anything is typed. */
async function suggestions(client: Server): Promise<Place[]> {
  const roots = client.connection.ask('dir_list', { path: '' }, { lasting: true });
  const places = client.may('place_list')
    ? await client.connection.ask('place_list', {}, { lasting: true }).then(
        ({ data }) => data.places as Place[],
        () => [],
      )
    : [];
  const known = new Set(places.map((one) => one.path));
  const others = (await roots).data.directories.filter((path: string) => !known.has(path));
  return [...places, ...others.map((path: string) => ({ path, source: 'root' as const }))].slice(0, MOST);
}

/**
 * The folders in the typed folder whose names begin with what follows the last slash. Hidden ones are included only if
 * that begins with a dot. For a text without a slash, the suggestions whose paths contain it.
 */
async function folders(client: Server, text: string): Promise<Place[]> {
  const typed = text === '~' ? '~/' : text;
  const [, parent, start] = /^(.*\/)([^/]*)$/.exec(typed) ?? ['', '', typed];
  if (!parent) return (await suggestions(client)).filter((one) => one.path.toLowerCase().includes(start.toLowerCase()));
  const { data } = await client.connection.ask('dir_list', { path: parent.replace(/(.)\/$/, '$1') }, { lasting: true });
  return data.directories
    .filter(
      (name: string) =>
        name.toLowerCase().startsWith(start.toLowerCase()) && (start.startsWith('.') || !name.startsWith('.')),
    )
    .slice(0, MOST)
    .map((name: string) => ({ path: `${data.path.replace(/\/$/, '')}/${name}`, source: 'folder' as const }));
}

function Agents({ agent, setAgent }: { agent: string; setAgent: (name: string) => void }) {
  const { client, live } = useWorld();
  void live.hello.value;
  const [known, setKnown] = useState<Agent[] | undefined>();
  const names: string[] = client.hello?.agents ?? [];
  useEffect(() => {
    if (!client.hello || !client.may('agent_list')) return;
    client.connection.ask('agent_list', {}, { lasting: true }).then(
      ({ data }) => setKnown(data.agents),
      () => {},
    );
  }, [client.hello]);
  const listed: Agent[] = known ?? names.map((name) => ({ name, title: name, installed: true, asks: true }));
  const all = [...listed].sort((a, b) => Number(b.installed) - Number(a.installed));
  const chosen = all.some((one) => one.name === agent && one.installed)
    ? agent
    : (all.find((one) => one.installed)?.name ?? '');
  useEffect(() => {
    if (chosen && chosen !== agent) setAgent(chosen);
  }, [chosen]);
  return (
    <section>
      <h3 id="agents">
        <i class="start-step">2</i> Agent
      </h3>
      <div class="agent-choices" role="radiogroup" aria-labelledby="agents">
        {all.map(({ name, title, installed, asks = true, version, hint }) => (
          <label key={name} class={`agent-choice${installed ? '' : ' missing'}`}>
            <input
              type="radio"
              name="agent"
              value={name}
              checked={name === chosen}
              disabled={!installed}
              onChange={() => setAgent(name)}
            />
            <span>
              <strong>{title}</strong>
              <small>
                {!known ? null : installed ? (
                  <>
                    <Icon name="check" /> {version ? `Installed · ${version}` : 'Installed'}
                    {!asks && ' · doesn’t ask before it changes files'}
                  </>
                ) : (
                  <Remedy text={hint ?? 'Not installed on the server.'} />
                )}
              </small>
            </span>
          </label>
        ))}
      </div>
    </section>
  );
}

/** What to do about an agent that is not installed. An option of the server and its value stay on one line. */
function Remedy({ text }: { text: string }) {
  return (
    <>
      {text.split(/(--[\w-]+(?: [\w-]+=\w+)?)/).map((part, index) =>
        index % 2 ? (
          <code key={index}>
            <Text line>{part}</Text>
          </code>
        ) : (
          <Text key={index}>{part}</Text>
        ),
      )}
    </>
  );
}
