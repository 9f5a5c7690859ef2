// The agent's to-do list, and the tasks that run beside the conversation.

import { kindOf } from '../conversation/tool-kinds.ts';
import type { Task, Todo } from '../protocol/messages.ts';
import type { Conversation } from '../state/conversation.ts';
import { Icon, type IconName, Text } from '../ui/elements.tsx';
import { isSmall } from '../ui/small.ts';

/** How many of the last items are searched for the to-do list, if the server doesn't report one. */
const LOOKED = 300;

/**
 * The current to-do list, as the agent reports it, otherwise from its latest call that updates one. Empty if there is
 * neither.
 */
export function todosOf({ agent, items }: Conversation): Todo[] {
  if (agent.todos) return agent.todos;
  for (let at = items.length - 1; at >= Math.max(0, items.length - LOOKED); at--) {
    const { kind, name, input, nested } = items[at];
    if (kind !== 'tool' || kindOf({ name }) !== 'todo' || nested || !Array.isArray(input?.todos)) continue;
    return input.todos
      .filter((one: any) => typeof one?.content === 'string')
      .map(({ content, status, activeForm }: any) => ({
        text: content,
        status: ['in_progress', 'completed'].includes(status) ? status : 'pending',
        doing: typeof activeForm === 'string' ? activeForm : undefined,
      }));
  }
  return [];
}

const MARKS: Record<Todo['status'], { icon: IconName; words: string }> = {
  completed: { icon: 'check', words: 'Done: ' },
  in_progress: { icon: 'running', words: 'In progress: ' },
  pending: { icon: 'circle', words: 'To do: ' },
};

/** The to-do list. While it is folded, it shows how many entries are done, and which one is in progress. */
export function Todos({ todos, active }: { todos: Todo[]; active: boolean }) {
  const done = todos.filter((one) => one.status === 'completed').length;
  const current = todos.find((one) => one.status === 'in_progress');
  if (!todos.length || (done === todos.length && !active)) return null;
  return (
    <details class="panel todo-panel">
      <summary>
        <Icon name="todo" />
        <span>
          <span class="more">To-do list: </span>
          {done} of {todos.length} done
        </span>
        {current && (
          <span class="now">
            <Text line>{current.doing || current.text}</Text>
          </span>
        )}
        <Icon name="unfold" />
      </summary>
      <ol>
        {todos.map(({ text, status }, index) => (
          <li key={index} class={status}>
            <Icon name={MARKS[status].icon} />
            <span>
              <span class="visually-hidden">{MARKS[status].words}</span>
              <Text>{text}</Text>
            </span>
          </li>
        ))}
      </ol>
    </details>
  );
}

/** Up to this many tasks are unfolded at first, if there is space. */
const UNFOLDED = 3;

/** A line for each running task. `kinds`: the names of the agent's kinds of tasks. */
export function Tasks({ tasks, kinds = {} }: { tasks: Task[]; kinds?: Record<string, string> }) {
  if (!tasks.length) return null;
  return (
    <details class="panel tasks" open={tasks.length <= UNFOLDED && !isSmall.peek()}>
      <summary>
        <Icon name="tool" />
        <span>
          {tasks.length === 1 ? '1 task' : `${tasks.length} tasks`}
          <span class="more">{tasks.length === 1 ? ' is running' : ' are running'}</span>
        </span>
        <Icon name="unfold" />
      </summary>
      <ul>
        {tasks.map(({ task_id: id, text, kind, agent_type: type, background }) => (
          <li key={id}>
            <i class="dot" />
            <span class="task-text">
              <Text line>{text || 'A task'}</Text>
            </span>
            <small>
              <Text line>
                {[type ?? kinds[kind ?? ''] ?? kind, background ? 'running in the background' : 'running']
                  .filter(Boolean)
                  .join(' · ')}
              </Text>
            </small>
          </li>
        ))}
      </ul>
    </details>
  );
}
