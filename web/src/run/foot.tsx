// The elements below the conversation: notices, the agent's lists, the queue, the state line and the message box.

import { render } from 'preact';

import type { Choice } from '../composer/complete.ts';
import { Composer } from '../composer/composer.tsx';
import { Chips, type Chosen, modelTitle } from '../composer/chips.tsx';
import { type Attached, withTexts } from '../composer/files.ts';
import { agentName, modeWords } from '../projects/words.ts';
import type { Client } from '../protocol/client.ts';
import type { AgentWords, FileEntry, Offer } from '../protocol/messages.ts';
import { wellFormed } from '../text/harmless.ts';
import { counted } from '../ui/dom.ts';
import { Button } from '../ui/elements.tsx';
import { isComposing, isTyping } from '../ui/typing.ts';
import { Disconnected, ErrorCard, Removed } from './notices.tsx';
import { Tasks, Todos, todosOf } from './panels.tsx';
import { type Help, problemOf } from './problem.ts';
import { Queue } from './queue.tsx';
import { lineOf, StateLine } from './state-line.tsx';

/** Milliseconds within which Esc has to be pressed twice. */
const TWICE = 2000;

/** Milliseconds after "Stop" until an agent that is still working can be killed. */
const PATIENCE = 5000;

/** This empty list is shared, because the commands are compared by identity to detect changes. */
const NO_COMMANDS: Offer[] = [];

/** The maximum number of files that are offered for completion. */
const FILES = 20;

/** The maximum number of file queries whose answers are kept. */
const ANSWERS = 50;

/** The message types that are possible for any terminal session. `execute` is possible if it accepts prompts. */
const IN_TERMINAL = ['permission_response', 'project_delete', 'file_list'];

type World = {
  said: (text: string, kind?: string) => void;
  failed: (error: any) => void;
  fork: (project: any) => void;
  /** An earlier session of the project, which can only be read or resumed. */
  session?: string;
  resume: (session: string) => void;
  /** Scrolls to the end of the conversation. */
  toEnd: () => void;
};

export class Foot {
  element = document.createElement('div');
  composer: Composer;
  private upper = document.createElement('div');
  private chosen: Chosen = {};
  /** The last run whose error card was closed. */
  private closed: string | undefined;
  private escaped = 0;
  private forgetting: ReturnType<typeof setTimeout> | undefined;
  /** The run that was interrupted, and when. */
  private stopped: { run: string; at: number } | undefined;
  private retry: { attempt: number; at: number } | undefined;
  private files = new Map<string, Promise<Choice[]>>();

  constructor(
    private client: Client,
    private id: string,
    private world: World,
  ) {
    this.composer = new Composer(id, {
      send: (text, files, steer) => void this.send(text, files, steer),
      failed: world.failed,
      commands: () => this.conversation?.offers.commands ?? NO_COMMANDS,
      findFiles: (query) => this.findFiles(query),
    });
    this.upper.className = 'above';
    this.element.append(this.upper, this.composer.element);
    this.draw();
  }

  dispose() {
    clearTimeout(this.forgetting);
    render(null, this.upper);
    this.composer.dispose();
  }

  private get conversation() {
    const { conversation } = this.client;
    return conversation?.id === this.id && conversation.session === this.world.session ? conversation : undefined;
  }

  private get project() {
    return this.client.projects.all.get(this.id);
  }

  /** Whether this device may send messages of this type here. A terminal session is controlled in its terminal. */
  may = (type: string) => {
    const desk = this.project?.desk;
    return (
      this.world.session === undefined &&
      this.client.may(type) &&
      (!desk || IN_TERMINAL.includes(type) || (type === 'execute' && Boolean(desk.prompts)))
    );
  };

  /** Handles Esc if nothing else does. The second press stops the run. Returns whether the key was handled here. */
  escape(): boolean {
    const { conversation } = this;
    if (!conversation?.run || conversation.open.size || !this.may('agent_interrupt')) return false;
    const again = Date.now() - this.escaped < TWICE;
    this.escaped = again ? 0 : Date.now();
    if (again) this.stop();
    else this.forgetting = setTimeout(() => this.draw(), TWICE + 50);
    this.draw();
    return true;
  }

  stop = (all = false) => {
    const run = this.conversation?.run;
    if (run && this.stopped?.run !== run.run_id) this.stopped = { run: run.run_id, at: Date.now() };
    void this.client.command('agent_interrupt', all ? { all } : {}).catch(this.world.failed);
  };

  /** Ends the idle process and its schedule. A plain stop does not, because it may arrive after the end of the run. */
  private cancelSchedule = () =>
    void this.client.command('agent_interrupt', { schedule: true }).catch(this.world.failed);

  /** Whether the run is still active `PATIENCE` milliseconds after its interrupt. */
  private isStuck = (run: string) => this.stopped?.run === run && Date.now() - this.stopped.at > PATIENCE;

  /** Ends the agent's processes, for an agent that did not stop after an interrupt. */
  private kill = () => void this.client.command('agent_kill').catch(this.world.failed);

  draw() {
    const { client, conversation, project } = this;
    const may = this.may;
    const canSend = may('execute');
    this.composer.element.hidden = !canSend;
    // For a terminal session, the server refuses prompts while the agent is working.
    const queues = Boolean(conversation?.run) && !project?.desk;
    if (project)
      this.composer.show({
        placeholder: queues
          ? 'Queue a message…'
          : `Message ${agentName(this.chosen.agent ?? project.agent, this.client.hello).replace(/^The /, 'the ')}…`,
        accepts: {
          files: !project.desk && may('blob_put'),
          images:
            !project.desk &&
            may('blob_put') &&
            // Until the server's hello has arrived, images are accepted. An agent that can't see them gets their path.
            (client.hello?.pictures?.includes(this.chosen.agent ?? project.agent) ?? true),
        },
        queues,
        steers: client.steers(this.id),
        chips: !project.desk && conversation && (
          <Chips
            {...{ client, project, may, agent: conversation.agent, offers: conversation.offers, chosen: this.chosen }}
            choose={(chosen) => {
              this.chosen = chosen;
              this.draw();
            }}
            said={(text) => this.world.said(text)}
            failed={this.world.failed}
          />
        ),
      });
    render(this.above(), this.upper);
  }

  private above() {
    const { client, conversation, project, world } = this;
    if (!conversation || !project) return null;
    if (world.session !== undefined) return this.earlier(world.session);
    const may = this.may;
    const connected = client.connection.state === 'open';
    const { run, agent } = conversation;
    const interrupt = connected && may('agent_interrupt');
    const queue = conversation.waiting.filter((one) => one.position > 0).length;
    const removed = client.removed.find((one) => one.project === this.id);
    const words = client.hello?.agent_words.find((one: AgentWords) => one.name === project.agent);
    return (
      <>
        {!connected && <Disconnected client={client} />}
        {removed && (
          <Removed
            key={removed.run}
            {...removed}
            restore={() => {
              this.composer.restore(removed.prompt, []);
              client.dismiss(removed);
              this.composer.area.focus();
            }}
            close={() => client.dismiss(removed)}
          />
        )}
        {this.errorCard()}
        <div class="panels">
          <Todos todos={todosOf(conversation)} active={Boolean(run)} />
          <Tasks tasks={agent.tasks ?? []} kinds={words?.tasks} />
        </div>
        <Queue
          {...{ client, id: this.id, may, connected, failed: world.failed }}
          waiting={conversation.waiting}
          unsent={client.unsent.filter((one) => one.project === this.id)}
        />
        <StateLine
          line={lineOf(conversation, project, connected, this.retryAt())}
          queued={queue}
          agent={agent}
          project={project}
          settings={this.settings()}
          armed={Date.now() - this.escaped < TWICE}
          stop={run && interrupt ? () => this.stop() : undefined}
          kill={run && this.isStuck(run.run_id) && interrupt && may('agent_kill') ? this.kill : undefined}
          stopAll={run && queue > 0 && interrupt && may('queue_remove') ? () => this.stop(true) : undefined}
          cancelResume={!run && project.continues_at && interrupt ? () => this.stop() : undefined}
          cancelSchedule={
            !run && !project.continues_at && project.scheduled_until && interrupt ? this.cancelSchedule : undefined
          }
        />
        {this.rights()}
      </>
    );
  }

  /** The agent’s model and permission mode, unless the user can choose them beside the message box. */
  private settings(): string[] {
    const { conversation, project, may } = this;
    if (!conversation || project.desk?.state === 'ended') return [];
    const { agent, offers } = conversation;
    const hasChips = !project.desk && may('execute');
    const found: string[] = [];
    if (agent.model && !(hasChips && may('set_model') && offers.models?.length)) found.push(modelTitle(agent, offers));
    // The mode of a terminal session is shown above its conversation.
    if (!project.desk && !(hasChips && may('set_mode')))
      found.push(modeWords(project, project.permission_mode || 'default', this.client.hello?.mode_offers));
    return found;
  }

  /**
   * The time of the agent's next attempt, in milliseconds since 1970, or undefined if the agent is not waiting to
   * retry. It is computed once for each attempt, because the delay counts from the first report.
   */
  private retryAt() {
    const retry = this.conversation?.agent.retry;
    if (!retry) this.retry = undefined;
    else if (this.retry?.attempt !== retry.attempt)
      this.retry = { attempt: retry.attempt, at: Date.now() + (retry.delay_ms ?? 0) };
    return this.retry?.at;
  }

  /** The card for the latest run, if it has failed and neither a prompt nor a new session came after it. */
  private errorCard() {
    const { conversation, project, client } = this;
    if (!conversation || conversation.run || !conversation.atEnd || conversation.waiting.length) return null;
    const last = conversation.items.findLast(({ kind, begins }) => begins || ['finished', 'prompt'].includes(kind));
    if (last?.kind !== 'finished' || last.run_id === this.closed) return null;
    const canSend = this.may('execute');
    // A terminal session has no offers, and another agent may offer a command that is only in its offers.
    const compact =
      client.hello?.agent_words.find((one: AgentWords) => one.name === project.agent)?.compact ||
      (conversation.offers.commands?.some((one) => one.name === 'compact') ? '/compact' : '');
    const name = agentName(project.agent, client.hello);
    const isKnown = client.hello?.agents.includes(project.agent);
    const problem = problemOf(last as any, name, new Date(), Boolean(compact), isKnown);
    if (!problem) return null;
    const prompt = conversation.items.findLast(
      (item) => item.kind === 'prompt' && item.run === last.run_id && !item.steer,
    );
    const send = (text: string) => void this.send(text, [], false);
    const retry = () => {
      const files = prompt?.attachments?.length ?? 0;
      if (prompt && (files || prompt.truncated)) {
        this.composer.restore(prompt.text, []);
        this.composer.area.focus();
        const missing = [files && counted(files, 'file'), prompt.truncated && 'the rest of the text'];
        this.world.said(`Add ${missing.filter(Boolean).join(' and ')} again, then send the message.`);
      } else send(prompt?.text ?? 'Continue');
    };
    const acts: Partial<Record<Help, () => void>> = {
      retry: canSend ? retry : undefined,
      new: this.may('agent_new_session')
        ? () =>
            void client.command('agent_new_session').then(() => {
              this.world.said('New session. Your next message starts fresh.');
              this.composer.area.focus();
            }, this.world.failed)
        : undefined,
      compact: canSend && compact ? () => send(compact) : undefined,
    };
    return (
      <ErrorCard
        key={last.run_id}
        {...{ problem, client, acts, agent: project.agent }}
        close={() => {
          this.closed = last.run_id;
          this.draw();
          this.composer.area.focus();
        }}
      />
    );
  }

  /** Replaces the message box for an earlier session, which the next message does not continue. */
  private earlier(session: string) {
    return (
      <div class="hint rights">
        <span>This is an earlier session.</span>
        {this.client.may('session_resume') && (
          <Button label="Continue this session" icon="next" onClick={() => this.world.resume(session)} />
        )}
      </div>
    );
  }

  /** Explains what this device may not do, or what has to be done in the terminal. */
  private rights() {
    const { client, project, world } = this;
    if (!project.desk) {
      if (this.may('execute')) return null;
      const words = client.may('permission_response')
        ? 'This device can approve requests and stop runs, but can’t send messages.'
        : 'View only.';
      return <p class="hint rights">{words}</p>;
    }
    const canFork = client.canFork(project);
    const words =
      project.desk.state === 'ended'
        ? 'This session has ended.'
        : this.may('execute')
          ? 'Messages are typed into the terminal.'
          : canFork
            ? 'Send messages from the terminal, or continue here.'
            : 'Send messages from the terminal.';
    return (
      <div class="hint rights">
        <span>{words}</span>
        {canFork && <Button label="Continue here" icon="fork" onClick={() => world.fork(project)} />}
      </div>
    );
  }

  private async send(text: string, files: Attached[], steer: boolean) {
    const { client, world, composer, project } = this;
    world.toEnd();
    const whole = wellFormed(text);
    if (whole !== text) world.said('Some characters in your message were invalid and were replaced with �.');
    const inText = project?.desk ? files : [];
    const prompt = withTexts(whole || (inText.length ? '' : describe(files)), inText);
    const { agent, effort } = this.chosen;
    try {
      const sent = files.filter((one) => !inText.includes(one));
      const options = steer ? { steer } : { ...(agent && { agent }), ...(effort && { options: { effort } }) };
      // If the server refuses the prompt, the text is back in the box already.
      if (!(await client.execute(prompt, sent, options))) composer.restore('', sent);
    } catch (error) {
      // The text is too long, or a file could not be uploaded, so the text and the files go back into the box.
      world.failed(error);
      composer.restore(text, files);
    }
  }

  /** The files and directories of the project that match. Answers are kept for ten seconds. */
  private findFiles(query: string): Promise<Choice[]> {
    if (!this.may('file_list')) return Promise.resolve([]);
    const known = this.files.get(query);
    if (known) return known;
    const found = this.client.command('file_list', { query, limit: FILES }).then(({ data }) =>
      data.entries.map(({ path, kind }: FileEntry) => ({
        value: kind === 'directory' ? `${path.replace(/\/$/, '')}/` : path,
        label: path,
        kind: kind === 'directory' ? 'directory' : 'file',
      })),
    );
    this.files.set(query, found);
    found.catch(() => this.files.delete(query));
    setTimeout(() => this.files.delete(query), 10_000);
    if (this.files.size > ANSWERS) this.files.delete(this.files.keys().next().value as string);
    return found;
  }
}

/** The prompt for a message that consists only of files. The server requires text. */
const describe = (files: Attached[]) =>
  `Look at the attached ${files.every((one) => one.url) ? 'image' : 'file'}${files.length === 1 ? '' : 's'}.`;

/** Passes Esc to the foot, unless a dialog, list or card handles it. */
export function listenForStop(foot: () => Foot | undefined) {
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.defaultPrevented || isComposing(event) || event.repeat) return;
    const target = event.target as HTMLElement;
    if (document.querySelector('dialog[open]') || target.closest('.card')) return;
    if (isTyping(target) && target.id !== 'prompt') return;
    foot()?.escape();
  });
}
