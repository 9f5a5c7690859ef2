// The notices above the message box about problems: with the connection, with the latest run, or with a removed
// message.

import { useState } from 'preact/hooks';

import type { Client } from '../protocol/client.ts';
import type { AgentInfo, AgentWords } from '../protocol/messages.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import type { Help, Problem } from './problem.ts';

/** Shown without a connection, with the time of the next attempt, and a button to try immediately. */
export function Disconnected({ client }: { client: Client }) {
  const { state, retryAt } = client.connection;
  if (!navigator.onLine)
    return (
      <div class="box-notice" role="status">
        <Icon name="warning" />
        <p>You’re offline. Messages will be sent when you reconnect.</p>
      </div>
    );
  const left = retryAt === undefined ? 0 : Math.ceil((retryAt - Date.now()) / 1000);
  return (
    <div class="box-notice">
      <Icon name="warning" />
      <p>
        Disconnected. {state === 'waiting' && left > 0 ? `Reconnecting in ${left} s.` : 'Reconnecting…'} Messages will
        be sent when you reconnect.
      </p>
      <Button label="Retry now" disabled={state !== 'waiting'} onClick={() => client.connection.hurry()} />
    </div>
  );
}

type ErrorProps = {
  problem: Problem;
  /** The server's name for the agent. */
  agent: string;
  client: Client;
  acts: Partial<Record<Help, () => void>>;
  close: () => void;
};

/** The possible actions after the latest run has failed. The agent's own words are in the history. */
export function ErrorCard({ problem, agent, client, acts, close }: ErrorProps) {
  const [shown, setShown] = useState<'login' | 'install' | undefined>();
  const [hint, setHint] = useState('');
  const install = () => {
    setShown('install');
    client.connection.ask('agent_list').then(
      ({ data }) => {
        const found = data.agents.find((one: AgentInfo) => one.name === agent);
        setHint(found?.installed ? 'It is installed now. Retry.' : (found?.hint ?? ''));
      },
      () => {},
    );
  };
  const steps = client.hello?.agent_words.find(({ name }: AgentWords) => name === agent)?.login;
  const buttons: Record<Help, { label: string; act?: () => void }> = {
    retry: { label: 'Retry', act: acts.retry },
    new: { label: 'New session', act: acts.new },
    compact: { label: 'Compact', act: acts.compact },
    login: { label: 'How to log in', act: () => setShown('login') },
    install: { label: 'How to install', act: install },
  };
  const offered = problem.help.filter((one) => buttons[one].act && one !== shown);
  return (
    <section class="box-notice error-card" aria-label={problem.title}>
      <Icon name="warning" />
      <div class="words">
        <strong>{problem.title}.</strong> {problem.hint}
        {shown === 'login' && (
          <p>
            {steps ? (
              <>
                On the server, run <code>{steps.command}</code> in a terminal. {steps.next} Then retry.
              </>
            ) : (
              'Log in on the server, as the agent’s documentation describes. Then retry.'
            )}
          </p>
        )}
        {shown === 'install' && (
          <p>
            <Text>{hint || 'Install it on the server, or start the server with --agent-path. Then retry.'}</Text>
          </p>
        )}
      </div>
      <span class="acts">
        {offered.map((one, index) => (
          <Button key={one} label={buttons[one].label} class={index === 0 ? 'yes' : ''} onClick={buttons[one].act} />
        ))}
        <Button label="Close" icon="cross" bare class="quiet" onClick={close} />
      </span>
    </section>
  );
}

/** A notice that another window or device has removed this browser's message from the queue. */
export function Removed({
  by,
  prompt,
  files = 0,
  restore,
  close,
}: {
  by: string;
  prompt: string;
  /** How many files were attached. */
  files?: number;
  restore: () => void;
  close: () => void;
}) {
  return (
    <section class="box-notice" role="status">
      <Icon name="warning" />
      <div class="words">
        <strong>
          <Text line>{by}</Text>
        </strong>{' '}
        removed your message from the queue: <Text line>{`“${prompt.trim().split('\n')[0].slice(0, 80)}”`}</Text>
        {files > 0 && <p>{`To resend it, attach its ${files === 1 ? 'file' : `${files} files`} again.`}</p>}
      </div>
      <span class="acts">
        <Button label="Edit and resend" onClick={restore} />
        <Button label="Close" icon="cross" bare class="quiet" onClick={close} />
      </span>
    </section>
  );
}
