// The sessions that the agent itself has stored for a directory, including those that were started in a terminal.

import { useEffect, useState } from 'preact/hooks';

import { ago, counted } from '../ui/dom.ts';
import { Button, Dialog, Text } from '../ui/elements.tsx';
import { overlay, useTrying } from '../ui/overlays.tsx';
import type { World } from '../ui/world.ts';
import { newSession, resume } from './acts.tsx';

type Stored = { session_id: string; title?: string; last_active: string; message_count?: number; current?: boolean };

export function showSessions(world: World, project: string) {
  overlay((close) => <AgentSessions world={world} project={project} close={close} />);
}

function AgentSessions({ world, project, close }: { world: World; project: string; close: () => void }) {
  const { problem, trying } = useTrying();
  const [found, setFound] = useState<Stored[] | undefined>();
  useEffect(() => {
    void trying(async () => {
      const { data } = await world.client.connection.ask('session_list', { limit: 100 }, { project });
      setFound(data.sessions);
    });
  }, []);
  const act = (work: () => Promise<void>) =>
    void trying(async () => {
      await work();
      close();
    });
  const begin = () => {
    const known = world.client.projects.all.get(project);
    return newSession(world, {
      path: known?.path ?? '',
      name: '',
      hint: '',
      rows: [],
      project: known ?? { id: project },
    });
  };
  const forks = world.client.forks(world.client.projects.all.get(project)?.agent);
  return (
    <Dialog title="Sessions" onClose={close}>
      <p class="hint">The agent’s latest sessions in this folder, including ones started in a terminal.</p>
      <ul class="sessions">
        {found?.length === 0 && <li class="hint">No sessions yet.</li>}
        {found?.map(({ session_id: id, title, last_active, message_count: count, current }) => (
          <li key={id}>
            <div>
              <strong>
                <Text line>{(title || id).slice(0, 200)}</Text>
              </strong>
              <small>
                {[ago(last_active), typeof count === 'number' ? counted(count, 'message') : '']
                  .filter(Boolean)
                  .join(' · ')}
              </small>
            </div>
            {current ? (
              <span class="tag">current</span>
            ) : (
              <Button label="Resume" onClick={() => act(() => resume(world, project, id))} />
            )}
            {forks && <Button label="Fork" class="quiet" onClick={() => act(() => resume(world, project, id, true))} />}
          </li>
        ))}
      </ul>
      <p class="problem" role="alert">
        <Text>{problem}</Text>
      </p>
      <footer>
        <Button label="New session" icon="add" class="yes" onClick={() => act(begin)} />
      </footer>
    </Dialog>
  );
}
