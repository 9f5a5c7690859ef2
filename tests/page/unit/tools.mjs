// Some of the agents' tools, as the server describes them.

export const AGENTS = [
  {
    tools: {
      ...{ Read: 'read', Edit: 'edit', Write: 'write', Bash: 'command', Grep: 'search', Glob: 'find' },
      ...{ WebFetch: 'fetch', WebSearch: 'web', Agent: 'agent', Task: 'agent', TodoWrite: 'todo', Skill: 'skill' },
      ...{ AskUserQuestion: 'question', ExitPlanMode: 'plan', BashOutput: 'output', KillShell: 'stop' },
    },
  },
  { tools: { apply_patch: 'edit', Dream: 'a later server’s word' } },
];
