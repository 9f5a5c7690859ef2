// One line above the message box: what the agent is doing, for how long, and what it has used.

import type { AgentState } from '../protocol/messages.ts';
import { since, standing } from '../projects/words.ts';
import type { Conversation } from '../state/conversation.ts';
import { duration, money } from '../ui/dom.ts';
import { Button, Text } from '../ui/elements.tsx';
import { contextWords, doing, retryWords, running } from './doing.ts';

/** The percentage of the context window at which the display is highlighted. */
const NEARLY_FULL = 80;

type Line = { kind: string; words: string; time?: string };

/**
 * What the agent is doing now, in words, or the project's state if the agent is not working.
 * @param retryAt the time of the next attempt, in milliseconds since 1970
 */
export function lineOf(conversation: Conversation, project: any, connected: boolean, retryAt?: number): Line {
  if (!connected) return { kind: 'ended', words: 'Disconnected' };
  const { agent, run, thinking } = conversation;
  const { kind, words } = standing(project);
  const time = since(run);
  if (kind !== 'working') return { kind, words, time };
  if (agent.retry) {
    const left = retryAt === undefined ? 0 : Math.ceil((retryAt - Date.now()) / 1000);
    return {
      kind: 'waiting',
      words: retryWords(agent.retry) + (left > 0 ? ` · next attempt in ${duration(left * 1000)}` : ''),
      time,
    };
  }
  if (agent.compacting) return { kind, words: 'Compacting the conversation', time };
  const calls = running(conversation.items);
  if (calls.length) {
    const last = calls[calls.length - 1];
    const others = calls.length > 1 ? ` and ${calls.length - 1} more` : '';
    const began = Date.parse(last.timestamp);
    return {
      kind,
      words: doing(last, project.path) + others,
      time: Number.isNaN(began) ? time : duration(Math.max(0, Date.now() - began)),
    };
  }
  return { kind, words: thinking ? 'Thinking' : words, time };
}

type Props = {
  line: Line;
  queued: number;
  agent: AgentState;
  project: any;
  /** The agent’s model and mode, unless chips beside the message box show them. */
  settings: readonly string[];
  /** The actions that are possible now. Each function is undefined if its action is not possible. */
  stop?: () => void;
  /** Replaces `stop` if the agent does not stop. */
  kill?: () => void;
  stopAll?: () => void;
  cancelResume?: () => void;
  cancelSchedule?: () => void;
  /** Whether Esc was pressed once. */
  armed: boolean;
};

export function StateLine(props: Props) {
  const { line, queued, agent, project, settings, stop, kill, stopAll, cancelResume, cancelSchedule, armed } = props;
  const { context_tokens: used, context_window: window } = agent;
  const context = contextWords(used, window);
  const part = used && window ? Math.min(100, (100 * used) / window) : undefined;
  const once = (act: () => void) => (event: MouseEvent) => {
    if (event.detail < 2) act(); // the second click of a double click would stop the next run
  };
  return (
    <div class="run">
      <span class={`state ${line.kind}`}>
        <i class="dot" />
        <span>
          <Text line>{line.words}</Text>
          {line.time && <span class={queued > 0 || agent.retry ? 'time less' : 'time'}>{` · ${line.time}`}</span>}
          {queued > 0 && ` · ${queued} queued`}
        </span>
      </span>
      <span class="used">
        {settings.map((one) => (
          <span key={one}>
            <Text line>{one}</Text>
          </span>
        ))}
        {context && (
          <span
            class={`context ${(part ?? 0) >= NEARLY_FULL ? 'full' : ''}`}
            title={`${used?.toLocaleString()} tokens`}
          >
            {part !== undefined && <meter min={0} max={100} value={part} aria-hidden="true" />}
            {context}
          </span>
        )}
        {project.cost_usd > 0 && (
          <span class="cost" title="The cost of all runs of this project, as reported by the agent">
            {money(project.cost_usd)} <span class="of">in this project</span>
          </span>
        )}
      </span>
      <span class="stops">
        <span role="status">{armed && <span class="tag">Press Esc again to stop</span>}</span>
        {kill && <Button label="Force stop" icon="stop" class="stop" onClick={once(kill)} />}
        {stop && !kill && <Button label="Stop" icon="stop" class="stop" onClick={once(stop)} />}
        {stopAll && <Button label="Stop all" class="stop all" onClick={once(stopAll)} />}
        {cancelResume && <Button label="Cancel auto-resume" icon="cross" class="stop" onClick={once(cancelResume)} />}
        {cancelSchedule && (
          <Button
            // The tasks belong to the process that ends.
            label={agent.tasks?.length ? 'Cancel schedule and tasks' : 'Cancel schedule'}
            icon="cross"
            class="stop"
            onClick={once(cancelSchedule)}
          />
        )}
      </span>
    </div>
  );
}
