// The chips with which the user chooses the agent, the model, the effort and the permission mode.

import { useState } from 'preact/hooks';

import type { Client } from '../protocol/client.ts';
import type { AgentInfo, AgentOffers, AgentState, EffortOffer, ModelOffer } from '../protocol/messages.ts';
import { agentName, modeOffer, modesOf, modeWords } from '../projects/words.ts';
import { Chip } from './chip.tsx';

/** What the user has chosen. It is sent with each message. */
export type Chosen = { agent?: string; effort?: string };

type Props = {
  client: Client;
  project: any;
  agent: AgentState;
  offers: AgentOffers;
  chosen: Chosen;
  may: (type: string) => boolean;
  choose: (chosen: Chosen) => void;
  said: (text: string) => void;
  failed: (error: any) => void;
};

export function Chips(props: Props) {
  const { client, project, agent, offers, chosen, may, choose, said, failed } = props;
  const name = chosen.agent ?? project.agent;
  const isOther = name !== project.agent;
  const set = (type: string, data: object, words: string) =>
    void client.command(type, data).then(() => said(words), failed);
  const mode = project.permission_mode || 'default';
  const offered = client.hello?.mode_offers;
  const modes = modesOf(project, client.hello);
  const model = currentModel(agent, offers);
  const effort = chosen.effort ?? agent.effort ?? '';
  const setEffort = (value: string) => {
    if (may('set_effort')) set('set_effort', { effort: value }, `Effort: ${value}`);
    else choose({ ...chosen, effort: value });
  };
  return (
    <>
      <AgentChip {...props} name={name} />
      {!isOther && may('set_model') && (offers.models?.length ?? 0) > 0 && (
        <Chip
          name="Model"
          class="model"
          label={modelTitle(agent, offers) || 'Model'}
          value={model?.name ?? ''}
          choices={(offers.models ?? []).map((one) => ({
            value: one.name,
            label: one.title ?? one.name,
            help: one.text ?? one.resolved ?? undefined,
          }))}
          choose={(value) => set('set_model', { model: value }, `Model: ${titleOf(value, offers)}`)}
        />
      )}
      {!isOther && (model?.efforts?.length ?? 0) > 0 && (
        <Chip
          name="Effort"
          class="effort"
          label={effort ? capital(effort) : 'Effort'}
          value={effort}
          choices={(model?.efforts ?? []).map((value) => ({
            value,
            label: capital(value),
            help: client.hello?.effort_offers.find((one: EffortOffer) => one.name === value)?.text,
          }))}
          choose={setEffort}
        />
      )}
      {!isOther && may('set_mode') && (
        <Chip
          name="Permission mode"
          class="mode"
          label={modeWords(project, mode, offered)}
          value={mode}
          warns={mode === 'bypassPermissions' || project.asks === false}
          note={
            project.asks === false
              ? `${agentName(project.agent, client.hello)} can’t ask for approval. The mode determines what it may do.`
              : undefined
          }
          choices={[...new Set([...modes, mode])].map((value) => ({
            value,
            label: modeWords(project, value, offered),
            help: (project.asks !== false && modeOffer(project, value, offered)?.text) || undefined,
            warns: value === 'bypassPermissions',
          }))}
          choose={(value) => set('set_mode', { mode: value }, `Mode: ${modeWords(project, value, offered)}`)}
        />
      )}
    </>
  );
}

/** The choice of agents, which are requested from the server when the menu is opened. */
function AgentChip({ client, project, may, choose, failed, name }: Props & { name: string }) {
  const [listed, setListed] = useState<AgentInfo[] | undefined>();
  const known: string[] = client.hello?.agents ?? [];
  if (known.length < 2 && name === project.agent)
    return <span class="chip tag agent">{agentName(name, client.hello)}</span>;
  const look = () => {
    if (!may('agent_list')) return;
    client.connection.ask('agent_list').then(({ data }) => setListed(data.agents), failed);
  };
  const help = ({ installed, hint, asks, version }: AgentInfo) =>
    !installed
      ? (hint ?? 'Not installed on the server.')
      : [asks === false && 'Can’t ask for approval.', version && `Version ${version}`].filter(Boolean).join(' ');
  const choices = (
    listed ?? known.map((one) => ({ name: one, title: agentName(one, client.hello), installed: true }) as AgentInfo)
  ).map((one) => ({
    value: one.name,
    label: one.title,
    help: help(one) || undefined,
    disabled: !one.installed && one.name !== project.agent,
  }));
  return (
    <Chip
      name="Agent"
      class="agent"
      label={agentName(name, client.hello)}
      value={name}
      note="If you choose another agent, your next message starts a new session."
      choices={choices}
      onOpen={look}
      choose={(value) => choose({ agent: value === project.agent ? undefined : value })}
    />
  );
}

/**
 * The offer for the agent's current model, or undefined if the model is not offered. If the model is not known, the
 * first offer.
 */
function currentModel({ model }: AgentState, { models = [] }: AgentOffers): ModelOffer | undefined {
  return (
    models.find((one) => one.name === model) ??
    models.find((one) => one.resolved === model) ??
    (model ? undefined : models[0])
  );
}

/** The title of the agent’s model, or its name. Empty if neither is known. */
export const modelTitle = (agent: AgentState, offers: AgentOffers): string =>
  (currentModel(agent, offers)?.title ?? agent.model ?? '').replace(/ \(recommended\)$/, '');

const titleOf = (name: string, { models = [] }: AgentOffers) => models.find((one) => one.name === name)?.title ?? name;
const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);
